"""Who wrote the operands of products: bytes of shared memory, registers, and cells of tensor memory.

The launch runs again. Of a register that was loaded from shared memory the writer is the load, and behind it stands who wrote the bytes.
Behind a store to tensor memory stands who wrote the registers that it stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.machine.launch.mma_records import OPERANDS, MmaRecords
from ptxlab.machine.launch.result import Writer
from ptxlab.machine.observe._operand_watches import Ctaid, HeldWatch, Key, Read, SharedReads, identity
from ptxlab.machine.observe.mmas import ExecutedProduct, MmaLog
from ptxlab.machine.observe.observer import Observer
from ptxlab.machine.observe.provenance import CopiedBytes

if TYPE_CHECKING:
    from ptxlab.isa.operations.products import HeldLine
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay

__all__ = ["Observe", "operand_writers", "with_writers"]

Observe = Callable[[Callable[["Launch"], Any], bool], Any]
"""Runs the launch again with an observer that is made for it, with or without events, and returns the observer."""
Lines = Mapping[int, Mapping[str, Sequence[int]]]
"""By the number of a product, and by operand: rows of A, or rows of B."""


@dataclass(slots=True)
class _Places:
    """Where the lines of an operand of a product are: bytes of shared memory by CTA, or registers and cells."""

    shared: dict[Ctaid, set[int]] = field(default_factory=dict)
    held: list[HeldLine] = field(default_factory=list)


def operand_writers(observe: Observe, lines: Lines) -> dict[Key, tuple[Writer, ...]]:
    """Who wrote some lines of operands, by the number of the product and the operand."""
    places: dict[Key, _Places] = {}

    def executed(each: ExecutedProduct) -> None:
        for operand, numbers in lines.get(each.number, {}).items():
            found = places.setdefault((each.number, operand), _Places())
            for number in numbers:
                for cta, offsets in each.product.bytes_of(operand, number):
                    found.shared.setdefault(cta.ctaid, set()).update(offsets.tolist())
                found.held += each.product.held(operand, number)

    observe(lambda launch: MmaLog(launch, executed), False)
    writers: dict[Key, tuple[Writer, ...]] = {}
    held_lines = {key: found.held for key, found in places.items() if found.held}
    watch: HeldWatch | None = None
    reads = {Read(key): found.shared for key, found in places.items()}
    if held_lines:
        watch = observe(lambda launch: HeldWatch(launch, _NOTHING, _BYTE, (), wanted=held_lines), True)
        assert watch is not None
        writers |= watch.found
        reads |= watch.read
    owners: dict[Read, tuple[Writer, ...]] = {}
    for cta in {cta for by_cta in reads.values() for cta in by_cta}:
        wanted = {read: sorted(by_cta[cta]) for read, by_cta in reads.items() if cta in by_cta}
        union = tuple(sorted({offset for offsets in wanted.values() for offset in offsets}))
        seen: SharedReads = observe(_watch_of(cta, union, wanted), True)
        for read, behind in seen.found.items():
            owners[read] = (*owners.get(read, ()), *behind)
    found_writers = {
        key: tuple(_with_behind(each, key, watch, owners) for each in own) for key, own in writers.items() if watch is not None
    }
    in_shared = {read.key: own for read, own in owners.items() if read.key not in writers}
    return found_writers | in_shared


def _with_behind(writer: Writer, key: Key, watch: HeldWatch, owners: Mapping[Read, tuple[Writer, ...]]) -> Writer:
    """The same with those who wrote the registers that it has stored, and the bytes of shared memory that it has loaded or copied."""
    own = identity(writer)
    reads = sorted(watch.from_shared.get(key, {}).get(own, ()))
    behind = {identity(each): each for read in reads for each in owners.get(read, ())}
    stored = watch.stored.get(key, {}).get(own, {}).values()
    return replace(writer, behind=(*(_with_behind(each, key, watch, owners) for each in stored), *behind.values()))


def with_writers(replay: Replay, found: MmaRecords) -> MmaRecords:
    """Add to records of products who wrote their operands."""
    lines = {record.number: {name: range(getattr(record, of.dimension)) for name, of in OPERANDS.items()} for record in found}
    known = operand_writers(lambda make, events: replay.observe(make, events=events)[1], lines)
    return MmaRecords(
        tuple(
            replace(record, writers={name: _merged(known[record.number, name]) for name in OPERANDS if (record.number, name) in known})
            for record in found
        )
    )


def _merged(writers: Iterable[Writer]) -> tuple[Writer, ...]:
    """Each instruction once for each warp, with all lanes that have executed it."""
    groups: dict[Any, list[Writer]] = {}
    for writer in writers:
        groups.setdefault(identity(writer)[:-1], []).append(writer)
    return tuple(
        replace(
            same[0],
            lanes=tuple(sorted({lane for each in same for lane in each.lanes})),
            behind=_merged(writer for each in same for writer in each.behind),
        )
        for same in groups.values()
    )


_NOTHING: NDArray[np.uint8] = np.zeros(0, np.uint8)
_BYTE: np.dtype[Any] = np.dtype(np.uint8)


def _watch_of(cta: Ctaid, union: tuple[int, ...], wanted: dict[Read, list[int]]) -> Callable[[Launch], Observer]:
    return lambda launch: SharedReads(launch, _NOTHING, _BYTE, (), until=CopiedBytes(-1, cta, union), wanted=wanted)
