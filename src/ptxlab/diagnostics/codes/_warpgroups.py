"""Warpgroup instructions (W9xx)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_WARPGROUP = "Warpgroup"
_MMA = "Asynchronous wgmma Instructions: wgmma.mma_async"

CODES = (
    CodeInfo("W901", "error", "wgmma in a warp that belongs to no whole warpgroup", _WARPGROUP),
    CodeInfo("W902", "error", "the warps of a warpgroup execute different wgmma instructions", _MMA),
    CodeInfo("W903", "error", "wgmma in a warp some of whose threads have exited", _MMA),
    CodeInfo("W904", "error", "an immediate of wgmma.mma_async outside its range", _MMA),
    CodeInfo("R806", "warning", "a register is written while wgmma.mma_async may still read it", _MMA),
    CodeInfo(
        "R807",
        "warning",
        "registers of wgmma.mma_async are written without a wgmma.fence behind",
        "Asynchronous wgmma Instructions: wgmma.fence",
    ),
    CodeInfo("R805", "warning", "a register is used while wgmma.mma_async may still write to it", _MMA),
)
