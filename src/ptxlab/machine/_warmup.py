"""Code that can be compiled before the first launch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from ptxlab.machine._module import load
from ptxlab.machine.observe.observer import warm_observers

__all__ = ["warmup_parts"]


def warmup_parts(paths: Sequence[str | os.PathLike[str]] = ()) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield names of pieces of code, each with a function that compiles it into the cache.

    Parameters
    ----------
    paths : PTX files whose kernels are compiled whole, beside the arithmetic of the tensor core

    Raises
    ------
    PtxlabError
        if a file cannot be read, parsed or lowered
    """
    from ptxlab import numerics

    yield from numerics.warmup_parts()
    yield "checks", warm_observers
    for path in paths:
        module = load(path)
        for name in module:
            for recorded, checks in ((True, "all"), (False, "none")):
                executable = module[name].variant(False, recorded)[1]
                yield f"{os.fspath(path)}: {name}, check={checks}", executable.compile_all
