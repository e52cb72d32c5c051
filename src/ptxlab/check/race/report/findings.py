"""From two accesses that nothing orders to a finding: what, where, which order is missing, and what to insert."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ptxlab.check.model import Kind, Row
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.clusters import GridBefore, waits_for_grid
from ptxlab.check.race.clocks.rows import Rows
from ptxlab.check.race.confirm import ConditionalFindings
from ptxlab.check.race.program.value_flow import dead_loads
from ptxlab.check.race.report._messages import MISSING, Access, code_of, fix_of, past_of
from ptxlab.check.race.report._orders import acquired, apart, is_acquired, narrow_scopes, synchronised_between
from ptxlab.check.race.report.announced import unannounced
from ptxlab.check.race.report.lifetimes import LifetimeFindings
from ptxlab.check.race.report.places import Words, elements_of, granules, lanes_at, overlap, where_text, written_by
from ptxlab.check.race.report.unwritten import code_of_unwritten, report_unwritten_read
from ptxlab.check.race.report.values import Write, WritePair
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object, Shadow
from ptxlab.check.race.shadow.shadow_words import BEFORE, CLUSTER_SHIFT, CONCURRENT, EQUAL, FORMAL, HOW_SHIFT, PAIR, UNWRITTEN
from ptxlab.check.race.undefined.device_memory import DeviceMemoryUse
from ptxlab.check.race.undefined.raced import place_of
from ptxlab.isa.effects import Dealloc, Scope
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.memory.mirror import WRITE_IT
from ptxlab.machine.observe.observer import EarlierAccess
from ptxlab.machine.warp.lane_texts import lane_text

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Findings"]

_GRID, _LANES, _DEVICE = -2, -3, -4


class Place(NamedTuple):
    """Where two accesses overlap: the memory, the part of it as text, and the lanes of the later access where they are known.

    ``elements``: the elements of an array in global memory, as details of a finding.
    """

    found: Object
    text: str
    lanes: str
    elements: tuple[tuple[str, str], ...]


class Suspect(NamedTuple):
    """Two accesses that may have no order, or a read of memory that nothing has written, as the shadow has found them.

    Attributes
    ----------
    agent : the warp that makes the later one
    key : the two instructions with their kinds, and the outcome
    table, number, rows : all suspects that were found together, which one it is, and the rows that recorded the later accesses
    before : what is ordered before the later one: more than is before the warp, if all warps of a warpgroup make it
    """

    clocks: Clocks
    agent: Agent
    earlier: Access
    later: Access
    key: tuple[int, int, int]
    table: Words
    number: int
    rows: Words | None
    before: Rows

    @property
    def granule(self) -> int:
        """The host address of the granule that both access."""
        return int(self.table[self.number, 4])


class Findings(LifetimeFindings):
    """Judges suspects and reports each pair of instructions once."""

    def __init__(self, launch: Launch, shadow: Shadow) -> None:
        super().__init__(launch, shadow)
        self.conditional = ConditionalFindings()
        self._raced: set[tuple[int, int, int]] = set()
        """The pairs of instructions whose finding holds only if what one of them reads is used."""
        self._equal: set[tuple[int, int, int]] = set()
        """The pairs of instructions that have written the same bits."""
        self.before: GridBefore | None = None
        """The grid that may still run, if there is one."""
        self._redundant = launch.facts.of(dead_loads) if launch.facts.of(waits_for_grid) else frozenset()
        """Loads that race with the grid before alone."""
        self._handlers: dict[int, Callable[[Suspect], bool]] = {
            CONCURRENT: self._conflict,
            FORMAL: self._conflict,
            EQUAL: self._equal_bits,
            UNWRITTEN: self._unwritten,
            _GRID: self._early,
            _DEVICE: self._unwritten_device,
        }
        """By outcome; each returns whether there is nothing more to find in the suspects of the same two accesses."""

    def _access(self, who: int, what: int) -> Access:
        how = what >> HOW_SHIFT & 31
        kind = Kind(how >> 1)
        before = self.before if who >> 32 + CLUSTER_SHIFT == BEFORE else None
        ops = self._launch.program.ops if before is None else before.ops
        op = ops[(what & 0xFFFFFF) % len(ops)]
        return Access(who >> 32, who & 0xFFFFFFFF, op, Kind.STRONG if kind is Kind.NARROW else kind, bool(how & 1), what >> 24 & 0xFFFFFFFF)

    def judge(self, clocks: Clocks, agent: Agent, suspects: Words, rows: Words | None = None, before: Rows | None = None) -> None:
        """Report the suspects that are no order of another cluster's; ``rows`` and ``before`` as in `Suspect`."""
        settled: set[tuple[int, ...]] = set()
        for number, (whose, held, who, what, granule, wrong) in enumerate(suspects.tolist()):
            key = held & PAIR, what & PAIR, self._outcome(whose, granule, wrong)
            accesses = whose, who, *key
            if key in self._raced:
                self._collect(clocks, agent, self._access(whose, held), self._access(who, what), granule)
            if key not in self._seen and accesses not in settled:
                pair = self._access(whose, held), self._access(who, what)
                suspect = Suspect(clocks, agent, *pair, key, suspects, number, rows, agent.rows if before is None else before)
                if self._handlers[key[2]](suspect):
                    settled.add(accesses)

    def _outcome(self, whose: int, granule: int, wrong: int) -> int:
        """What the shadow has found, with what it does not know: the grid before, and device memory."""
        if wrong == UNWRITTEN:
            return UNWRITTEN if self.conditional.device.reads(granule) is None else _DEVICE
        return _GRID if self.before is not None and whose >> 32 + CLUSTER_SHIFT == BEFORE else wrong

    def _conflict(self, suspect: Suspect) -> bool:
        """Nothing orders the two accesses."""
        clocks, agent, earlier, later = suspect[:4]
        narrow = self._narrow(suspect)
        if self._is_ordered(suspect, narrow):
            return True
        if self._same_store(earlier, later):
            return self._equal_bits(suspect)
        self._seen.add(suspect.key)
        place = self._place(suspect)
        code = self._report(suspect, place, narrow)
        reader = self._reader(earlier, later)
        if code != "X114" or reader is None:
            self.conditional.certain.add((code, later.op.index))
            self._leave_out(suspect)
        else:
            self.conditional.readers[code, later.op.index].add(reader.op.index)
            self._raced.add(suspect.key)
            self._collect(clocks, agent, earlier, later, suspect.granule)
        if earlier.write and later.write and place.found.granule != TENSOR_GRANULE:
            self._note_writes(code, suspect, place.found)
        return True

    def _leave_out(self, suspect: Suspect) -> None:
        """There is nothing more to find in the accesses of the two instructions, unless they can be those of another grid."""
        if self.before is None:
            self._shadow.leave_out(suspect.key)

    def _narrow(self, suspect: Suspect) -> list[Op] | None:
        held, what = (int(suspect.table[suspect.number, column]) for column in (1, 3))
        return narrow_scopes(suspect.clocks, held, suspect.earlier, what, suspect.later)

    def _is_ordered(self, suspect: Suspect, narrow: list[Op] | None) -> bool:
        """Whether something orders the two that the shadow does not know, or they need no order."""
        earlier = suspect.earlier
        acquired = earlier.serial != suspect.clocks.serial and is_acquired(suspect.agent, earlier)
        return narrow == [] or acquired or bool({earlier.op.index, suspect.later.op.index} & self._redundant)

    def _note_writes(self, code: str, suspect: Suspect, found: Object) -> None:
        """Note where two writes conflict, so that a run can find out what each has written."""
        writers = [self.clusters.warp(each.serial, each.column // 2) for each in (suspect.earlier, suspect.later)]
        granule, mask = suspect.granule, suspect.earlier.mask & suspect.later.mask
        bytes_ = [byte for byte in range(32) if mask >> byte & 1]
        run = next((i for i, byte in enumerate(bytes_) if byte != bytes_[0] + i), len(bytes_))
        if writers[0] is not None and writers[1] is not None and run:
            inside = granule - found.start + bytes_[0]
            ops = suspect.earlier.op, suspect.later.op
            pair = WritePair(place_of(found.owner, inside), inside, run, Write(ops[0], *writers[0]), Write(ops[1], *writers[1]))
            self.conditional.writes.setdefault((code, suspect.later.op.index), pair)

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

    def _place(self, suspect: Suspect) -> Place:
        """Where the two accesses of a suspect overlap."""
        places, masks = overlap(suspect.table, suspect.number)
        found = self._shadow.find(int(places[0]))
        assert found is not None
        row = int(suspect.table[suspect.number, 3]) & 0xFFFFFF
        size = self._shadow.size_of(row)
        rows = None if found.granule == TENSOR_GRANULE else suspect.rows
        lanes = "" if rows is None else lanes_at(rows, row, size, places, masks)
        return Place(found, where_text(found, places, masks), lanes, elements_of(found, places, masks))

    def _early(self, suspect: Suspect) -> bool:
        """A dependent grid touches what the grid before, which may still run, has touched."""
        before, earlier, later, place = self.before, suspect.earlier, suspect.later, self._place(suspect)
        assert before is not None
        self._seen.add(suspect.key)
        self._add_pair(
            "X121",
            f"{later.op.short} {later.verb} {place.text}, which {earlier.op.short} of the grid "
            f"before {past_of(earlier)}, and no griddepcontrol.wait stands before it",
            later.op,
            f"insert griddepcontrol.wait before line {later.op.line}, in the same thread or before a barrier that it passes",
            suspect.agent.cta,
            f"kernel {before.kernel}, line {earlier.op.line}: {earlier.op.opcode}",
            self._agent_text(later, place.lanes),
            "none: griddepcontrol.launch_dependents lets this grid start while the other one runs",
            elements=place.elements,
        )
        return True

    def _same_store(self, earlier: Access, later: Access) -> bool:
        """Whether two bulk copies write the same bits."""
        slots = (earlier.slot, earlier.clock), (later.slot, later.clock)
        return earlier.write and later.write and self.clusters.same_store(*slots)

    def knows_equal_writes(self, what: int) -> bool:
        """Whether there is a finding about writes of an instruction that nothing orders; ``what`` is the second word of their entries."""
        key = what & PAIR, what & PAIR, CONCURRENT
        return key in self._equal or key in self._seen

    def _equal_bits(self, suspect: Suspect) -> bool:
        """Nothing orders two writes, and both write the same bits: one note for shared memory and one for global memory."""
        if suspect.key not in self._equal and not self._is_ordered(suspect, self._narrow(suspect)):
            self._equal.add(suspect.key)
            if suspect.key[2] == EQUAL:
                self._leave_out(suspect)
            earlier, later, place = suspect.earlier, suspect.later, self._place(suspect)
            self._add_pair(
                "X123",
                f"{later.op.short} writes {place.text}, to which {earlier.op.short} at line {earlier.op.line} writes the same bits, "
                "and nothing orders the two",
                later.op,
                "nothing need change, as the result does not depend on the order; for a kernel without the note let one thread write",
                suspect.agent.cta,
                f"{self._agent_text(earlier)}: {self._line_text(earlier.op)}",
                self._agent_text(later, place.lanes),
                source=self._launch.reports.place(earlier.op)[2],
                elements=place.elements,
                first=self._earlier(earlier),
                once=True,
                part=place.found.proxy_row,
            )
        return True

    def _unwritten(self, suspect: Suspect) -> bool:
        """Memory of the SM starts with whatever the last kernel left there."""
        self._seen.add(suspect.key)
        reader, place = suspect.later, self._place(suspect)
        tensor = place.found.granule == TENSOR_GRANULE
        self.conditional.readers[code_of_unwritten(tensor), reader.op.index].add(reader.op.index)
        who = self._agent_text(reader, place.lanes)
        written = self._written(place.found) if tensor else ()
        report_unwritten_read(self._launch, reader.op, suspect.agent.cta, tensor, place.text, who, written)
        return True

    def _written(self, found: Object) -> tuple[str, ...]:
        """What has been written of tensor memory: columns and lanes, by which instructions and warps."""
        return tuple(f"{text} by {self._agent_text(writer)} at line {writer.op.line}" for writer, text in written_by(found, self._access))

    def _unwritten_device(self, suspect: Suspect) -> bool:
        """Device memory is read that nothing has written, or in which an earlier launch has left undefined bits."""
        reader, found = suspect.later, self.conditional.device.reads(suspect.granule)
        key = "M412", reader.op.index
        outside = self._launch.options.outside
        if found is None or key in self.conditional.readers or (outside is not None and outside.overlapped()):
            return True
        places, masks = overlap(suspect.table, suspect.number)
        addresses = DeviceMemoryUse.unwritten(found, places.tolist(), masks.tolist())
        if addresses:
            self.conditional.readers[key].add(reader.op.index)
            where = granules(found, addresses)
            self._launch.reports.add(
                "M412",
                f"{reader.op.short} reads {where_text(found, *where)}, which nothing has written",
                op=reader.op,
                fix=WRITE_IT,
                details=(*elements_of(found, *where), ("reader", self._agent_text(reader)), ("allocation", str(found.owner))),
                cta=suspect.agent.cta,
            )
        return bool(addresses)

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
            first=EarlierAccess(first, warp.cta.ctaid, warp.warp_id),
        )

    # ---------------------------------------------------------------------------------------------------------- words

    def _report(self, suspect: Suspect, place: Place, narrow: list[Op] | None) -> str:
        clocks, agent, earlier, later = suspect[:4]
        formal, same_cluster = suspect.key[2] == FORMAL, earlier.serial == clocks.serial
        ordered = same_cluster and suspect.before[Row.EXECUTION, earlier.column] >= earlier.clock
        fences = clocks.spec and same_cluster and acquired(agent, earlier)
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
            barrier = code != "X102" or synchronised_between(self._launch.program, earlier.op, later.op)
            missing, fix = MISSING[code], fix_of(code, earlier, later, waited, joined, barrier)
            less = unannounced(self._launch, owner, earlier) if code == "X103" and owner is not None else None
            if less is not None:
                missing = f"the phase of its mbarrier is over before the copy: {less.bytes} bytes of the copies are not announced"
                fix = f"let expect_tx announce {less.bytes} bytes more in the phase that line {less.line} waits for"
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
        self._add_pair(code, message, later.op, fix, agent.cta, one, other, order, source, place.elements, self._earlier(earlier))
        if code in ("X108", "X109") and not waited:
            self._launch.reports.lacks_wait(earlier.op, code, later.op)
        return code

    def _reader(self, earlier: Access, later: Access) -> Access | None:
        """The one of two accesses that is a weak load of a warp, if the other one writes."""
        if earlier.write == later.write:
            return None
        reader = earlier if later.write else later
        is_load = isinstance(self._launch.program.natives.get(reader.op.index), LaneAccess)
        return reader if is_load and reader.kind is Kind.GENERIC else None
