"""From two accesses that nothing orders to a finding: what, where, which order is missing, and what to insert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import ASYNC_PROXY, TENSOR_PIPES, Kind, Row
from ptxlab.check.race.clocks.clocks import Agent, Clocks, Use
from ptxlab.check.race.clocks.clusters import Clusters, GridBefore, waits_for_grid
from ptxlab.check.race.confirm import ConditionalFindings
from ptxlab.check.race.program.value_flow import dead_loads
from ptxlab.check.race.report._messages import (
    MISSING,
    Access,
    Words,
    code_of,
    completion_of,
    elements_of,
    filling_of,
    fix_of,
    granules,
    join_of,
    lanes_at,
    overlap,
    past_of,
    shortened,
    where_text,
    writing_of,
    written_by,
)
from ptxlab.check.race.report._orders import acquired, apart, is_acquired, narrow_scopes
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object, Shadow
from ptxlab.check.race.shadow.shadow_ir import BEFORE, CLUSTER_SHIFT, EQUAL, FORMAL, HOW_SHIFT, UNWRITTEN
from ptxlab.check.race.undefined.device_memory import DeviceMemoryUse
from ptxlab.check.race.undefined.raced import place_of
from ptxlab.diagnostics import Place as SourcePlace
from ptxlab.isa.effects import Completion, Dealloc, MbarrierArrive, MbarrierWait, Scope
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.reports import lane_text
from ptxlab.machine.memory.mirror import WRITE_IT

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Findings"]

_GRID, _LANES, _DEVICE = -2, -3, -4
_PAIR = 0xFFFFFF | 31 << HOW_SHIFT
"""Instruction and kind of an entry."""


class Place(NamedTuple):
    """Where two accesses overlap: the memory, the part of it as text, and the lanes of the later access where they are known.

    ``elements``: the elements of an array in global memory, as details of a finding.
    """

    found: Object
    text: str
    lanes: str
    elements: tuple[tuple[str, str], ...]


class Findings:
    """Judges suspects and reports each pair of instructions once."""

    def __init__(self, launch: Launch, shadow: Shadow) -> None:
        self._launch = launch
        self._shadow = shadow
        self._seen: set[tuple[int, int, int]] = set()
        self.clusters = Clusters()
        self.conditional = ConditionalFindings()
        self._raced: set[tuple[int, int, int]] = set()
        """The pairs of instructions whose finding holds only if what one of them reads is used."""
        self._equal: set[tuple[int, int, int]] = set()
        """The pairs of instructions that have written the same bits."""
        self.before: GridBefore | None = None
        """The grid that may still run, if there is one."""
        self._redundant = dead_loads(launch.program) if waits_for_grid(launch.program) else frozenset()
        """Loads that race with the grid before alone."""

    def _access(self, who: int, what: int) -> Access:
        how = what >> HOW_SHIFT & 31
        kind = Kind(how >> 1)
        before = self.before if who >> 32 + CLUSTER_SHIFT == BEFORE else None
        ops = self._launch.program.ops if before is None else before.ops
        op = ops[(what & 0xFFFFFF) % len(ops)]
        return Access(who >> 32, who & 0xFFFFFFFF, op, Kind.STRONG if kind is Kind.NARROW else kind, bool(how & 1), what >> 24 & 0xFFFFFFFF)

    def judge(self, clocks: Clocks, agent: Agent, suspects: NDArray[np.uint64], rows: NDArray[np.uint64] | None = None) -> None:
        """Report the suspects that are no order of another cluster's; ``rows`` recorded the later accesses."""
        cleared: set[tuple[int, ...]] = set()
        for number, (whose, held, who, what, place, wrong) in enumerate(suspects.tolist()):
            grid = self.before is not None and whose >> 32 + CLUSTER_SHIFT == BEFORE and wrong != UNWRITTEN
            device = self.conditional.device.reads(place) if wrong == UNWRITTEN else None
            key = (held & _PAIR, what & _PAIR, _GRID if grid else _DEVICE if device is not None else wrong)
            pair = whose, who, *key
            if key in self._raced:
                self._collect(clocks, agent, self._access(whose, held), self._access(who, what), place)
            if key in self._seen or pair in cleared:
                continue
            later = self._access(who, what)
            if device is not None:
                self._unwritten_device(later, agent, device, overlap(suspects, number))
                continue
            if wrong == UNWRITTEN:
                self._seen.add(key)
                self._unwritten(later, agent, self._place(later, suspects, number, rows))
                continue
            earlier = self._access(whose, held)
            if grid:
                self._seen.add(key)
                self._early(agent, earlier, later, self._place(later, suspects, number, rows))
                continue
            narrow = narrow_scopes(clocks, held, earlier, what, later)
            if (
                narrow == []
                or (earlier.serial != clocks.serial and is_acquired(agent, earlier))
                or {earlier.op.index, later.op.index} & self._redundant
            ):
                cleared.add(pair)
                continue
            if wrong == EQUAL or self._same_store(earlier, later):
                cleared.add(pair)
                if key not in self._equal:
                    self._equal.add(key)
                    self._equal_writes(agent, earlier, later, self._place(later, suspects, number, rows))
                continue
            self._seen.add(key)
            code = self._report(clocks, agent, earlier, later, self._place(later, suspects, number, rows), wrong == FORMAL, narrow)
            reader = self._reader(earlier, later)
            if code != "X114" or reader is None:
                self.conditional.certain.add((code, later.op.index))
            else:
                self.conditional.readers[code, later.op.index].add(reader.op.index)
                self._raced.add(key)
                self._collect(clocks, agent, earlier, later, place)

    def _collect(self, clocks: Clocks, agent: Agent, earlier: Access, later: Access, granule: int) -> None:
        """Note the bytes of a granule that are read in a race: by which warp, or in which cluster they are not."""
        reader = self._reader(earlier, later)
        found = self._shadow.find(granule)
        if reader is None or found is None:
            return
        inside, mask = granule - found.start, earlier.mask & later.mask
        bytes_ = {place_of(found.owner, inside + byte) for byte in range(32) if mask >> byte & 1}
        if earlier.serial != clocks.serial:
            if is_acquired(agent, earlier):
                return
            writer = self.clusters.first_cta((earlier if reader is later else later).serial)
            for place in bytes_:
                self.conditional.raced.between[reader.op.index][place].add(writer)
            return
        owner = agent if reader is later else clocks.owners[earlier.column // 2][0]
        if owner is not None:
            self.conditional.raced.inside[reader.op.index, owner.cta.ctaid, owner.warp] |= bytes_

    def _place(self, later: Access, suspects: NDArray[np.uint64], number: int, rows: NDArray[np.uint64] | None) -> Place:
        """Where the two accesses of a suspect overlap."""
        places, masks = overlap(suspects, number)
        found = self._shadow.find(int(places[0]))
        assert found is not None
        row = int(suspects[number, 3]) & 0xFFFFFF
        size = self._shadow.size_of(row)
        lanes = "" if rows is None or found.granule == TENSOR_GRANULE else lanes_at(rows, row, size, places, masks)
        return Place(found, where_text(found, places, masks), lanes, elements_of(found, places, masks))

    def _early(self, agent: Agent, earlier: Access, later: Access, place: Place) -> None:
        """A dependent grid touches what the grid before, which may still run, has touched."""
        before = self.before
        assert before is not None
        self._add_pair(
            "X121",
            f"{later.op.short} {later.verb} {place.text}, which {earlier.op.short} of the grid "
            f"before {past_of(earlier)}, and no griddepcontrol.wait stands before it",
            later.op,
            f"insert griddepcontrol.wait before line {later.op.line}, in the same thread or before a barrier that it passes",
            agent.cta,
            f"kernel {before.kernel}, line {earlier.op.line}: {earlier.op.opcode}",
            self._agent_text(later, place.lanes),
            "none: griddepcontrol.launch_dependents lets this grid start while the other one runs",
            elements=place.elements,
        )

    def _same_store(self, earlier: Access, later: Access) -> bool:
        """Whether two bulk copies write the same bits."""
        slots = (earlier.slot, earlier.clock), (later.slot, later.clock)
        return earlier.write and later.write and self.clusters.same_store(*slots)

    def _equal_writes(self, agent: Agent, earlier: Access, later: Access, place: Place) -> None:
        """Nothing orders two writes, and both write the same bits: one note for shared memory and one for global memory."""
        self._add_pair(
            "X123",
            f"{later.op.short} writes {place.text}, to which {earlier.op.short} at line {earlier.op.line} writes the same bits, "
            "and nothing orders the two",
            later.op,
            "nothing need change, as the result does not depend on the order; for a kernel without the note let one thread write",
            agent.cta,
            f"{self._agent_text(earlier)}: {self._line_text(earlier.op)}",
            self._agent_text(later, place.lanes),
            source=self._launch.reports.place(earlier.op)[2],
            elements=place.elements,
            once=True,
            part=place.found.proxy_row,
        )

    def _unwritten(self, reader: Access, agent: Agent, place: Place) -> None:
        """Memory of the SM starts with whatever the last kernel left there."""
        tensor = place.found.granule == TENSOR_GRANULE
        written = self._written(place.found) if tensor else ()
        self.conditional.readers["T614" if tensor else "M411", reader.op.index].add(reader.op.index)
        self._launch.reports.add(
            "T614" if tensor else "M411",
            f"{reader.op.short} reads {place.text}, which nothing has written",
            op=reader.op,
            fix=filling_of(reader, bool(written)) if tensor else writing_of(self._launch.program, reader.op, agent.cta),
            details=(("reader", self._agent_text(reader, place.lanes)), *(("written", text) for text in written)),
            cta=agent.cta,
        )

    def _written(self, found: Object) -> tuple[str, ...]:
        """What has been written of tensor memory: columns and lanes, by which instructions and warps."""
        return tuple(f"{text} by {self._agent_text(writer)} at line {writer.op.line}" for writer, text in written_by(found, self._access))

    def _unwritten_device(self, reader: Access, agent: Agent, found: Object, where: tuple[Words, Words]) -> None:
        """Device memory is read that nothing has written, or in which an earlier launch has left undefined bits."""
        key = "M412", reader.op.index
        addresses = set() if key in self.conditional.readers else DeviceMemoryUse.unwritten(found, *(each.tolist() for each in where))
        if addresses:
            self.conditional.readers[key].add(reader.op.index)
            where = granules(found, addresses)
            self._launch.reports.add(
                "M412",
                f"{reader.op.short} reads {where_text(found, *where)}, which nothing has written",
                op=reader.op,
                fix=WRITE_IT,
                details=(*elements_of(found, *where), ("reader", self._agent_text(reader)), ("allocation", str(found.owner))),
                cta=agent.cta,
            )

    def in_flight_at_exit(self, agent: Agent, op: Op, reads: bool, grouped: bool = True) -> None:
        """An asynchronous operation that nothing has waited for when the CTA exits."""
        bulk_store = reads and completion_of(op) is Completion.BULK_GROUP
        self._launch.reports.add(
            "X119" if bulk_store and self._launch.model == "practice" else "X116",
            f"CTA {agent.cta.describe()} exits while {op.short} at line {op.line} may still "
            + ("read its shared memory" if reads else "write to its shared memory"),
            op=op,
            fix=f"{join_of(op, reads, grouped)} before the threads exit",
            details=(("issued by", agent.describe()),),
            cta=agent.cta,
        )

    def outlived(self, cta: Any, agent: Agent, op: Op) -> None:
        """A CTA exits, and nothing orders an access of another CTA to its shared memory before that."""
        self._launch.reports.add(
            "M407",
            f"{op.short} of CTA {agent.cta.describe()} uses the shared memory of CTA {cta.describe()}, "
            "which may have exited by then: nothing orders the two",
            op=op,
            fix=f"insert barrier.cluster.arrive and barrier.cluster.wait after line {op.line}, before the CTAs of the cluster exit"
            + (
                f"; or let CTA {cta.describe()} wait on its mbarrier for that arrival before it exits"
                if isinstance(op.effects, MbarrierArrive)
                else ""
            ),
            details=(("later", f"CTA {cta.describe()} exits"),),
            cta=agent.cta,
        )

    def overrun(self, barrier: Any, use: Use, op: Op) -> None:
        """Nothing keeps a phase from being complete before a warp has seen that the one before is."""
        by_parity = isinstance(use.op.effects, MbarrierWait) and use.op.effects.parity
        other = f"; or wait with the other parity, if the phase that line {op.line} completes is meant" if by_parity else ""
        self._launch.reports.add(
            "B519",
            f"{use.op.short} waits for a phase of the mbarrier at shared offset {barrier.offset:#x}, and nothing keeps the next phase, "
            f"which {op.short} at line {op.line} completes, from being complete before the wait",
            op=use.op,
            fix=f"after line {use.op.line} arrive on an mbarrier, and wait on that mbarrier before line {op.line}; "
            f"or synchronise the threads with a barrier between the two{other}",
            details=(
                ("waits", use.agent.describe()),
                ("what then happens", "the parity in the wait means the phase after that one, and the wait ends"),
            ),
            cta=use.agent.cta,
        )

    def invalidated_early(self, barrier: Any, agent: Agent, op: Op, use: Use) -> None:
        """mbarrier.inval ends the life of an object that another warp uses, and nothing orders the two."""
        self._add_pair(
            "X101",
            f"{op.short} ends the mbarrier at shared offset {barrier.offset:#x}, which {use.op.short} at line {use.op.line} uses, "
            "and nothing orders the two threads",
            op,
            f"synchronise the threads with a barrier (bar.sync) between line {use.op.line} and line {op.line}",
            agent.cta,
            use.agent.describe(),
            agent.describe(),
        )

    def arrived_twice(self, barrier: Any, agent: Agent, first: Op, op: Op) -> None:
        """A warp arrives at a barrier of its CTA twice in one phase."""
        self._launch.reports.add(
            "B520",
            f"warp {agent.warp} arrives at barrier {barrier.id} again, as it did at line {first.line}, and the barrier is not yet "
            "complete: it counts as two warps",
            op=op,
            fix=f"arrive once in a phase: drop line {op.line}, give it another barrier, or let the warp wait between line {first.line} and "
            f"line {op.line} for a barrier after barrier {barrier.id}",
            cta=agent.cta,
        )

    def race_of_lanes(self, warp: Any, earlier: tuple[Op, bool, int], later: tuple[Op, bool, int], addresses: set[int]) -> None:
        """Threads of one warp access the same bytes, and only the warp's progress orders them."""
        (first, wrote, whose), (op, writes, who) = earlier, later
        key = (first.index, op.index, _LANES)
        found = self._shadow.find(min(addresses))
        if key in self._seen or found is None:
            return
        self._seen.add(key)
        owner = f"warp {warp.warp_id} of CTA {warp.cta.describe()}"
        self._add_pair(
            "X114" if found.proxy_row == Row.ASYNC_GLOBAL else "X101",
            f"{op.short} {'writes' if writes else 'reads'} {where_text(found, *granules(found, addresses))}, which {first.short} at "
            f"line {first.line} {'writes' if wrote else 'reads'} in another thread of the warp, and nothing orders the two threads",
            op,
            f"insert bar.warp.sync between line {first.line} and line {op.line}, for all threads of the two",
            warp.cta,
            f"lanes {lane_text(whose)} of {owner}: {self._line_text(first)}",
            f"lanes {lane_text(who)} of {owner}",
            "none: program order is that of one thread",
            elements=elements_of(found, *granules(found, addresses)),
        )

    def uninitialised(self, barrier: Any, agent: Agent, op: Op, made: Use) -> None:
        """A warp uses an mbarrier object, and nothing orders the use after its initialisation."""
        if (made.op.index, op.index, -1) in self._seen:
            return
        self._seen.add((made.op.index, op.index, -1))
        first, owner = made.op.line, made.agent.cta
        fix = (
            f"insert bar.sync 0{' (barrier.cluster, if other CTAs use it, too)' if len(owner.cluster) > 1 else ''} after line {first}, "
            f"which all threads pass before line {op.line}"
            if owner is agent.cta
            else f"insert fence.mbarrier_init.release.cluster after line {first}, then barrier.cluster.arrive and barrier.cluster.wait, "
            f"all before line {op.line}"
        )
        self._add_pair(
            "X120",
            f"{op.short} uses the mbarrier at shared offset {barrier.offset:#x} of CTA {owner.describe()}, which "
            f"mbarrier.init at line {first} initialises, and nothing orders the two",
            op,
            fix,
            agent.cta,
            f"{made.agent.describe()}: {self._line_text(made.op)}",
            agent.describe(),
        )

    # ---------------------------------------------------------------------------------------------------------- words

    def _report(
        self, clocks: Clocks, agent: Agent, earlier: Access, later: Access, place: Place, formal: bool, narrow: list[Op] | None
    ) -> str:
        same_cluster = earlier.serial == clocks.serial
        ordered = same_cluster and agent.rows[Row.EXECUTION, earlier.column] >= earlier.clock
        fences = clocks.spec and acquired(agent, earlier)
        owner = clocks.owners[earlier.column // 2][0] if same_cluster else None
        waited = owner is not None and bool(owner.rows[Row.EXECUTION, earlier.column] >= earlier.clock)
        if narrow:
            lines, wide = sorted({op.line for op in narrow}), apart(clocks, earlier, later)
            text = f"line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}"
            code, missing = "X122", f"the scope of {text} does not include the other's thread"
            fix = f"widen the scope of {text} to .{wide.name.lower()}" + (", or .sys" if wide is Scope.GPU else "")
        else:
            code = "X109" if formal else code_of(earlier, later, place.found, ordered, waited, fences)
            joined = "grid" if not same_cluster else "CTA" if owner is None or owner.cta is agent.cta else "cluster"
            missing, fix = MISSING[code], fix_of(code, earlier, later, waited, joined)
            if code in ("X105", "X106") and isinstance(later.op.effects, Dealloc) and "tmem" in self._launch.options.checks:
                code = "T612"  # as the machine says where the operation happens to be under way
            if code in ("X105", "X106") and later.op.line < earlier.op.line and same_cluster and owner is not agent:
                fix += f"; or, if line {later.op.line} is to execute first, synchronise the warps with a barrier (bar.sync) between the two"
        message = (
            f"{later.op.short} {later.verb} {place.text}, which {earlier.op.short} at line {earlier.op.line} {past_of(earlier)}, "
            f"and {missing}"
        )
        one, other = f"{self._agent_text(earlier)}: {self._line_text(earlier.op)}", self._agent_text(later, place.lanes)
        source = self._launch.reports.place(earlier.op)[2]
        order = "none" if same_cluster else "none between the clusters"
        if ordered:
            order = "execution order: the earlier access is complete for this warp's ordinary accesses"
        elif owner is agent:
            order = "program order of one warp only"
        self._add_pair(code, message, later.op, fix, agent.cta, one, other, order, source, place.elements)
        return code

    def _add_pair(
        self,
        code: str,
        message: str,
        op: Op,
        fix: str,
        cta: Any,
        earlier: str,
        later: str,
        order: str = "none",
        source: SourcePlace | None = None,
        elements: tuple[tuple[str, str], ...] = (),
        **keys: Any,
    ) -> None:
        """Add a finding about two accesses; ``op`` is the later one, ``source`` the place of the earlier one in the source."""
        details = [("earlier", earlier), ("later", later), ("order that exists", order)]
        if source is not None:
            details.insert(1, ("earlier, in the source", f"{source.file}:{source.line}"))
        self._launch.reports.add(code, message, op=op, fix=fix, details=[*elements, *details], cta=cta, **keys)

    def _reader(self, earlier: Access, later: Access) -> Access | None:
        """The one of two accesses that is a weak load of a warp, if the other one writes."""
        if earlier.write == later.write:
            return None
        reader = earlier if later.write else later
        is_load = isinstance(self._launch.program.natives.get(reader.op.index), LaneAccess)
        return reader if is_load and reader.kind is Kind.GENERIC else None

    def _line_text(self, op: Op) -> str:
        return f"line {op.line}: {shortened(self._launch.reports.place(op)[1])}"

    def _agent_text(self, access: Access, lanes: str = "") -> str:
        text = self.clusters.owner(access.serial, access.column // 2)
        if text is None:
            return access.op.short
        text = f"lanes {lanes} of {text}" if lanes else text
        return f"{access.op.short} issued by {text}" if access.kind in ASYNC_PROXY or access.kind in TENSOR_PIPES else text
