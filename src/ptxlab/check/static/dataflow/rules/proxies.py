"""Rules on shared memory that threads write and the async proxy reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.diagnostics import Severity
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import Asynchronous, Completion, Proxy, ProxyFence, Space, Unit
from ptxlab.isa.native_ops import CopyAsync, LaneAccess, MatrixAccess, Nothing

__all__ = ["RULES"]


def _orders_proxies(point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, ProxyFence) and Space.SHARED in effect.spaces


def _writes_asynchronously(point: Point) -> bool:
    """Whether the async proxy writes shared memory."""
    effect = point.op.effects
    return isinstance(effect, Asynchronous) and effect.proxy is Proxy.ASYNC and Space.SHARED in effect.writes


def _reads_asynchronously(point: Point) -> bool:
    """Whether the async proxy reads shared memory of the CTA: an operand of a product, or the source of a copy."""
    effect = point.op.effects
    if not isinstance(effect, Asynchronous) or effect.proxy is not Proxy.ASYNC:
        return False
    if effect.unit in (Unit.TENSOR_CORE, Unit.WARPGROUP):
        return any(name in ("a-desc", "b-desc", "s-desc") for name, _ in point.op.row.operands)
    return effect.completion is Completion.BULK_GROUP and point.named("src-shared") is not None


def _stores(kernel: Kernel, point: Point) -> Value | None:
    """The address to which an instruction stores in shared memory through the generic proxy."""
    match kernel.program.natives.get(point.op.index):
        case LaneAccess(write=True, space="shared", address=position) | MatrixAccess(write=True, address=position):
            return point.operands[position]
        case CopyAsync(destination=position):
            return point.operands[position]
    return None


def _roots(point: Point, names: tuple[str, ...]) -> set[str]:
    """The variables in shared memory that operands were made from."""
    found = set()
    for name in names:
        value = point.named(name)
        if value is not None:
            found.add(value.root or (value.symbol.root if value.symbol is not None else ""))
    return found


_MASK = (1 << SHARED_RANK_SHIFT) - 1
_SOURCES = ("src-shared", "a-desc", "b-desc", "s-desc")


def fences(kernel: Kernel) -> Iterator[Report]:
    """Stores that reach an operation of the async proxy with no proxy fence in the threads that store.

    What the operation reads must have been written by threads: the async proxy does not write the variable, or no shared memory at all.
    """
    reads = kernel.of(_reads_asynchronously)
    if not reads:
        return
    filled = kernel.of(_writes_asynchronously)
    filled_roots = {root for point in filled for root in _roots(point, ("dst-shared",))}
    stores = kernel.of(lambda p: _stores(kernel, p) is not None)
    written = [(store, found) for store in stores if (found := _written(kernel, store)) is not None]
    shared = kernel.program.shared
    for read in reads:
        starts = {start for name in _SOURCES if (value := read.named(name)) is not None for start in _starts(kernel, read, name, value)}
        exact = [store for store, ranges in written if _covers(ranges, starts)]
        report = next(filter(None, (_unfenced(kernel, store, read) for store in exact)), None)
        if report is not None:
            yield report
            continue
        roots = _roots(read, _SOURCES)
        known = "" not in roots and all(shared.variables.get(root, shared.static_end) < shared.static_end for root in roots)
        if known and not roots & filled_roots and "" not in filled_roots:
            relevant = [store for store in stores if _root(kernel, store) in roots]
            report = next(filter(None, (_unfenced(kernel, store, read) for store in relevant)), None)
        elif not filled:
            relevant = [store for store in stores if _follows(kernel, store, read)]
            fenced = any(
                paths.reaches(store, _orders_proxies) for store in relevant for paths in kernel.paths if paths.reached[store.block]
            )
            report = _report(relevant[-1], read, None) if relevant and not fenced else None
        else:
            report = None
        if report is not None:
            yield report


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Accesses of a size at some offsets; ``low`` and ``high`` are the bounds of all of them."""

    offsets: NDArray[np.int64]
    size: int
    low: int
    high: int


def _written(kernel: Kernel, store: Point) -> _Ranges | None:
    """What a store surely writes; None if that is not known."""
    address = _stores(kernel, store)
    native = kernel.program.natives[store.op.index]
    if address is None or address.symbol is not None or isinstance(native, MatrixAccess | Nothing):
        return None
    size = native.size if isinstance(native, LaneAccess | CopyAsync) else 1
    threads = kernel.surely(kernel.executing(store))
    offsets = np.broadcast_to(np.asarray(address.data, np.int64) & _MASK, threads.shape)[threads]
    return _Ranges(offsets, size, int(offsets.min()), int(offsets.max()) + size) if offsets.size else None


def _covers(written: _Ranges, starts: set[int]) -> bool:
    """Whether one of these accesses covers one of these bytes."""
    offsets, size = written.offsets, written.size
    return any(written.low <= each < written.high and bool(((offsets <= each) & (each < offsets + size)).any()) for each in starts)


def _starts(kernel: Kernel, read: Point, name: str, value: Value) -> set[int]:
    """The first bytes that an operand names in the threads that surely execute the operation, if they are known."""
    first = value.first
    if first is None:
        return set()
    given = {first.data} if isinstance(first.data, int) else set(first.data[kernel.surely(kernel.executing(read))].tolist())
    if name == "src-shared":
        return {each & _MASK for each in given}
    return {SharedMemoryDescriptor.decode(each).start for each in given}


def _unfenced(kernel: Kernel, store: Point, read: Point) -> Report | None:
    """A finding if some class of threads that stores has no fence before the operation."""

    def here(point: Point) -> bool:
        return point is read

    found = []
    for paths in kernel.paths:
        if not paths.reached[store.block] or paths.executes(store) is False:
            continue
        if paths.comes_to(store, read):
            if paths.path(store, _orders_proxies, here) is read:
                found.append(not paths.between(store, read, _orders_proxies))
        elif _follows(kernel, store, read) and not paths.reaches(store, _orders_proxies):
            found.append(False)
    return _report(store, read, None if any(found) else "warning") if found else None


def _report(store: Point, read: Point, severity: Severity | None) -> Report:
    message = f"{read.op.short} may read what {store.op.short} at line {store.op.line} writes, and no fence.proxy.async stands between"
    fix = "execute fence.proxy.async in the threads that write, then the barrier, then this instruction"
    return Report("X102", read.op, message, fix, severity=severity)


def _root(kernel: Kernel, store: Point) -> str:
    address = _stores(kernel, store)
    return "" if address is None else address.root


def _follows(kernel: Kernel, store: Point, read: Point) -> bool:
    """Whether the operation may come after the store in the order of the text: in a thread that may execute both blocks."""
    if store.block == read.block and store.op.index < read.op.index:
        return True
    return kernel.comes_behind(store.block, read.block)


RULES = (fences,)
