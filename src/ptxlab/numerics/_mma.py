"""The public multiplication on raw codes, and the check of its arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.formats import FORMATS, NUMPY_TYPES, bits_of
from ptxlab.numerics._operand import BLOCK
from ptxlab.numerics._prepared import check_options, prepare_checked, run_step
from ptxlab.numerics._sparse import check_codes, chunk_of
from ptxlab.numerics._steps import NumericsError, Step, is_wide, steps_of

__all__ = ["Call", "check_call", "mma"]


_BYTE, _HALF, _CELL = (np.dtype(name) for name in ("uint8", "uint16", "uint32"))


@dataclass(slots=True)
class Call:
    """The checked arguments of `mma`: the step, its operands with equal leading dimensions, and options."""

    step: Step
    a: str
    b: str
    a_codes: NDArray[Any]
    b_codes: NDArray[Any]
    c_bits: NDArray[np.uint32] | None
    batch: tuple[int, ...]
    saturate: bool
    negate_a: bool
    negate_b: bool
    scale_input_d: int
    scale: tuple[str, int] | None
    a_scales: NDArray[np.uint8] | None
    b_scales: NDArray[np.uint8] | None
    metadata: NDArray[np.uint8] | None


def check_call(arguments: dict[str, Any]) -> Call:
    """Check the arguments of `mma`, by name."""
    arch, kind, a, b, d = arguments["arch"], arguments["kind"], arguments["a"], arguments["b"], arguments["d"]
    metadata = arguments["metadata"]
    steps, lengths = _offered(arch, kind, a, b, d, metadata is not None)
    a_codes = _codes(arguments["A"], a, "A", lengths, "M")
    stored = a_codes.shape[-1]
    step = steps[0] if len(steps) == 1 else next(step for step in steps if stored in step.lengths)
    saturate, negate_a, negate_b = bool(arguments["saturate"]), bool(arguments["negate_a"]), bool(arguments["negate_b"])
    scale_input_d = int(arguments["scale_input_d"])
    check_options(step, saturate, negate_a or negate_b, scale_input_d)
    density = 1 if metadata is None else 2
    b_codes = _codes(arguments["B"], b, "B", (stored * density,), "N")
    m, n = a_codes.shape[-2], b_codes.shape[-2]
    c_bits = None if arguments["C"] is None else _accumulator(arguments["C"], d, m, n)
    scale = _scale(step, arguments)
    a_scales = b_scales = None
    if scale is not None:
        a_scales = _scales(arguments, "a", scale[0], m, stored // scale[1])
        b_scales = _scales(arguments, "b", scale[0], n, stored // scale[1])
    if metadata is not None:
        metadata = _metadata(metadata, step, a, m, stored // chunk_of(a, step.group > 1)[0])
    arrays: list[Any] = [a_codes, b_codes, c_bits, a_scales, b_scales, metadata]
    batch: tuple[int, ...] = ()
    if any(x.ndim > 2 for x in arrays if x is not None):
        batch = _batch([x.shape[:-2] for x in arrays if x is not None])
        arrays = [x if x is None else np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in arrays]
    a_codes, b_codes, c_bits, a_scales, b_scales, metadata = arrays
    options = saturate, negate_a, negate_b, scale_input_d
    return Call(step, a, b, a_codes, b_codes, c_bits, batch, *options, scale, a_scales, b_scales, metadata)


def _where(arch: str, kind: str | None) -> str:
    return f"kind {kind!r}" if kind else f"arch {arch!r}"


@lru_cache(maxsize=256)
def _offered(arch: str, kind: str | None, a: str, b: str, d: str, sparse: bool) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """The steps of a combination of types, and the K that they take."""
    steps = steps_of(arch, kind, a, b, d)
    if sparse and not steps[0].sparse:
        raise NumericsError(f"{_where(arch, kind)}: sparse products are not offered; expected metadata=None")
    # K = 96 is dense only.
    return steps, tuple(sorted({length for step in steps for length in step.lengths if length != 96 or not sparse}))


def _batch(leading: list[tuple[int, ...]]) -> tuple[int, ...]:
    """What leading dimensions are broadcast to."""
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        raise NumericsError(f"leading dimensions do not agree: {', '.join(map(str, leading))}") from None


def _codes(given: Any, fmt: str, name: str, lengths: tuple[int, ...], rows: str) -> NDArray[Any]:
    array = bits_of(given, fmt)
    row = FORMATS[fmt]
    if array.dtype.kind != "u":
        known = f", or {NUMPY_TYPES[fmt]}" if fmt in NUMPY_TYPES else ""
        raise NumericsError(
            f"{name} holds {fmt} codes: expected an unsigned integer dtype such as {row.dtype}{known}; got {array.dtype}",
            f"pass the bit patterns: {name}.view(np.{row.dtype})" if array.dtype.itemsize == row.dtype.itemsize else "",
        )
    if array.ndim < 2 or array.shape[-1] not in lengths or not array.shape[-2]:
        raise NumericsError(f"{name}: expected [..., {rows}, {' or '.join(map(str, lengths))}], got shape {list(array.shape)}")
    if array.dtype.itemsize * 8 > row.bits and array.size:
        largest = int(np.maximum.reduce(array, axis=None))
        if largest >> row.bits:
            raise NumericsError(f"{name} holds {fmt} codes: expected values below {1 << row.bits:#x}, got {largest:#x}")
    if array.dtype.itemsize < row.dtype.itemsize:
        raise NumericsError(f"{name} holds {fmt} codes: expected {row.dtype} or wider, got {array.dtype}")
    return array if array.dtype == row.dtype else array.astype(row.dtype)


def _accumulator(given: Any, d: str, m: int, n: int) -> NDArray[np.uint32]:
    array = bits_of(given, d)
    expected = _HALF if d == "f16" else _CELL
    if array.dtype != expected and not (d == "f16" and array.dtype == _CELL):
        raise NumericsError(f"C holds the bits of {d}: expected {expected} or {NUMPY_TYPES[d]}, got {array.dtype}")
    if array.ndim < 2 or array.shape[-2:] != (m, n):
        raise NumericsError(f"C: expected [..., {m}, {n}], got shape {list(array.shape)}")
    return array if array.dtype == _CELL else array.astype(_CELL)


def _scale(step: Step, arguments: dict[str, Any]) -> tuple[str, int] | None:
    """The type of the scales and the block size; what only one combination can mean may be left out."""
    scale, block = arguments["scale"], arguments["block"]
    if not step.scales:
        if scale is None is block is arguments["scale_a"] is arguments["scale_b"]:
            return None
        given = [name for name in ("scale_a", "scale_b", "scale", "block") if arguments[name] is not None]
        raise NumericsError(f"{_where(arguments['arch'], arguments['kind'])} is not block-scaled: it takes no {', '.join(given)}")
    if (scale, block) in step.scales:
        return scale, block
    fitting = [pair for pair in step.scales if scale in (None, pair[0]) and block in (None, pair[1])]
    if len(fitting) != 1:
        offered = ", ".join(f"scale={name!r} with block={size}" for name, size in step.scales)
        where = _where(arguments["arch"], arguments["kind"])
        raise NumericsError(f"{where} is block-scaled: expected {offered}; got scale={scale!r}, block={block!r}")
    return fitting[0]


def _scales(arguments: dict[str, Any], side: str, scale: str, rows: int, count: int) -> NDArray[np.uint8]:
    given = arguments[f"scale_{side}"]
    array = None if given is None else bits_of(given, scale)
    if array is not None and array.dtype == _BYTE and array.ndim >= 2 and array.shape[-2:] == (rows, count):
        return array
    found = "None" if array is None else f"{array.dtype} {list(array.shape)}"
    raise NumericsError(f"scale_{side}: expected uint8 or {NUMPY_TYPES[scale]} [..., {rows}, {count}], got {found}")


def _metadata(given: Any, step: Step, fmt: str, m: int, chunks: int) -> NDArray[np.uint8]:
    array = np.asarray(given)
    if array.dtype.kind != "u" or array.ndim < 2 or array.shape[-2:] != (m, chunks):
        raise NumericsError(f"metadata: expected unsigned [..., {m}, {chunks}], got {array.dtype} {list(array.shape)}")
    check_codes(array, fmt, step.metadata)
    return array.astype(np.uint8, copy=False)


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
    A, B : [..., M, K] and [..., N, K] raw element codes, right-aligned, in an unsigned dtype, or an array of that type in NumPy or
        ml_dtypes (``float16``, ``bfloat16``, ``float8_e4m3fn``, ``float4_e2m1fn``, ``int8``, ...); K is that of one instruction
    C : [..., M, N] raw bits or an array of that type, or None: input D disabled
    scale_a, scale_b : [..., M, K/block] and [..., N, K/block] uint8 codes of the scales of block-scaled kinds, or ``float8_e8m0fnu``
        or ``float8_e4m3fn``
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
    call = check_call(locals())
    m, n = call.a_codes.shape[-2], call.b_codes.shape[-2]
    # The kernels put one matrix's rows into vector lanes: here those of B, so that D comes out row by row.
    padded = -(-n // BLOCK) * BLOCK
    if padded != n:
        cells = np.zeros((*call.batch, m, padded), np.uint32)
        if call.c_bits is not None:
            cells[..., :n] = call.c_bits
    else:
        cells = np.empty((*call.batch, m, n), np.uint32) if call.c_bits is None else call.c_bits.copy()
    for index in np.ndindex(call.batch) if call.batch else ((),):
        _one(call, index, cells[index])
    out = cells if padded == n else cells[..., :n]
    return out.astype(np.uint16) if d == "f16" else np.ascontiguousarray(out)


def _one(call: Call, index: tuple[int, ...], cells: NDArray[np.uint32]) -> None:
    a_codes, b_codes = call.a_codes[index], call.b_codes[index]
    for_rows = for_columns = metadata = None
    if call.scale is not None and call.a_scales is not None and call.b_scales is not None:
        for_rows, for_columns = (call.scale, call.a_scales[index]), (call.scale, call.b_scales[index])
    if call.metadata is not None:
        metadata = call.metadata[index]
    negate, step = call.negate_a != call.negate_b, call.step
    accumulate = call.c_bits is not None
    k, wide, grouped = a_codes.shape[-1], is_wide(call.a, call.b), step.group > 1
    for first in range(0, k, step.k):
        part = None if metadata is None else _part(metadata, first, step.k, k)
        some = _part(b_codes, first, step.k, k)
        columns = prepare_checked(some, call.b, "a", wide, grouped, scales=for_columns, sparse=metadata is not None)
        some = _part(a_codes, first, step.k, k)
        rows = prepare_checked(some, call.a, "b", wide, grouped, scales=for_rows, metadata=part)
        run_step(step, columns, rows, cells, accumulate, call.saturate, negate, call.scale_input_d)
        columns.recycle()
        rows.recycle()
        accumulate = True


def _part(matrix: NDArray[Any], first: int, count: int, k: int) -> NDArray[Any]:
    """The columns that belong to ``count`` of the ``k`` stored elements, from ``first`` on."""
    if count >= k:
        return matrix
    width = matrix.shape[-1]
    return matrix[:, first * width // k : (first + count) * width // k]
