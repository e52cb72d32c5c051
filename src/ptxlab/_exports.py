"""Names of packages that are imported when they are first used: an import takes half a millisecond, and most processes need few of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["deferred"]


def deferred(package: str, homes: Mapping[str, tuple[str, ...]], load: Callable[[str], Any] = import_module) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Parameters
    ----------
    package : its name
    homes : for each module, by its name inside the package, the names that are looked up there; its own name stands for the module
    load : imports a module
    """
    home = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = load(f"{package}.{home[name]}")
        value = module if name == home[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
