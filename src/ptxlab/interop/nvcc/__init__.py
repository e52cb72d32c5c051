"""CUDA C++: kernels compiled to PTX, and host code whose CUDA calls go to a simulated device. Needs nvcc and a host compiler."""

from ptxlab.interop.nvcc._build import compile, ptx
from ptxlab.interop.nvcc._host import Host, Launch, host
from ptxlab.interop.toolkit import NvccError, assembled, find_nvcc, find_ptxas

__all__ = ["Host", "Launch", "NvccError", "assembled", "compile", "find_nvcc", "find_ptxas", "host", "ptx"]
