"""Stretches without a garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from threading import Barrier, Thread

import pytest

from ptxlab.native import collection
from ptxlab.native.collection import collection_paused, collection_rare


class Made:
    """An object that the collector tracks."""


@pytest.fixture(autouse=True)
def _collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collection, "_times", count())
    gc.unfreeze()
    gc.enable()
    yield
    gc.freeze()
    gc.enable()


def test_what_is_made_counts_as_old() -> None:
    with collection_paused():
        made = [Made() for _ in range(1000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    old = {id(each) for each in gc.get_objects(generation=2)}
    assert all(id(each) in old for each in made)
    assert gc.get_freeze_count() == 0


def test_cycles_of_many_stretches_are_collected() -> None:
    """What counts as old waits for a collection of all generations, and these are rare: else a process would grow and grow."""

    def left() -> int:
        return sum(type(each) is Made for each in gc.get_objects())

    most = 0
    for number in range(500):
        with collection_paused():
            for _ in range(100):
                made = Made()
                made.self = made  # type: ignore[attr-defined]
        if number % 100 == 99:  # it takes long in a process with many objects
            most = max(most, left())
    assert most < 20_000


def test_a_cycle_made_meanwhile_is_collected() -> None:
    with collection_paused():
        made = Made()
        made.self = made  # type: ignore[attr-defined]
        del made
    gc.collect()
    assert not any(type(each) is Made for each in gc.get_objects())


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collection_paused():
        made = [Made() for _ in range(1000)]
    assert gc.get_freeze_count() > frozen // 2  # what is deleted meanwhile no longer counts
    young = {id(each) for each in gc.get_objects()}
    assert all(id(each) in young for each in made)


def test_what_is_frozen_is_not_counted_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python walks all of it: a hundredth of a second for a million objects."""
    asked = []

    def count_frozen() -> int:
        asked.append(1)
        return 1

    monkeypatch.setattr(gc, "get_freeze_count", count_frozen)
    for _ in range(100):
        with collection_paused():
            pass
    assert len(asked) == collection._MOST


def test_a_pause_within_a_pause_ends_with_the_outer_one() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_thresholds_return_when_the_last_thread_is_done() -> None:
    """Two threads are in the context at the same time; the one that entered first leaves first."""
    before, both, first_ended = gc.get_threshold(), Barrier(2), Barrier(2)
    seen = []

    def second() -> None:
        with collection_rare():
            both.wait()
            first_ended.wait()
            seen.append(gc.get_threshold())

    thread = Thread(target=second)
    with collection_rare():
        thread.start()
        both.wait()
        within = gc.get_threshold()
    first_ended.wait()
    thread.join()
    assert within != before
    assert seen == [within]
    assert gc.get_threshold() == before


def test_thresholds_return_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyboardInterrupt), collection_rare():
        raise KeyboardInterrupt
    assert gc.get_threshold() == before


def test_cycles_of_a_long_stretch_are_collected() -> None:
    with collection_rare():
        for _ in range(100_000):
            made = Made()
            made.self = made  # type: ignore[attr-defined]
        assert sum(type(each) is Made for each in gc.get_objects()) < 50_000
