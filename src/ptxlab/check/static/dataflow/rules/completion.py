"""Rules on results of asynchronous operations that some threads use without any wait for an mbarrier."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_product, of_class, synchronises
from ptxlab.check.static.dataflow._point import Point
from ptxlab.diagnostics import Severity
from ptxlab.isa.effects import Asynchronous, Completion, MbarrierWait, TensorTransfer
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess

__all__ = ["RULES"]

_is_wait = of_class(MbarrierWait)


def unawaited(kernel: Kernel) -> Iterator[Report]:
    """Reads of what a copy or a product writes, in threads that have waited for no mbarrier, and for no thread that has."""
    copies = kernel.of(lambda p: isinstance(p.op.effects, Asynchronous) and p.op.effects.completion is Completion.BYTES)
    products = kernel.of(is_product)
    if not (copies or products) or not kernel.of(_is_wait):
        return
    late = {
        point.op.index
        for point in kernel.of(lambda p: synchronises(p) and not _is_wait(p))
        if any(paths.leads(wait, point) for paths in kernel.paths for wait in paths.points(_is_wait))
    }
    filled = _variables(kernel, copies)

    def waits(point: Point) -> bool:
        return _is_wait(point) or point.op.index in late

    def reads_copy(point: Point) -> bool:
        native = kernel.program.natives.get(point.op.index)
        if not isinstance(native, LaneAccess | MatrixAccess) or native.write:
            return False
        address = point.operands[native.address]
        return address is not None and address.root in filled

    def reads_product(point: Point) -> bool:
        return isinstance(point.op.effects, TensorTransfer) and not point.op.effects.write

    for paths in kernel.paths:
        if filled and isinstance(read := paths.path(None, waits, reads_copy), Point):
            message = f"{read.op.short} reads a variable that {copies[0].op.short} fills, and these threads have waited for no mbarrier"
            severity: Severity | None = None if not paths.between(None, read, waits) else "warning"
            yield Report("X103", read.op, message, "wait on the mbarrier of the copy before what is copied is used", severity=severity)
        if products and not _stores(kernel) and isinstance(read := paths.path(None, waits, reads_product), Point):
            if paths.between(None, read, waits):
                continue
            message = f"{read.op.short} reads tensor memory, and these threads have waited for no commit of the products"
            yield Report("X105", read.op, message, "wait on the mbarrier of tcgen05.commit before the results are read", severity="warning")


def _variables(kernel: Kernel, copies: list[Point]) -> set[str]:
    """The shared variables of fixed size that copies fill and that no thread stores to."""
    shared = kernel.program.shared
    found = {value.root for point in copies if (value := point.named("dst-shared")) is not None}
    stored = set()
    for point in kernel.points:
        native = kernel.program.natives.get(point.op.index)
        if isinstance(native, LaneAccess | MatrixAccess) and native.write:
            address = point.operands[native.address]
            stored.add("" if address is None else address.root)
    return {root for root in found - stored if root and shared.variables.get(root, shared.static_end) < shared.static_end}


def _stores(kernel: Kernel) -> bool:
    """Whether threads write tensor memory themselves."""
    return any(isinstance(point.op.effects, TensorTransfer) and point.op.effects.write for point in kernel.points)


RULES = (unawaited,)
