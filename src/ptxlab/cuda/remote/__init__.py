"""Programs in other processes: native executables, whose kernels execute in this one."""

from ptxlab.cuda.remote._server import VARIABLE, Server

__all__ = ["VARIABLE", "Server"]
