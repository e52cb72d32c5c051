"""Block-scaled and sparse tcgen05.mma in whole kernels, against products of small numbers computed outside.

Scale factors and metadata are placed cell by cell with the formulas of the figures, written out here once more.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ptxlab.descriptors import InstructionDescriptor
from tests.isa.tcgen05.tcgen05_helpers import BASE, execute, random_state
from tests.isa.tcgen05.test_mma import Operand, arrange, codes_of, lanes_of, write
from tests.sweep_helpers import one_in

SCALES = {
    ("mxf8f6f4", ""): ("ue8m0", 1),
    ("mxf8f6f4", ".scale_vec::1X"): ("ue8m0", 1),
    ("mxf8f6f4", ".block32"): ("ue8m0", 1),
    ("mxf4", ""): ("ue8m0", 2),
    ("mxf4", ".block32"): ("ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::2X"): ("ue8m0", 2),
    ("mxf4nvf4", ".block32"): ("ue8m0", 2),
    ("mxf4nvf4", ".block16"): ("ue4m3", 4),
    ("mxf4nvf4", ".scale_vec::4X"): ("ue8m0", 4),
}
STORED = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64, "f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
CASES = [(kind, vector, group, sparse, tensor) for kind, vector in SCALES for group in (1, 2) for sparse in (0, 1) for tensor in (0, 1)]
PAIRS = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3), 6: (2, 1)}


def factor_codes(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Codes and values."""
    if name == "ue8m0":
        codes = rng.integers(125, 130, shape).astype(np.uint8)
        return codes, 2.0 ** (codes.astype(np.float64) - 127)
    values = rng.choice([0.5, 1.0, 1.5, 2.0], shape)
    return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), values


