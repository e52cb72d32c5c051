"""Which tool has made an image that carries no PTX, and how to make it hand over PTX."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ptxlab.cuda.images._cubin import Cubin

__all__ = ["Maker", "maker_of"]


@dataclass(frozen=True, slots=True)
class Maker:
    """A tool and the remedy.

    Attributes
    ----------
    name : the tool
    module : the Python package of the tool; empty for a tool that is none
    kernel_prefix : how the names of its kernels begin; empty if it does not choose them
    container : whether it hands over fat binaries, not bare cubins
    remedy : what to set or to pass
    """

    name: str
    module: str
    kernel_prefix: str
    container: bool
    remedy: str


NVCC = Maker(
    "nvcc",
    "",
    "",
    True,
    "compile with -gencode arch=compute_{number},code=[sm_{number},compute_{number}], which keeps the PTX in the program",
)
UNKNOWN = Maker(
    "an unknown tool",
    "",
    "",
    False,
    "hand the driver PTX instead of a cubin, or enter the PTX of this cubin with ptxlab.cuda.images.PtxStore.add",
)
MAKERS = (
    Maker(
        "CuTe DSL",
        "cutlass",
        "kernel_cutlass_",
        True,
        "run the program under `ptxlab exec`, or set CUTE_DSL_KEEP=ptx,cubin before cutlass is imported",
    ),
    Maker("TileLang", "tilelang", "", False, "run the program under `ptxlab exec`, which makes TileLang compile to PTX"),
    Maker(
        "Triton",
        "triton",
        "",
        False,
        "compile the kernel under `ptxlab exec` or inside `with ptxlab.interop.triton.device(...)`, or set TRITON_PTXAS_PATH to a program "
        "that copies the PTX to its output",
    ),
    Maker("CuPy", "cupy", "", False, "set CUPY_COMPILE_WITH_PTX=1"),
    Maker(
        "PyCUDA",
        "pycuda",
        "",
        False,
        'compile with pycuda.compiler.compile(source, target="ptx") and load the result with module_from_buffer',
    ),
    Maker("numba-cuda", "numba_cuda", "", False, "run the program under `ptxlab exec`, which hands the PTX of numba to the driver"),
    Maker("cuda.core", "cuda.core", "", False, 'compile with Program.compile("ptx")'),
)
"""In this order: a tool that is recognised by its kernels, then tools that others are built on last."""


def maker_of(cubin: Cubin, container: bool) -> Maker:
    """The tool that has probably made a cubin: by the names of its kernels, by the container, and by what the process has imported."""
    for maker in MAKERS:
        if maker.kernel_prefix and any(name.startswith(maker.kernel_prefix) for name in cubin.kernels):
            return maker
    if container:
        return NVCC
    return next((maker for maker in MAKERS if not maker.container and maker.module in sys.modules), UNKNOWN)
