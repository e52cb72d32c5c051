"""The profile of a launch: counters by instruction, by line, by role and in all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ptxlab import ptx
from ptxlab.diagnostics import Place
from ptxlab.machine.launch.options import refuse
from ptxlab.profile.counters.columns import COLUMNS, Counts
from ptxlab.profile.counters.footprint import Footprint, whole_footprint
from ptxlab.profile.counters.roles import Role
from ptxlab.profile.model.estimate import Estimate, estimate
from ptxlab.profile.model.traffic import Sample
from ptxlab.profile.occupancy import Assembled, Occupancy, occupancy

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.launch import Launch

__all__ = ["InstructionCounts", "LineCounts", "ProductCounts", "Profile"]


@dataclass(frozen=True, slots=True)
class InstructionCounts:
    """An instruction and its counters.

    Attributes
    ----------
    opcode : as it is written
    place, excerpt, source : where it stands in the PTX, that line, and its source line
    counts : in all warps
    by_role : in the warps of each role, in the order of `Profile.roles`
    """

    opcode: str
    place: Place
    excerpt: str
    source: Place | None
    counts: Counts
    by_role: tuple[Counts, ...]


@dataclass(frozen=True, slots=True)
class LineCounts:
    """A line of the PTX or of the source, and the counters of its instructions together.

    Attributes
    ----------
    place : the line; None for instructions without a source line
    excerpt : the text of a PTX line; empty for a source line
    counts : the sum over its instructions; of ``executions`` and ``threads`` too
    by_role : the same in the warps of each role
    """

    place: Place | None
    excerpt: str
    counts: Counts
    by_role: tuple[Counts, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "place": None if self.place is None else str(self.place),
            "excerpt": self.excerpt.strip(),
            "counts": self.counts.as_dict(),
            "by_role": [counts.as_dict() for counts in self.by_role],
        }


@dataclass(frozen=True, slots=True)
class ProductCounts:
    """Products of matrices of one instruction, types and shape.

    Attributes
    ----------
    opcode : of the instruction
    types : ``f16 * f16 -> f32``
    shape : m, n and k; of a CTA pair both halves
    count : how many were issued
    """

    opcode: str
    types: str
    shape: tuple[int, int, int]
    count: int

    @property
    def operations(self) -> int:
        """Multiplications and additions; those of a sparse product count as if it were dense."""
        return 2 * prod(self.shape) * self.count

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "opcode": self.opcode,
            "types": self.types,
            "shape": list(self.shape),
            "count": self.count,
            "operations": self.operations,
        }


@dataclass(frozen=True, slots=True, eq=False)
class _CountedOps:
    """The instructions that were executed: their module, and ``table[role, instruction, column]``. Places are looked up when asked for."""

    module: ptx.Module
    ops: tuple[Op, ...]
    table: NDArray[np.int64]

    def instructions(self) -> Iterator[InstructionCounts]:
        """Each one with its places and its counters."""
        module, sources, whole = self.module, ptx.SourceMap(self.module), self.table.sum(axis=0)
        for index, op in enumerate(self.ops):
            place = ptx.place(module, ptx.Instruction(op.opcode, (), line=op.line, column=op.column))
            by_role = tuple(map(Counts.of, self.table[:, index]))
            source = sources.at(op.line)
            yield InstructionCounts(op.opcode, place, ptx.line_text(module, op.line), source, Counts.of(whole[index]), by_role)


_PLACES: dict[str, Callable[[InstructionCounts], Place | None]] = {"ptx": lambda each: each.place, "source": lambda each: each.source}
"""What counts as the line of an instruction."""


@dataclass(frozen=True, eq=False)
class Profile:
    """What a launch has executed.

    Attributes
    ----------
    kernel, target : what ran, and the simulated architecture
    ctas : CTAs that ran to their end
    roles : of the warps of a CTA
    products : products of matrices by instruction, types and shape
    occupancy : how the grid fills the device; the columns of tensor memory are the most that a CTA has had
    arrays : what the CTAs that ran have accessed of each array, by address; a variable of a module, or memory without a name, counts as one
    counted : the counters, of which the methods make sums
    sample : what the time model needs
    assembled : what an assembler says that the kernel needs; None if none was asked

    Examples
    --------
    >>> import numpy as np, ptxlab
    >>> kernel = ptxlab.loads('''
    ... .version 9.0
    ... .target sm_90a
    ... .address_size 64
    ... .visible .entry k(.param .u64 a) {
    ...   .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ...   ld.param.u64 %rd1, [a];
    ...   mov.u32 %r1, %tid.x;
    ...   mad.wide.u32 %rd2, %r1, 8, %rd1;
    ...   st.global.u32 [%rd2], %r1;
    ...   ret;
    ... }''', file="k.ptx").kernel()
    >>> found = kernel.launch(block=64, args=[np.zeros(128, np.uint32)], profile=True).profile
    >>> found.totals.global_sectors, found.totals.global_least
    (16, 8)
    >>> found.footprint.read, found.footprint.written, found.arrays[0].name
    (0, 512, 'a')
    >>> [(line.place.line, line.counts.excess_sectors) for line in found.lines() if line.counts.excess_sectors]
    [(10, 8)]
    """

    kernel: str
    target: str
    ctas: int
    roles: tuple[Role, ...]
    products: tuple[ProductCounts, ...]
    occupancy: Occupancy
    arrays: tuple[Footprint, ...]
    counted: _CountedOps = field(repr=False)
    sample: Sample = field(repr=False)
    assembled: Assembled | None = None

    @classmethod
    def of(
        cls,
        launch: Launch,
        roles: tuple[Role, ...],
        table: NDArray[np.int64],
        products: tuple[ProductCounts, ...],
        tensor_columns: int,
        arrays: tuple[Footprint, ...],
        sample: Sample,
    ) -> Self:
        """The profile of a launch that has ended, with ``table[role, op, column]``."""
        executed = np.flatnonzero(table[..., 0].any(axis=0))
        counted = _CountedOps(launch.module, tuple(launch.program.ops[index] for index in executed.tolist()), table[:, executed])
        device = launch.device.sms, prod(launch.options.grid), launch.ctas_per_sm
        found = occupancy(launch.threads, launch.shared_bytes, launch.registers, *device, tensor_columns)
        return cls(launch.program.name, launch.target, launch.done_ctas, tuple(roles), products, found, arrays, counted, sample)

    @cached_property
    def instructions(self) -> tuple[InstructionCounts, ...]:
        """Those that were executed, in order of the PTX."""
        return tuple(self.counted.instructions())

    @cached_property
    def estimate(self) -> Estimate | None:
        """How long the launch would take; None if no CTA ran to its end."""
        return estimate(self.sample, self.occupancy.ctas_per_sm)

    def waits_by_line(self) -> dict[int, float]:
        """By line of the PTX the part of the time of warps that they would wait there, by the estimate."""
        found: dict[int, float] = {}
        waits = {} if self.estimate is None else self.estimate.waits_of
        for index, part in waits.items():
            line = self.sample.launch.program.ops[index].line
            found[line] = found.get(line, 0.0) + part
        return found

    @property
    def footprint(self) -> Footprint:
        """What the CTAs that ran have accessed of all arrays: no launch of them can move less between L2 and a cold DRAM."""
        return whole_footprint(self.arrays)

    @property
    def totals(self) -> Counts:
        """The sum over all instructions."""
        return Counts.of(self.counted.table.sum(axis=(0, 1)))

    def role_totals(self) -> tuple[Counts, ...]:
        """The sum over all instructions for each role."""
        return tuple(map(Counts.of, self.counted.table.sum(axis=1)))

    def lines(self, by: str = "ptx") -> tuple[LineCounts, ...]:
        """The counters by line, in order.

        Parameters
        ----------
        by : ``"ptx"``, or ``"source"`` for the lines of the source that the PTX was compiled from

        Raises
        ------
        LaunchError
            A310 for another word
        """
        chosen = _PLACES.get(by)
        if chosen is None:
            raise refuse("A310", f"by must be one of {', '.join(map(repr, _PLACES))}, not {by!r}")
        groups: dict[tuple[str, int] | None, list[InstructionCounts]] = {}
        for each in self.instructions:
            place = chosen(each)
            groups.setdefault(None if place is None else (place.file, place.line), []).append(each)
        ordered = sorted(groups.items(), key=lambda item: (item[0] is None, item[0] or ("", 0)))
        return tuple(_line(key, found, by) for key, found in ordered)

    def with_assembled(self, assembled: Assembled) -> Profile:
        """The same, with the occupancy for the registers that an assembler has found."""
        old = self.occupancy
        device = old.sms, old.ctas, old.limits["CTA slots"]
        found = occupancy(old.threads, old.shared_bytes, assembled.registers, *device, old.tensor_columns)
        return replace(self, occupancy=found, assembled=assembled)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "ctas": self.ctas,
            "totals": self.totals.as_dict(),
            "roles": [
                {"name": role.name, "warps": list(role.warps), "units": list(role.units), "counts": counts.as_dict()}
                for role, counts in zip(self.roles, self.role_totals(), strict=True)
            ],
            "products": [each.as_dict() for each in self.products],
            "occupancy": self.occupancy.as_dict(),
            "footprint": self.footprint.as_dict() | {"arrays": [each.as_dict() for each in self.arrays]},
            "estimate": None if self.estimate is None else self.estimate.as_dict(),
            "assembled": None if self.assembled is None else asdict(self.assembled),
            "ptx_lines": [line.as_dict() for line in self.lines()],
            "source_lines": [line.as_dict() for line in self.lines("source") if line.place is not None],
            "counters": {column.name: {"meaning": column.meaning, "fidelity": column.fidelity} for column in COLUMNS},
        }


def _line(key: tuple[str, int] | None, found: list[InstructionCounts], by: str) -> LineCounts:
    by_role = tuple(Counts.sum(parts) for parts in zip(*(each.by_role for each in found), strict=True))
    place = None if key is None else Place(*key, 0)
    return LineCounts(place, found[0].excerpt if by == "ptx" else "", Counts.sum(each.counts for each in found), by_role)
