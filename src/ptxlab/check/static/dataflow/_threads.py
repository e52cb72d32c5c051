"""The threads of a CTA, and the special registers that are known for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ptxlab.check.static.dataflow._values import Symbols, Value
from ptxlab.engine import Program

__all__ = ["Threads"]

_MOST = 1024
_WARP = 32
_UNIFORM = ("ctaid", "nctaid", "ntid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank")


class Threads:
    """The threads of a launch, as far as the kernel's directives say.

    Attributes
    ----------
    count : how many threads the CTA has; the most there can be, if that is not known
    exact : whether it has exactly so many
    everything, nothing : all threads, and none
    shape : block dimensions, None if they are not known; then only one dimension is assumed if the kernel reads no other
    """

    def __init__(self, program: Program) -> None:
        directives = program.directives
        exact, most = (directives.get(name) for name in ("reqntid", "maxntid"))
        given = [int(each) for each in (exact or most or ())]
        shape = [*given, 1, 1, 1][:3]
        possible = bool(given) and all(0 < each <= _MOST for each in shape) and prod(shape) <= _MOST
        self.exact = exact is not None and possible
        self.count = prod(shape) if possible else _MOST
        flat = not any(register.special in ("%tid.y", "%tid.z") for register in program.registers)
        self.shape = tuple(shape) if self.exact else (self.count, 1, 1) if flat else None
        self.lane = np.arange(self.count, dtype=np.uint32) % _WARP
        self.warp = np.arange(self.count, dtype=np.uint32) // _WARP
        self.everything = np.ones(self.count, np.bool_)
        self.nothing = np.zeros(self.count, np.bool_)
        self._directives: Mapping[str, tuple[int | str, ...]] = directives

    def special(self, name: str, symbols: Symbols) -> Value:
        """The value of a special register."""
        stem, _, axis = name.removeprefix("%").partition(".")
        if stem == "tid" and self.shape is not None:
            index = np.arange(self.count, dtype=np.uint32)
            x, y, _ = self.shape
            found = {"x": index % x, "y": index // x % y, "z": index // (x * y)}[axis]
            return Value(None, int(found[0]) if (found == found[0]).all() else found)
        if stem == "ntid" and self.exact and self.shape is not None:
            return Value(None, self.shape["xyz".index(axis)])
        if name == "%laneid":
            return Value(None, self.lane)
        if name == "%warpid":
            return Value(None, self.warp if self.count > _WARP else 0)
        return Value(symbols.get(("special", name), uniform=stem in _UNIFORM), 0)
