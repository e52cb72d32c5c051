"""The public multiplication on raw codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.numerics._call import Call, check_call
from ptxlab.numerics._prepared import BLOCK, prepare, run_step

__all__ = ["mma"]


def mma(
    *,
    arch: str,
    kind: str | None,
    a: str,
    b: str,
    d: str,
    A: Any,
    B: Any,
    C: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    scale: str | None = None,
    block: int | None = None,
    saturate: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    scale_input_d: int = 0,
    metadata: Any = None,
) -> NDArray[Any]:
    """D = A B^T + C with the bits of one tensor-core instruction.

    Parameters
    ----------
    arch : "tcgen05", "wgmma", or the architecture of an mma.sync: "mma.sm_70", "mma.sm_75", "mma.sm_80", "mma.sm_89", "mma.sm_90",
        "mma.sm_100", "mma.sm_120"
    kind : the kind of tcgen05.mma and of mma.sync on sm_120; None for the others
    a, b, d : element types of A, B and of C and D
    A, B : [..., M, K] and [..., N, K] raw element codes, right-aligned, in an unsigned dtype; K is that of one instruction
    C : [..., M, N] raw bits, or None: input D disabled
    scale_a, scale_b : [..., M, K/block] and [..., N, K/block] uint8 codes of the scales of block-scaled kinds
    scale, block : "ue8m0" or "ue4m3", and 16 or 32; may be left out where only one combination exists
    saturate : clamp an s32 result instead of wrapping it
    negate_a, negate_b : flip the sign of every element
    scale_input_d : C is multiplied by 2 to the power of minus this
    metadata : [..., M, chunks] 4-bit codes: A is sparse and holds the stored elements, K of which B has twice as many; scales cover
        ``block`` stored elements

    Returns
    -------
    ndarray
        [..., M, N]: uint16 for f16, else uint32

    Raises
    ------
    NumericsError
        if the types, shapes, dtypes or options do not belong together

    Examples
    --------
    >>> A = np.full((1, 16), 0x3C00, np.uint16)
    >>> D = mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=A, B=A)
    >>> D.view(np.float32).tolist()
    [[16.0]]
    """
    call = check_call(dict(locals()))
    m, n = call.a_codes.shape[-2], call.b_codes.shape[-2]
    # The kernels put one matrix's rows into vector lanes: here those of B, so that D comes out row by row.
    padded = -(-n // BLOCK) * BLOCK
    cells = np.zeros((*call.batch, m, padded), np.uint32) if padded != n else np.empty((*call.batch, m, n), np.uint32)
    if call.c_bits is not None:
        cells[..., :n] = call.c_bits
    for index in np.ndindex(call.batch):
        _one(call, kind, index, cells[index])
    out = cells[..., :n]
    return out.astype(np.uint16) if d == "f16" else np.ascontiguousarray(out)


def _one(call: Call, kind: str | None, index: tuple[int, ...], cells: NDArray[np.uint32]) -> None:
    a_codes, b_codes = call.a_codes[index], call.b_codes[index]
    for_a: dict[str, Any] = {}
    for_b: dict[str, Any] = {}
    if call.scale is not None and call.a_scales is not None and call.b_scales is not None:
        scale, block = call.scale
        for_a.update(scale=scale, block=block, scales=call.a_scales[index])
        for_b.update(scale=scale, block=block, scales=call.b_scales[index])
    metadata = None if call.metadata is None else call.metadata[index]
    if metadata is not None:
        for_b.update(sparse=True)
    negate, step = call.negate_a != call.negate_b, call.step
    accumulate = call.c_bits is not None
    k = a_codes.shape[-1]
    for first in range(0, k, step.k):
        columns = prepare(_part(b_codes, first, step.k, k), call.b, role="a", kind=kind, other=call.a, **for_b)
        if metadata is not None:
            for_a.update(metadata=_part(metadata, first, step.k, k))
        rows = prepare(_part(a_codes, first, step.k, k), call.a, role="b", kind=kind, other=call.b, **for_a)
        run_step(step, columns, rows, cells, accumulate, call.saturate, negate, call.scale_input_d)
        accumulate = True


def _part(matrix: NDArray[Any], first: int, count: int, k: int) -> NDArray[Any]:
    """The columns that belong to ``count`` of the ``k`` stored elements, from ``first`` on."""
    if count >= k:
        return matrix
    width = matrix.shape[-1]
    return matrix[:, first * width // k : (first + count) * width // k]
