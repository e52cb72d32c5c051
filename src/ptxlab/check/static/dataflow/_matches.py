"""The instructions of a kernel that a test accepts: each test is asked once about an instruction, for all rules and classes of threads."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from ptxlab.check.static.dataflow._point import Point

__all__ = ["Matches", "Test"]

Test = Callable[[Point], bool]


class Matches:
    """What tests accept; tests of a rule often refer to the kernel, and are forgotten with the rule.

    Attributes
    ----------
    by_block : the instructions of each block that the rules look at, in scheduling order
    """

    def __init__(self, by_block: list[list[Point]]) -> None:
        self.by_block = by_block
        self._everywhere: WeakKeyDictionary[Test, list[Point]] = WeakKeyDictionary()
        self._inside: WeakKeyDictionary[Test, dict[int, list[Point]]] = WeakKeyDictionary()

    def __call__(self, test: Test) -> list[Point]:
        """The instructions that a test accepts, in scheduling order."""
        found = self._everywhere.get(test)
        if found is None:
            found = self._everywhere[test] = [point for inside in self.by_block for point in inside if test(point)]
        return found

    def known(self, test: Test) -> dict[int, list[Point]]:
        """What a test accepts by block, of the blocks that `inside` has been asked for."""
        found = self._inside.get(test)
        if found is None:
            found = self._inside[test] = {}
        return found

    def inside(self, test: Test, block: int, known: dict[int, list[Point]]) -> list[Point]:
        """The instructions of a block that a test accepts; ``known`` is what `known` gives for the test."""
        found = known.get(block)
        if found is None:
            found = known[block] = [point for point in self.by_block[block] if test(point)]
        return found
