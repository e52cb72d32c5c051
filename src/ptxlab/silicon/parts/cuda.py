"""Whole kernels in CUDA C++: sources and PTX are in the folder ``sources``.

The PTX is what nvcc 13.0 gives for one target, with ``--fmad=false``: a mul and an add stay two instructions. Every target of a source
takes it with first lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS
from ptxlab.silicon._case import STYLES, Array, Case, TensorMap, codes, head
from ptxlab.tables import TENSOR_MEMORY_TARGETS

__all__ = ["COMPILED_FOR", "body", "cuda"]

SOURCES = Path(__file__).parents[1] / "sources"
COMPILED_FOR = {
    SOURCES / f"{name}.cu": "sm_90a" if name == "wgmma_gemm" else "sm_100a" for name in ("rows", "mma_gemm", "wgmma_gemm", "tcgen05_gemm")
}
"""Source -> the target that its PTX was compiled for."""
_HEADER = SOURCES / "ptx.cuh"
_MAP_TYPES = {"bf16": 9, "tf32": 7, "f32": 7}
"""The driver's numbers; other elements are bytes."""
_SWIZZLE_128B = 3
_MODERATE, _SPECIAL, _CANCELLING, _WIDE = (STYLES.index(style) for style in ("moderate", "special", "cancelling", "wide exponents"))
_SHOWN_STYLES = (_MODERATE, _SPECIAL, _CANCELLING)
_COPIES = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
)


def body(text: str) -> str:
    """What follows the first lines of a module."""
    return text.partition(".address_size 64\n")[2]


@cache
def _module(name: str, target: str) -> str:
    return head(target) + body((SOURCES / f"{name}.ptx").read_text())


def _matrix(name: str, fmt: str, rows: int, columns: int, style: int, axes: tuple[str, str]) -> Array:
    def made(style: int) -> NDArray[Any]:
        raw = codes(fmt, rows * columns, style, name == "A", *name.encode()).reshape(rows, columns)
        return raw << np.uint32(13) if fmt == "tf32" else raw

    found = made(_MODERATE if style == _SPECIAL else style)
    if style == _SPECIAL:
        # A special value makes its whole row or column of D special: one element in half of the rows may be one.
        at = np.arange(0, rows, 2)
        found[at, at % columns] = made(_SPECIAL)[at, at % columns]
    return Array(name, found, axes)


def _case(
    source: str,
    entry: str,
    what: str,
    target: str,
    arrays: tuple[Sequence[Array], Sequence[Array]],
    opcodes: tuple[str, ...],
    *,
    grid: int,
    block: int,
    maps: Sequence[TensorMap] = (),
    shared_bytes: int = 0,
) -> Case:
    sources = (SOURCES / f"{source}.cu", *([_HEADER] if maps else []))
    name, (inputs, outputs) = f"{source}.cu, {entry}{what and f', {what}'}", arrays
    text = _module(source, target)
    return Case(
        name, text, grid, block, tuple(inputs), tuple(outputs), opcodes,
        shared_bytes=shared_bytes, maps=tuple(maps), entry=entry, sources=sources,
    )  # fmt: skip


def _map(array: int, fmt: str, matrix: Array, box: tuple[int, int], swizzle: int = _SWIZZLE_128B) -> TensorMap:
    rows, columns = matrix.data.shape
    call: dict[str, Any] = {"data_type": _MAP_TYPES.get(fmt, 0), "rank": 2, "dims": [columns, rows], "box": [*box]}
    call |= {"strides": [columns * matrix.data.dtype.itemsize], "element_strides": [1, 1]}
    return TensorMap(array, call | {"interleave": 0, "swizzle": swizzle, "l2_promotion": 2, "oob_fill": 0})


def _rows(target: str) -> Iterator[Case]:
    rows, columns = 8, 1024
    for style in (_MODERATE, _WIDE):
        x = Array("x", codes("f32", rows * columns, style, False, 1).reshape(rows, columns), ("row", "column"))
        result = Array.zeros("y", (rows, columns), ("row", "column"))
        opcodes: tuple[str, ...] = ("ex2.approx.ftz.f32", "div.approx.f32", "div.rn.f32", "shfl.sync.bfly.b32")
        yield _case("rows", "softmax", STYLES[style], target, ([x], [result]), opcodes, grid=rows, block=256)
        outputs = [Array.zeros("codes", (rows, columns), ("row", "column"), np.uint8), Array.zeros("scales", (rows,), ("row",))]
        opcodes = ("cvt.rn.satfinite.e4m3x2.f32", "rcp.rn.f32", "shfl.sync.bfly.b32")
        yield _case("rows", "quantise", STYLES[style], target, ([x], outputs), opcodes, grid=rows, block=256)
    x = Array("x", codes("f32", rows * columns, 0, False, 2).reshape(rows, columns), ("row", "column"))
    outputs = [Array.zeros("found", (rows, columns), ("row", "column")), Array.zeros("histogram", (16,), ("value",))]
    opcodes = ("vote.sync.ballot.b32", "popc.b32")
    yield _case("rows", "select_odd", "", target, ([x], outputs), opcodes, grid=rows, block=256)


