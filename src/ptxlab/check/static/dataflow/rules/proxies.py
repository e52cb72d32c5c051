"""Rules on shared memory that threads write and the async proxy reads."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._flow import Point
from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.isa.effects import Asynchronous, Completion, Proxy, ProxyFence, Space, Unit
from ptxlab.isa.native_ops import CopyAsync, LaneAccess, MatrixAccess

__all__ = ["RULES"]


def _is_fence(point: Point) -> bool:
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


def fences(kernel: Kernel) -> Iterator[Report]:
    """Stores that reach an operation of the async proxy with no proxy fence in the threads that store.

    What the operation reads must have been written by threads: the async proxy writes no shared memory in this kernel, or the operation
    reads a variable that it does not write.
    """
    reads = kernel.of(_reads_asynchronously)
    if not reads:
        return
    filled = kernel.of(_writes_asynchronously)

    def stores(point: Point) -> bool:
        native = kernel.program.natives.get(point.op.index)
        match native:
            case LaneAccess(write=True, space="shared") | MatrixAccess(write=True) | CopyAsync():
                return True
        return False

    written = kernel.of(stores)
    if not written or (filled and not _separate(filled, reads)):
        return
    for read in reads:
        if filled and not _separate(filled, [read]):
            continue
        fenced = False
        reaching: list[Point] = []
        for paths in kernel.paths:
            for store in paths.points(stores):
                if _elsewhere(kernel, store, read) or not _follows(kernel, store, read):
                    continue
                reaching.append(store)
                fenced = fenced or paths.reaches(store, _is_fence)
        if reaching and not fenced:
            store = reaching[-1]
            message = (
                f"{read.op.short} may read what {store.op.short} at line {store.op.line} writes, and no fence.proxy.async stands between"
            )
            fix = "execute fence.proxy.async in the threads that write, then the barrier, then this instruction"
            yield Report("X102", read.op, message, fix)
            return


def _root(point: Point) -> str:
    """The shared variable that an operation of the async proxy reads or writes, if it is one only."""
    for name in ("dst-shared", "src-shared"):
        value = point.named(name)
        if value is not None:
            return value.root
    return ""


def _separate(filled: list[Point], reads: list[Point]) -> bool:
    """Whether operations surely read other variables than the async proxy writes."""
    roots = {_root(point) for point in filled}
    return "" not in roots and all(_root(point) and _root(point) not in roots for point in reads)


def _elsewhere(kernel: Kernel, store: Point, read: Point) -> bool:
    """Whether a store surely goes to another variable than the one that is read."""
    native = kernel.program.natives[store.op.index]
    position = native.destination if isinstance(native, CopyAsync) else native.address  # type: ignore[union-attr]
    address = store.operands[position]
    root = _root(read)
    return bool(root and address is not None and address.root and address.root != root)


def _follows(kernel: Kernel, store: Point, read: Point) -> bool:
    """Whether the operation may come after the store in the order of the text: in a thread that may execute both blocks."""
    seen = {store.block}
    work = [store.block]
    if store.block == read.block and store.op.index < read.op.index:
        return True
    while work:
        for following in kernel.program.blocks[work.pop()].successors:
            if following == read.block:
                return True
            if following not in seen:
                seen.add(following)
                work.append(following)
    return False


RULES = (fences,)
