"""The descriptor that reads what was copied to where another one begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxlab.check.operands._candidates import Candidate, best, rows_of_tiles
from ptxlab.check.operands._report import fix_text, map_text, rows_text
from ptxlab.check.operands.words.images import fitting_descriptor, rows_of_words
from ptxlab.isa.operations.matrices import MatrixOperand

if TYPE_CHECKING:
    from ptxlab.check.operands._shared_tiles import SharedTiles
    from ptxlab.check.operands.words.check import Words

__all__ = ["advice"]


def advice(operand: MatrixOperand, shared: SharedTiles | None, words: Words | None) -> str:
    """How to correct the descriptor of an operand or the tensor map, or how many rows of it there are; "" if it is not known."""
    held = None if shared is None else shared.at(operand.descriptor.start)
    candidate: Candidate[Any] | None = None
    rows = 0
    if shared is not None and held is not None:
        candidate = best(operand, shared, held.tile, None)
        if candidate is None and (text := map_text(operand, held.tile.array)):
            return text
        rows = 0 if candidate else rows_of_tiles(operand, shared)
    elif words is not None:
        # A K-major operand that begins too late is the tile if it begins earlier.
        candidate = fitting_descriptor(operand, words.sources, None, ("start",)) if operand.major == "k" else None
        candidate = candidate or fitting_descriptor(operand, words.sources, None)
        rows = 0 if candidate else rows_of_words(operand, words.sources)
    if candidate is not None:
        return fix_text(candidate, operand)
    return rows_text(operand, rows) if rows and operand.name in ("A", "B") else ""
