"""The sanitizer with a shadow that forgets nothing: plain Python, every access kept and compared with every earlier one.

It says what happens-before alone says, so that what the compiled shadow misses is told apart from synchronisation that orders nothing.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import Any

import numpy as np

from ptxlab.check.model import Kind, Row
from ptxlab.check.race._sanitizer import Sanitizer
from ptxlab.check.race._shadow import Object, Shadow
from ptxlab.check.race._shadow_ir import BEFORE, CLUSTER_SHIFT, CONCURRENT, FORMAL, HOW_SHIFT, StateWord
from ptxlab.engine._support_record import ROW_WORDS
from ptxlab.isa._machine import Touch

__all__ = ["ExactShadow", "observe"]

_STORE, _SILENT = Kind.GENERIC << 1 | 1, Kind.SILENT << 1 | 1
_SLOT = (1 << CLUSTER_SHIFT) - 1


class ExactShadow(Shadow):
    """See the module; the same interface as the compiled one, initialisation left out."""

    def __init__(self, ops: Any, rules: Any) -> None:
        super().__init__(ops, rules)
        self._ops = ops.tolist()
        self._rules = rules.tolist()
        self._cells: dict[tuple[int, int], dict[tuple[int, int], list[int]]] = defaultdict(dict)
        self._found: list[tuple[int, ...]] = []

    def drain(self, rows: int, first: int, count: int) -> int:
        """Recorded rows in order."""
        held = np.ctypeslib.as_array((ctypes.c_uint64 * (ROW_WORDS * count)).from_address(rows)).reshape(count, ROW_WORDS)
        for index in range(first, count):
            head, silent, *hosts = held[index].tolist()
            op, lanes = head & 0xFFFFFFFF, head >> 32
            how, size = self._ops[op]
            copy = bool(how & 0x100)
            slot, clock = (StateWord.COPY_SLOT, StateWord.COPY_CLOCK) if copy else (StateWord.SLOT, StateWord.CLOCK)
            who = self.words[slot] << 32 | self.words[clock]
            if size and (not how & 0x10000 or how & 0x20000):
                for lane in range(32):
                    if lanes >> lane & 1:
                        kind = _SILENT if how & 31 == _STORE and silent >> lane & 1 else how & 31
                        self._span(hosts[lane], size, who, op, kind)
            if how & 0x10000:
                return index
        return count

    def clear(self, made: Object, granules: slice) -> None:
        """Forget what was done to some granules."""
        super().clear(made, granules)
        for granule in range(granules.start, granules.stop):
            self._cells.pop((id(made), granule), None)

    def access(self, touch: Touch, who: int, what: int) -> None:
        """One access to many ranges."""
        sizes = np.broadcast_to(touch.sizes, touch.starts.shape).tolist()
        for start, size in zip(touch.starts.tolist(), sizes, strict=True):
            self._span(start, size, who, what & 0xFFFFFF, what >> HOW_SHIFT & 31)

    def _span(self, address: int, size: int, who: int, op: int, how: int) -> None:
        found = self.find(address) if size else None
        if found is None:
            return
        (shift, unit), begin = found.granule, address - found.start
        for granule in range(begin >> shift, (begin + size - 1 >> shift) + 1):
            start = granule << shift
            low = max(begin - start, 0) >> unit
            high = (min(begin + size - start, 1 << shift) + (1 << unit) - 1) >> unit
            self._visit(found, granule, (1 << high) - (1 << low), who, op, how)

    def _visit(self, found: Any, granule: int, mask: int, who: int, op: int, how: int) -> None:
        cell = self._cells[id(found), granule]
        rows, width = self.words[StateWord.ROWS], self.words[StateWord.WIDTH]
        for (whose, held_how), (held_mask, held_op) in cell.items():
            if (whose, held_how) == (who, how) or not held_mask & mask:
                continue
            rule = self._rules[held_how << 5 | how]
            if not rule & 128:
                continue
            slot, clock = whose >> 32, whose & 0xFFFFFFFF
            reached = performed = 0
            if slot >> CLUSTER_SHIFT in (BEFORE, self.words[StateWord.CLUSTER]):
                row = found.proxy_row if rule >> 1 & 3 == Row.ASYNC_SHARED else rule >> 1 & 3
                at = rows + 4 * (row * width + (slot & _SLOT))
                reached = ctypes.c_uint32.from_address(at + 4 * (rule & 1)).value
                performed = ctypes.c_uint32.from_address(at).value
            place = found.start + (granule << found.granule[0])
            words = whose, held_op | held_mask << 24 | held_how << HOW_SHIFT, who, op | mask << 24 | how << HOW_SHIFT, place
            if reached < clock:
                self._found.append((*words, CONCURRENT))
            elif rule & 8 and performed < clock:
                self._found.append((*words, FORMAL))
        cell.setdefault((who, how), [0, op])[0] |= mask
        self.words[StateWord.SUSPECT_COUNT] = len(self._found)

    def suspects(self) -> Any:
        """Pairs found since the last call."""
        found, self._found = self._found, []
        self.words[StateWord.SUSPECT_COUNT] = 0
        return np.array(found, np.uint64).reshape(-1, 6)


def observe(launch: Any) -> Sanitizer:
    """The observer of a launch, as the machine asks for it."""
    return Sanitizer(launch, ExactShadow)