def _mma(target: str) -> Iterator[Case]:
    rows, size = 96, 160
    for entry, b, opcode in (
        ("bf16", "bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("tf32", "tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
        ("f16", "f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"),
        ("e4m3", "e5m2", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"),
        ("s8", "u8", "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32"),
    ):
        bits = FORMATS[entry].dtype.itemsize
        more = ("stmatrix.sync.aligned.m8n8.x2.shared.b16",) if entry == "f16" else ()
        for style in _SHOWN_STYLES:
            a = _matrix("A", entry, rows, size // bits, style, ("row", "k"))
            inputs = [a, _matrix("B", b, rows, size // bits, style, ("column", "k"))]
            d = Array.zeros("D", (rows, rows), ("row", "column"), np.uint16 if entry == "f16" else np.uint32)
            opcodes = (opcode, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "cp.async.cg.shared.global", *more)
            yield _case("mma_gemm", f"gemm_{entry}", STYLES[style], target, (inputs, [d]), opcodes, grid=4, block=128)


def _wgmma(target: str) -> Iterator[Case]:
    steps, n = 5, 64
    for entry, b, opcode in (
        ("bf16", "bf16", "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"),
        ("tf32", "tf32", "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32"),
        ("e4m3", "e5m2", "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e5m2"),
        ("s8", "u8", "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.u8.satfinite"),
    ):
        elements = 128 // FORMATS[entry].dtype.itemsize
        for style in _SHOWN_STYLES:
            inputs = [
                _matrix("A", entry, 2 * n, steps * elements, style, ("row", "k")),
                _matrix("B", b, n, steps * elements, style, ("column", "k")),
            ]
            maps = [_map(0, entry, inputs[0], (elements, n)), _map(1, b, inputs[1], (elements, n // 2))]
            d = Array.zeros("D", (2 * n, n), ("row", "column"))
            opcodes = (opcode, *_COPIES, f"{_COPIES[0]}.multicast::cluster")
            arrays = (inputs, [d])
            yield _case(
                "wgmma_gemm", f"gemm_{entry}", STYLES[style], target, arrays, opcodes,
                grid=2, block=256, maps=maps, shared_bytes=3 * (8192 + 8192) + 48,
            )  # fmt: skip


def _tcgen05(target: str) -> Iterator[Case]:
    steps, m, n, tiles = 3, 256, 64, 3
    for entry, a, b, kind in (
        ("gemm_bf16", "bf16", "bf16", "f16"),
        ("gemm_e4m3", "e4m3", "e5m2", "f8f6f4"),
        ("gemm_mxf8", "e4m3", "e4m3", "mxf8f6f4.block_scale.scale_vec::1X"),
        ("pair_bf16", "bf16", "bf16", "f16"),
        ("pair_e4m3", "e4m3", "e5m2", "f8f6f4"),
    ):
        group = 2 if entry.startswith("pair") else 1
        elements = 128 // FORMATS[a].dtype.itemsize
        for style in _SHOWN_STYLES:
            inputs = [
                _matrix("A", a, m, steps * elements, style, ("row", "k")),
                _matrix("B", b, n * tiles, steps * elements, style, ("column", "k")),
                _matrix("scale factors of A", "ue8m0", 2 * steps, 512, _MODERATE, ("tile", "byte")),
                _matrix("scale factors of B", "ue8m0", tiles * steps, 512, _MODERATE, ("tile", "byte")),
            ]
            d = Array.zeros("D", (m, n * tiles), ("row", "column"))
            maps = [_map(0, a, inputs[0], (elements, 128)), _map(1, b, inputs[1], (elements, n // group)), _map(4, "f32", d, (n, 128), 0)]
            opcodes = (
                f"tcgen05.mma.cta_group::{group}.kind::{kind}",
                "tcgen05.ld.sync.aligned.32x32b.x4.b32",
                f"{_COPIES[0]}.cta_group::{group}",
                "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
                *(["tcgen05.cp.cta_group::1.32x128b.warpx4"] if "scale" in kind else []),
                *_COPIES[1:],
            )
            yield _case(
                "tcgen05_gemm", entry, STYLES[style], target, (inputs, [d]), opcodes,
                grid=2, block=192, maps=maps, shared_bytes=109_656,
            )  # fmt: skip


def cuda(target: str) -> Iterator[Case]:
    """The kernels that a target has, in several styles of numbers."""
    yield from _rows(target)
    yield from _mma(target)
    if target == "sm_90a":
        yield from _wgmma(target)
    if target in TENSOR_MEMORY_TARGETS:
        yield from _tcgen05(target)
