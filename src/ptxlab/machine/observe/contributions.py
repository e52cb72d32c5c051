"""Which products an element is a sum of, and which elements of the inputs they multiplied.

No instruction is followed: the launch runs again, with some elements of D or of the inputs changed, and what has changed then depends on
them. Elements are numbered. For each bit of the numbers one run changes those whose number has the bit, and one run the others; what
depends on exactly one element differs in exactly one run of each pair, and these runs say its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.context import Word
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const
from ptxlab.isa.operations import AsyncOperation
from ptxlab.layout import fragment
from ptxlab.machine.launch.contributions import Contribution, InputElement, OperandLine
from ptxlab.machine.launch.mma_records import OPERANDS, MmaRecord
from ptxlab.machine.launch.result import Provenance, Writer
from ptxlab.machine.observe.mmas import ExecutedProduct, MmaLog, record_of
from ptxlab.machine.observe.operand_writers import operand_writers
from ptxlab.machine.observe.provenance import Watch

if TYPE_CHECKING:
    from ptxlab.isa.operations.products import Product, ProductPlace
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.memory.global_memory import DeviceMemory
    from ptxlab.machine.replay.replay import Placed, Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["with_contributions"]

Codes = NDArray[Any]
Mask = NDArray[np.bool_]

_BESIDE = {"a": (("scale_a", "scale factors"), ("metadata", "sparsity metadata")), "b": (("scale_b", "scale factors"),)}
"""What a product takes beside a row of A and a column of B, and what it is called there."""
_MOST_SUMS = 64
"""Sums that are tried one by one if an element depends on several."""


@dataclass(slots=True)
class _Sum:
    """Products that add to one D: the numbers of the first and the last, and of all."""

    m: int
    n: int
    members: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.m * self.n


@dataclass(slots=True)
class _Run:
    """Runs of the launch, or of the cluster that wrote the element: what the element holds then, and what products took."""

    replay: Replay
    address: int
    size: int
    changes: dict[str, Any]

    def element(
        self, executed: Callable[[ExecutedProduct], None], inputs: Callable[[DeviceMemory], None] | None = None
    ) -> tuple[bytes, MmaLog]:
        """Run with a function that is called after each product, and with changed inputs; the bytes of the element."""
        memory: list[DeviceMemory] = []

        def observer(launch: Launch) -> MmaLog:
            memory.append(launch.device.memory)
            if inputs is not None:
                inputs(launch.device.memory)
            return MmaLog(launch, executed)

        _, log = self.replay.observe(observer, events=False, **self.changes)
        return memory[0].view(self.address, self.size).tobytes(), log


def with_contributions(replay: Replay, placed: Placed, found: Provenance) -> Provenance:
    """Add to the provenance of an element the products that it is a sum of; the same if no product is found."""
    if not found.writers:
        return found
    address = placed.address + sum(i * s for i, s in zip(found.index, placed.strides, strict=True))
    wanted = np.asarray(found.after).tobytes()
    for changes in ({"only": [found.writers[0].cta]}, {}):
        run = _Run(replay, address, placed.dtype.itemsize, changes)
        sums: dict[int, _Sum] = {}

        def executed(each: ExecutedProduct, sums: dict[int, _Sum] = sums) -> None:
            sums.setdefault(each.first, _Sum(each.product.m, each.product.n)).members.append(each.number)

        if run.element(executed)[0] == wanted:
            break
    at, several = _sum_of(run, list(sums.values()), wanted)
    if at is None:
        return replace(found, several=several)
    one, m, n = at
    traced = _Traced(run, one, m, n)
    return replace(found, contributions=tuple(traced.contributions()), loaded=traced.loaded(), several=several)


# ------------------------------------------------------------------------------------------------------------ elements of D


def _sum_of(run: _Run, sums: list[_Sum], wanted: bytes) -> tuple[tuple[_Sum, int, int] | None, bool]:
    """The sum and the element of D on which an element depends, of several the latest; and whether it depends on several."""

    def changed(chosen: list[_Sum], select: Callable[[NDArray[np.int64]], Mask]) -> bool:
        first = dict(zip((s.members[-1] for s in chosen), np.cumsum([0, *(s.size for s in chosen)]).tolist(), strict=False))

        def executed(each: ExecutedProduct) -> None:
            start = first.get(each.number)
            if start is not None:
                product = each.product
                bits = product.read_d()
                product.write_d(np.where(select(np.arange(start, start + bits.size).reshape(bits.shape)), _other(bits, product.d), bits))

        return run.element(executed)[0] != wanted

    def number(chosen: list[_Sum]) -> int | None:
        """The number of the only element that matters; -1 if none does, None if several do."""
        if not chosen or not changed(chosen, lambda numbers: numbers >= 0):
            return -1
        found = 0
        for bit in range((sum(s.size for s in chosen) - 1).bit_length()):
            ones, others = (changed(chosen, _having(bit, value)) for value in (1, 0))
            if ones and others:
                return None
            found |= ones << bit
        return found

    def place(chosen: list[_Sum], at: int) -> tuple[_Sum, int, int]:
        for each in chosen:
            if at < each.size:
                return each, *divmod(at, each.n)
            at -= each.size
        raise AssertionError

    found = number(sums)
    if found is not None:
        return (None if found < 0 else place(sums, found)), False
    latest = sorted(sums, key=lambda s: s.members[-1], reverse=True)[:_MOST_SUMS]
    for each in latest:
        found = number([each])
        if found != -1:
            return (None if found is None else place([each], found)), True
    return None, True


def _having(bit: int, value: int) -> Callable[[NDArray[np.int64]], Mask]:
    """Selects the numbers in which a bit has a value."""

    def select(numbers: NDArray[np.int64]) -> Mask:
        chosen: Mask = (numbers >> bit & 1) == value
        return chosen

    return select


def _other(bits: Codes, element: str) -> Codes:
    """Other values of D, with the other sign, that no rounding takes for the same."""
    kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(element)
    if kind is None:
        return (~(bits.view(np.int32) + (bits.view(np.int32) >> 1))).view(np.uint32)
    values = np.nan_to_num(bits.view(kind).astype(np.float64), nan=0.0, posinf=1e4, neginf=-1e4)
    with np.errstate(over="ignore"):
        changed = np.where(values < 0, 1 - 1.5 * values, -1 - 1.5 * values).astype(kind)
    return changed.view(bits.dtype)


# ------------------------------------------------------------------------------------------------------- rows of A and of B


@dataclass(slots=True)
class _Taken:
    """What one product took for the element: its record, the place in D, and the codes of A's row and B's column."""

    record: MmaRecord
    place: ProductPlace
    codes: dict[str, Codes]


@dataclass(slots=True)
class _Traced:
    """Element (m, n) of a sum."""

    run: _Run
    sum: _Sum
    m: int
    n: int
    taken: dict[int, _Taken] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = set(self.sum.members)
        launches: list[Launch] = []

        def executed(each: ExecutedProduct) -> None:
            if each.number in wanted:
                product = each.product
                record = record_of(launches[0], each, self.run.replay)
                self.taken[each.number] = _Taken(record, product.place(self.m, self.n), self._lines(product))

        def observer(launch: Launch) -> MmaLog:
            launches.append(launch)
            return MmaLog(launch, executed)

        self.run.replay.observe(observer, events=False, **self.run.changes)

    def _observe(self, make: Callable[[Launch], Any], events: bool) -> Any:
        return self.run.replay.observe(make, events=events, **self.run.changes)[1]

    def _line(self, operand: str) -> int:
        return self.m if operand == "a" else self.n

    def _lines(self, product: Product) -> dict[str, Codes]:
        return {operand: product.codes(operand)[self._line(operand)].copy() for operand in "ab"}

    def contributions(self) -> Iterator[Contribution]:
        """The products, in order."""
        inputs, mixed = self._inputs()
        wanted = {
            number: {name: [self.m if operand.dimension == "m" else self.n] for name, operand in OPERANDS.items()}
            for number in self.sum.members
        }
        writers = operand_writers(self._observe, wanted)
        for number in self.sum.members:
            taken = self.taken[number]
            lines = {
                o: OperandLine(
                    self._line(o),
                    tuple(map(tuple, inputs[number, o])),
                    tuple(sorted(mixed[number, o])),
                    writers.get((number, o), ()),
                    {title: writers[number, name] for name, title in _BESIDE[o] if (number, name) in writers},
                )
                for o in "ab"
            }
            yield Contribution(taken.record, self.m, self.n, str(taken.place), lines["a"], lines["b"])

    def _inputs(self) -> tuple[dict[tuple[int, str], list[list[InputElement]]], dict[tuple[int, str], set[str]]]:
        """By product and operand: for each element the elements of inputs, and the arrays of which it takes several."""
        keys = [(number, operand) for number in self.sum.members for operand in "ab"]
        found: dict[tuple[int, str], list[list[InputElement]]] = {key: [[] for _ in self._codes(key)] for key in keys}
        mixed: dict[tuple[int, str], set[str]] = {key: set() for key in keys}
        for placed in self.run.replay.arrays:
            count = int(np.prod(placed.shape))
            if not count or not _is_data(placed.dtype):
                continue
            any_ = self._depends(placed, lambda numbers: numbers >= 0)
            if not any(mask.any() for mask in any_.values()):
                continue
            number = {key: np.zeros(mask.shape, np.int64) for key, mask in any_.items()}
            unclear = {key: ~mask for key, mask in any_.items()}
            for bit in range((count - 1).bit_length()):
                ones, others = (self._depends(placed, _having(bit, value)) for value in (1, 0))
                for key in keys:
                    number[key] |= ones[key].astype(np.int64) << bit
                    unclear[key] |= ones[key] == others[key]
            for key in keys:
                for k in np.flatnonzero(any_[key]).tolist():
                    if unclear[key][k]:
                        mixed[key].add(placed.name)
                    else:
                        index = tuple(int(i) for i in np.unravel_index(int(number[key][k]), placed.shape))
                        found[key][k].append((placed.name, index))
        return found, mixed

    def _codes(self, key: tuple[int, str]) -> Codes:
        return self.taken[key[0]].codes[key[1]]

    def _depends(self, placed: Placed, select: Callable[[NDArray[np.int64]], Mask]) -> dict[tuple[int, str], Mask]:
        """Which elements of the operands change if elements of an array do."""
        found: dict[tuple[int, str], Mask] = {}

        def executed(each: ExecutedProduct) -> None:
            if each.number in self.taken:
                for operand, codes in self._lines(each.product).items():
                    found[each.number, operand] = codes != self.taken[each.number].codes[operand]

        def inputs(memory: DeviceMemory) -> None:
            array = placed.view(memory)
            chosen = select(np.arange(array.size).reshape(array.shape))
            array[chosen] = _flipped(array[chosen])

        self.run.element(executed, inputs)
        # A product that is not reached then has not been found to change.
        return {
            (number, operand): found.get((number, operand), np.zeros(codes.shape, np.bool_))
            for number, taken in self.taken.items()
            for operand, codes in taken.codes.items()
        }

    # ------------------------------------------------------------------------------------------------------------- writers

    def loaded(self) -> Writer | None:
        """The tcgen05.ld that reads the element from tensor memory after the last product."""
        last = self.sum.members[-1]
        place = self.taken[last].place
        if place.column is None:
            return None
        nothing = np.zeros(0, np.uint8)
        _, watch = self.run.replay.observe(
            lambda launch: _LoadWatch(launch, nothing, np.dtype(np.uint8), (), after=last, place=place), **self.run.changes
        )
        return watch.found


def _is_data(dtype: np.dtype[Any]) -> bool:
    """Whether an array may hold elements of matrices; integers of 32 bits and more are numbers and addresses."""
    return dtype.kind not in "iub" or dtype.itemsize <= 2


def _flipped(values: Codes) -> Codes:
    """The same number of elements with other bits, so that a conversion to another type gives another value."""
    size = values.dtype.itemsize
    bits = {1: 0x22, 2: 0x0240, 4: 0x00C0_0000, 8: 0x0018_0000_0000_0000}.get(size)
    raw = np.ascontiguousarray(values).view(f"u{size}" if bits is not None else np.uint8)
    changed: Codes = (raw ^ raw.dtype.type(bits or 1)).view(values.dtype)
    return changed


@dataclass(slots=True, eq=False)
class _LoadWatch(Watch):
    """Finds the first tcgen05.ld of a cell of tensor memory after a product."""

    after: int = field(kw_only=True)
    place: ProductPlace = field(kw_only=True)
    found: Writer | None = None
    _products: int = 0

    def performed(self, operation: AsyncOperation) -> None:
        """Count products."""
        Watch.performed(self, operation)
        self._products += operation.details is not None

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """Count products."""
        self._products += 1

    def drain(self, warp: Warp) -> None:
        """Look for the load among the recorded rows."""
        cta: CtaState = warp.cta
        if self.found is None and self._products > self.after and cta.ctaid == self.place.cta.ctaid:
            for row in self.rows(warp.words[Word.EVENT_COUNT]):
                index = int(row[0]) & 0xFFFF_FFFF
                native = self.launch.program.natives.get(index)
                if isinstance(native, TensorAccess) and not native.write and self.found is None:
                    self._look(warp, index, native, int(row[1]))
        Watch.drain(self, warp)

    def _look(self, warp: Warp, index: int, native: TensorAccess, address: int) -> None:
        op = self.launch.program.ops[index]
        split = op.operands[native.split] if native.split >= 0 else Const(0)
        cells = fragment(native.shape, native.repeat, native.pack, split.value if isinstance(split, Const) else 0)
        lane = cells.lane + 32 * (warp.warp_id % 4) + (address >> 16 & 31)
        column = cells.column + (address & 0xFFFF)
        second = column + native.pack
        hit = (lane == self.place.lane) & ((column == self.place.column) | (second == self.place.column))
        if hit.any():
            threads = sorted({int(thread) for thread in np.argwhere(hit)[:, 0]})
            where, excerpt, source = self.launch.reports.place(op)
            self.found = Writer(op.opcode, False, warp.cta.ctaid, warp.warp_id, tuple(threads), where, excerpt, source)
