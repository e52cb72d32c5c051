"""A case of a kernel: an entry of a PTX file with one launch of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.hardware.suite._kernel import Kernel

__all__ = ["case"]

FOLDER = Path(__file__).parent


@cache
def _text(file: str) -> str:
    return (FOLDER / f"{file}.ptx").read_text()


def case(file: str, entry: str, args: list[Any], results: list[Any], *, name: str = "", inputs: str = "", **launch: Any) -> Kernel:
    """``inputs``: what distinguishes several cases of a kernel. ``results``: the arrays that are read back."""
    whole = ".".join(part for part in (name or entry, inputs) if part)
    return Kernel(whole, _text(file), tuple(args), results=tuple(results), entry=entry, module=True, **launch)
