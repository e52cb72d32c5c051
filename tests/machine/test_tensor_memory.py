"""Columns of tensor memory: who holds what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.machine.memory.tensor_memory import POISON, TensorMemory


def test_first_allocation_starts_at_column_0_and_is_poison():
    tensor = TensorMemory()
    tensor.words[:] = 1
    assert tensor.allocate(64, "a") == 0
    assert (tensor.words[:64] == POISON).all()
    assert (tensor.words[64:] == 1).all()
    assert tensor.words.ctypes.data % 64 == 0


def test_search_starts_at_the_offset_and_wraps():
    tensor = TensorMemory(first=384)
    assert [tensor.allocate(128, i) for i in range(5)] == [384, 0, 128, 256, None]


@pytest.mark.parametrize(
    ("column", "columns", "owner", "reason"),
    [
        (32, 32, "a", "column 32 lies inside the allocation that starts at column 0"),
        (128, 32, "a", "no allocation starts at column 128"),
        (0, 64, "a", "the allocation at column 0 has 128 columns, not 64"),
        (0, 128, "b", "the allocation at column 0 belongs to another CTA"),
        (4096, 32, "a", "no allocation starts at column 4096"),
    ],
)
def test_wrong_deallocations_say_why(column, columns, owner, reason):
    tensor = TensorMemory()
    tensor.allocate(128, "a")
    assert tensor.deallocate(column, columns, owner) == reason
    assert tensor.allocations_of("a") == ((0, 128),)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([32, 64, 128, 256, 512]), st.booleans()), max_size=40))
def test_ranges_never_overlap_and_owned_agrees(steps):
    tensor = TensorMemory()
    held: list[tuple[int, int, str]] = []
    for owner, columns, free in steps:
        if free and held:
            start, size, holder = held.pop(0)
            assert tensor.deallocate(start, size, holder) is None
        start = tensor.allocate(columns, owner)
        if start is None:
            gaps = [c for c in range(0, 513 - columns, 32) if all(not (s < c + columns and c < s + n) for s, n, _ in held)]
            assert not gaps
        else:
            assert all(start + columns <= s or s + n <= start for s, n, _ in held)
            held.append((start, columns, owner))
    for column in range(512):
        holder = next((o for s, n, o in held if s <= column < s + n), None)
        assert tensor.owner_of(column) == holder
        assert all(tensor.owned(o)[column] == (o == holder) for o in "abc")


def test_release_frees_everything_of_one_owner():
    tensor = TensorMemory()
    tensor.allocate(32, "a")
    tensor.allocate(32, "b")
    tensor.allocate(64, "a")
    tensor.release("a")
    assert tensor.allocations_of("a") == ()
    assert tensor.owner_of(32) == "b"
