"""Places in the user's program: outside of ptxlab and the packages that it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from ptxlab.diagnostics import Place

__all__ = ["launch_site", "raise_site"]


def launch_site(*packages: str) -> Place | None:
    """The place in the user's program that the launch comes from: the innermost frame outside of these packages and ptxlab."""
    roots = _roots(packages)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(roots):
        frame = frame.f_back
    return None if frame is None else Place(frame.f_code.co_filename, frame.f_lineno, 0)


def raise_site(error: BaseException, *packages: str) -> Place | None:
    """The place in the user's program that an exception passed last, outside of these packages, ptxlab and the standard library."""
    roots = (*_roots(packages), str(Path(os.__file__).parent))
    passed = [(f.f_code.co_filename, line) for f, line in walk_tb(error.__traceback__) if not f.f_code.co_filename.startswith(roots)]
    return Place(*passed[-1], 0) if passed else None


def _roots(packages: Iterable[str]) -> tuple[str, ...]:
    """Return the starts of the file names of packages; code without a file counts as theirs."""
    modules = (sys.modules.get(name) for name in ("ptxlab", *packages))
    return "<", *(f"{Path(folder)}{os.sep}" for module in modules if module is not None for folder in module.__path__)
