"""Boxes that are partly or wholly outside their tensor: compiled code gives what the handler gives, and what moves single elements."""

from __future__ import annotations

import itertools
from functools import cache
from math import prod
from random import Random
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.isa.bulk import _tensor
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise_race_check

from .test_box import reference_load, swizzled

SIZE = 8192
"""Of the buffer."""
MODES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_32B_flip_8B": 5}
TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_at, .param .u32 p_count, .param .u32 p_bytes, .param .u64 p_data)
{
.shared .align 1024 .b8 buffer[SIZE];
.shared .align 8 .b64 mb;
.reg .pred one, p;
.reg .b32 tid, i, n, r, v, count, bytes, phase, c<5>;
.reg .b64 at, data, g;
ld.param.u64 at, [p_at]; ld.param.u64 data, [p_data]; ld.param.u32 count, [p_count]; ld.param.u32 bytes, [p_bytes];
mov.u32 tid, %tid.x; setp.eq.u32 one, tid, 0;
@one mbarrier.init.shared::cta.b64 [mb], 1;
fence.mbarrier_init.release.cluster; bar.sync 0;
mov.u32 n, 0;
TURN:
ld.global.s32 c0, [at]; ld.global.s32 c1, [at+4]; ld.global.s32 c2, [at+8]; ld.global.s32 c3, [at+12]; ld.global.s32 c4, [at+16];
BODY
add.u64 at, at, 20; add.u64 data, data, SIZE; add.u32 n, n, 1;
setp.lt.u32 p, n, count;
@p bra TURN;
ret;
}
"""
EACH = """
shl.b32 i, tid, 2;
LABEL: mov.u32 r, buffer; add.u32 r, r, i; cvt.u64.u32 g, i; add.u64 g, g, data;
WORD
add.u32 i, i, 128; setp.lt.u32 p, i, SIZE; @p bra LABEL;
"""
LOAD = f"""
{EACH.replace("LABEL", "CLEAR").replace("WORD", "mov.u32 v, 0xEEEEEEEE; st.shared.u32 [r], v;")}
fence.proxy.async.shared::cta; bar.sync 0;
@!one bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], bytes;
cp.async.bulk.tensor.DIMd.shared::cta.global.tile.mbarrier::complete_tx::bytes [buffer], [map, {{COORDINATES}}], [mb];
LOADED:
and.b32 phase, n, 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [mb], phase; @!p bra WAIT;
{EACH.replace("LABEL", "COPY").replace("WORD", "ld.shared.u32 v, [r]; st.global.u32 [g], v;")}
bar.sync 0;
"""
STORE = f"""
{EACH.replace("LABEL", "COPY").replace("WORD", "ld.global.u32 v, [g]; st.shared.u32 [r], v;")}
fence.proxy.async.shared::cta; bar.sync 0;
@!one bra STORED;
INSTRUCTION.DIMd.global.shared::cta.OPERATIONtile.bulk_group [map, {{COORDINATES}}], [buffer];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
STORED:
bar.sync 0;
"""
KINDS = {
    "load": LOAD,
    "store": STORE.replace("INSTRUCTION", "cp.async.bulk.tensor").replace("OPERATION", ""),
    "add": STORE.replace("INSTRUCTION", "cp.reduce.async.bulk.tensor").replace("OPERATION", "add."),
}


PADDED = {"b4x16_p64": 8, "b6x16_p32": 12}
"""Element types that are padded to 16 bytes: the bytes of 16 elements."""


class Form(NamedTuple):
    """A tensor map: innermost dimensions first. ``pads`` are bytes between rows, planes and so on."""

    dtype: Any
    dims: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "none"
    fill: str = "none"
    steps: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    interleave: str = "none"

    @property
    def bits(self) -> int:
        """Of an element in global memory."""
        if self.dtype in PADDED:
            return PADDED[self.dtype] // 2
        return 32 if self.dtype == "tf32" else 8 * np.dtype(self.dtype).itemsize

    @property
    def slice_bytes(self) -> int:
        """Of the channels that a coordinate names."""
        return int(self.interleave.removesuffix("B").replace("none", "0"))

    @property
    def unit(self) -> int:
        """What coordinate 0 is a multiple of."""
        return 1 if self.slice_bytes else 128 if self.dtype in PADDED else 128 // self.bits


FORMS = {
    "1-D": Form(np.uint8, (104,), (64,)),
    "2-D": Form(np.float16, (104, 20), (64, 8), "128B"),
    "2-D, filled with NaN": Form(np.float16, (104, 20), (64, 8), "128B", "nan"),
    "rows that end within 16 bytes": Form(np.float16, (101, 20), (64, 8), "128B", "nan", pads=(6,)),
    "rows that end within 4 bytes": Form(np.uint8, (37, 9), (32, 4), "32B", pads=(11,)),
    "pieces of 4 bytes": Form(np.float32, (27, 9), (16, 4), "64B", "nan", pads=(4,)),
    "a box larger than the tensor": Form(np.float16, (24, 3), (64, 8), "128B"),
    "halves of 8 bytes": Form(ml_dtypes.bfloat16, (76, 11), (64, 4), "128B_32B_flip_8B", "nan", pads=(8,)),
    "3-D": Form(np.float32, (20, 5, 6), (8, 3, 4), fill="nan"),
    "3-D with traversal strides": Form(ml_dtypes.bfloat16, (40, 9, 7), (16, 5, 4), "32B", "nan", (1, 2, 3)),
    "4-D": Form(np.uint8, (48, 3, 4, 5), (32, 2, 3, 2), "32B"),
    "4-bit elements that are padded": Form("b4x16_p64", (384, 20), (128, 4), "128B"),
    "6-bit elements that are padded": Form("b6x16_p32", (384, 9, 3), (128, 4, 2), "128B"),
    "rounded": Form("tf32", (27, 9), (16, 4), "64B", "nan", pads=(4,)),
    "slices of 16 bytes": Form(np.float16, (9, 6, 3), (8, 1, 2), interleave="16B"),
    "slices of 32 bytes": Form(np.float32, (9, 6, 5, 3), (4, 3, 1, 2), "32B", interleave="32B"),
    "5-D": Form(np.float64, (6, 3, 2, 3, 4), (2, 2, 2, 2, 2), fill="nan", pads=(16, 32)),
}
NAN = b"\xf7\x7f"
"""As an H200 fills each half of the elements (`tests.hardware`)."""


@cache
def kernel(kind: str, rank: int) -> ptxlab.Kernel:
    coordinates = ", ".join(f"c{i}" for i in range(rank))
    text = TEXT.replace("BODY", KINDS[kind]).replace("DIM", str(rank)).replace("COORDINATES", coordinates)
    return ptxlab.loads(text.replace("SIZE", str(SIZE))).kernel()


def pitches(form: Form) -> tuple[int, ...]:
    """Bytes, of dimensions 1 and up, and behind the last one those of the array."""
    found, size = [], 8 * form.slice_bytes or form.bits
    for length, pad in itertools.zip_longest(form.dims, form.pads, fillvalue=0):
        size = size * length + 8 * pad
        found.append(size // 8)
    return tuple(found)


def some_places(form: Form, kind: str, choice: Random, count: int = 40) -> list[tuple[int, ...]]:
    """Coordinates, also far outside; of a store none is negative."""
    unit, found = form.unit, []
    for _ in range(count):
        at = [unit * choice.randrange(-1 - form.box[0] // unit, form.dims[0] // unit + 2)]
        at += [choice.randrange(-size - 1, dim + 2) for dim, size in zip(form.dims[1:], form.box[1:], strict=True)]
        if choice.random() < 0.1:
            at[choice.randrange(len(at))] = choice.choice((-(1 << 31), (1 << 31) - 128))
        found.append(tuple(max(each, 0) if kind != "load" else each for each in at))
    return found


def part_of(form: Form, at: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Which elements of a box are inside, in each dimension; nothing if none is."""
    steps = form.steps or (1,) * len(form.dims)
    found = tuple(
        tuple(i for i in range(-(-size // step)) if 0 <= c + i * step < dim)
        for c, size, step, dim in zip(at, form.box, steps, form.dims, strict=True)
    )
    return found if all(found) else ()


def launch(form: Form, kind: str, places: list[tuple[int, ...]], data: NDArray[np.uint8], **options: Any) -> tuple[Any, ...]:
    """The bytes of the tensor and of the boxes after a launch, its diagnostics and statistics, and how often the handler was called."""
    rank, every = len(form.dims), pitches(form)
    device = ptxlab.Device("sm_100a")
    rng = np.random.default_rng(7)
    tensor = rng.integers(0, 256, every[-1] + 64, np.uint8)
    held, boxes = device.array(tensor), device.array(data)
    tensor_map = ptxlab.TensorMap(
        held, box=form.box, swizzle=form.swizzle, dims=form.dims, strides=every[:-1], dtype=form.dtype, oob_fill=form.fill,
        element_strides=form.steps or None, interleave=form.interleave,
    )  # fmt: skip
    at = np.zeros((len(places), 5), np.int32)
    at[:, :rank] = places
    steps = form.steps or (1,) * rank
    size = prod(-(-n // step) for n, step in zip(form.box, steps, strict=True)) * (8 * form.slice_bytes or form.bits) // 8
    calls, start = [], _tensor.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tensor, "start", lambda *rest, **more: calls.append(1) or start(*rest, **more))
        result = kernel(kind, rank).launch(
            grid=1, block=32, args=[tensor_map, at, len(places), size, boxes], device=device, **{"check": "none", **options}
        )
    assert result.completed
    stats = result.stats.instructions, result.stats.services
    return tensor, held.numpy(), boxes.numpy(), [str(each) for each in result.diagnostics], stats, len(calls)


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> None:
    """Copy although functions are not optimised yet."""
    optimise_race_check()


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMS)
def test_a_form(name: str, kind: str, check: str) -> None:
    """Twice the same boxes: the handler is called once for each part; a second launch without checks does not call it.

    With checks it calls it for the first one, and for the first one that stores, as what is there is kept.
    """
    form, choice = FORMS[name], Random(name)
    if kind == "add" and form.bits <= 8:
        pytest.skip("no reduction adds such elements")
    kernel.cache_clear()
    places = some_places(form, kind, choice) * 2
    data = np.random.default_rng(3).integers(0, 256, (len(places), SIZE), np.uint8)
    if kind != "load":
        data[...] = np.tile(np.arange(SIZE // 2, dtype=np.float16).view(np.uint8), (len(places), 1))
    table = context_words._table_of_repetitions
    found = []
    for way in (table, table, lambda launch: 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            found.append(launch(form, kind, places, data, check=check))
    first, again, handled = found
    for other in (again, handled):
        assert np.array_equal(first[1], other[1])
        assert np.array_equal(first[2], other[2])
        assert first[3:5] == other[3:5]
    assert handled[5] == len(places)
    parts = {part_of(form, at) for at in places}
    assert first[5] <= len(parts)
    assert again[5] <= (0 if check == "none" else 2)
    before, tensor, boxes, *_ = first
    if kind == "load":
        expected = loaded_and_padded if form.dtype in PADDED else loaded
        assert np.array_equal(boxes, expected(form, places, before))
    if kind == "store" and form.dtype not in PADDED:
        assert np.array_equal(tensor, stored(form, places, before, data))


def loaded(form: Form, places: list[tuple[int, ...]], tensor: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What is in shared memory after each load."""
    found, element = np.full((len(places), SIZE), 0xEE, np.uint8), form.bits // 8
    fill = NAN * (element // 2) if form.fill == "nan" else bytes(element)
    form, lines, first = with_slices(form)
    if form.dtype == "tf32":
        tensor = rounded(tensor)
    for shared, at in zip(found, places, strict=True):
        whole = *first, *at
        reference_load(tensor, form.dims, lines, element, form.box, form.steps, MODES[form.swizzle], whole, fill, shared, 0)
    return found


def with_slices(form: Form) -> tuple[Form, tuple[int, ...], tuple[int, ...]]:
    """The same with the dimension within a slice, if there are slices, the distances of lines, and the coordinate there."""
    lines, steps = pitches(form)[:-1], form.steps or (1,) * len(form.dims)
    if not form.slice_bytes:
        return form._replace(steps=steps), lines, ()
    size = 8 * form.slice_bytes // form.bits
    made = form._replace(dims=(size, *form.dims), box=(size, *form.box), steps=(1, *steps))
    return made, (form.slice_bytes, *lines), (0,)


def rounded(tensor: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Each f32 as the nearest number with 10 bits of mantissa, of two the even one."""
    bits = tensor[: len(tensor) // 4 * 4].view(np.uint32)
    down = bits & 0xFFFFE000
    up = (bits & 0x1FFF) + (bits >> 13 & 1) > 0x1000
    found = np.where(bits & 0x7FFFFFFF > 0x7F800000, np.uint32(0x7FFFE000), down + (up.astype(np.uint32) << 13))
    return found.astype(np.uint32).view(np.uint8)


def loaded_and_padded(form: Form, places: list[tuple[int, ...]], tensor: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same where elements are padded, of tensors whose rows end with 16 elements."""
    found, data = np.full((len(places), SIZE), 0xEE, np.uint8), PADDED[form.dtype]
    for shared, at in zip(found, places, strict=True):
        for row, index in enumerate(itertools.product(*(range(count) for count in form.box[:0:-1]))):
            line = [c + i for c, i in zip(at[1:], index[::-1], strict=True)]
            inside = all(0 <= p < d for p, d in zip(line, form.dims[1:], strict=True))
            start = sum(p * pitch for p, pitch in zip(line, pitches(form)[:-1], strict=True))
            for slot in range(form.box[0] // 16):
                chunk, first = np.zeros(16, np.uint8), at[0] + 16 * slot
                if inside and 0 <= first < form.dims[0]:
                    chunk[:data] = tensor[start + first // 16 * data :][:data]
                place = swizzled(128 * row + 16 * slot, MODES[form.swizzle])
                shared[place : place + 16] = chunk
    return found


def stored(form: Form, places: list[tuple[int, ...]], tensor: NDArray[np.uint8], boxes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The tensor after all stores, each of which writes 16 bytes of a row as a whole."""
    found, element = tensor.copy(), form.bits // 8
    form, lines, first = with_slices(form)
    counts = [-(-n // step) for n, step in zip(form.box, form.steps, strict=True)]
    unit = 16 // element
    dims = (-(-form.dims[0] // unit) * unit, *form.dims[1:])
    pitch = max(counts[0] * element, {"none": 0, "32B": 32, "64B": 64}.get(form.swizzle, 128))
    for box, place_of in zip(boxes, places, strict=True):
        at = *first, *place_of
        for row, index in enumerate(itertools.product(*(range(count) for count in counts[:0:-1]))):
            line = [c + i * step for c, i, step in zip(at[1:], index[::-1], form.steps[1:], strict=True)]
            if not all(0 <= p < d for p, d in zip(line, dims[1:], strict=True)):
                continue
            start = sum(p * pitch for p, pitch in zip(line, lines, strict=True))
            for i in range(counts[0] * element):
                place = at[0] * element + i
                if place < dims[0] * element:
                    found[start + place] = box[swizzled(row * pitch + i, MODES[form.swizzle])]
    return found
