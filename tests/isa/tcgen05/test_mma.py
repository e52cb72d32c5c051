"""tcgen05.mma in whole kernels: every layout, type, major-ness and swizzle, against products of small integers computed outside.

Operands are placed byte by byte with the address formulas of the canonical layouts, written out here once more; results of small integers
are exact, so that they need no model of the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from tests.isa.tcgen05.tcgen05_helpers import BASE, IMAGE, execute, random_state
from tests.sweep_helpers import one_in

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn, "u8": np.uint8, "s8": np.int8,
}  # fmt: skip
CONTAINER = {"f16": 2, "bf16": 2, "tf32": 4}
WIDTH = {"32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}
BITS = {"32B": 1, "64B": 2, "128B": 3}


def codes_of(values: np.ndarray, name: str) -> np.ndarray:
    found = np.ascontiguousarray(values.astype(DTYPES[name]))
    return found.view(f"u{found.dtype.itemsize}")


def swizzled(address: int, mode: str) -> int:
    """Table "swizzle" of the layouts: chunk c of row r."""
    row = address >> 7
    if mode == "128B_32B":
        return address ^ (row & 3) << 5
    return address ^ (row & ((1 << BITS[mode]) - 1)) << 4 if mode in BITS else address


@dataclass
class Operand:
    """How a matrix lies in shared memory."""

    swizzle: str
    transposed: bool
    start: int
    leading: int
    stride: int

    def place(self, row: int, byte: int, size: int, k: int) -> int:
        """Address of byte ``byte`` along k (K-major), or of element (row, k) of ``size`` bytes (MN-major)."""
        if not self.transposed:
            linear = self.start + row // 8 * self.stride
            if self.swizzle == "none":
                linear += row % 8 * 16 + byte // 16 * self.leading + byte % 16
            else:
                linear += row % 8 * WIDTH[self.swizzle] + byte
            return swizzled(linear, self.swizzle)
        at = row * size
        if self.swizzle == "none":
            linear = at % 16 + at // 16 * self.stride + k % 8 * 16 + k // 8 * self.leading
        else:
            width, lines = WIDTH[self.swizzle], 4 if self.swizzle == "128B_32B" else 8
            linear = at % width + at // width * self.leading + k % lines * width + k // lines * self.stride
        return swizzled(self.start + linear, self.swizzle)

    def descriptor(self) -> int:
        return int(SharedMemoryDescriptor(start=self.start, leading=self.leading, stride=self.stride, swizzle=self.swizzle))


def arrange(rng: np.random.Generator, name: str, rows: int, base: int, transposed: bool) -> Operand:
    """A random legal arrangement inside 40 KiB from ``base``."""
    size = CONTAINER.get(name, 1)
    k = 32 // size
    if transposed and size == 4:
        swizzle = "128B_32B"
    else:
        swizzle = str(rng.choice(["none", "32B", "64B", "128B"] + ([] if transposed else ["128B_32B"])))
    gap = 16 * int(rng.integers(0, 4))
    if swizzle == "none":
        if transposed:
            stride = 128 * -(-k // 8) + gap
            return Operand(swizzle, True, base + gap, 128, stride)
        return Operand(swizzle, False, base + gap, rows * 16 + gap, 128)
    width = WIDTH[swizzle]
    if not transposed:
        inside = 32 * int(rng.integers(0, width // 32))
        return Operand(swizzle, False, base + inside, 16, 8 * width * int(rng.integers(1, 2 if width == 128 else 3)))
    lines = 4 if swizzle == "128B_32B" else 8
    stride = width * lines
    return Operand(swizzle, True, base, stride * -(-k // lines), stride)


def write(image: np.ndarray, operand: Operand, codes: np.ndarray, name: str) -> None:
    """Put element codes [rows, k] into shared memory, one by one."""
    rows, count = codes.shape
    size = CONTAINER.get(name, 1)
    raw = codes.view(np.uint8).reshape(rows, count, -1)
    for row in range(rows):
        if name in ("e2m1", "e2m3", "e3m2"):
            width = 4 if name == "e2m1" else 6
            for slot in range(count // 16):
                word = sum(int(c) << (width * i) for i, c in enumerate(codes[row, 16 * slot : 16 * slot + 16]))
                packed = word.to_bytes(16, "little")[: 2 * width]
                for i, value in enumerate(packed):
                    image[operand.place(row, 16 * slot + i, 1, 0) - BASE] = value
            continue
        for k in range(count):
            for i in range(size):
                at = operand.place(row, k * size + i, size, k) if not operand.transposed else operand.place(row, 0, size, k) + i
                image[at - BASE] = raw[row, k, i]


def lanes_of(m: int, group: int, n_total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CTA, lane and column of every element of D: layouts A, B, D, F."""
    row, col = np.meshgrid(np.arange(m), np.arange(n_total), indexing="ij")
    if group == 2 and m == 256:
        return row // 128, row % 128, col
    if group == 2:
        return row // 64, row % 64 + 64 * (col >= n_total // 2), col % (n_total // 2)
    if m == 128:
        return 0 * row, row, col
    return 0 * row, 32 * (row // 16) + row % 16, col


TYPES = {
    "f16": [("f16", "f32"), ("bf16", "f32"), ("f16", "f16")],
    "tf32": [("tf32", "f32")],
    "f8f6f4": [("e4m3", "f32"), ("e5m2", "f32"), ("e2m3", "f32"), ("e3m2", "f32"), ("e2m1", "f32"), ("e4m3", "f16")],
    "i8": [("s8", "s32"), ("u8", "s32")],
}
SHAPES = {1: ((64, 8), (64, 144), (128, 16), (128, 80), (128, 256)), 2: ((128, 32), (128, 160), (256, 64), (256, 256))}
CASES = [
    (kind, i, group, j, tensor)
    for kind, t in TYPES.items()
    for i in range(len(t))
    for group in (1, 2)
    for j in range(3)
    for tensor in (0, 1)
]


@pytest.mark.parametrize(("kind", "which", "group", "seed", "in_tensor"), one_in(5, CASES))
def test_product(kind, which, group, seed, in_tensor):
    rng = np.random.default_rng([len(kind), which, group, seed, in_tensor])
    name, d = TYPES[kind][which]
    other = name
    if kind == "f8f6f4":
        other = str(rng.choice(["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]))
    if kind == "i8":
        other = str(rng.choice(["s8", "u8"]))
    m, n = SHAPES[group][int(rng.integers(len(SHAPES[group])))]
    if kind == "i8" and n == 80:
        n = 96
    k = 32 // CONTAINER.get(name, 1)
    six = ("e2m1", "e2m3", "e3m2")
    flip_a = not in_tensor and name not in six and bool(rng.integers(2))
    flip_b = other not in six and bool(rng.integers(2))
    if flip_b and CONTAINER.get(other, 1) == 1 and n % (16 * group):
        flip_b = False
    negate_a, negate_b = (bool(rng.integers(2)) and kind != "i8" for _ in range(2))
    low = {"u8": 0}.get(name, -2)
    a = rng.integers(low, 3, (m, k)).astype(np.float64)
    b = rng.integers({"u8": 0}.get(other, -2), 3, (n, k)).astype(np.float64)
    c = rng.integers(-50, 50, (m, n)).astype(np.float64)
    image, before = random_state(rng, group)
    ops = []
    for matrix, element, base, flip in ((a, name, BASE, flip_a), (b, other, BASE + 65536, flip_b)):
        own = len(matrix) // group
        operand = arrange(rng, element, own, base, flip)
        for cta in range(group):
            write(image[cta], operand, codes_of(matrix[cta * own : (cta + 1) * own], element), element)
        ops.append(operand)
    column = 8 * int(rng.integers(0, (512 - n) // 8 - 1))
    lane = 16 * int(rng.integers(0, 2)) if m == 64 else 0
    cta, at, col = lanes_of(m, group, n)
    if kind == "i8":
        bits_c = c.astype(np.int32).view(np.uint32)
    elif d == "f16":
        bits_c = c.astype(np.float16).view(np.uint16) | np.uint32(0xABCD0000)
    else:
        bits_c = c.astype(np.float32).view(np.uint32)
    before[cta, column + col, at + lane] = bits_c
    a_column = 0 if column >= 16 else 500
    if in_tensor:
        raw = codes_of(a, name)
        if name == "e2m1":
            raw = raw << 2
        cells = np.ascontiguousarray(raw).view(np.uint32)
        for row in range(m):
            copies = (0, 64) if m == 128 and group == 2 else (0,)
            for copy in copies:
                before[cta[row, 0], a_column : a_column + 8, at[row, 0] + lane + copy] = cells[row]
    enable = bool(rng.integers(2))
    scale = int(rng.integers(0, 4)) if kind in ("f16", "tf32") and rng.random() < 0.3 else None
    masked = rng.random() < 0.4
    words = [int(w) for w in rng.integers(0, 1 << 32, 8)] if masked else [0] * 8
    idesc = InstructionDescriptor(
        kind=kind, m=m, n=n, a=name, b=other, d=d, transpose_a=flip_a, transpose_b=flip_b, negate_a=negate_a, negate_b=negate_b
    )
    source = "[at]" if in_tensor else "ad"
    mask = "{" + ", ".join(f"m{i}" for i in range(4 * group)) + "}, " if masked else ""
    tail = f", {scale}" if scale is not None else ""
    instruction = f"tcgen05.mma.cta_group::{group}.kind::{kind} [da], {source}, bd, id, {mask}e{tail}"
    after = execute(
        instruction,
        image,
        before,
        a=(lane << 16) + a_column if in_tensor else ops[0].descriptor(),
        b=ops[1].descriptor(),
        idesc=int(idesc),
        d=(lane << 16) + column,
        enable=enable,
        mask=tuple(words),
        group=group,
        policy=str(rng.choice(["eager", "lazy"])),
    )
    product = a @ b.T * (-1 if negate_a != negate_b else 1)
    total = product + (c * 2.0 ** -(scale or 0) if enable else 0)
    if kind == "i8":
        bits = total.astype(np.int64).astype(np.uint32)
    elif d == "f16":
        bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        bits = total.astype(np.float32).view(np.uint32)
    if kind != "i8":
        bits = np.where(total == 0, np.uint32(0), bits)
    expected = before.copy()
    kept = np.unpackbits(np.array(words, np.uint32).view(np.uint8), bitorder="little").astype(bool)
    write_it = ~kept[128 * cta + at + lane]
    expected[cta[write_it], (column + col)[write_it], (at + lane)[write_it]] = bits[write_it]
    wrong = np.argwhere(after != expected)
    assert not len(wrong), (len(wrong), wrong[:5], m, n, ops, hex(int(idesc)))


@pytest.mark.parametrize("group", [1, 2])
def test_wild_values_equal_the_numerics_package(group):
    """Random bits, special values among them: the machine adds nothing of its own to the arithmetic."""
    rng = np.random.default_rng(group)
    m, n = 128 * group, 64
    image, before = random_state(rng, group)
    a, b = rng.integers(0, 1 << 16, (m, 16), np.uint16), rng.integers(0, 1 << 16, (n, 16), np.uint16)
    for cta in range(group):
        for base, matrix in ((BASE, a), (BASE + 65536, b)):
            own = len(matrix) // group
            write(image[cta], Operand("128B", False, base, 16, 1024), matrix[cta * own : (cta + 1) * own], "f16")
    idesc = InstructionDescriptor(kind="f16", m=m, n=n, a="f16", b="f16", d="f32")
    descriptors = [Operand("128B", False, base, 16, 1024).descriptor() for base in (BASE, BASE + 65536)]
    text = f"tcgen05.mma.cta_group::{group}.kind::f16.collector::a::fill [da], ad, bd, id, e"
    after = execute(text, image, before, a=descriptors[0], b=descriptors[1], idesc=int(idesc), d=32, group=group)
    cta, at, col = lanes_of(m, group, n)
    c = before[cta, 32 + col, at]
    expected = numerics.mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=a, B=b, C=c)
    assert np.array_equal(after[cta, 32 + col, at], expected)


def test_image_holds_the_largest_operand():
    assert IMAGE >= 2 * 65536
