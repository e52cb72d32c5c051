"""The virtual CUDA driver: programs meet ptxlab as they meet a GPU."""

from ptxlab.cuda._install import Driver, install, installed
from ptxlab.cuda.building import BuildError

__all__ = ["BuildError", "Driver", "install", "installed"]
