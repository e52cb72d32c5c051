"""What accesses of memory cost, compared with a count by the definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.profile.access_helpers import atomic_sectors, measured, measured_together, patterns, sectors, wavefronts

REGISTERS = {1: "%r10", 2: "{%r10, %r11}", 4: "{%r10, %r11, %r12, %r13}"}
WIDE = "{%rd10, %rd11, %rd12, %rd13}"
FORMS = {1: ("b8", "%r10"), 2: ("b16", "%r10"), 4: ("b32", REGISTERS[1]), 8: ("v2.b32", REGISTERS[2]), 16: ("v4.b32", REGISTERS[4])}
"""The type of an access by the bytes of a lane, and its registers."""
HALF = ".reg .b16 %h; "


def _instruction(size: int, space: str, write: bool, address: str) -> str:
    kind, registers = FORMS[size]
    if size == 2:
        return HALF + (f"@%p st.{space}.b16 [{address}], %h;" if write else f"@%p ld.{space}.b16 %h, [{address}];")
    return f"@%p st.{space}.{kind} [{address}], {registers};" if write else f"@%p ld.{space}.{kind} {registers}, [{address}];"


@pytest.mark.parametrize("write", [False, True], ids=["ld", "st"])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_wavefronts_of_loads_and_stores(size: int, write: bool) -> None:
    conflicts = 0
    for places, active in patterns(size, size):
        counts = measured(_instruction(size, "shared", write, "%r4"), places, active)
        total, least = wavefronts(places, active, size, loads=not write)
        assert (counts.shared_wavefronts, counts.shared_least) == (total, least), (places, active)
        assert (counts.shared_requests, counts.shared_bytes) == (any(active), sum(active) * size)
        assert counts.global_requests == counts.global_sectors == 0
        conflicts += counts.bank_conflicts
    assert conflicts > 50


@pytest.mark.parametrize("write", [False, True], ids=["ld", "st"])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_sectors_of_loads_and_stores(size: int, write: bool) -> None:
    for places, active in patterns(size, 100 + size):
        counts = measured(_instruction(size, "global", write, "%rd5"), places, active)
        assert (counts.global_sectors, counts.global_lines, counts.global_least) == sectors(places, active, size), (places, active)
        assert (counts.global_requests, counts.global_bytes) == (any(active), sum(active) * size)
        assert counts.shared_requests == counts.shared_wavefronts == 0


@pytest.mark.parametrize("size", [1, 4, 16])
def test_accesses_that_repeat_the_distances_of_earlier_ones(size: int) -> None:
    """Each pattern several times in a row and again later, from other first addresses: at other banks, and at other places in a line."""
    chosen = patterns(size, 600 + size)
    shifts = (0, size, 4 * size, 0, 128, 32 * size)
    given = [([at + shift for at in places], active) for places, active in chosen + chosen[::-1] for shift in shifts]
    counts = measured_together(_instruction(size, "shared", False, "%r4"), given)
    expected = np.array([wavefronts(places, active, size, loads=True) for places, active in given]).sum(axis=0)
    assert [counts.shared_wavefronts, counts.shared_least] == expected.tolist()
    counts = measured_together(_instruction(size, "global", True, "%rd5"), given)
    expected = np.array([sectors(places, active, size) for places, active in given]).sum(axis=0)
    assert [counts.global_sectors, counts.global_lines, counts.global_least] == expected.tolist()


@pytest.mark.parametrize("size", [4, 8])
def test_lanes_of_atomics_do_not_share_a_word(size: int) -> None:
    register = "%r10" if size == 4 else "%rd10"
    for places, active in patterns(size, 200 + size):
        counts = measured(f"@%p atom.shared.add.u{8 * size} {register}, [%r4], {register};", places, active)
        assert (counts.shared_wavefronts, counts.shared_least) == wavefronts(places, active, size, shares=False), (places, active)


def test_reductions_in_global_memory_have_sectors() -> None:
    for places, active in patterns(4, 300):
        counts = measured("@%p red.global.add.u32 [%rd5], %r10;", places, active)
        _, lines, least = sectors(places, active, 4)
        assert (counts.global_sectors, counts.global_lines, counts.global_least) == (atomic_sectors(places, active), lines, least)


@pytest.mark.parametrize("write", [False, True], ids=["ldmatrix", "stmatrix"])
@pytest.mark.parametrize(("count", "transposed"), [(1, False), (2, True), (4, False), (4, True)])
def test_rows_of_matrices_are_accesses_of_16_bytes(count: int, transposed: bool, write: bool) -> None:
    shape = f"sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16"
    registers = REGISTERS[count] if count > 1 else "{%r10}"
    text = f"stmatrix.{shape} [%r4], {registers};" if write else f"ldmatrix.{shape} {registers}, [%r4];"
    rows = [int(lane < 8 * count) for lane in range(32)]
    for places, _ in patterns(16, 400 + count):
        counts = measured(text, places, [1] * 32)
        assert (counts.shared_wavefronts, counts.shared_least) == wavefronts(places, rows, 16), places
        assert (counts.executions, counts.shared_requests, counts.shared_bytes) == (1, 1, 128 * count)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_asynchronous_copies_read_sectors_and_write_wavefronts(size: int) -> None:
    for places, active in patterns(size, 500 + size):
        counts = measured(f"@%p cp.async.ca.shared.global [%r4], [%rd5], {size};", places, active)
        assert (counts.shared_wavefronts, counts.shared_least) == wavefronts(places, active, size)
        assert (counts.global_sectors, counts.global_lines, counts.global_least) == sectors(places, active, size)


def test_copies_of_no_bytes_read_nothing() -> None:
    lane = np.arange(32)
    places, active = (lane * 16).tolist(), (lane % 3 > 0).astype(int).tolist()
    text = "mov.u32 %r10, 16; selp.u32 %r10, %r10, 0, %p; cp.async.cg.shared.global [%r4], [%rd5], 16, %r10;"
    counts = measured(text, places, active)
    assert (counts.shared_wavefronts, counts.shared_bytes) == (4, 512)
    assert (counts.global_sectors, counts.global_lines, counts.global_least) == sectors(places, active, 16)


def test_generic_addresses_are_counted_where_they_lie() -> None:
    """Lanes with an odd number load from shared memory, the others from global memory."""
    lane = np.arange(32)
    places, odd = (lane * 8 * 4 % 1024).tolist(), (lane % 2).tolist()
    text = "cvta.shared.u64 %rd10, s; add.u64 %rd10, %rd10, %rd4; selp.b64 %rd11, %rd10, %rd5, %p; ld.u32 %r10, [%rd11];"
    counts = measured(text, places, odd)
    assert (counts.shared_wavefronts, counts.shared_least) == wavefronts(places, odd, 4)
    assert (counts.global_sectors, counts.global_lines, counts.global_least) == sectors(places, [1 - o for o in odd], 4)
    assert (counts.shared_requests, counts.global_requests, counts.shared_bytes, counts.global_bytes) == (1, 1, 64, 64)
