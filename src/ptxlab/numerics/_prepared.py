"""How operands are made ready, and the step on them."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS
from ptxlab.native import address_of
from ptxlab.numerics._operand import Layout, Prepared, layout_of
from ptxlab.numerics._sparse import check_codes, chunk_of, expand
from ptxlab.numerics._steps import STEPS, NumericsError, Step, find_step, is_wide
from ptxlab.numerics.ir.kernels import group_preparer, multiplier, preparer
from ptxlab.numerics.ir.prepare import SIGN

__all__ = ["check_options", "fill", "mma_prepared", "prepare", "prepare_checked", "run_step"]


GROUPED = ("mxf4", "mxf4nvf4")
"""The kinds whose steps add groups."""


_CELL = np.dtype(np.uint32)


@cache
def _check_format(fmt: str, kind: str | None, role: str) -> tuple[bool, np.dtype[Any]]:
    """Whether the format has a wide range, and the dtype of its codes."""
    if role not in ("a", "b"):
        raise NumericsError(f"role {role!r}: expected 'a' or 'b'")
    offered = [row.a if role == "a" else row.b for (_, name), rows in STEPS.items() if name == kind for row in rows]
    names = list(dict.fromkeys(name for types in offered for name in types))
    if not names:
        raise NumericsError(f"no kind {kind!r}; there are {', '.join(repr(k) for k in dict.fromkeys(k for _, k in STEPS))}")
    if fmt not in names:
        raise NumericsError(f"kind {kind!r} has no type {fmt!r} for {role.upper()}; it has {', '.join(map(repr, names))}")
    return is_wide(fmt), FORMATS[fmt].dtype


@cache
def _accepted_scales(kind: str | None) -> tuple[tuple[str, int], ...]:
    return tuple(dict.fromkeys(pair for (_, name), rows in STEPS.items() if name == kind for row in rows for pair in row.scales))


def prepare(
    codes: NDArray[Any],
    fmt: str,
    *,
    role: Literal["a", "b"],
    kind: str | None,
    other: str | None = None,
    negate: bool = False,
    scales: NDArray[np.uint8] | None = None,
    scale: str | None = None,
    block: int | None = None,
    metadata: NDArray[np.uint8] | None = None,
    sparse: bool = False,
) -> Prepared:
    """Make an operand ready for `mma_prepared`.

    Parameters
    ----------
    codes : [rows, k] raw element codes, right-aligned, in an unsigned dtype and with any strides; bits above the type's own are ignored
    fmt : the element type
    role : "a" (rows are M) or "b" (rows are N)
    kind : the kind of tcgen05.mma; None for wgmma
    other : the type of the other operand, if it is another one
    negate : flip the sign of every element
    scales, scale, block : of block-scaled kinds: codes [rows, scales of a row] (uint8), their type, and how many elements of K one covers
        (of stored ones, if A is sparse)
    metadata : [rows, chunks] the 4-bit codes of a sparse operand, whose ``codes`` are the stored elements
    sparse : whether this operand is to be multiplied by a sparse one; only scales of a B need to know

    Examples
    --------
    >>> prepare(np.zeros((128, 16), np.uint16), "f16", role="a", kind="f16")
    Prepared(f16 A, 128 rows, k = 16)
    >>> metadata = np.full((128, 8), 0x4, np.uint8)
    >>> prepare(np.zeros((128, 16), np.uint16), "f16", role="a", kind="f16", metadata=metadata)
    Prepared(f16 A, 128 rows, k = 32, sparse)
    """
    wide, dtype = _check_format(fmt, kind, role)
    wide = wide or (other is not None and is_wide(other))
    if codes.dtype != dtype:
        if codes.dtype.kind != "u" or codes.dtype.itemsize < dtype.itemsize:
            raise NumericsError(f"{role.upper()} holds {fmt} codes: expected {dtype} or a wider unsigned dtype, got {codes.dtype}")
        codes = codes.astype(dtype)
    if codes.ndim != 2:
        raise NumericsError(f"{role.upper()}: expected [rows, k], got shape {codes.shape}")
    if negate and FORMATS[fmt].is_integer:
        raise NumericsError(f"{fmt} operands cannot be negated")
    grouped = kind in GROUPED
    if metadata is not None:
        stored, chunk = codes.shape[1], chunk_of(fmt, grouped)[0]
        if metadata.dtype != np.uint8:
            raise NumericsError(f"metadata: expected uint8, got {metadata.dtype}")
        check_codes(metadata, fmt, "mma_async" if kind else "sp")
        if stored % chunk:
            raise NumericsError(f"a sparse {role.upper()} stores {chunk} elements of every chunk; got k = {stored}")
        whole = codes.shape[0], stored * chunk_of(fmt, grouped)[1] // chunk
    else:
        whole = codes.shape
    given = _check_scales(kind, scales, scale, block, role, whole, 2 if sparse or metadata is not None else 1)
    return prepare_checked(codes, fmt, role, wide, grouped, negate, given, metadata, sparse)


def prepare_checked(
    codes: NDArray[Any],
    fmt: str,
    role: str,
    wide: bool,
    grouped: bool,
    negate: bool = False,
    scales: tuple[tuple[str, int], NDArray[np.uint8]] | None = None,
    metadata: NDArray[np.uint8] | None = None,
    sparse: bool = False,
) -> Prepared:
    """`prepare` for arguments that belong together: codes in the dtype of the type, and the scales with their type and block size."""
    stored, absent = codes.shape[1], None
    if metadata is not None:
        codes, absent = expand(codes, metadata, fmt, grouped)
    if scales is None:
        ready = _prepare_terms(codes, fmt, role, wide, negate, None)
    elif grouped:
        ready = _prepare_groups(codes, fmt, role, negate, *scales, 2 if sparse or absent is not None else 1)
    else:
        ready = _prepare_terms(codes, fmt, role, wide, negate, scales[0])
        ready.add_scales(scales[1])
    if absent is not None:
        ready.layout = layout_of(fmt, role, ready.k, stored, ready.wide, ready.scale, ready.groups)
        if not grouped:
            ready.forget(absent)
    return ready


def _prepare_terms(codes: NDArray[Any], fmt: str, role: str, wide: bool, negate: bool, scale: tuple[str, int] | None) -> Prepared:
    rows, k = codes.shape
    ready = Prepared(fmt, role, rows, k, wide, scale)
    fill(ready, codes, SIGN if negate else 0)
    return ready


def fill(ready: Prepared, codes: NDArray[Any], flip: int) -> None:
    """Prepare codes [rows, k] in the dtype of the type, with any strides, into an operand's memory; ``flip`` is XORed with the signs."""
    over_rows, over_k = codes.strides
    prepare_terms = preparer(ready.fmt, ready.wide, ready.role)
    if ready.role == "a":
        prepare_terms(address_of(codes), over_k, over_rows, ready.k, ready.rows, ready.padded, ready.address, flip)
    else:
        prepare_terms(address_of(codes), over_rows, over_k, ready.rows, ready.k, ready.padded, ready.address, flip)


