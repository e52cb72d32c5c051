"""From where undefined bits come that are used: by the origin that a register has, and by what loads have read from memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ptxlab.engine.program import UNWRITTEN_REGISTER
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.indeterminate import UndefinedUse
from ptxlab.machine.observe.observer import Observer

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["IN_FLIGHT", "READ", "UsesOfUndefinedBits", "is_read"]

READ = 1 << 30
"""An origin: this and the op that has read undefined bits of memory. Others are those of the first run."""
IN_FLIGHT = READ | 1 << 29
"""An origin: this and the asynchronous op that has not been waited for, and may still write to the register."""
_T = TypeVar("_T")


def is_read(origin: int) -> bool:
    """Whether an origin is one of this run."""
    return READ <= origin < UNWRITTEN_REGISTER


class UsesOfUndefinedBits(Observer):
    """Notes from where undefined bits come that are used."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._used: dict[int, Op] = {}
        """By the origin of undefined bits the first op that uses them."""
        self._left: dict[int, Op] = {}
        """The same, where a store to device memory is a use, too."""
        self._register_uses: dict[int, UndefinedUse] = {}
        """The same, as a finding."""
        self._through: dict[int, set[int]] = defaultdict(set)
        """By the origin of undefined bits that an op has loaded: the origins that they had in memory."""

    def used(self, left: bool = False) -> dict[int, Op]:
        """The ops that have read undefined bits on which something depends, each with one that uses them.

        ``left``: a store to device memory is a use, too.
        """
        closed = self._closed(self._left if left else self._used)
        return {origin ^ READ: op for origin, op in closed.items() if READ <= origin < IN_FLIGHT}

    def used_in_flight(self) -> dict[int, Op]:
        """The asynchronous ops on whose registers something depends before they are waited for, each with an op that uses them."""
        return {origin ^ IN_FLIGHT: op for origin, op in self._closed(self._left).items() if IN_FLIGHT <= origin < UNWRITTEN_REGISTER}

    def static_uses(self) -> Iterator[tuple[int, UndefinedUse]]:
        """Uses of undefined bits of registers that no instruction has written, or a load whose guard is false."""
        return ((origin, found) for origin, found in self._closed(self._register_uses).items() if not is_read(origin))

    def sources(self, origin: int) -> list[int]:
        """Where undefined bits with an origin come from, other than reads of memory."""
        return sorted(each for each in self._closed({origin: None}) if not is_read(each))

    def _closed(self, first: Mapping[int, _T]) -> dict[int, _T]:
        """With an origin also those of what it has loaded."""
        found: dict[int, _T] = {}
        work = list(first.items())
        while work:
            origin, use = work.pop()
            if origin not in found:
                found[origin] = use
                work += ((other, use) for other in self._through.get(origin, ()))
        return found

    def _leave(self, origins: Iterable[int], op: Op) -> None:
        """Undefined bits with these origins are used, or are stored to device memory."""
        for origin in origins:
            self._left.setdefault(origin, op)

    def _note(self, origins: Iterable[int], op: Op) -> None:
        """Undefined bits with these origins are used."""
        self._leave(origins, op)
        for origin in origins:
            self._used.setdefault(origin, op)

    def _read_use(self, warp: Warp, op: Op, lanes: int) -> None:
        """What an op reads from memory decides something, or others see it."""
        self._note((READ | op.index,), op)
        use = UndefinedUse("R808", f"{op.short} reads undefined bits of memory", op, warp, lanes)
        self._register_uses.setdefault(READ | op.index, use)
