"""Rules on descriptors and other operands that become constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_product, of_class
from ptxlab.check.static.dataflow._point import Point
from ptxlab.isa import tcgen05, wgmma
from ptxlab.isa.context import Misuse
from ptxlab.isa.effects import Alloc, Asynchronous, Effect, Unit
from ptxlab.isa.operands import Op

__all__ = ["RULES", "check_of"]

_MOST = 8
_MOST_BUFFERS = 128
"""Paths are searched between each two uses of collector buffers: where there are more, none is."""


def _unit(effect: Effect | None) -> Unit | None:
    return effect.unit if isinstance(effect, Asynchronous) else None


_CHECKS = {Unit.TENSOR_CORE: tcgen05.constants.faults, Unit.WARPGROUP: wgmma.constants.faults}


def check_of(point: Point) -> Callable[[Op, dict[str, int], str, int], Iterator[Misuse]] | None:
    """What checks the operands of an instruction that are known."""
    return _CHECKS.get(_unit(point.op.effects))  # type: ignore[arg-type]


def known_operands(point: Point) -> Iterator[tuple[dict[str, int], bool]]:
    """Combinations of operands that are constant on some path, and whether each execution begins with this one."""
    names, values, first = [], [], []
    for (name, _), value in zip(point.op.row.operands, point.operands, strict=False):
        if value is None:
            continue
        choices = [each.constant for each in value.alternatives if each.constant is not None]
        if choices:
            names.append(name)
            values.append(choices)
            start = value.first
            first.append(start is not None and start.constant is not None)
    for number, chosen in enumerate(product(*values)):
        if number == _MOST:
            return
        yield dict(zip(names, chosen, strict=True)), number == 0 and all(first)


def descriptors(kernel: Kernel) -> Iterator[Report]:
    """Descriptors that are not legal, by the rules of the run."""
    for point in kernel.of(lambda p: _unit(p.op.effects) in _CHECKS):
        unit = _unit(point.op.effects)
        assert unit is not None
        check = _CHECKS[unit]
        seen: set[str] = set()
        for values, first in known_operands(point):
            for misuse in check(point.op, values, kernel.target, kernel.shared_end):
                if misuse.code not in seen:
                    seen.add(misuse.code)
                    yield _report(point, misuse, first)


def _report(point: Point, misuse: Misuse, certain: bool) -> Report:
    return Report(misuse.code, point.op, misuse.message, misuse.fields.get("fix", ""), severity=None if certain else "warning")


def collectors(kernel: Kernel) -> Iterator[Report]:
    """Collector buffers that are used without a fill, or after another matrix has filled them."""
    buffers = {point.op.index: buffer for point in kernel.of(is_product) if (buffer := tcgen05.constants.buffer_of(point.op)) is not None}
    if len(buffers) > _MOST_BUFFERS:
        return
    earlier: dict[str, list[dict[int, list[Point | None]]]] = {}
    for point in kernel.of(lambda p: p.op.index in buffers):
        buffer = buffers[point.op.index]
        if not buffer.needs_matrix:
            continue

        def of_buffer(other: Point, name: str = buffer.name) -> bool:
            found = buffers.get(other.op.index)
            return found is not None and found.name == name

        if buffer.name not in earlier:
            earlier[buffer.name] = [paths.last_before(of_buffer) for paths in kernel.paths]
        for by_index in earlier[buffer.name]:
            before = by_index.get(point.op.index, [])
            lacking = [b for b in before if b is None or not buffers[b.op.index].leaves_matrix]
            if lacking:
                line = next((b.op.line for b in lacking if b is not None), None)
                why = "nothing has filled it" if line is None else f"the instruction at line {line} discarded its contents"
                message = f".collector::{buffer.name}::{buffer.use}: the collector buffer holds no matrix: {why}"
                fix = f"use .collector::{buffer.name}::fill in the first instruction of the sequence"
                yield Report("T631", point.op, message, fix, severity=None if len(lacking) == len(before) else "warning")
                break
            others = [b for b in before if b is not None and _differs(b, point, buffer.matrix)]
            if others:
                message = f".collector::{buffer.name}::{buffer.use}: the buffer was filled with another matrix, at line {others[0].op.line}"
                fix = f"give the descriptors of the instruction that fills the buffer, or .collector::{buffer.name}::fill"
                yield Report("T632", point.op, message, fix, severity=None if len(others) == len(before) else "warning")
                break


def _differs(first: Point, second: Point, operand: str) -> bool:
    """Whether an operand of two instructions surely differs."""
    a, b = first.named(operand), second.named(operand)
    if a is None or b is None or a.symbol is not b.symbol:
        return False
    return isinstance(a.data, int) and isinstance(b.data, int) and a.data != b.data


def pairs(kernel: Kernel) -> Iterator[Report]:
    """Instructions of a CTA pair in a kernel whose clusters have no pairs."""
    directives = kernel.program.directives
    size = prod(int(each) for each in directives.get("reqnctapercluster", ()))
    if "reqnctapercluster" not in directives or size % 2 == 0:
        return
    points = kernel.of(lambda p: (isinstance(p.op.effects, Asynchronous) and p.op.effects.pair) or _allocates_pair(p))
    for point in sorted(points, key=lambda p: p.op.line)[:1]:
        message = f"{point.op.short} needs a CTA pair, but the clusters of the kernel have {size} CTAs"
        yield Report("T609", point.op, message, "require a cluster of an even number of CTAs with .reqnctapercluster")


def _allocates_pair(point: Point) -> bool:
    return of_class(Alloc)(point) and isinstance(point.op.effects, Alloc) and point.op.effects.pair


RULES = (descriptors, collectors, pairs)
