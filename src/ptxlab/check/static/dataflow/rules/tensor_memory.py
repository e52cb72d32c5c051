"""Rules on the allocation and release of tensor memory."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_product, never, of_class, releases, synchronises
from ptxlab.check.static.dataflow._paths import Paths
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.diagnostics import Severity
from ptxlab.isa import tcgen05
from ptxlab.isa.effects import Alloc, AllocPermitRelease, Dealloc, TensorTransfer
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.tables import TENSOR_MEMORY_COLUMNS

__all__ = ["RULES"]

_is_alloc, _is_dealloc = of_class(Alloc), of_class(Dealloc)


def _uses_columns(point: Point) -> bool:
    return isinstance(point.op.effects, TensorTransfer) or is_product(point)


def _outside(point: Point) -> str:
    """The code of the run for columns that are not allocated: of a load or store, or of an operand."""
    return "T621" if isinstance(point.op.effects, TensorTransfer) else "T607"


def columns_of(point: Point) -> int | None:
    """The number of columns of an allocation or a release."""
    value = point.named("nCols")
    return None if value is None else value.constant


def allocation_of(address: Value | None) -> int | None:
    """The index of the allocation whose address a value was made from."""
    key = None if address is None or address.symbol is None else address.symbol.key
    return key[1] if isinstance(key, tuple) and key[0] == "columns" else None


def tensor_address(point: Point) -> Value | None:
    """The address in tensor memory that an instruction uses: of D for a product."""
    return next((found for name in ("taddr", "d-tmem") if (found := point.named(name)) is not None), None)


def sizes(kernel: Kernel) -> Iterator[Report]:
    """Numbers of columns that become constant, and allocations that grow."""
    for point in kernel.of(of_class(Alloc, Dealloc)):
        value = point.named("nCols")
        for option in () if value is None else value.alternatives:
            columns = option.constant
            if columns is not None and (columns & (columns - 1) or not 32 <= columns <= 512):
                message = f"nCols is {columns}; it must be a power of two from 32 to 512"
                severity: Severity | None = None if value is not None and value.first is option else "warning"
                yield Report("T601", point.op, message, "allocate 32, 64, 128, 256 or 512 columns", severity=severity)
    for paths in kernel.paths:
        for first in paths.points(_is_alloc):
            before = columns_of(first)

            def grows(point: Point, before: int | None = before) -> bool:
                return _is_alloc(point) and before is not None and (columns_of(point) or 0) > before

            def exceeds(point: Point, before: int | None = before) -> bool:
                return _is_alloc(point) and (before or 0) + (columns_of(point) or 0) > TENSOR_MEMORY_COLUMNS

            second = paths.path(first, never, grows)
            if isinstance(second, Point):
                message = f"{columns_of(second)} columns are allocated after an allocation of {before}: the sizes must not grow"
                yield Report("T608", second.op, message, "allocate the largest range first")
            third = paths.path(first, _is_dealloc, exceeds)
            if isinstance(third, Point):
                message = f"{columns_of(third)} columns are allocated while {before} are held: there are {TENSOR_MEMORY_COLUMNS}"
                fix = f"execute tcgen05.dealloc before this allocation, or allocate at most {TENSOR_MEMORY_COLUMNS} columns in total"
                yield Report("H601", third.op, message, fix)


def order(kernel: Kernel) -> Iterator[Report]:
    """Allocations after the permit is given up."""
    for paths in kernel.paths:
        for release in paths.points(of_class(AllocPermitRelease)):
            found = paths.path(release, never, _is_alloc)
            if isinstance(found, Point):
                message = f"{found.op.short} after the permit to allocate is given up at line {release.op.line}"
                yield Report("T602", found.op, message, "execute tcgen05.relinquish_alloc_permit after the last tcgen05.alloc")


def leaks(kernel: Kernel) -> Iterator[Report]:
    """Columns that are still allocated at the end of the kernel."""
    allocated, released = kernel.of(_is_alloc), kernel.of(_is_dealloc)
    fix = "execute tcgen05.dealloc with the address that tcgen05.alloc wrote, on every path to the end of the kernel"
    if not released:
        for point in allocated:
            yield Report("T605", point.op, "no instruction of the kernel releases these columns", fix)
        return
    holders = [paths for paths in kernel.paths if paths.points(_is_dealloc)]
    for point in allocated:
        leaking = [paths for paths in holders if paths.reached[point.block] and paths.executes(point) is not False]
        if leaking and len(leaking) == len(holders) and all(_leaks(paths, point) for paths in leaking):
            message = "on some path to the end of the kernel nothing releases these columns"
            yield Report("T605", point.op, message, fix, severity="warning")


def _leaks(paths: Paths, alloc: Point) -> bool:
    """Whether some path from an allocation to the end releases neither its columns nor ones that are not known."""

    def frees(point: Point) -> bool:
        return _is_dealloc(point) and allocation_of(point.named("taddr")) in (None, alloc.op.index)

    return paths.path(alloc, frees, None) is True


def deallocations(kernel: Kernel) -> Iterator[Report]:
    """Columns that are released twice, in another number, or that were never allocated."""
    allocated = {point.op.index: point for point in kernel.of(_is_alloc)}
    released = kernel.of(_is_dealloc)
    fix = "give the address that tcgen05.alloc wrote and the same number of columns, once"
    for point in released:
        if not allocated:
            yield Report("T604", point.op, "columns are released, but the kernel allocates none", fix)
            continue
        address = point.named("taddr")
        if address is not None and address.constant:
            message = f"the address {address.constant:#x} is not one that tcgen05.alloc wrote"
            yield Report("T604", point.op, message, fix)
            continue
        made = allocated.get(allocation_of(address) or -1) if len(allocated) > 1 else next(iter(allocated.values()))
        if made is None:
            continue
        had, now = columns_of(made), columns_of(point)
        if had is not None and now is not None and had != now:
            message = f"{now} columns are released, but line {made.op.line} has allocated {had}"
            yield Report("T604", point.op, message, fix)
        elif address is not None and allocation_of(address) is not None and isinstance(address.data, int) and address.data:
            message = f"the address of the release is {address.data:#x} above the one that tcgen05.alloc wrote at line {made.op.line}"
            yield Report("T604", point.op, message, fix)
    for paths in kernel.paths:
        for first in paths.points(_is_dealloc):
            address = first.named("taddr")

            def again(point: Point, address: Value | None = address) -> bool:
                other = point.named("taddr")
                return _is_dealloc(point) and (len(allocated) == 1 or (address is not None and other is not None and address.same(other)))

            second = paths.path(first, _is_alloc, again)
            if isinstance(second, Point):
                message = f"these columns may have been released before, at line {first.op.line}"
                yield Report("T604", second.op, message, fix, severity=None if _always(paths, first, second) else "warning")


def _always(paths: Paths, first: Point, second: Point) -> bool:
    """Whether a thread that reaches the second instruction has executed the first one."""
    return paths.path(None, lambda point: point is first, lambda point: point is second) is None and paths.executes(first) is True


def lifetimes(kernel: Kernel) -> Iterator[Report]:
    """Tensor memory that is used before it is allocated or after it is released."""
    allocated = kernel.of(_is_alloc)
    uses = kernel.of(_uses_columns)
    if uses and not allocated:
        fix = "allocate columns with tcgen05.alloc, and compute addresses from the one that it wrote"
        yield Report(_outside(uses[0]), uses[0].op, f"{uses[0].op.short} uses tensor memory, but the kernel allocates none", fix)
        return
    for paths in kernel.paths:
        for release in paths.points(_is_dealloc):
            freed = release.named("taddr")

            def late(point: Point, freed: Value | None = freed) -> bool:
                if not _uses_columns(point):
                    return False
                of = allocation_of(tensor_address(point))
                return len(allocated) == 1 or (of is not None and of == allocation_of(freed))

            found = paths.path(release, _is_alloc, late)
            if isinstance(found, Point):
                message = f"{found.op.short} uses columns that line {release.op.line} has released"
                fix = "release the columns after their last use"
                yield Report(_outside(found), found.op, message, fix, severity=None if _always(paths, release, found) else "warning")


def other_warps(kernel: Kernel) -> Iterator[Report]:
    """Loads and stores of warps that nothing orders before the release in another warp."""
    for paths in kernel.paths:
        if paths.points(_is_dealloc):
            continue
        for point in paths.points(of_class(TensorTransfer)):
            if not paths.reaches(point, releases) and kernel.of(_is_dealloc):
                line = kernel.of(_is_dealloc)[0].op.line
                message = f"no barrier stands between {point.op.short} and the release of its columns by another warp, at line {line}"
                yield Report("X113", point.op, message, "execute a barrier of the CTA before tcgen05.dealloc")


def addresses(kernel: Kernel) -> Iterator[Report]:
    """The address of an allocation that is read with no barrier after the allocation, by another warp."""
    slots = {
        next(iter(offsets)): point
        for point in kernel.of(_is_alloc)
        if (offsets := kernel.shared_offsets(point, point.named("dst"))) is not None and len(offsets) == 1
    }

    def reads_slot(point: Point) -> bool:
        native = kernel.program.natives.get(point.op.index)
        if not isinstance(native, LaneAccess) or native.write or native.space == "param":
            return False
        offsets = kernel.shared_offsets(point, point.operands[native.address])
        return offsets is not None and not offsets.isdisjoint(slots)

    if not slots:
        return
    for paths in kernel.paths:
        if any(paths.executes(each) is not False and paths.reached[each.block] for each in slots.values()):
            continue
        found = paths.path(None, synchronises, reads_slot)
        if isinstance(found, Point):
            message = "the address of the allocation is read, and no barrier orders this after tcgen05.alloc in another warp"
            fix = "execute a barrier of the CTA between tcgen05.alloc and the load of the address"
            yield Report("X101", found.op, message, fix)


def columns(kernel: Kernel) -> Iterator[Report]:
    """Columns beyond the allocation, and lanes that the warp does not reach."""
    by_index = {point.op.index: point for point in kernel.of(_is_alloc)}
    for point in kernel.of(_uses_columns):
        address = tensor_address(point)
        made = by_index.get(-1 if (index := allocation_of(address)) is None else index)
        if made is None or address is None or (count := columns_of(made)) is None:
            continue
        threads = kernel.surely(kernel.executing(point))
        if not threads.any():
            continue
        if isinstance(address.data, int):
            data = {address.data}
        else:
            data = set(address.data[threads].tolist())
        width = tcgen05.constants.columns_of(point.op, _constants(point), kernel.target) or 1
        last = max(each & 0xFFFF for each in data) + width - 1
        if last >= count:
            message = f"{point.op.short} uses column {last} of an allocation of {count} columns, made at line {made.op.line}"
            fix = "allocate enough columns with tcgen05.alloc, and compute addresses from the one that it wrote"
            yield Report(_outside(point), point.op, message, fix)
        elif isinstance(point.op.effects, TensorTransfer):
            yield from _lanes(kernel, point, address)


def _constants(point: Point) -> dict[str, int]:
    """The operands that are constant in each first execution."""
    found = {}
    for (name, _), value in zip(point.op.row.operands, point.operands, strict=False):
        start = None if value is None else value.first
        if start is not None and start.constant is not None:
            found[name] = start.constant
    return found


def _lanes(kernel: Kernel, point: Point, address: Value) -> Iterator[Report]:
    threads = kernel.flow.threads
    executing = kernel.surely(kernel.executing(point))
    for warp in sorted(set(threads.warp[executing].tolist())):
        first = int((executing & (threads.warp == warp)).argmax())
        data = address.data if isinstance(address.data, int) else int(address.data[first])
        lane, quadrant = data >> 16, warp % 4
        if lane // 32 not in (0, quadrant):
            message = f"the address names lane {lane}; warp {warp} reaches lanes {32 * quadrant} to {32 * quadrant + 31}"
            yield Report("T623", point.op, message, f"add {32 * quadrant} << 16 to the address that tcgen05.alloc wrote")
            return


RULES = (sizes, order, leaks, deallocations, lifetimes, other_warps, addresses, columns)
