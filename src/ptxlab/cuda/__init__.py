"""The virtual CUDA driver: programs meet ptxlab as they meet a GPU."""

from ptxlab.cuda._install import Driver, install, installed

__all__ = ["Driver", "install", "installed"]
