"""The sectors that CTAs access, compared with sets of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxlab
from tests.machine.launch_helpers import kernel
from tests.profile.access_helpers import SECTOR, TEXT
from tests.profile.test_kernels import MULTICAST, profile

BYTES = 16384
ACCESSES = {
    "ld": ("@%p ld.global.u32 %r10, [%rd5];", 4, True, False),
    "ld.v4": ("@%p ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5];", 16, True, False),
    "st.b8": ("@%p st.global.b8 [%rd5], %r10;", 1, False, True),
    "st.v2": ("@%p st.global.v2.u32 [%rd5], {%r10, %r11};", 8, False, True),
    "generic": ("@%p st.u64 [%rd5], %rd10;", 8, False, True),
    "atom": ("@%p atom.global.add.u32 %r10, [%rd5], %r11;", 4, True, True),
    "red": ("@%p red.global.add.u64 [%rd5], %rd10;", 8, True, True),
    "cp.async": ("@%p cp.async.ca.shared.global [%r4], [%rd5], 16;", 16, True, False),
}
"""The instruction, bytes of a lane, whether it reads and whether it writes."""


def _sectors(places: list[int], active: list[int], size: int) -> set[int]:
    return {byte // SECTOR for place, on in zip(places, active, strict=True) if on for byte in range(place, place + size)}


@pytest.mark.parametrize("name", ACCESSES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_sectors_of_lanes(name: str, data: st.DataObject) -> None:
    """Several CTAs, some of whose lanes access places that are near to each other, or anywhere in the array, which begins in a sector."""
    text, size, reads, writes = ACCESSES[name]
    span = st.sampled_from([32, 512, 2048, BYTES])
    ctas = []
    for _ in range(data.draw(st.integers(1, 4))):
        most = data.draw(span)
        lanes = data.draw(st.lists(st.integers(0, most // size - 1), min_size=32, max_size=32))
        ctas.append(([lane * size for lane in lanes], data.draw(st.lists(st.integers(0, 1), min_size=32, max_size=32))))
    table = np.array([np.stack(cta, axis=1) for cta in ctas], np.uint32)
    array = np.zeros(BYTES, np.uint8)
    made = ptxlab.loads(TEXT.format(access=text)).kernel()
    found = made.launch(grid=len(ctas), block=32, args=[table, array], check="none", profile=True)
    of = {each.name: each for each in found.profile.arrays}
    places = of["places"]
    assert (places.read, places.written, places.read_by_ctas, places.reuse) == (table.nbytes, 0, table.nbytes, 1.0)
    each = [_sectors(*cta, size) for cta in ctas]
    number, by_ctas = len(set.union(*each)) * SECTOR, sum(map(len, each)) * SECTOR
    if not number:
        assert "data" not in of
        return
    seen = of["data"]
    assert (seen.size, seen.either) == (BYTES, number)
    assert (seen.read, seen.read_by_ctas) == (number * reads, by_ctas * reads)
    assert (seen.written, seen.written_by_ctas) == (number * writes, by_ctas * writes)
    whole = found.profile.footprint
    assert (whole.read, whole.written, whole.size) == (places.read + seen.read, seen.written, table.nbytes + BYTES)


def test_lanes_in_two_arrays_at_once() -> None:
    """Even lanes load from one array, odd ones from another; the first CTA and the second load the same."""
    text = (
        ".version 8.0 .target sm_90a .address_size 64 .visible .entry k(.param .u64 a, .param .u64 b) { .reg .b32 %r<4>; .reg .b64 %d<5>; "
        ".reg .pred %p; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p, %r2, 0; "
        "selp.b64 %d3, %d1, %d2, %p; mad.wide.u32 %d3, %r1, 8, %d3; ld.global.u32 %r3, [%d3]; ret; }"
    )
    found = profile(text, grid=2, block=32, args=[np.zeros(64, np.uint32), np.zeros(64, np.uint32)])
    assert [(each.name, each.read, each.read_by_ctas, each.written) for each in found.arrays] == [("a", 256, 512, 0), ("b", 256, 512, 0)]
    assert found.footprint.reuse == 2.0


def test_a_multicast_copy_reads_once_and_bulk_copies_write() -> None:
    """In each of two clusters of four one CTA reads 512 bytes for all; all eight write the first 256 bytes."""
    (array,) = profile(MULTICAST, grid=8, block=32, cluster=4, args=[np.zeros(1024, np.uint8)]).arrays
    assert (array.read, array.read_by_ctas, array.reuse) == (512, 1024, 2.0)
    assert (array.written, array.written_by_ctas, array.either) == (256, 8 * 256, 512)


@pytest.mark.parametrize(("columns", "row", "column"), [(64, 0, 0), (64, 5, 8), (104, 3, 8), (24, 2, 0)])
def test_boxes_of_tensor_copies(columns: int, row: int, column: int) -> None:
    """A box of 8 rows x 16 elements of 2 bytes, each row in its own sectors; what is outside of the tensor is not read."""
    body = f"""
      @!p bra DONE;
      mov.u32 r1, {column};
      mov.u32 r2, {row};
      mbarrier.init.shared.b64 [bar], 1;
      mbarrier.arrive.expect_tx.shared.b64 rd1, [bar], 256;
      cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [map, {{r1, r2}}], [bar];
    WAIT:
      mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
      @!p bra WAIT;
    DONE:
    """
    array = np.zeros((10, columns), np.float16)
    made = kernel(
        "setp.eq.u32 p, tid, 0;" + body,
        params=", .param .align 64 .b8 map[128]",
        shared=".shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar;",
    )
    result = made.launch(block=32, args=[np.zeros(1, np.uint32), ptxlab.TensorMap(array, box=(16, 8))], check="none", profile=True)
    assert result.diagnostics == ()
    bytes_ = {
        (r * columns + c) * 2 + b for r in range(row, min(row + 8, 10)) for c in range(column, min(column + 16, columns)) for b in (0, 1)
    }
    (found,) = result.profile.arrays
    assert found.read == found.read_by_ctas == SECTOR * len({byte // SECTOR for byte in bytes_})
