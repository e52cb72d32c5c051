"""Packages that a program may import: what happens when it does, and what is said when it cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

from ptxlab.diagnostics import Diagnostic, diagnose

__all__ = ["EXTRAS", "after_import", "before_import", "missing"]

EXTRAS = {"triton": "triton", "torch": "torch", "cutlass": "cute"}
"""The extra of ptxlab that brings a package, by the name that a program imports."""


def missing(what: str, extra: str, code: str = "I301") -> Diagnostic:
    """Say what a program lacks, and the command that installs it.

    Examples
    --------
    >>> print(missing("Triton is not installed", "triton"))
    error[I301]: Triton is not installed: pip install 'ptxlab[triton]'
    """
    return diagnose(code, f"{what}: pip install 'ptxlab[{extra}]'")


class _AfterImport(MetaPathFinder):
    """Stays until the module is imported: programs may ask for the spec of a module without importing it."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name = name
        self.action = action
        self._asks = False

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name or self._asks:
            return None
        self._asks = True
        try:
            spec = find_spec(fullname)
        finally:
            self._asks = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = partial(self._execute, loader.exec_module)
        return spec

    def _execute(self, execute: Callable[[Any], object], module: Any) -> None:
        execute(module)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self.action()


def after_import(name: str, action: Callable[[], object]) -> Callable[[], None]:
    """Call ``action`` when a program has imported a module, at once if it has already; returns a function that cancels this."""
    if sys.modules.get(name) is not None:
        action()
        return lambda: None
    finder = _AfterImport(name, action)
    sys.meta_path.insert(0, finder)

    def forget() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return forget


class _BeforeImport(MetaPathFinder):
    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name = name
        self.action = action

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        self.action()
        return find_spec(fullname)


def before_import(name: str, action: Callable[[], object]) -> None:
    """Call ``action`` when a program is about to import a module that it has not imported yet."""
    sys.meta_path.insert(0, _BeforeImport(name, action))