def _prepare_groups(
    codes: NDArray[Any], fmt: str, role: str, negate: bool, scale: tuple[str, int], scales: NDArray[np.uint8], density: int
) -> Prepared:
    rows, k = codes.shape
    groups = k // (16 * density)
    ready = Prepared(fmt, role, rows, k, False, scale, groups)
    if codes.strides != (k, 1):
        codes = np.ascontiguousarray(codes)
    if scales.strides != (scales.shape[1], 1):
        scales = np.ascontiguousarray(scales)
    given = address_of(codes), address_of(scales), rows, k, groups, groups // scales.shape[1], ready.padded
    group_preparer(scale[0], role)(*given, ready.address, int(negate))
    return ready


def _check_scales(
    kind: str | None, scales: Any, scale: str | None, block: int | None, role: str, shape: tuple[int, ...], density: int
) -> tuple[tuple[str, int], NDArray[np.uint8]] | None:
    accepted = _accepted_scales(kind)
    if not accepted:
        if scales is not None or scale is not None or block is not None:
            raise NumericsError(f"kind {kind!r} is not block-scaled: expected scales=None, scale=None, block=None")
        return None
    pair = next((p for p in accepted if p == (scale, block)), None)
    if pair is None:
        offered = ", ".join(f"({name!r}, {size})" for name, size in accepted)
        raise NumericsError(f"kind {kind!r} takes (scale, block) of {offered}; got ({scale!r}, {block!r})")
    rows, count = shape[0], shape[1] // (pair[1] * density)
    if scales is None:
        raise NumericsError(f"kind {kind!r} is block-scaled: expected scales for {role.upper()}, uint8 [{rows}, {count}]")
    if scales.dtype != np.uint8 or scales.shape != (rows, count) or shape[1] % (pair[1] * density):
        raise NumericsError(f"scales of {role.upper()}: expected uint8 [{rows}, {count}], got {scales.dtype} {list(scales.shape)}")
    return pair, scales


