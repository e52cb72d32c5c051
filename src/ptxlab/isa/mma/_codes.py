"""Codes of the warp-level matrix instructions (W91x)."""

from __future__ import annotations

from ptxlab.diagnostics import CodeInfo, register_codes

_SCALING = "Block Scaling for mma.sync"

register_codes(
    CodeInfo("W911", "error", "a selector of mma outside its range", _SCALING),
    CodeInfo("W912", "error", "a form of mma that the target does not have", "Target ISA Notes"),
)
