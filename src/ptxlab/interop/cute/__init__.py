"""CuTe DSL without a GPU: its host functions are compiled by itself, run as they are, and launch their kernels in ptxlab.

Needs the package ``nvidia-cutlass-dsl``: ``pip install 'ptxlab[cute]'``.
"""

from ptxlab.interop.cute._compile import Compiled, compile
from ptxlab.interop.cute.process import device

__all__ = ["Compiled", "compile", "device"]
