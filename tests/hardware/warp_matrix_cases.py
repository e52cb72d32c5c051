"""What `record_warp_matrix` runs: mma.sync and mma.sp in the forms that sm_90a has, ldmatrix and stmatrix.

A case is what the registers of the 32 threads (or shared memory) hold before and after one instruction: nothing here knows which matrix
element a register is. Inputs are cut from pools that the recording carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import wgmma_cases as wild

__all__ = ["FORMS", "MOVES", "TILES", "Move", "Product", "inputs", "kernel", "module", "move_inputs", "move_kernel", "product_inputs"]

U32 = NDArray[np.uint32]
TILES = 4
BITS = {"f64": 64, "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
ACCUMULATOR = {"f64": 64, "f32": 32, "f16": 16, "s32": 32}
ORDERED = (4, 8, 9, 12, 13, 14)
ANY_ORDER = (*ORDERED, 1, 2, 3, 6, 7, 11)
MOST = 16
"""Words of the largest operand of a thread."""


@dataclass(frozen=True)
class Product:
    """One mma. ``sparse`` is "", "sp" or "sp::ordered_metadata"."""

    shape: str
    d: str
    a: str
    b: str
    c: str
    layouts: str = "row.col"
    suffix: str = ""
    sparse: str = ""
    selector: int = 0
    satfinite: bool = False

    def __str__(self) -> str:
        return self.opcode + (f"#{self.selector}" if self.sparse else "")

    @property
    def opcode(self) -> str:
        name = f"mma.{self.sparse}." if self.sparse else "mma."
        saturate = ".satfinite" if self.satfinite else ""
        return f"{name}sync.aligned.{self.shape}.{self.layouts}{saturate}.{self.d}.{self.a}.{self.b}.{self.c}{self.suffix}"

    def words(self) -> dict[str, int]:
        """32-bit words of each operand in a thread."""
        m, n, k = (int(x) for x in re.findall(r"\d+", self.shape))
        # Four products side by side.
        copies = 4 if self.shape == "m8n8k4" and self.a == "f16" else 1
        stored = k // 2 if self.sparse else k
        bits = {
            "a": m * stored * BITS[self.a],
            "b": n * k * BITS[self.b],
            "c": m * n * ACCUMULATOR[self.c],
            "d": m * n * ACCUMULATOR[self.d],
        }
        return {name: copies * size // 1024 for name, size in bits.items()}

    def type(self, operand: str) -> str:
        return {"a": self.a, "b": self.b, "c": self.c, "d": self.d}[operand]


def _dense() -> Iterator[Product]:
    for layouts in ("row.row", "row.col", "col.row", "col.col"):
        for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
            yield Product("m8n8k4", d, "f16", "f16", c, layouts)
    for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
        for rounding in ("", ".rn", ".rz", ".rm", ".rp"):
            yield Product(shape, "f64", "f64", "f64", "f64", suffix=rounding)
    for bits, shapes in ((8, ("m8n8k16", "m16n8k16", "m16n8k32")), (4, ("m8n8k32", "m16n8k32", "m16n8k64"))):
        for shape in shapes:
            for a, b in _signs(bits):
                for satfinite in (False, True):
                    yield Product(shape, "s32", a, b, "s32", satfinite=satfinite)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        for operation in ("xor", "and"):
            yield Product(shape, "s32", "b1", "b1", "s32", suffix=f".{operation}.popc")
    for a in ("e4m3", "e5m2"):
        for b in ("e4m3", "e5m2"):
            yield Product("m16n8k32", "f32", a, b, "f32")


def _signs(bits: int) -> Iterator[tuple[str, str]]:
    for a in "su":
        for b in "su":
            yield f"{a}{bits}", f"{b}{bits}"


def _sparse() -> Iterator[Product]:
    for variant in ("sp", "sp::ordered_metadata"):
        for shape, selectors in (("m16n8k16", 4), ("m16n8k32", 2)):
            for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16")):
                for selector in range(selectors):
                    yield Product(shape, d, a, a, d, sparse=variant, selector=selector)
        for shape, selectors in (("m16n8k8", 4), ("m16n8k16", 2)):
            for selector in range(selectors):
                yield Product(shape, "f32", "tf32", "tf32", "f32", sparse=variant, selector=selector)
        for bits, shapes in ((8, ("m16n8k32", "m16n8k64")), (4, ("m16n8k64", "m16n8k128"))):
            for shape, selectors in zip(shapes, (2, 1), strict=True):
                for a, b in _signs(bits):
                    for selector in range(selectors):
                        yield Product(shape, "s32", a, b, "s32", sparse=variant, selector=selector, satfinite=a == b)
        for a in ("e4m3", "e5m2"):
            for b in ("e4m3", "e5m2"):
                yield Product("m16n8k64", "f32", a, b, "f32", sparse=variant)


FORMS = [*_dense(), *_sparse()]


def _doubles(rng: np.random.Generator, count: int, case: int) -> U32:
    """Numbers close together, everything, subnormal ones, and whole numbers that cancel."""
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    fraction = bits & np.uint64(0x800FFFFFFFFFFFFF)
    exponent = {0: 1020 + rng.integers(0, 8, count), 1: rng.integers(0, 2047, count), 2: rng.integers(480, 560, count)}.get(case)
    if exponent is None:
        return rng.integers(-8, 9, count).astype(np.float64).view(np.uint32)
    found = fraction | exponent.astype(np.uint64) << np.uint64(52)
    special = rng.random(count) < (0.02 if case == 1 else 0)
    found = np.where(special, found | np.uint64(0x7FF << 52), found)
    found = np.where(rng.random(count) < 0.05, found & np.uint64(1 << 63), found)
    return found.view(np.uint32)


def _words(rng: np.random.Generator, fmt: str, count: int, case: int) -> U32:
    if fmt == "f64":
        return _doubles(rng, count // 2, case)
    if fmt in ("s4", "u4", "b1"):
        return rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    codes = wild._codes(rng, fmt, (1, 32 * count // wild.BITS.get(fmt, 32)), case)
    return np.ascontiguousarray(codes).view(np.uint32)[0]


def inputs() -> dict[str, U32]:
    """The pools: uint32[tile, thread, word] for each type of A and B, of C, and for the metadata."""
    rng = np.random.default_rng(61)
    shape = (TILES, 32, MOST)
    pools: dict[str, U32] = {}
    for fmt in BITS:
        for side in "AB":
            pools[f"{side}/{fmt}"] = np.stack([_words(rng, fmt, 32 * MOST, case) for case in range(TILES)]).reshape(shape)
    for fmt in ("f64", "f32"):
        pools[f"C/{fmt}"] = np.stack([_words(rng, fmt, 32 * MOST, case) for case in range(TILES)]).reshape(shape)
    pools["C/f16"] = np.stack([_words(rng, "f16", 32 * MOST, case) for case in range(TILES)]).reshape(shape)
    edges = rng.choice([0, 1 << 31, (1 << 31) - 1], shape) + rng.integers(-90000, 90000, shape)
    pools["C/s32"] = edges.astype(np.int64).astype(np.uint32)
    for name, codes in (("ordered", ORDERED), ("any", ANY_ORDER), ("tf32", (4, 14))):
        nibbles = rng.choice(codes, (TILES, 32, 8)).astype(np.uint32)
        pools[f"E/{name}"] = (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(axis=2, dtype=np.uint32)[..., None]
    return pools


def product_inputs(form: Product, pools: Mapping[str, U32]) -> list[U32]:
    """A, B, C and metadata: uint32[tile, thread, word]."""
    words = form.words()
    kind = "tf32" if form.a == "tf32" else "ordered" if "ordered" in form.sparse else "any"
    found = [np.ascontiguousarray(pools[f"{side}/{form.type(side.lower())}"][:, :, : words[side.lower()]]) for side in "ABC"]
    return [*found, pools[f"E/{kind}"]]


def _registers(form: Product, operand: str) -> tuple[list[str], str]:
    """Names of the registers of an operand, and their type."""
    double = form.type(operand) == "f64"
    kind = "f64" if double else "f32" if operand in "cd" and form.type(operand) == "f32" else "b32"
    prefix = {"f64": "w", "f32": "f", "b32": "r"}[kind]
    return [f"%{operand}{prefix}{i}" for i in range(form.words()[operand] // (1 + double))], kind


def kernel(name: str, form: Product) -> str:
    """One warp for each tile; every thread brings its registers."""
    lines = []
    for operand in "abc":
        registers, kind = _registers(form, operand)
        lines.append(f"ld.param.u64 %p, [{operand}]; mad.wide.u32 %p, %t, {4 * form.words()[operand]}, %p;")
        lines += [f"ld.global.{kind} {r}, [%p+{i * (8 if kind == 'f64' else 4)}];" for i, r in enumerate(registers)]
    lists = ["{" + ", ".join(_registers(form, operand)[0]) + "}" for operand in "dabc"]
    if form.sparse:
        lines.append("ld.param.u64 %p, [e]; mad.wide.u32 %p, %t, 4, %p; ld.global.b32 %meta, [%p];")
        lists += ["%meta", str(form.selector)]
    registers, kind = _registers(form, "d")
    lines.append(f"{form.opcode} {', '.join(lists)};")
    lines.append(f"ld.param.u64 %p, [d]; mad.wide.u32 %p, %t, {4 * form.words()['d']}, %p;")
    lines += [f"st.global.{kind} [%p+{i * (8 if kind == 'f64' else 4)}], {r};" for i, r in enumerate(registers)]
    declared = "".join(f" .reg .b32 %{o}r<8>; .reg .f32 %{o}f<8>; .reg .f64 %{o}w<8>;" for o in "abcd")
    return f"""
