"""Bytes that are read in a race, and so are undefined in the registers of those that read them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ptxlab._records import dataclass

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Coordinates", "Place", "Raced", "place_of"]

Place = tuple[Any, int]
"""A byte of memory in all runs: a global address, or an offset in the shared memory of a CTA."""
Coordinates = tuple[int, int, int]


def place_of(owner: Any, inside: int) -> Place:
    """The name of a byte of shared memory, or of an allocation."""
    return (owner.ctaid, inside) if hasattr(owner, "ctaid") else ("global", owner.base + inside)


@dataclass(slots=True)
class Raced:
    """What the first run has found.

    Attributes
    ----------
    inside : by op, CTA and warp the bytes that it reads while another warp of its cluster writes them
    between : by op the bytes that it reads while another cluster writes them, each with the first CTAs of the clusters that write it.
        In all other clusters the byte is undefined: the race check does not remember all that read one byte
    """

    inside: dict[tuple[int, Coordinates, int], set[Place]] = field(default_factory=lambda: defaultdict(set))
    between: dict[int, dict[Place, set[Coordinates]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    @property
    def ops(self) -> frozenset[int]:
        """The ops that read in a race."""
        return frozenset(op for op, _, _ in self.inside).union(self.between)

    def is_read_in_race(self, op: int, warp: Warp, place: Place) -> bool:
        """Whether a byte is undefined for an op of a warp."""
        if place in self.inside.get((op, warp.cta.ctaid, warp.warp_id), ()):
            return True
        writers = self.between[op].get(place, set()) if op in self.between else set()
        return bool(writers - {warp.cta.cluster[0].ctaid})
