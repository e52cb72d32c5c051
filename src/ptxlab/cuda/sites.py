"""Where in the program a call of the driver comes from."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from ptxlab.diagnostics import Place

__all__ = ["calling_place"]

_PACKAGES = ("ptxlab", "cuda", "triton", "torch", "cutlass", "numba", "numba_cuda", "cupy", "pycuda", "tvm_ffi", "tilelang")
"""Packages that call the driver for a program."""


@cache
def _roots() -> tuple[str, ...]:
    """The starts of the file names of those packages and of Python's library; code without a file counts as theirs."""
    folders = [sysconfig.get_path("stdlib"), *(str(Path(path) / name) for path in _site_folders() for name in _PACKAGES)]
    spec = find_spec("ptxlab")
    folders += spec.submodule_search_locations or () if spec is not None else ()
    return "<", *(folder + os.sep for folder in folders if folder)


def _site_folders() -> list[str]:
    return [path for path in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path)) if path]


def calling_place() -> Place | None:
    """The innermost frame of this thread outside of the packages that call the driver; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    roots = _roots()
    while frame is not None and frame.f_code.co_filename.startswith(roots):
        frame = frame.f_back
    return None if frame is None else Place(frame.f_code.co_filename, frame.f_lineno, 0)
