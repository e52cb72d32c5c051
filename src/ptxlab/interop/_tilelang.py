"""Programs that import TileLang: it gets the runtime library over the driver, and nvcc makes PTX for it."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib import import_module
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import build
from ptxlab.cuda.libraries import RUNTIMES
from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import FOR_GOOD, replace_attribute

__all__ = ["prepare"]


@cache
def prepare() -> None:
    """Load the runtime library, which TileLang asks for by its name, and keep machine code of its caches away."""
    cuda.install()
    ctypes.CDLL(str(build(RUNTIMES[-1])), ctypes.RTLD_GLOBAL)
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    after_import("tilelang.contrib.nvcc", _change)


def _change() -> None:
    nvcc = import_module("tilelang.contrib.nvcc")
    compile_cuda = nvcc.compile_cuda

    def compile_to_ptx(code: str, target_format: str = "ptx", *arguments: Any, **options: Any) -> Any:
        """Compile to PTX, which the driver takes in place of machine code."""
        return compile_cuda(code, "ptx", *arguments, **options)

    replace_attribute(FOR_GOOD, nvcc, "compile_cuda", compile_to_ptx)
