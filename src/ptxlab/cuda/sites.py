"""Where in the program a call of the driver comes from."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType

from ptxlab.diagnostics import Place

__all__ = ["CODES", "CodeNumbers", "calling_place"]

_PACKAGES = ("ptxlab", "cuda", "triton", "torch", "cutlass", "numba", "numba_cuda", "cupy", "pycuda", "tvm_ffi", "tilelang")
"""Packages that call the driver for a program."""


_LINE_BITS = 24
"""As in ``library/places.c``."""


@cache
def _roots() -> tuple[str, ...]:
    """The starts of the file names of those packages and of Python's library; code without a file counts as theirs."""
    folders = [sysconfig.get_path("stdlib"), *(str(Path(path) / name) for path in _site_folders() for name in _PACKAGES)]
    spec = find_spec("ptxlab")
    folders += spec.submodule_search_locations or () if spec is not None else ()
    return "<", *(folder + os.sep for folder in folders if folder)


def _site_folders() -> list[str]:
    return [path for path in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path)) if path]


def _calls_for_program(code: CodeType) -> bool:
    """Whether code calls the driver for a program: it is of the packages above, or a decorator's wrapper of an installed package.

    Such a wrapper (``typing_extensions.deprecated`` has one) is a closure that takes any arguments, to pass them on.
    """
    if code.co_filename.startswith(_roots()):
        return True
    return bool(code.co_freevars) and code.co_flags & _ANY_ARGUMENTS == _ANY_ARGUMENTS and _is_installed(code.co_filename)


_ANY_ARGUMENTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _is_installed(file: str) -> bool:
    """Whether a file is in a folder of installed packages."""
    return not _INSTALLED.isdisjoint(Path(file).parts)


_INSTALLED = frozenset({"site-packages", "dist-packages"})


class CodeNumbers:
    """Numbers of code objects, with which the library notes places without a call of Python (``library/places.c``)."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """By the identity of a code object: those of two files may be equal."""
        self._kept: list[CodeType] = []
        self._lock = threading.Lock()
        self._files: list[str] = [""]
        self._places: dict[int, Place] = {}

    def number(self, code: CodeType) -> int:
        """The number of a code object, which is kept; 0 for code that calls the driver for a program."""
        found = self._numbers.get(id(code))
        return self._enter(code) if found is None else found

    def _enter(self, code: CodeType) -> int:
        own = not _calls_for_program(code)
        with self._lock:
            self._kept.append(code)
            if own:
                self._files.append(code.co_filename)
            number = self._numbers[id(code)] = len(self._files) - 1 if own else 0
        return number

    def noted(self, frame: FrameType | None) -> int:
        """What the library would note: the innermost frame that does not call the driver for a program, from a frame outwards."""
        while frame is not None:
            number = self.number(frame.f_code)
            if number:
                return number << _LINE_BITS | (frame.f_lineno or 0)
            frame = frame.f_back
        return 0

    def place(self, noted: int) -> Place | None:
        """The place that has been noted; None if there is none."""
        found = self._places.get(noted)
        number, line = noted >> _LINE_BITS, noted & (1 << _LINE_BITS) - 1
        if found is None and number:
            found = self._places[noted] = Place(self._files[number], line, 0)
        return found


CODES = CodeNumbers()
"""Those of the process: the library keeps them."""


def calling_place() -> Place | None:
    """The innermost frame of this thread that does not call the driver for a program; None if there is none."""
    return CODES.place(CODES.noted(sys._getframe(1)))
