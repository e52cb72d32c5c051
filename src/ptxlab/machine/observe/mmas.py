"""An observer that numbers the matrix instructions of a launch, and what is read while the launch runs again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.launch.mma_records import MmaMatrices, MmaRecord, MmaRecords, values_of
from ptxlab.machine.observe.observer import Observer

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations.products import Product
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["ExecutedProduct", "MmaLog", "matrices", "records"]

Issuer = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ExecutedProduct:
    """A product that has just been computed: its number, the number of the one that its sum begins with, and who issued it."""

    number: int
    first: int
    op: Op
    product: Product
    issuer: Issuer


@dataclass(slots=True, eq=False)
class MmaLog(Observer):
    """Numbers products in the order in which they are computed, and finds out which of them add to one sum.

    ``executed`` is called after each product, before anything reads D.
    """

    launch: Launch
    executed: Callable[[ExecutedProduct], None]
    count: int = 0
    _sums: dict[Hashable, int] = field(default_factory=dict)
    """By the result to which another product may add: the number of the first product of the sum."""
    _issuers: dict[AsyncOperation, Issuer] = field(default_factory=dict)

    def issued(self, operation: AsyncOperation) -> None:
        """Note who issues an asynchronous product."""
        if operation.details is not None:
            warp = self.launch.scheduler.current
            self._issuers[operation] = -1 if warp is None else warp.warp_id, () if warp is None else tuple(warp.lanes().tolist())

    def performed(self, operation: AsyncOperation) -> None:
        """An asynchronous product is complete."""
        issuer = self._issuers.pop(operation, None)
        if issuer is not None and operation.details is not None:
            self._computed(operation.op, operation.details(), issuer)

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """A product of one warp is complete."""
        self._computed(warp.op, details(), (warp.warp_id, tuple(warp.lanes().tolist())))

    def _computed(self, op: Op, product: Product, issuer: Issuer) -> None:
        before = self._sums.pop(product.accumulator, None)
        first = before if before is not None and product.accumulate else self.count
        self.executed(ExecutedProduct(self.count, first, op, product, issuer))
        self._sums[product.result] = first
        self.count += 1


def record_of(launch: Launch, executed: ExecutedProduct, replay: Replay | None) -> MmaRecord:
    """The record of a product."""
    product = executed.product
    place, excerpt, source = launch.reports.place(executed.op)
    return MmaRecord(
        executed.number,
        executed.op.opcode,
        place,
        excerpt,
        source,
        product.ctas[0].ctaid,
        *executed.issuer,
        product.m,
        product.n,
        product.k,
        product.a,
        product.b,
        product.d,
        product.accumulate,
        executed.first,
        product.facts(),
        str(product.place(0, 0)),
        replay=replay,
    )


def records(replay: Replay, cta: tuple[int, int, int] | None = None, line: int | None = None) -> MmaRecords:
    """Run a launch again, and record its products: all, or those of a CTA, or of an instruction at a line of the PTX."""
    found: list[MmaRecord] = []

    def observer(launch: Launch) -> MmaLog:
        def executed(each: ExecutedProduct) -> None:
            if (cta is None or any(c.ctaid == cta for c in each.product.ctas)) and line in (None, each.op.line):
                found.append(record_of(launch, each, replay))

        return MmaLog(launch, executed)

    replay.observe(observer, events=False)
    return MmaRecords(tuple(found))


def matrices(replay: Replay, record: MmaRecord) -> MmaMatrices:
    """Run the launch of a record again, and read the matrices of its product."""
    found: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []

    def executed(each: ExecutedProduct) -> None:
        if each.number == record.number:
            product = each.product
            found.append((product.codes("a").copy(), product.codes("b").copy(), product.read_d().copy()))

    replay.observe(lambda launch: MmaLog(launch, executed), events=False)
    a, b, d = found[0]
    return MmaMatrices(*(np.asarray(values_of(x, t)) for x, t in ((a, record.a), (b, record.b), (d, record.d))))
