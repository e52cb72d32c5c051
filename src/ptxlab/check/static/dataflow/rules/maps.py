"""Rules on tensor maps that a kernel makes in memory, and on copies that use them."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.check.static.dataflow._paths import Paths
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.diagnostics import Severity
from ptxlab.isa import bulk
from ptxlab.isa.effects import Access, Asynchronous, Space, TensorMapFence

__all__ = ["RULES", "box_of"]


def _changes_map(space: Space, point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, Access) and effect.tensor_map and space in effect.writes


def _uses_map(point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, Asynchronous) and effect.tensor_map


def _changed(point: Point) -> Value | None:
    """The address of the tensor map that an instruction writes."""
    return point.operands[0]


def _same(a: Value | None, b: Value | None) -> bool:
    return a is not None and b is not None and a.same(b)


def fences(kernel: Kernel) -> Iterator[Report]:
    """Copies with a tensor map in global memory that the same thread has written, with no fence of the tensormap proxy between."""
    uses = kernel.of(_uses_map)
    for change in kernel.of(lambda p: _changes_map(Space.GLOBAL, p)) if uses else ():
        for use in uses:
            if _same(use.named("tensorMap"), _changed(change)):
                severities = [_unfenced(paths, change, use) for paths in kernel.paths]
                if any(severities):
                    message = (
                        f"{use.op.short} uses the tensor map that {change.op.short} at line {change.op.line} writes, with no fence between"
                    )
                    fix = "execute fence.proxy.tensormap::generic.acquire on the map in the threads that use it"
                    yield Report("X117", use.op, message, fix, severity="error" if "error" in severities else "warning")


def _unfenced(paths: Paths, change: Point, use: Point) -> Severity | None:
    """Whether threads that change a map use it on each path, or some path, with no fence. As in a run, a fence for any map counts."""

    def here(point: Point) -> bool:
        return point is use

    if not paths.reached[change.block] or paths.executes(change) is False or paths.path(change, _acquires_maps, here) is not use:
        return None
    return "warning" if paths.between(change, use, _acquires_maps) else "error"


def _acquires_maps(point: Point) -> bool:
    effect = point.op.effects
    return isinstance(effect, TensorMapFence) and effect.acquires


def box_of(kernel: Kernel, copy: Point) -> int | None:
    """The bytes that a tensor copy moves, if the kernel makes the map of constants in shared memory and copies it to where it is used."""
    if not _uses_map(copy) or not bulk.constants.copies_box(copy.op):
        return None
    sources = [p.named("src") for p in kernel.of(lambda p: _changes_map(Space.GLOBAL, p)) if _same(_changed(p), copy.named("tensorMap"))]
    if len(sources) != 1:
        return None
    fields: dict[tuple[str, int | None], int | None] = {}
    for point in kernel.of(lambda p: _changes_map(Space.SHARED, p)):
        change = bulk.constants.replaced_field(point.op, [None if value is None else value.constant for value in point.operands])
        if change is None or not _same(_changed(point), sources[0]):
            return None
        field, value = change
        fields[field] = value if fields.get(field, value) == value else None
    return bulk.constants.box_bytes(fields)


RULES = (fences,)