.visible .entry {name}(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 e, .param .u64 d)
{{
  .reg .b32 %t, %x, %meta; .reg .b64 %p;{declared}
  mov.u32 %t, %ctaid.x; mul.lo.u32 %t, %t, 32; mov.u32 %x, %tid.x; add.u32 %t, %t, %x;
  {"  ".join(line + chr(10) for line in lines)}  ret;
}}
"""


@dataclass(frozen=True)
class Move:
    """One ldmatrix or stmatrix: its modifiers, the registers of a thread, and the alignment of its rows."""

    store: bool
    modifiers: str
    registers: int
    alignment: int = 16
    version: str = "8.5"

    def __str__(self) -> str:
        return ("stmatrix" if self.store else "ldmatrix") + f".sync.aligned.{self.modifiers}"


MOVES = [
    Move(store, f"m8n8.x{count}{trans}{space}.b16", count)
    for store in (False, True)
    for count in (1, 2, 4)
    for trans in ("", ".trans")
    for space in ("", ".shared", ".shared::cta")
]
WIDENING = [Move(False, f"m8n16.x{count}.shared::cta.s8.s4", count, 16, "9.4") for count in (1, 2, 4)]
"""These need ptxas 13.4 or later."""
IMAGE = 4096


def move_inputs(move: Move) -> tuple[NDArray[np.uint8], U32, U32]:
    """Shared memory, the threads' addresses in it, their registers."""
    rng = np.random.default_rng(62)
    image = rng.integers(0, 256, IMAGE, dtype=np.uint8)
    rows = rng.permutation(IMAGE // move.alignment)[:32].astype(np.uint32) * np.uint32(move.alignment)
    return image, rows, rng.integers(0, 1 << 32, (32, move.registers), dtype=np.uint64).astype(np.uint32)


def move_kernel(name: str, move: Move) -> str:
    """One warp: the image to shared memory, one instruction, the image and the registers back."""
    registers = ", ".join(f"%r{i}" for i in range(move.registers))
    address = "[%w]" if ".shared" in move.modifiers else "[%g]"
    operands = f"{address}, {{{registers}}}" if move.store else f"{{{registers}}}, {address}"
    each = range(move.registers)
    return f"""
.visible .entry {name}(.param .u64 image, .param .u64 rows, .param .u64 registers)
{{
  .reg .b32 %t, %s, %w, %x, %i, %r<4>; .reg .b64 %p, %q, %g; .reg .pred more;
  .shared .align 128 .b8 memory[{IMAGE}];
  mov.u32 %t, %tid.x; mov.u32 %s, memory; ld.param.u64 %p, [image];
  mul.lo.u32 %i, %t, 4;
fill:
  cvt.u64.u32 %q, %i; add.u64 %q, %q, %p; ld.global.b32 %x, [%q]; add.u32 %w, %s, %i; st.shared.b32 [%w], %x;
  add.u32 %i, %i, 128; setp.lt.u32 more, %i, {IMAGE}; @more bra fill;
  bar.sync 0;
  ld.param.u64 %q, [rows]; mad.wide.u32 %q, %t, 4, %q; ld.global.b32 %w, [%q]; add.u32 %w, %w, %s;
  cvt.u64.u32 %g, %w; cvta.shared.u64 %g, %g;
  ld.param.u64 %q, [registers]; mad.wide.u32 %q, %t, {4 * move.registers}, %q;
  {" ".join(f"ld.global.b32 %r{i}, [%q+{4 * i}];" for i in each)}
  {move} {operands};
  {" ".join(f"st.global.b32 [%q+{4 * i}], %r{i};" for i in each)}
  bar.sync 0;
  mul.lo.u32 %i, %t, 4;
drain:
  cvt.u64.u32 %q, %i; add.u64 %q, %q, %p; add.u32 %w, %s, %i; ld.shared.b32 %x, [%w]; st.global.b32 [%q], %x;
  add.u32 %i, %i, 128; setp.lt.u32 more, %i, {IMAGE}; @more bra drain;
  ret;
}}
"""


def module(kernels: list[str], target: str = "sm_90a", version: str = "8.5") -> str:
    return f".version {version}\n.target {target}\n.address_size 64\n" + "".join(kernels)
