"""Rules on mbarriers: initialisation, publication, arrivals and waits."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._kernel import (
    Kernel,
    Report,
    Test,
    common,
    is_product,
    is_supplier,
    mbarrier_operand,
    never,
    of_class,
    synchronises,
)
from ptxlab.check.static.dataflow._paths import Paths
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow.rules.maps import box_of
from ptxlab.isa.effects import (
    Asynchronous,
    ClusterArrive,
    Completion,
    CompletionArrival,
    Fence,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    MbarrierInval,
    MbarrierTransactions,
    MbarrierWait,
    ProxyFence,
    TensorTransfer,
)

__all__ = ["RULES"]

_is_init, _is_wait = of_class(MbarrierInit), of_class(MbarrierWait)


def _is_use(point: Point) -> bool:
    return is_supplier(point) or isinstance(point.op.effects, MbarrierWait | MbarrierTransactions | MbarrierInval)


class _Objects:
    """The mbarriers of a kernel by their offsets in shared memory; an offset of None is not known."""

    def __init__(self, kernel: Kernel) -> None:
        self.offsets = {
            point.op.index: kernel.shared_offsets(point, mbarrier_operand(point))
            for point in (*kernel.matches(_is_use), *kernel.matches(_is_init))
            if mbarrier_operand(point) is not None
        }
        self.uses: dict[int, list[Point]] = {}
        """Those that address one mbarrier only, and do not initialise it, by its offset."""
        for point in kernel.matches(_is_use):
            offsets = self.of(point)
            if len(offsets) == 1:
                self.uses.setdefault(min(offsets), []).append(point)

    def known(self, points: list[Point]) -> dict[int, list[Point]] | None:
        """Instructions by the offset that they address; None if one is not known."""
        found: dict[int, list[Point]] = {}
        for point in points:
            offsets = self.offsets.get(point.op.index)
            if offsets is None:
                return None
            for offset in offsets:
                found.setdefault(offset, []).append(point)
        return found

    def of(self, point: Point) -> frozenset[int]:
        return self.offsets.get(point.op.index) or frozenset()


def initialisation(kernel: Kernel) -> Iterator[Report]:
    """Mbarriers that are used but never initialised, or before nothing orders it after their initialisation."""
    objects = kernel.fact(_Objects)
    inits = objects.known(kernel.of(_is_init))
    if inits is None:
        return
    named: set[int] = set()
    for point in kernel.of(_is_use):
        offsets = objects.of(point)
        for offset in sorted(offsets - inits.keys() - named):
            named.add(offset)
            message = f"there is no mbarrier object at shared offset {offset:#x}: no instruction of the kernel initialises it"
            yield Report("B503", point.op, message, "execute mbarrier.init, and a barrier, before the first use")
    for paths in kernel.paths:
        yield from _unpublished(kernel, objects, inits, paths)


def _unpublished(kernel: Kernel, objects: _Objects, inits: dict[int, list[Point]], paths: Paths) -> Iterator[Report]:
    own = {offset for offset, points in inits.items() if any(paths.reached[p.block] and paths.executes(p) is not False for p in points)}

    def early(point: Point) -> bool:
        return _is_use(point) and bool(objects.of(point) & inits.keys() - own) and point.op.effects is not None

    found = paths.path(None, synchronises, early)
    if isinstance(found, Point):
        first = min(objects.of(found) & inits.keys() - own)
        lines = common(inits[first])
        message = (
            f"{found.op.short} uses the mbarrier at shared offset {first:#x}, and no barrier orders it after mbarrier.init at line {lines}"
        )
        yield Report("X120", found.op, message, "execute a barrier of the CTA after mbarrier.init, in all threads")
    for offset in own:
        for init in inits[offset]:
            if not any(paths.leads(use, init) for use in objects.uses.get(offset, ())):
                continue

            def before(point: Point, offset: int = offset) -> bool:
                return _is_use(point) and objects.of(point) == {offset}

            early_use = paths.path(None, lambda p, o=offset: _is_init(p) and o in objects.of(p), before)  # type: ignore[misc]
            if isinstance(early_use, Point) and paths.path(early_use, never, lambda p, i=init: p is i) is not None:  # type: ignore[misc]
                message = f"{early_use.op.short} stands before mbarrier.init at line {init.op.line}"
                yield Report("B503", early_use.op, message, "execute mbarrier.init, and a barrier, before the first use")
                return


def cluster_publication(kernel: Kernel) -> Iterator[Report]:
    """Initialisations that only a relaxed arrival at the cluster barrier follows: other CTAs need not see them."""

    def relaxed(point: Point) -> bool:
        effect = point.op.effects
        return isinstance(effect, ClusterArrive) and not effect.order.releases

    if not kernel.of(relaxed):
        return
    fences = of_class(MbarrierInitFence, Fence, ProxyFence)
    for paths in kernel.paths:
        for init in paths.points(_is_init):
            arrival = paths.path(init, lambda p: of_class(ClusterArrive)(p) and not relaxed(p), relaxed)
            if isinstance(arrival, Point) and not _any_before(kernel, fences, arrival):
                message = f"{arrival.op.short} is relaxed: it does not publish mbarrier.init at line {init.op.line} to the cluster"
                fix = "execute fence.mbarrier_init.release.cluster after the initialisation, or let the arrival release"
                # Only if another CTA uses this mbarrier is it wrong.
                yield Report("X120", arrival.op, message, fix, severity="warning")


def _any_before(kernel: Kernel, accepts: Test, point: Point) -> bool:
    """Whether some thread may execute one of these instructions before another one."""
    return any(paths.leads(each, point) for paths in kernel.paths for each in paths.points(accepts))


def supplies(kernel: Kernel) -> Iterator[Report]:
    """Waits on an mbarrier on which nothing arrives."""
    objects = kernel.fact(_Objects)
    suppliers = objects.known(kernel.of(is_supplier))
    if suppliers is None:
        return
    first_waits: dict[int, list[Point]] = {}
    for point in kernel.of(_is_wait):
        parity = point.named("phaseParity")
        if parity is None or parity.constant != 0:
            continue
        offsets = objects.of(point)
        if offsets and not offsets & suppliers.keys():
            message = f"{point.op.short} waits on the mbarrier at shared offset {min(offsets):#x}, and nothing arrives there"
            yield Report("H601", point.op, message, "let a thread, a copy or a commit arrive on this mbarrier")
        elif len(offsets) == 1 and kernel.repeats(point):
            first_waits.setdefault(min(offsets), []).append(point)
    for offset, waits in first_waits.items():
        late = suppliers[offset]
        if kernel.paths and not any(paths.enters(waits.__contains__, late.__contains__) for paths in kernel.paths):
            what = f"what arrives there, {late[0].op.short} at line {common(late)}, stands behind the wait"
            message = f"{waits[0].op.short} waits for the first phase of the mbarrier at shared offset {offset:#x}, and {what}"
            yield Report("H601", waits[0].op, message, "let something arrive on this mbarrier before any thread has passed the wait")


def unsupplied(kernel: Kernel) -> Iterator[Report]:
    """Waits on an array of mbarriers in which nothing arrives on any."""
    supplied = {_variable(kernel, point) for point in kernel.of(is_supplier)}
    if "" in supplied:
        return
    for point in kernel.of(_is_wait):
        variable = _variable(kernel, point)
        if variable and variable not in supplied:
            message = f"{point.op.short} waits on mbarriers of {variable}, and nothing arrives on any of them"
            fix = "let a thread, a copy or a commit arrive on these mbarriers"
            yield Report("H601", point.op, message, fix, severity="warning")


def _variable(kernel: Kernel, point: Point) -> str:
    """The shared variable of fixed size in which an instruction addresses an mbarrier."""
    address = mbarrier_operand(point)
    shared = kernel.program.shared
    root = "" if address is None else address.root or (address.symbol.root if address.symbol is not None else "")
    return root if shared.variables.get(root, shared.static_end) < shared.static_end else ""


def arrivals(kernel: Kernel) -> Iterator[Report]:
    """First phases that never complete: outside of loops, fewer threads arrive than the mbarrier expects."""
    objects = kernel.fact(_Objects)
    suppliers, inits = objects.known(kernel.of(is_supplier)), objects.known(kernel.of(_is_init))
    if suppliers is None or inits is None:
        return
    for point in kernel.of(_is_wait):
        parity = point.named("phaseParity")
        offsets = objects.of(point)
        if parity is None or parity.constant != 0 or len(offsets) != 1:
            continue
        (offset,) = offsets
        counts = {None if (value := init.named("expected")) is None else value.constant for init in inits.get(offset, [])}
        total = _total(kernel, suppliers.get(offset, []))
        if len(counts) == 1 and total and (expected := counts.pop()) is not None and total < expected:
            message = f"the mbarrier at shared offset {offset:#x} expects {expected} arrivals, and at most {total} are made"
            yield Report("H601", point.op, message, "initialise the mbarrier with the number of arrivals of a phase")


def _total(kernel: Kernel, points: list[Point]) -> int | None:
    """The most arrivals that instructions outside of loops make; None if that is not known."""
    total = 0
    if kernel.names_ranks:
        return None
    for point in points:
        if isinstance(point.op.effects, Asynchronous):
            continue
        count = point.named("count")
        many = 1 if count is None else count.constant
        if many is None or kernel.program.blocks[point.block].depth or point.named("ctaMask") is not None:
            return None
        total += many * int(kernel.executing(point).sum())
    return total


def _effective(kernel: Kernel) -> list[Point]:
    """The waits that may wait for something.

    The phase before the first counts as complete: a wait for its parity on an mbarrier that completes one phase only waits for nothing.
    """
    objects = kernel.fact(_Objects)
    suppliers, inits = objects.known(kernel.of(is_supplier)), objects.known(kernel.of(_is_init))
    waits = kernel.of(_is_wait)
    if suppliers is None or inits is None:
        return waits

    def is_idle(point: Point) -> bool:
        parity, offsets = point.named("phaseParity"), objects.of(point)
        if parity is None or parity.constant != 1 or len(offsets) != 1:
            return False
        (offset,) = offsets
        counts = {None if (value := init.named("expected")) is None else value.constant for init in inits.get(offset, [])}
        total = _total(kernel, suppliers.get(offset, []))
        return len(counts) == 1 and total is not None and (expected := counts.pop()) is not None and total <= expected

    return [point for point in waits if not is_idle(point)]


def awaited_copies(kernel: Kernel) -> Iterator[Report]:
    """Copies to shared memory whose mbarrier nothing waits for."""
    objects = kernel.fact(_Objects)
    waits = objects.known(kernel.fact(_effective))
    if waits is None:
        return
    for point in kernel.of(lambda p: isinstance(p.op.effects, Asynchronous) and p.op.effects.completion is Completion.BYTES):
        offsets = objects.of(point)
        if offsets and not offsets & waits.keys() and point.named("ctaMask") is None:
            message = f"{point.op.short} completes on the mbarrier at shared offset {min(offsets):#x}, and nothing waits for it there"
            yield Report("X103", point.op, message, "wait on the mbarrier before what is copied is used")


def commits(kernel: Kernel) -> Iterator[Report]:
    """Operations on tensor memory that no commit tracks, and commits that nothing waits for."""
    for paths in kernel.paths:
        for start in paths.points(is_product):
            if not paths.reaches(start, _is_commit):
                message = f"no path from {start.op.short} reaches tcgen05.commit: nothing can wait for the operation"
                fix = "let the issuing thread execute tcgen05.commit, and wait on its mbarrier before the result is used"
                yield Report("X105", start.op, message, fix)
    objects = kernel.fact(_Objects)
    waits = objects.known(kernel.fact(_effective))
    if waits is None:
        return
    unawaited = {p.op.index: p for p in kernel.of(_is_commit) if (offsets := objects.of(p)) and not offsets & waits.keys()}
    if unawaited and _is_used(kernel):
        for point in _only_tracking(kernel, unawaited):
            offset = min(objects.of(point))
            message = f"{point.op.short} arrives on the mbarrier at shared offset {offset:#x}, and nothing waits for it there"
            yield Report("X105", point.op, message, "wait on the mbarrier before the results are used")


def _only_tracking(kernel: Kernel, commits: dict[int, Point]) -> Iterator[Point]:
    """Those of some commits that track an operation which reaches no other commit."""

    def others(point: Point) -> bool:
        return _is_commit(point) and point.op.index not in commits

    for paths in kernel.paths:
        for start in paths.points(is_product):
            if not paths.reaches(start, others):
                yield from (commit for commit in commits.values() if paths.comes_to(start, commit))


def _is_used(kernel: Kernel) -> bool:
    """Whether results in tensor memory are read."""
    return any(isinstance(point.op.effects, TensorTransfer) and not point.op.effects.write for point in kernel.points)


def _is_commit(point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, CompletionArrival) and effect.of is Completion.COMMIT


def bytes_expected(kernel: Kernel) -> Iterator[Report]:
    """Bytes that are expected on an mbarrier, against those of the copies that complete there, outside of loops."""
    objects = kernel.fact(_Objects)
    expects = objects.known(kernel.of(lambda p: _expected(p) is not None))
    copies = objects.known(kernel.of(_is_copy))
    if expects is None or copies is None or kernel.names_ranks or objects.known(kernel.of(is_supplier)) is None:
        return
    for offset, points in copies.items():
        announced = expects.get(offset, [])
        sizes = [_size(kernel, point) for point in points]
        if None in sizes or not all(_once(kernel, point) for point in (*points, *announced)):
            continue
        arriving = sum(size or 0 for size in sizes)
        expected = 0
        for point in announced:
            count = point.named("txCount")
            if count is None or count.constant is None:
                break
            expected += count.constant
        else:
            if expected != arriving:
                place = announced[0] if announced else points[0]
                message = f"{expected} bytes are expected on the mbarrier at shared offset {offset:#x}, and the copies complete {arriving}"
                yield Report("H601", place.op, message, f"expect {arriving} bytes")


def _expected(point: Point) -> object:
    effect = point.op.effects
    if (isinstance(effect, MbarrierArrive) and effect.expects) or (isinstance(effect, MbarrierTransactions) and not effect.completes):
        return effect
    return None


def _is_copy(point: Point) -> bool:
    effect = point.op.effects
    completes = isinstance(effect, MbarrierTransactions) and effect.completes
    return completes or (isinstance(effect, Asynchronous) and effect.completion is Completion.BYTES)


def _size(kernel: Kernel, point: Point) -> int | None:
    """The bytes that an instruction completes."""
    value = point.named("size") or point.named("txCount")
    return box_of(kernel, point) if value is None else value.constant


def _once(kernel: Kernel, point: Point) -> bool:
    """Whether exactly one thread of the CTA executes an instruction, surely and once."""
    guard = point.guard
    if kernel.program.blocks[point.block].depth or (guard is not None and guard.symbol is not None):
        return False
    if kernel.executing(point).sum() != 1:
        return False
    thread = int(kernel.executing(point).argmax())
    paths = next((each for each in kernel.paths if each.threads[thread]), None)
    return paths is not None and paths.path(None, lambda p: p is point, None) is None


RULES = (initialisation, cluster_publication, supplies, unsupplied, arrivals, awaited_copies, commits, bytes_expected)
