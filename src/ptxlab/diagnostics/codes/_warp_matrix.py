"""Warp-level matrix instructions (W91x)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_SCALING = "Block Scaling for mma.sync"

CODES = (
    CodeInfo("W911", "error", "a selector of mma outside its range", _SCALING),
    CodeInfo("W912", "error", "a form of mma that the target does not have", "Target ISA Notes"),
)
