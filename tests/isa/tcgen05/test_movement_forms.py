"""Every form of tcgen05.ld, st, cp and shift in whole kernels, against the layouts of `ptxlab.layout`."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.isa.catalogue import Row
from ptxlab.layout import copy_destination, decompression, fragment, operand_addresses
from ptxlab.tables import FRAGMENT_LANES, LOAD_REGISTERS, SWIZZLES
from tests.isa.tcgen05.mma_form_cases import Form, cover, forms, hash_of, rows
from tests.isa.tcgen05.tcgen05_helpers import BASE, VALUES, execute, random_state
from tests.sweep_helpers import one_in
from tests.tables.specification_helpers import DATA_MOVEMENT_SHAPES

SHOWS = {
    "test_loads": ("tcgen05.ld.sync*",),
    "test_stores": ("tcgen05.st.sync*",),
    "test_reductions": ("tcgen05.ld.red*",),
    "test_copies": ("tcgen05.cp.*",),
    "test_shifts": ("tcgen05.shift.*",),
}

COLUMNS = 512
Cells = NDArray[np.uint32]

KERNEL = """
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p_before, .param .u64 p_after, .param .u64 p_registers, .param .u32 p_at)
{{
.shared .align 4 .b32 slot;
.reg .pred p, q;
.reg .b32 tid, warp, i, w, v, at, taddr, base, r<{count}>, red;
.reg .b64 before, after, g, registers;
ld.param.u64 before, [p_before];
ld.param.u64 after, [p_after];
ld.param.u64 registers, [p_registers];
ld.param.u32 base, [p_at];
mov.u32 tid, %tid.x;
shr.u32 warp, tid, 5;
setp.eq.u32 p, warp, 0;
@p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
mul.wide.u32 g, tid, {size};
add.u64 registers, registers, g;
bar.sync 0;
shl.b32 taddr, warp, 21;
mov.u32 i, 0;
IN:
mad.lo.u32 w, i, 128, tid;
mul.wide.u32 g, w, 4;
add.u64 g, g, before;
ld.global.u32 v, [g];
add.u32 at, taddr, i;
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {{v}};
add.u32 i, i, 1;
setp.lt.u32 q, i, 512;
@q bra IN;
tcgen05.wait::st.sync.aligned;
add.u32 at, taddr, base;
{body}
tcgen05.wait::ld.sync.aligned;
tcgen05.wait::st.sync.aligned;
mov.u32 i, 0;
OUT:
add.u32 at, taddr, i;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{v}}, [at];
tcgen05.wait::ld.sync.aligned;
mad.lo.u32 w, i, 128, tid;
mul.wide.u32 g, w, 4;
add.u64 g, g, after;
st.global.u32 [g], v;
add.u32 i, i, 1;
setp.lt.u32 q, i, 512;
@q bra OUT;
bar.sync 0;
ld.shared.u32 taddr, [slot];
@p tcgen05.dealloc.cta_group::1.sync.aligned.b32 taddr, 512;
ret;
}}
"""


@cache
def kernel(body: str, count: int, target: str) -> ptxlab.Kernel:
    return ptxlab.loads(KERNEL.format(body=body, count=count, size=4 * (count + 1), target=target)).kernel()


def transfer(
    instruction: str, count: int, before: Cells, registers: Cells, at: int, target: str = "sm_100a", reduced: bool = False
) -> tuple[Cells, Cells]:
    """Tensor memory [column, lane] and registers [thread, register] after an instruction; the last register is that of a reduction."""
    load = "".join(f"ld.global.u32 r{i}, [registers+{4 * i}];\n" for i in range(count))
    save = "".join(f"st.global.u32 [registers+{4 * i}], r{i};\n" for i in range(count))
    save += f"st.global.u32 [registers+{4 * count}], red;\n" if reduced else ""
    after, out = np.zeros_like(before), registers.copy()
    body = f"{load}{instruction};\ntcgen05.wait::ld.sync.aligned;\n{save}"
    result = kernel(body, count, target).launch(grid=1, block=128, args=[before, after, out, at], check=VALUES)
    result.raise_for_errors()
    assert result.diagnostics == ()
    return after, out


def vector(count: int) -> str:
    return "{" + ", ".join(f"r{i}" for i in range(count)) + "}"


def shape_of(form: Form) -> tuple[str, int]:
    words = form.opcode.split(".")
    return next(w for w in words if w in FRAGMENT_LANES), int(next(w for w in words if w[0] == "x")[1:])


def place(form: Form, rng: np.random.Generator) -> tuple[int, int, int, NDArray[np.int64], NDArray[np.int64]]:
    """Address, split, registers, and the cell of every register of every thread: lanes and columns [thread, register]."""
    shape, num = shape_of(form)
    pack = form.has("pack::16b") or form.has("unpack::16b")
    width = num * {"16x64b": 2, "16x128b": 4, "16x256b": 8}.get(shape, 1) * (2 if pack else 1)
    room = COLUMNS - width
    # Halves that a store writes do not overlap.
    least = width if form.has("st") else 0
    split = int(rng.integers(least, room + 1)) if shape == "16x32bx2" else 0
    column = int(rng.integers(0, room - split + 1))
    lane = int(rng.choice(FRAGMENT_LANES[shape]))
    found = fragment(shape, num, pack, split)
    assert found.lane.shape == (32, LOAD_REGISTERS[shape, num])
    warp = np.arange(4)[:, None, None] * 32
    lanes = (lane + found.lane[None] + warp).reshape(128, -1)
    columns = np.broadcast_to(column + found.column[None], (4, *found.column.shape)).reshape(128, -1)
    return (lane << 16) + column, split, lanes.shape[1], lanes, columns


def start(form: Form) -> tuple[np.random.Generator, Cells]:
    rng = np.random.default_rng(hash_of(form.opcode))
    return rng, rng.integers(0, 1 << 32, (COLUMNS, 128), np.uint32)


def check_load(form: Form) -> None:
    rng, before = start(form)
    at, split, count, lanes, columns = place(form, rng)
    tail = f", {split}" if "immHalfSplitoff" in form.operands else ""
    after, out = transfer(f"{form.opcode} {vector(count)}, [at]{tail}", count, before, rng.integers(0, 9, (128, count + 1), np.uint32), at)
    expected = before[columns, lanes]
    if form.has("pack::16b"):
        low = np.uint32(0xFFFF)
        expected = (expected & low) | (before[columns + 1, lanes] & low) << np.uint32(16)
    assert np.array_equal(out[:, :count], expected), form.opcode
    assert np.array_equal(after, before), form.opcode


def check_store(form: Form) -> None:
    rng, before = start(form)
    at, split, count, lanes, columns = place(form, rng)
    tail = f"{split}, " if "immHalfSplitoff" in form.operands else ""
    registers = rng.integers(0, 1 << 32, (128, count + 1), np.uint32)
    after, _ = transfer(f"{form.opcode} [at], {tail}{vector(count)}", count, before, registers, at)
    expected = before.copy()
    if form.has("unpack::16b"):
        high, low = np.uint32(0xFFFF0000), np.uint32(0xFFFF)
        expected[columns, lanes] = (before[columns, lanes] & high) | (registers[:, :count] & low)
        expected[columns + 1, lanes] = (before[columns + 1, lanes] & high) | registers[:, :count] >> np.uint32(16)
    else:
        expected[columns, lanes] = registers[:, :count]
    assert np.array_equal(after, expected), form.opcode


def reduction(words: Cells, form: Form) -> Cells:
    """The smallest or largest of each row. f32: -0 below +0, NaN only where asked for or where there is nothing else."""
    words = words & np.uint32(0x7FFFFFFF) if form.has("abs") else words
    sign, magnitude = words >> np.uint32(31), (words & np.uint32(0x7FFFFFFF)).astype(np.int64)
    keys = {"u32": words.astype(np.int64), "s32": words.view(np.int32).astype(np.int64)}.get(str(form.choice("type")))
    is_nan = np.zeros(words.shape, bool)
    if keys is None:
        keys = np.where(sign == 1, -magnitude - 1, magnitude)
        is_nan = magnitude > 0x7F800000
    largest = form.choice("redOp") == "max"
    keys = np.where(is_nan, -(1 << 40) if largest else 1 << 40, keys)
    best = keys.argmax(axis=1) if largest else keys.argmin(axis=1)
    found = np.take_along_axis(words, best[:, None], axis=1)[:, 0]
    gone = is_nan.any(axis=1) if form.has("NaN") else is_nan.all(axis=1)
    return np.where(gone, np.uint32(0x7FFFFFFF), found)


def check_load_reduce(form: Form) -> None:
    rng, before = start(form)
    special = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 1, 0x80000001], np.uint32)
    before[::3, ::2] = rng.choice(special, before[::3, ::2].shape)
    at, split, count, lanes, columns = place(form, rng)
    tail = f", {split}" if "immHalfSplitoff" in form.operands else ""
    text = f"{form.opcode} {vector(count)}, red, [at]{tail}"
    registers = rng.integers(0, 9, (128, count + 1), np.uint32)
    after, out = transfer(text, count, before, registers, at, "sm_103a", reduced=True)
    assert np.array_equal(out[:, :count], before[columns, lanes]), form.opcode
    assert np.array_equal(out[:, count], reduction(before[columns, lanes], form)), form.opcode
    assert np.array_equal(after, before), form.opcode


def check_copy(form: Form) -> None:
    rng = np.random.default_rng(hash_of(form.opcode))
    group = int(str(form.choice("cta_group"))[-1])
    words = form.opcode.split(".")
    shape = next(w for w in words if w in DATA_MOVEMENT_SHAPES["cp"])
    to = copy_destination(shape, next((w for w in words if w.startswith("warpx")), ""))
    rows_, columns = len(to.lanes), to.columns
    mode = SWIZZLES[str(rng.choice([name for name, mode in SWIZZLES.items() if name == "none" or mode.width >= 4 * columns]))]
    leading, stride = (rows_ * 16, 128) if not mode.bits else (16, 8 * mode.width)
    descriptor = SharedMemoryDescriptor(start=BASE, leading=leading, stride=stride, swizzle=mode.name)
    at = operand_addresses(descriptor, rows_, columns, 32)[..., None] + np.arange(4) - BASE
    image, before = random_state(rng, group)
    column = int(rng.integers(0, COLUMNS - columns + 1))
    lane = int(rng.integers(0, 32)) if shape == "4x256b" else 0
    expected = before.copy()
    for cta in range(group):
        data = image[cta][at].reshape(rows_, -1)
        if form.choice("src_fmt"):
            rule = decompression(str(form.choice("src_fmt")))
            bits = np.unpackbits(data.reshape(-1, 16), axis=1, bitorder="little")
            wide = np.zeros_like(bits)
            for i in range(rule.bits):
                wide[:, rule.destination + i] = bits[:, rule.source + i]
            data = np.packbits(wide, axis=1, bitorder="little").reshape(rows_, -1)
        for copy in range(to.lanes.shape[1]):
            expected[cta, column : column + columns, to.lanes[:, copy] + lane] = data.view(np.uint32)
    after = execute(f"{form.opcode} [da], ad", image, before, a=int(descriptor), d=(lane << 16) + column, group=group)
    assert np.array_equal(after, expected), form.opcode


def check_shift(form: Form) -> None:
    rng = np.random.default_rng(hash_of(form.opcode))
    group = int(str(form.choice("cta_group"))[-1])
    for lane in (0, 32, 64, 96):
        image, before = random_state(rng, group)
        column = int(rng.integers(0, COLUMNS - 7))
        after = execute(f"{form.opcode} [da]", image, before, d=(lane << 16) + column, group=group)
        expected = before.copy()
        for row in range(128):
            if row % 32 != 31:
                expected[:, column : column + 8, row] = before[:, column : column + 8, row + 1]
        assert np.array_equal(after, expected), form.opcode


LOADS = [row for row in rows("ld") if ".red." not in row.pattern]
REDUCTIONS = [row for row in rows("ld") if ".red." in row.pattern]


def name(row: Row) -> str:
    return row.pattern.split(".", 1)[1].replace("sync.aligned.", "")


@pytest.mark.parametrize("part", one_in(5, range(5)))
@pytest.mark.parametrize("row", LOADS, ids=name)
def test_loads(row: Row, part: int) -> None:
    """Table "Various-combinations of .num and .shape" of tcgen05.ld."""
    for form in [*forms(row)][part::5]:
        check_load(form)


@pytest.mark.parametrize("part", one_in(5, range(5)))
@pytest.mark.parametrize("row", rows("st"), ids=name)
def test_stores(row: Row, part: int) -> None:
    """Table "Various-combinations of .num and .shape" of tcgen05.st."""
    for form in [*forms(row)][part::5]:
        check_store(form)


@pytest.mark.parametrize("row", REDUCTIONS, ids=name)
def test_reductions(row: Row) -> None:
    for form in cover(row):
        check_load_reduce(form)


@pytest.mark.slow
@pytest.mark.parametrize("row", REDUCTIONS, ids=name)
def test_all_reductions(row: Row) -> None:
    for form in forms(row):
        check_load_reduce(form)


@pytest.mark.parametrize("row", rows("cp"), ids=name)
def test_copies(row: Row) -> None:
    """A destination format goes with a source format; one alone is refused (`test_refusals`)."""
    for form in forms(row):
        if (form.choice("dst_fmt") is None) == (form.choice("src_fmt") is None):
            check_copy(form)


@pytest.mark.parametrize("row", rows("shift"), ids=name)
def test_shifts(row: Row) -> None:
    for form in forms(row):
        check_shift(form)


def test_loads_and_stores_cover_the_tables() -> None:
    listed = {shape_of(form) for row in (*LOADS, *rows("st")) for form in forms(row)}
    assert listed == set(LOAD_REGISTERS)
    assert {shape for shape, _ in listed} == set(DATA_MOVEMENT_SHAPES["ld"]) == set(DATA_MOVEMENT_SHAPES["st"])
    copied = {choice for row in rows("cp") for slot in row.slots if slot.name == "shape" for choice in slot.choices}
    assert copied == set(DATA_MOVEMENT_SHAPES["cp"])
