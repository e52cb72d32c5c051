"""Other compilers and libraries: a module here is imported when it is first used, and needs the package that it is named after."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name in __dir__():
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
