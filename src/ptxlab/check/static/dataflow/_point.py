"""An instruction as the rules see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ptxlab.check.static.dataflow._values import Value
from ptxlab.isa.operands import Op

__all__ = ["Point"]


@dataclass(slots=True)
class Point:
    """An instruction that the rules look at: its guard, its operands and the threads that may reach it."""

    op: Op
    block: int
    guard: Value | None
    operands: tuple[Value | None, ...]
    joins_warp: bool = False
    """Whether it is a barrier of the warp."""

    def named(self, name: str) -> Value | None:
        """The value of an operand by its name in the row."""
        at = _positions(self.op.row.operands).get(name)
        return None if at is None or at >= len(self.operands) else self.operands[at]


@lru_cache(maxsize=1024)
def _positions(operands: tuple[tuple[str, str], ...]) -> dict[str, int]:
    """The positions of the operands of a row by their names."""
    return {name: at for at, (name, _) in reversed(list(enumerate(operands)))}