def place_factors(cells: np.ndarray, column: int, codes: np.ndarray, first: int, split: bool) -> None:
    """Write scale factors [rows, scales] into tensor memory [column, lane]; ``first`` is the scale factor ID."""
    rows, scales = codes.shape
    view = cells.view(np.uint8).reshape(512, 128, 4)
    part = rows // 2 if split else rows
    for row in range(rows):
        half, inside = divmod(row, part)
        quadrants = (2 * half, 2 * half + 1) if split else (0, 1, 2, 3)
        for j in range(scales):
            byte = first + j
            for quadrant in quadrants:
                view[column + byte // 4 * 4 * -(-part // 128) + inside // 32, inside % 32 + 32 * quadrant, byte % 4] = codes[row, j]


def sparse_rows(rng: np.random.Generator, kind: str, m: int, stored: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes of every chunk [m, chunks], and the position in the whole K of every stored element [m, stored]."""
    if kind == "tf32":
        codes = rng.choice([4, 14], (m, stored))
        return codes, 2 * np.arange(stored) + (codes == 14)
    together = 2 if kind in ("mxf4", "mxf4nvf4") else 1
    codes = rng.choice(list(PAIRS), (m, stored // (2 * together)))
    pairs = np.array([PAIRS.get(c, (0, 0)) for c in range(16)])[codes]
    chunk = np.arange(codes.shape[1])[None, :, None, None] * 4 * together
    position = chunk + pairs[..., None] * together + np.arange(together)
    return codes, position.reshape(m, stored)


def place_metadata(cells: np.ndarray, column: int, kind: str, codes: np.ndarray, lane_of: np.ndarray, selector: int) -> None:
    for row, chunks in enumerate(codes):
        p = int(lane_of[row])
        for c, code in enumerate(chunks):
            if kind in ("f16", "tf32"):
                lane, at, bit = (
                    32 * (p // 32) + p % 8 + 16 * (p % 32 // 16) + 8 * (c // 4),
                    column + selector,
                    16 * (p % 16 // 8) + 4 * (c % 4),
                )
            else:
                lane, at, bit = p, column + c // 8, 4 * (c % 8)
            cells[at, lane] = cells[at, lane] & ~np.uint32(15 << bit) | np.uint32(int(code) << bit)


def packed(codes: np.ndarray) -> np.ndarray:
    return codes[:, ::2] | codes[:, 1::2] << 4


def run(kind, vector, group, sparse, in_tensor, m, n, rng, scales=None, k96=False):
    """Run one instruction of small numbers; what comes out, and what should."""
    name, other, d = {"f16": ("f16",) * 2 + ("f32",), "tf32": ("tf32",) * 2 + ("f32",), "i8": ("s8", "u8", "s32")}.get(
        kind, ("e2m1",) * 2 + ("f32",)
    )
    if kind in ("mxf8f6f4", "f8f6f4"):
        name, other = (str(rng.choice(["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])) for _ in range(2))
    stored = 96 if k96 else STORED[kind]
    k = stored * (2 if sparse else 1)
    whole_b = rng.integers(0 if other == "u8" else -2, 3, (n, k)).astype(np.float64)
    few = rng.integers(-2, 3, (m, stored)).astype(np.float64)
    codes_meta, position = sparse_rows(rng, kind, m, stored) if sparse else (None, np.broadcast_to(np.arange(stored), (m, stored)))
    whole_a = np.zeros((m, k))
    np.put_along_axis(whole_a, position, few, axis=1)
    image, before = random_state(rng, group)
    half = kind in ("mxf4", "mxf4nvf4")
    ops = []
    for matrix, element, base in ((few, name, BASE), (whole_b, other, BASE + 65536)):
        own = len(matrix) // group
        codes = codes_of(matrix, element)
        element, codes = ("u8", packed(codes)) if half else (element, codes)
        operand = arrange(rng, element, own, base, False)
        if k96:
            operand = Operand("128B", False, base, 16, 1024)
        while (
            sparse
            and base > BASE
            and (operand.swizzle == "32B" or operand.start % 128 > 64 or (operand.swizzle == "64B" and operand.start % 64))
        ):
            operand = arrange(rng, element, own, base, False)
        if operand.swizzle == "none":
            operand.leading = own * 16 + 128
            operand.stride = 128
        for cta in range(group):
            write(image[cta], operand, codes[cta * own : (cta + 1) * own], element)
        ops.append(operand)
    row, col = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    cta, at, column = lanes_of(m, group, n)
    if sparse and group == 2 and m == 128:
        cta, at, column = row // 64, 32 * (row % 64 // 16) + row % 16, col
    lane = 16 * int(rng.integers(0, 2)) if at.max() == 111 else 0
    at = at + lane
    c = rng.integers(-50, 50, (m, n)).astype(np.float64)
    before[cta, 16 + column, at] = c.astype(np.int32).view(np.uint32) if d == "s32" else c.astype(np.float32).view(np.uint32)
    words = [0] * 8
    a_value, b_value, options = np.ones((m, k)), np.ones((n, k)), {}
    if scales is not None:
        scale, count = scales
        ids = [int(rng.choice({1: [0, 1, 2, 3], 2: [0, 2], 4: [0], 3: [0, 1, 2, 3], 6: [0, 2]}[count])) for _ in range(2)]
        (codes_a, values_a), (codes_b, values_b) = factor_codes(rng, scale, (m, count)), factor_codes(rng, scale, (n, count))
        for rank in range(group):
            place_factors(before[rank], 300, codes_a[rank * m // group : (rank + 1) * m // group], ids[0], False)
            place_factors(before[rank], 320, codes_b, ids[1], m == 128 and group == 2)
        a_value, b_value = np.repeat(values_a, k // count, axis=1), np.repeat(values_b, k // count, axis=1)
        words[:2] = [300, 320]
        options = {"k96": k96, "scale": scale, "scale_a_id": ids[0], "scale_b_id": ids[1]}
    selector = int(rng.integers(2)) if kind in ("f16", "tf32") else 0
    if sparse:
        for rank in range(group):
            mine = cta[:, 0] == rank
            place_metadata(before[rank], 340, kind, codes_meta[mine], at[mine, 0], selector)
        words[2] = (lane << 16) + 340
        options |= {"sparse": True, "selector": selector}
    if in_tensor:
        raw = codes_of(few, name)
        raw = packed(raw) if half else raw << 2 if name == "e2m1" else raw
        cells = np.ascontiguousarray(raw).view(np.uint32)
        banked = m == 128 and group == 2 and not sparse
        for copy in (0, 64) if banked else (0,):
            before[cta[:, 0, None], 360 + np.arange(cells.shape[1])[None, :], at[:, 0, None] % (64 if banked else 128) + copy] = cells
    idesc = InstructionDescriptor(kind=kind, m=m, n=n, a=name, b=other, d=d, **options)
    factors = "[m0], [m1], " if scales is not None else ""
    block = f".block_scale{vector}" if scales is not None else ""
    meta = "[m2], " if sparse else ""
    source = "[at]" if in_tensor else "ad"
    after = execute(
        f"tcgen05.mma{'.sp' if sparse else ''}.cta_group::{group}.kind::{kind}{block} [da], {source}, bd, {meta}id, {factors}e",
        image,
        before,
        a=(lane << 16) + 360 if in_tensor else ops[0].descriptor(),
        b=ops[1].descriptor(),
        idesc=int(idesc),
        d=(lane << 16) + 16,
        mask=tuple(words),
        group=group,
        target="sm_103a" if k96 else "sm_100a",
        policy=str(rng.choice(["eager", "lazy"])),
    )
    total = (whole_a * a_value) @ (whole_b * b_value).T + c
    bits = (
        total.astype(np.int64).astype(np.uint32)
        if d == "s32"
        else np.where(total == 0, np.uint32(0), total.astype(np.float32).view(np.uint32))
    )
    expected = before.copy()
    expected[cta, 16 + column, at] = bits
    return after, expected


@pytest.mark.parametrize(("kind", "vector", "group", "sparse", "in_tensor"), one_in(10, CASES))
def test_block_scaling(kind, vector, group, sparse, in_tensor):
    rng = np.random.default_rng([len(kind), len(vector), group, sparse, in_tensor])
    m = int(rng.choice([256] if sparse else [128, 256])) if group == 2 else 128
    n = int(rng.choice([32, 96, 160, 256]))
    after, expected = run(kind, vector, group, sparse, in_tensor, m, n, rng, SCALES[kind, vector])
    wrong = np.argwhere(after != expected)
    assert not len(wrong), (len(wrong), wrong[:5], m, n)


@pytest.mark.parametrize("kind", one_in(2, ["f16", "tf32", "f8f6f4", "i8"]))
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("in_tensor", [0, 1])
def test_sparse(kind, group, in_tensor):
    rng = np.random.default_rng([len(kind), group, in_tensor])
    for m in (64, 128) if group == 1 else (128, 256):
        after, expected = run(kind, "", group, True, in_tensor, m, int(rng.choice([32, 96, 160])), rng)
        wrong = np.argwhere(after != expected)
        assert not len(wrong), (len(wrong), wrong[:5], m)


@pytest.mark.parametrize(("kind", "vector", "count", "scale"), [("mxf4", ".block32", 3, "ue8m0"), ("mxf4nvf4", ".block16", 6, "ue4m3")])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("in_tensor", [0, 1])
def test_k_of_96(kind, vector, count, scale, group, in_tensor):
    rng = np.random.default_rng([count, group, in_tensor])
    after, expected = run(kind, vector, group, False, in_tensor, 128 * group, 96, rng, (scale, count), k96=True)
    wrong = np.argwhere(after != expected)
    assert not len(wrong), (len(wrong), wrong[:5])
