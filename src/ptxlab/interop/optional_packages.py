"""Packages that a program may import: what happens when it does, and what is said when it cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from threading import local
from typing import Any

from ptxlab.diagnostics import Diagnostic, diagnose

__all__ = ["EXTRAS", "after_import", "before_import", "missing", "package_folders"]

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


def package_folders(name: str) -> list[Path]:
    """The folders of a package that may be installed, without importing it."""
    spec = find_spec(name)
    return [Path(folder) for folder in (spec.submodule_search_locations or () if spec is not None else ())]


class _ImportHooks(MetaPathFinder):
    """The finder of this process that calls functions around imports: one for all, so that no finder asks another for the same module."""

    def __init__(self) -> None:
        self.before: dict[str, list[Callable[[], object]]] = {}
        self.after: dict[str, list[Callable[[], object]]] = {}
        self._thread = local()

    def add(self, hooks: dict[str, list[Callable[[], object]]], name: str, action: Callable[[], object]) -> Callable[[], None]:
        """Enter a function under the name of a module; returns a function that removes it."""
        hooks.setdefault(name, []).append(action)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

        def forget() -> None:
            actions = hooks.get(name, [])
            if action in actions:
                actions.remove(action)

        return forget

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Ask the other finders; nothing is called before the module is made, as programs also ask without importing."""
        searched = self._thread.__dict__.setdefault("searched", set())
        if fullname in searched or not (fullname in self.before or fullname in self.after):
            return None
        searched.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            searched.remove(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.create_module = partial(self._create, fullname, loader.create_module)
            loader.exec_module = partial(self._execute, fullname, loader.exec_module)
        return spec

    def _create(self, name: str, create: Callable[[ModuleSpec], Any], spec: ModuleSpec) -> Any:
        for action in self.before.pop(name, ()):
            action()
        return create(spec)

    def _execute(self, name: str, execute: Callable[[Any], object], module: Any) -> None:
        execute(module)
        for action in self.after.pop(name, ()):
            action()


_HOOKS = _ImportHooks()


def after_import(name: str, action: Callable[[], object]) -> Callable[[], None]:
    """Call ``action`` when a program has imported a module, at once if it has already; returns a function that cancels this."""
    if sys.modules.get(name) is not None:
        action()
        return lambda: None
    return _HOOKS.add(_HOOKS.after, name, action)


def before_import(name: str, action: Callable[[], object]) -> Callable[[], None]:
    """Call ``action`` when a program is about to import a module that it has not imported yet; returns a function that cancels this."""
    return _HOOKS.add(_HOOKS.before, name, action)
