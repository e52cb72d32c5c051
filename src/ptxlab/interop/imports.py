"""Doing something as soon as a program has imported a module; programs that never import it pay nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

__all__ = ["after_import"]


class _AfterImport(MetaPathFinder):
    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name = name
        self.action = action

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module
            loader.exec_module = lambda module: (execute(module), self.action())
        return spec


def after_import(name: str, action: Callable[[], object]) -> Callable[[], None]:
    """Call ``action`` when the module of this name has been imported, at once if it was imported before; gives what calls it off."""
    if sys.modules.get(name) is not None:
        action()
        return lambda: None
    finder = _AfterImport(name, action)
    sys.meta_path.insert(0, finder)

    def forget() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return forget
