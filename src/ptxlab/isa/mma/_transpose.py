"""movmatrix: section "Warp-level matrix transpose instruction: movmatrix"."""

from __future__ import annotations

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.requirements import needs

__all__: list[str] = []


@service(
    "movmatrix.sync.aligned.m8n8.trans.b16",
    requires=needs("7.8", "sm_75"),
    section="Warp-level matrix transpose instruction: movmatrix",
    fidelity="hardware",
    outputs=1,
    effects=LOCAL,
    d="b32",
    a="b32",
)
def movmatrix(warp: context.WarpContext) -> None:
    """Thread t holds row t/4, columns 2(t%4) and the next, before and after."""
    matrix = np.ascontiguousarray(warp.values(1)).view(np.uint16).reshape(8, 8)
    warp.write(0, np.ascontiguousarray(matrix.T).reshape(-1).view(np.uint32))