@lru_cache(maxsize=1024)
def _step(arch: str, kind: str | None, d: str, a: Layout, b: Layout) -> Step:
    """The step on operands, which must fit each other."""
    step = find_step(arch, kind, a.fmt, b.fmt, d, a.stored)
    if a.role != "a" or b.role != "b":
        raise NumericsError(f"expected operands prepared for the roles 'a' and 'b', got {a.role!r} and {b.role!r}")
    if a.stored not in step.lengths or a.stored > step.k or a.k != b.k:
        raise NumericsError(f"one step of {a.fmt} x {b.fmt} takes k = {min(step.k, max(step.lengths))}; A has {a.k}, B has {b.k}")
    if a.wide != b.wide:
        raise NumericsError(f"operands of types {a.fmt} and {b.fmt} are prepared for each other: expected prepare(..., other=...)")
    if a.scale != b.scale or a.groups != b.groups or bool(step.scales) != bool(a.scale):
        raise NumericsError(f"operands are scaled differently: A by {a.scale}, B by {b.scale}")
    if a.stored != a.k and not step.sparse:
        raise NumericsError(f"arch {arch!r} has no sparse products")
    return step


def mma_prepared(
    kind: str | None,
    d: str,
    a: Prepared,
    b: Prepared,
    acc: NDArray[np.uint32],
    *,
    arch: str = "tcgen05",
    accumulate: bool,
    saturate: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    scale_input_d: int = 0,
) -> None:
    """One step on prepared operands, in place: ``acc[n, m] = sum over k of a[m, k] * b[n, k] + acc[n, m]``.

    Parameters
    ----------
    kind, d, arch : as for `mma`
    a, b : from `prepare`
    acc : [N, M] uint32 cells, contiguous along M; an f16 result is in the low half of its cell, the high half becomes 0
    accumulate : whether what ``acc`` holds is added (enable-input-d)
    saturate, negate_a, negate_b, scale_input_d : as for `mma`

    Examples
    --------
    >>> a = prepare(np.full((128, 16), 0x3C00, np.uint16), "f16", role="a", kind="f16")
    >>> b = prepare(np.full((8, 16), 0x4000, np.uint16), "f16", role="b", kind="f16")
    >>> cells = np.zeros((8, 128), np.uint32)
    >>> mma_prepared("f16", "f32", a, b, cells, accumulate=True)
    >>> float(cells.view(np.float32)[0, 0])
    32.0
    """
    step = _step(arch, kind, d, a.layout, b.layout)
    if saturate or negate_a or negate_b or scale_input_d:
        check_options(step, saturate, negate_a or negate_b, scale_input_d)
    run_step(step, a, b, acc, accumulate, saturate, negate_a != negate_b, scale_input_d)


def check_options(step: Step, saturate: bool, negate: bool, scale_input_d: int) -> None:
    """Refuse options that this step does not have."""
    if saturate and step.output != "s32":
        raise NumericsError(f"saturate belongs to s32 accumulators; this one is {step.d}")
    if negate and not step.negates:
        raise NumericsError("integer operands cannot be negated")
    if scale_input_d and not step.scaled_input:
        raise NumericsError("scale_input_d belongs to tcgen05 kinds f16 and tf32")
    if not 0 <= scale_input_d <= 15:
        raise NumericsError(f"scale_input_d is 0 to 15, got {scale_input_d}")


def run_step(
    step: Step, a: Prepared, b: Prepared, acc: NDArray[np.uint32], accumulate: bool, saturate: bool, negate: bool, scale_input_d: int
) -> None:
    """`mma_prepared` without the look-up: ``a`` gives the columns of ``acc``, all or with its padding, ``b`` the rows."""
    shape, strides, rows, padded = acc.shape, acc.strides, a.rows, a.padded
    if len(shape) != 2 or shape[0] != b.rows or shape[1] not in (rows, padded) or acc.dtype != _CELL or strides[1] != 4:
        raise NumericsError(
            f"acc: expected uint32 [{b.rows}, {rows}], contiguous along M, got {acc.dtype} {list(shape)} with strides {strides}"
        )
    option = SIGN if negate else 0
    if saturate and step.output == "s32":
        option = 1
    cells = acc
    if shape[1] != padded:
        cells = np.zeros((b.rows, padded), np.uint32)
        cells[:, :rows] = acc
        strides = cells.strides
    keep, last = -1 if accumulate else 0, a.groups or scale_input_d
    multiplier(step, a.wide)(address_of(cells), strides[0], padded, b.rows, a.k, a.address, b.address, keep, option, last)
    if cells is not acc:
        acc[...] = cells[:, :rows]
