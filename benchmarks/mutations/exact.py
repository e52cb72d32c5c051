"""The sanitizer with a shadow that forgets nothing: plain Python, every access compared with every earlier one.

Only an access is dropped that a later one of the same agent, kind and bytes stands for: what follows that follows this.

It says what happens-before alone says, so that what the compiled shadow misses is told apart from synchronisation that orders nothing.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from ptxlab.check.model import Kind, Row
from ptxlab.check.race._sanitizer import Sanitizer
from ptxlab.check.race.shadow.shadow import Object, Shadow
from ptxlab.check.race.shadow.shadow_words import (
    ACCESSES_TOO,
    BEFORE,
    CLUSTER_SHIFT,
    COMMIT,
    CONCURRENT,
    COPY_ACCESS,
    FORMAL,
    HANDLED,
    HOW_SHIFT,
    PROXY_FENCES,
    TENSOR_WAITS,
    TRANSFER,
    AgentWord,
    StateWord,
)
from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.isa.operations import MemoryAccess

__all__ = ["ExactShadow", "observe"]

_STORE, _SILENT = Kind.GENERIC << 1 | 1, Kind.SILENT << 1 | 1
Cell = dict[tuple[int, int], list[tuple[int, int, int]]]
"""By slot and kind: clock, bytes, instruction."""
_SLOT = (1 << CLUSTER_SHIFT) - 1
_HANDED_OVER = HANDLED | sum(PROXY_FENCES.values()) | sum(TENSOR_WAITS.values()) | TRANSFER | COMMIT
"""The rows that the sanitizer handles; the compiled shadow completes some of them itself."""


def _ranges(hosts: list[int], size: int) -> Iterator[tuple[int, int]]:
    """Start and length of what accesses of one size reach, neighbours together."""
    start = end = 0
    for host in sorted(set(hosts)):
        if host > end:
            if end:
                yield start, end - start
            start = host
        end = max(end, host + size)
    if end:
        yield start, end - start


class ExactShadow(Shadow):
    """See the module; the same interface as the compiled one, initialisation left out."""

    def __init__(self, ops: Any, rules: Any) -> None:
        super().__init__(ops, rules)
        self._ops = ops.tolist()
        self._rules = rules.tolist()
        self._cells: dict[Object, dict[int, Cell]] = {}
        self._found: list[tuple[int, ...]] = []
        self._spans: list[tuple[int, int, Object]] = []

    @property
    def replay(self) -> int:
        """Compiled code processes no rows."""
        return 0

    def drain(self, rows: int, first: int, count: int) -> int:
        """Recorded rows in order."""
        held = np.ctypeslib.as_array((ctypes.c_uint64 * (ROW_WORDS * count)).from_address(rows)).reshape(count, ROW_WORDS)
        for index in range(first, count):
            head, silent, *hosts = held[index].tolist()
            op, lanes = head & 0xFFFFFFFF, head >> 32
            how, size, _ = self._ops[op]
            copy = bool(how & COPY_ACCESS)
            if copy:
                agent = (ctypes.c_int64 * AgentWord.END).from_address(self.words[StateWord.AGENT])
                slot, clock = agent[AgentWord.COPY_SLOT], agent[AgentWord.COPY_CLOCK]
                size, agent[AgentWord.COPIED] = silent, clock
            else:
                slot = self.words[StateWord.SLOT]
                clock = ctypes.c_uint32.from_address(self.words[StateWord.ROWS] + 4 * (slot & _SLOT)).value
            who = slot << 32 | clock
            if size and (not how & HANDLED or how & ACCESSES_TOO):
                for kind, chosen in ((_SILENT, lanes & silent), (_STORE, lanes & ~silent)) if how & 31 == _STORE else ((how & 31, lanes),):
                    for start, length in _ranges([hosts[lane] for lane in range(32) if chosen >> lane & 1], size):
                        self._span(start, length, who, op, kind)
            if how & _HANDED_OVER:
                return index
        return count

    def clear(self, made: Object, granules: slice) -> None:
        """Forget what was done to some granules."""
        super().clear(made, granules)
        for granule in range(granules.start, granules.stop):
            self._cells[made].pop(granule, None)

    def watch(self, data: Any, *rest: Any, **options: Any) -> Object:
        """Watch the bytes of an array."""
        made = super().watch(data, *rest, **options)
        self._cells[made] = defaultdict(dict)
        self._spans.append((made.start, made.start + data.nbytes, made))
        return made

    def forget(self, made: Object) -> None:
        """Watch an object no longer."""
        super().forget(made)
        del self._cells[made]
        self._spans = [span for span in self._spans if span[2] is not made]

    def access(self, touch: MemoryAccess, who: int, what: int) -> None:
        """One access to many ranges."""
        sizes = np.broadcast_to(touch.sizes, touch.starts.shape).tolist()
        for start, size in zip(touch.starts.tolist(), sizes, strict=True):
            self._span(start, size, who, what & 0xFFFFFF, what >> HOW_SHIFT & 31)

    def _span(self, address: int, size: int, who: int, op: int, how: int) -> None:
        span = next((span for span in self._spans if span[0] <= address < span[1]), None) if size else None
        if span is None:
            return
        base, _, found = span
        (shift, unit), begin = found.granule, address - base
        for granule in range(begin >> shift, (begin + size - 1 >> shift) + 1):
            start = granule << shift
            low = max(begin - start, 0) >> unit
            high = (min(begin + size - start, 1 << shift) + (1 << unit) - 1) >> unit
            self._visit(found, base, granule, (1 << high) - (1 << low), who, op, how)

    def _visit(self, found: Any, base: int, granule: int, mask: int, who: int, op: int, how: int) -> None:
        cell = self._cells[found][granule]
        rows, width = self.words[StateWord.ROWS], self.words[StateWord.WIDTH]
        for (slot, held_how), entries in cell.items():
            rule = self._rules[held_how << 5 | how]
            if not rule & 128:
                continue
            reached = performed = 0
            if slot >> CLUSTER_SHIFT in (BEFORE, self.words[StateWord.CLUSTER]):
                row = found.proxy_row if rule >> 1 & 3 == Row.ASYNC_SHARED else rule >> 1 & 3
                at = rows + 4 * (row * width + (slot & _SLOT))
                reached = ctypes.c_uint32.from_address(at + 4 * (rule & 1)).value
                performed = ctypes.c_uint32.from_address(at).value
            for clock, held_mask, held_op in entries:
                whose = slot << 32 | clock
                if not held_mask & mask or (whose, held_how) == (who, how):
                    continue
                if reached < clock or (rule & 8 and performed < clock):
                    earlier, later = held_op | held_mask << 24 | held_how << HOW_SHIFT, op | mask << 24 | how << HOW_SHIFT
                    place = base + (granule << found.granule[0])
                    self._found.append((whose, earlier, who, later, place, CONCURRENT if reached < clock else FORMAL))
        key = who >> 32, how
        # Scopes tell accesses of one agent and kind apart.
        stands_for = self._rules[how << 5 | how] & 64
        cell[key] = [e for e in cell.get(key, ()) if not stands_for or e[1] & ~mask] + [(who & 0xFFFFFFFF, mask, op)]
        self.words[StateWord.SUSPECT_COUNT] = len(self._found)

    def suspects(self) -> Any:
        """Pairs found since the last call."""
        found, self._found = self._found, []
        self.words[StateWord.SUSPECT_COUNT] = 0
        return np.array(found, np.uint64).reshape(-1, 6)


def observe(launch: Any) -> Sanitizer:
    """The observer of a launch, as the machine asks for it."""
    return Sanitizer(launch, ExactShadow)
