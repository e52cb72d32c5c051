"""What lies in shared and tensor memory from when until when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.profile.model import trace
from ptxlab.profile.model.memory import ALLOCATED, SHARED, TENSOR, Extent, Touch, extents_of, held
from tests.machine.launch_helpers import kernel
from tests.machine.product_kernels import WARPGROUP
from tests.profile.test_kernels import profile


def test_tiles_of_a_warpgroup_are_held_until_the_product_has_read_them() -> None:
    args = [np.ones((64, 16), np.float16), np.ones((8, 16), np.float16), np.zeros((128, 4), np.float32)]
    found = profile(WARPGROUP, block=128, args=args).estimate
    tiles = {each.end - each.first: each for each in found.memory if each.kind == "TMA"}
    assert set(tiles) == {2048, 256}
    (begin, stop) = min((span.begin, span.end) for span in found.spans if span.kind == "product")
    copies = sorted(span.end for span in found.spans if span.track == "TMA")
    assert sorted(each.written for each in tiles.values()) == copies
    for each in tiles.values():
        assert (each.space, each.cta) == (SHARED, 0)
        assert each.written <= begin
        assert each.until == pytest.approx(stop, abs=20)  # the warps do not begin at once
    assert stop + 40 < found.cta_ends[0]


def test_columns_of_tensor_memory() -> None:
    """64 columns are allocated, and 8 of them written by tcgen05.st, from column 16 of the allocation; then they are loaded."""
    body = """
      setp.eq.u32 p, warp, 0;
      @p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
      bar.sync 0;
      ld.shared.u32 r1, [slot];
      shl.b32 r3, warp, 21;
      add.u32 r2, r1, r3;
      add.u32 r2, r2, 16;
      tcgen05.st.sync.aligned.16x64b.x4.b32 [r2], {lane, lane, lane, lane};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.32x32b.x8.b32 {r4, r5, r6, r7, r8, r9, r10, r11}, [r2];
      tcgen05.wait::ld.sync.aligned;
      bar.sync 0;
      @p tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 64;
    """
    made = kernel(body, shared=".shared .align 8 .b8 slot[8];")
    found = made.launch(block=64, args=[np.zeros(64, np.uint32)], check="none", profile=True).profile.estimate
    columns = {each.kind: each for each in found.memory if each.space == TENSOR}
    whole, part = columns[ALLOCATED], columns["threads"]
    assert (whole.end - whole.first, part.first - whole.first, part.end - part.first) == (64, 16, 8)
    assert whole.begin <= part.begin <= part.written <= part.until <= whole.until <= found.cta_ends[0]


def test_extents_of_threads_in_shared_memory() -> None:
    """Threads store words at bytes 256 to 511 of a variable that begins at a multiple of 1024."""
    body = (
        "mov.u32 r1, words; mad.lo.u32 r2, tid, 4, r1; st.shared.u32 [r2+256], tid; bar.sync 0; ld.shared.u32 r3, [r2+256];\n"
        "st.global.u32 [at], r3;\n"
    )
    made = kernel(body, shared=".shared .align 1024 .b8 words[1024];")
    found = made.launch(block=64, args=[np.zeros(64, np.uint32)], check="none", profile=True).profile.estimate
    (stored,) = [each for each in found.memory if each.space == SHARED]
    assert (stored.first % 1024, stored.end - stored.first) == (256, 256)
    assert stored.until > stored.written


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3), st.booleans(), st.integers(0, 40)), min_size=1, max_size=25))
def test_each_byte_is_held_while_it_is_still_read(listed: list[tuple[int, int, bool, int]]) -> None:
    """Byte by byte: at the time of each read that follows a write, some write of that byte is held."""
    listed = [(first, size, write, time) for at, (first, size, write, time) in enumerate(listed)]
    times = sorted({time for *_, time in listed})
    touches = [
        Touch(0, Extent(SHARED, first, first + size, write), "threads", number, float(time), time + 0.5)
        for number, (first, size, write, time) in enumerate(listed)
    ]
    found = held(touches, [100.0])
    for byte in range(10):
        covering = [each for each in found if each.first <= byte < each.end]
        writes = [t.begin for t in touches if t.extent.write and t.extent.first <= byte < t.extent.end]
        for touch in touches:
            reads = not touch.extent.write and touch.extent.first <= byte < touch.extent.end
            if reads and any(write < touch.begin for write in writes) and touch.begin not in writes:
                assert any(each.begin <= touch.begin <= each.until for each in covering), (byte, touch)
    assert all(each.begin <= each.written <= each.until <= 100.0 for each in found)
    assert min(each.begin for each in found) in times if found else True


def test_what_operations_access_is_computed_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting must not wait for what only the estimate and the report need."""
    asked = []

    def noted(accesses: Any, cta: Any) -> tuple[Extent, ...]:
        asked.append(cta.rank)
        return extents_of(accesses, cta)

    monkeypatch.setattr(trace, "extents_of", noted)
    args = [np.ones((64, 16), np.float16), np.ones((8, 16), np.float16), np.zeros((128, 4), np.float32)]
    found = profile(WARPGROUP, block=128, args=args)
    assert asked == []
    assert {held.kind for held in found.estimate.memory} == {"TMA"}
    assert asked == [0, 0, 0]
