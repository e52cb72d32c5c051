"""Findings of a launch with their places, and the reports that end one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from ptxlab import ptx
from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.engine.context import Word
from ptxlab.engine.faults import FAULTS, FIXES, Fault
from ptxlab.isa.context import Misuse
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, MatrixAccess, Native, TensorAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.cta import CtaState
from ptxlab.machine.launch.indeterminate import described
from ptxlab.machine.warp.lane_texts import lane_text, who_text
from ptxlab.machine.warp.pending_registers import (
    Early,
    early_uses,
    lends_registers,
    overwritten_sources,
    unfenced,
    unfenced_values,
)
from ptxlab.machine.warp.warp import CONVERGE, ConvergedLanes, Warp

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.observe.observer import EarlierAccess, Uses

__all__ = ["LaunchEnded", "Reports"]

_MOST = 100
"""The number of findings that are kept."""
_MOST_NAMES = 8


class LaunchEnded(Exception):
    """The launch ends early; the finding that ends it is in the reports."""


class Reports:
    """Collects findings; equal ones (same code, instruction) are kept once and counted."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._letters = launch.options.letters
        self._found: dict[tuple[str, int, int], Diagnostic] = {}
        self._times: dict[tuple[str, int, int], int] = {}
        self.in_flight: dict[tuple[str, int], frozenset[int]] = {}
        """By code and instruction of a finding about registers in flight that are only read: the asynchronous operations."""
        self.retracted: set[tuple[str, int, int]] = set()
        """Findings to leave out, by code, instruction and part: another execution of the instruction shows that they are none."""
        self._unawaited: dict[tuple[str, int, int], frozenset[int]] = {}
        """By finding about registers of tcgen05.ld without a wait: the loads."""
        self._overwritten: dict[int, set[tuple[str, int, int]]] = {}
        """By load: the findings that its columns are overwritten, for lack of a wait."""

    @cached_property
    def _sources(self) -> ptx.SourceMap:
        return ptx.SourceMap(self._launch.module)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All findings in the order in which they were made."""
        if not self._found:
            return ()
        left_out = self._consequences() | self.retracted
        found = [(diagnostic, self._times[key]) for key, diagnostic in self._found.items() if key not in left_out]
        return tuple(
            replace(diagnostic, details=(*diagnostic.details, ("occurrences", str(times)))) if times > 1 else diagnostic
            for diagnostic, times in found
        )

    @property
    def number(self) -> int:
        """How many findings have been made, equal ones counted."""
        return sum(self._times.values())

    def lacks_wait(self, load: Op, code: str, op: Op) -> None:
        """Note that the finding with a code at an instruction is there because nothing waits for a tcgen05.ld."""
        self._overwritten.setdefault(load.index, set()).add((code, op.index, 0))

    def _consequences(self) -> set[tuple[str, int, int]]:
        """Findings to leave out, because another one is about the same missing tcgen05.wait::ld: an error stands for a note."""
        found: set[tuple[str, int, int]] = set()
        for key, loads in self._unawaited.items():
            others = {other for load in loads for other in self._overwritten.get(load, ()) if other in self._found}
            if key in self._found and others:
                found |= {key} if any(self._found[other].severity == "error" for other in others) else others
        return found

    # --------------------------------------------------------------------------------------------------------- places

    def place(self, op: Op) -> tuple[Place, str, Place | None]:
        """Return the place of an instruction in the PTX, the text of that line, and its place in the source."""
        module = self._launch.module
        where = ptx.place(module, ptx.Instruction(op.opcode, (), line=op.line, column=op.column))
        return where, ptx.line_text(module, op.line), self._sources.at(op.line)

    def make(
        self,
        code: str,
        message: str,
        op: Op | None = None,
        warp: Warp | None = None,
        mask: int = 0,
        cta: Any = None,
        details: Iterable[tuple[str, str]] = (),
        **fields: Any,
    ) -> Diagnostic:
        """Make a finding of the launch, which is not kept."""
        facts: list[tuple[str, str]] = [("kernel", self._launch.program.name)]
        if warp is not None:
            facts += [("CTA", warp.cta.describe()), ("warp", str(warp.warp_id))]
            if mask:
                facts.append(("lanes", lane_text(mask)))
        elif cta is not None:
            facts.append(("CTA", cta.describe()))
        inlined = () if op is None else self._sources.callers(op.line)
        if inlined:
            facts.append(("inlined at", ", ".join(map(str, inlined))))
        found = diagnose(code, message, details=(*facts, *details), **fields)
        return found.at(*self.place(op)) if op is not None else found

    # ------------------------------------------------------------------------------------------------------- findings

    def add(
        self,
        code: str,
        message: str,
        op: Op | None = None,
        *,
        once: bool = False,
        part: int = 0,
        earlier: EarlierAccess | None = None,
        **fields: Any,
    ) -> None:
        """Keep a finding if the check that it belongs to was asked for; ``once`` in a launch, or once for each instruction and ``part``."""
        if code[0] not in self._letters:
            return
        key = (code, -1 if op is None or once else op.index, part)
        if key in self._found:
            self._times[key] += 1
        elif len(self._found) < _MOST:
            self._keep(key, self.make(code, message, op, **fields), op, earlier)

    def _keep(self, key: tuple[str, int, int], finding: Diagnostic, op: Op | None, earlier: EarlierAccess | None = None) -> None:
        self._found[key] = finding
        self._times[key] = 1
        if self._launch.observer is not None:
            self._launch.observer.reported(finding, op, earlier)

    def review(self, uses: Uses) -> None:
        """Forget findings about values that nothing uses; say what uses the others."""
        for (code, index), op in uses.items():
            key = code, index, 0
            if op is None:
                self._found.pop(key, None)
            else:
                self.detail(code, index, "used by", self.name(op))

    def not_reviewed(self, findings: Iterable[tuple[str, int]], used: int, most: int) -> None:
        """Say of findings about values why it is not known whether something uses them; memory in MiB."""
        for code, index in findings:
            why = f"not known: {used} MiB of device memory are in use, and {most} are copied for a second run; keep_inputs=True copies all"
            self.detail(code, index, "used by", why)

    def detail(self, code: str, index: int, name: str, text: str) -> None:
        """Add a detail to the finding with a code at an instruction, if there is one."""
        found = self._found.get((code, index, 0))
        if found is not None:
            self._found[code, index, 0] = replace(found, details=(*found.details, (name, text)))

    def early_uses(self) -> None:
        """Report registers that are used while an asynchronous operation may work on them: once for what is in flight at one time."""
        letter = self._launch.model == "spec"
        if self._launch.facts.of(lends_registers):
            self._uses_of_products(letter)
        from ptxlab.machine.warp.unawaited_loads import missing_waits

        for missing in self._launch.facts.of(missing_waits, letter):
            follows = " before the tcgen05.wait::ld" if letter or missing.follows else ", and no tcgen05.wait::ld follows the load"
            fix = "execute tcgen05.wait::ld.sync.aligned between the load and this instruction"
            details = [("in flight", self._names(missing.loads)), *self._lines_of(missing.others)]
            op = missing.first.op
            self.add("R809", f"{self._use(missing.first)}{follows}", op, fix=fix, severity=missing.severity, details=details)
            self._unawaited["R809", op.index, 0] = missing.loads

    def _uses_of_products(self, letter: bool) -> None:
        wait = "execute wgmma.commit_group and wgmma.wait_group before"
        for found, code, text, fix in (
            (early_uses, "R805", " while a wgmma.mma_async that has not been waited for may still write to it", wait),
            (overwritten_sources, "R806", " while a wgmma.mma_async that has not been waited for may still read it", wait),
            (
                unfenced if letter else unfenced_values,
                "R807",
                ", which other instructions may have written since the last wgmma.fence",
                "execute wgmma.fence.sync.aligned after the last write to the registers",
            ),
        ):
            groups: dict[frozenset[int], list[Early]] = {}
            for early in self._launch.facts.each_of(found):
                groups.setdefault(early.held, []).append(early)
            for held, (first, *others) in groups.items():
                op, operations = first.op, frozenset(~item for item in held if item < 0)
                details = [("in flight", self._names(operations))] if code == "R805" else []
                verb = "writes" if found is overwritten_sources else "uses"
                self.add(code, self._use(first, verb) + text, op, fix=fix, details=[*details, *self._lines_of(others)])
                if found is early_uses and self._launch.policy != "eager" and not any(self._writes(early) for early in groups[held]):
                    self.in_flight[code, op.index] = operations

    def _use(self, early: Early, verb: str = "uses") -> str:
        """An instruction and registers of it, for a message."""
        return f"{early.op.opcode} {verb} {early.names(self._launch.program, _MOST_NAMES)}"

    def _names(self, operations: frozenset[int]) -> str:
        return "; ".join(self.name(self._launch.program.ops[index]) for index in sorted(operations))

    def _lines_of(self, others: Sequence[Early]) -> list[tuple[str, str]]:
        """The detail with the lines of other instructions of which a finding holds."""
        lines = sorted({other.op.line for other in others})
        text = "lines " + ", ".join(map(str, lines[:_MOST_NAMES])) + ", ..." * (len(lines) > _MOST_NAMES)
        return [("other uses", text)] if lines else []

    def _writes(self, early: Early) -> bool:
        """Whether an op also writes registers that are in flight, or is an asynchronous operation on some of them."""
        return bool(early.op.row.updates) or not set(self._launch.program.writes[early.op.index]).isdisjoint(early.registers)

    def fault(self, code: str, message: str, op: Op | None = None, **fields: Any) -> NoReturn:
        """Keep a finding and end the launch."""
        key = (code, -1 if op is None else op.index, 0)
        self._found.pop(key, None)
        self._keep(key, self.make(code, message, op, **fields), op)
        raise LaunchEnded

    def misused(self, misuse: Misuse) -> NoReturn:
        """Report a broken rule at the running operation, or else at the current warp's instruction."""
        operation, warp = self._launch.scheduler.running, self._launch.scheduler.current
        where: dict[str, Any] = {}
        if operation is not None:
            where = {"op": operation.op, "cta": operation.cta}
        elif warp is not None:
            where = {"op": warp.op, "warp": warp, "mask": warp.mask}
        self.fault(misuse.code, misuse.message, **where, **misuse.fields)

    def cta_ended(self, cta: CtaState) -> None:
        """Report what a CTA must not leave behind when it exits: allocated tensor memory."""
        if self._launch.uses_tensor_memory:
            from ptxlab.isa.tcgen05 import leaks

            for op, code, message, fix in leaks(cta):
                self.add(code, message, op, cta=cta, fix=fix)

    def engine_fault(self, warp: Warp) -> NoReturn:
        """Report a fault that compiled code has found."""
        if self._launch.journal is not None:
            self._launch.journal.finish()
        words = warp.words
        op = self._launch.program.ops[words[int(Word.INFO)]]
        kind, lane = words[int(Word.FAULT)], words[int(Word.FAULT_LANE)]
        address = words[int(Word.FAULT_ADDRESS)] & (1 << 64) - 1
        code, text = FAULTS[kind]
        size = access_bytes(self._launch.program.natives.get(op.index))
        fields: dict[str, Any] = {"op": op, "warp": warp, "mask": 1 << lane & 0xFFFF_FFFF, "fix": FIXES.get(kind, "")}
        if code == "M401":
            refusal = self._launch.device.memory.refusal(address, size, kind == Fault.GLOBAL_WRITE)
            self.fault(refusal.code, refusal.message, **fields, **refusal.fields)
        if kind == Fault.TENSOR_UNALLOCATED:
            from ptxlab.isa.tcgen05 import freed

            gone = freed(warp.cta, address, warp.cta, warp.warp_id)
            if gone is not None:
                text += f" any more: tcgen05.dealloc at line {gone[0].line} has freed it"
                fields["fix"] = gone[1]
        if kind == Fault.TENSOR_RANGE:
            fields["fix"] += _other_shapes(self._launch.program.natives.get(op.index), address)
        registers = self._launch.program.registers
        name = "a register"
        if code == "R802":
            name = registers[address].name
            origin, fix = described(self._launch, warp.origin((address,), 1 << lane))
            fields |= {"details": (("origin", origin),), "fix": fix}
        self.fault(code, text.format(address=address, size=size, register=name), **fields)

    # ----------------------------------------------------------------------------------------------- ends without result

    def over_budget(self) -> NoReturn:
        """Report that the launch has executed more instructions than its budget."""
        launch = self._launch
        warp = launch.scheduler.last
        lanes = max(warp.converged, key=lambda s: s.turn) if warp is not None and warp.converged else None
        self.fault(
            "H602",
            f"the launch has executed {launch.scheduler.instructions} warp-instructions, more than its budget of {launch.budget}; "
            f"{launch.done_ctas} of {launch.total_ctas} CTAs have ended",
            op=lanes.instruction if lanes is not None else None,
            warp=warp if lanes is not None else None,
            mask=lanes.mask if lanes is not None else 0,
            fix="look for a loop that does not end, or raise max_instructions",
        )

    def parted(self, warp: Warp, standing: list[ConvergedLanes]) -> NoReturn:
        """Report that lanes of a warp wait at different instructions that need the whole warp."""
        first = min(standing, key=lambda s: s.op)
        op = self._launch.program.ops[first.op]
        self.fault(
            "H605",
            f"{op.opcode} is executed by lanes {lane_text(first.mask)} only, and the other live lanes of the warp can never join them",
            op=op,
            warp=warp,
            mask=first.mask,
            details=tuple((f"lanes {lane_text(s.mask)}", self._where(s)) for s in standing if s is not first),
            fix="move the instruction out of divergent code, or make the branch condition the same in the whole warp",
        )

    def partial(self, warp: Warp) -> NoReturn:
        """Report that an instruction for whole warps has a guard that differs between the threads."""
        rest = warp.converged_mask & ~warp.mask
        self.fault(
            "B517",
            f"{warp.op.opcode} is executed by lanes {lane_text(warp.mask)}, but its predicate is false in lanes {lane_text(rest)}; "
            "it must be the same in the whole warp",
            op=warp.op,
            warp=warp,
            mask=warp.mask,
            fix="use a predicate that is the same in all threads of the warp, for instance from the warp's number",
        )

    def hang(self) -> NoReturn:
        """Report for all groups of converged lanes what they wait for."""
        from ptxlab.machine.schedule.deadlock import explain, most_relevant

        launch = self._launch
        standing = [s for cta in launch.resident for w in cta.warps for s in w.converged]
        groups = most_relevant(standing)
        alike: dict[tuple[int, str], list[ConvergedLanes]] = {}
        for group in standing:
            alike.setdefault((group.instruction.index, self._reason(group)), []).append(group)
        details = [(who_text(same), f"{self._where(same[0])}: {reason}") for (_, reason), same in alike.items()]
        first = groups[0] if groups else None
        explanation = explain(launch, groups)
        plural = "group of converged lanes waits" if len(groups) == 1 else "groups of converged lanes wait"
        self.fault(
            "H601",
            f"no warp can continue: {explanation.cause}{len(groups)} {plural}; {launch.done_ctas} of {launch.total_ctas} CTAs have ended",
            op=first.instruction if first is not None else None,
            details=(*details, *explanation.facts),
            fix=explanation.fix,
        )

    def _where(self, group: ConvergedLanes) -> str:
        return self.name(group.instruction)

    def name(self, op: Op) -> str:
        """An instruction with its places in the PTX and in the source."""
        where, excerpt, source = self.place(op)
        return f"{where} `{excerpt.strip() or op.opcode}`" + (f" (source {source})" if source else "")

    def _reason(self, group: ConvergedLanes) -> str:
        if group.wait is not None:
            sentence, facts = group.wait.describe()
            return sentence + (" [" + "; ".join(f"{name}: {value}" for name, value in facts) + "]" if facts else "")
        if group.state == CONVERGE:
            rest = group.warp.live & ~group.mask
            return f"waits until lanes {lane_text(rest)} of the warp execute it too"
        return "spins: nothing that it reads changes any more"


def access_bytes(described: Native | None) -> int:
    """Bytes that one thread's access takes, of a matrix one row; 1 where that is not known."""
    if isinstance(described, MatrixAccess):
        return described.row
    return described.size if isinstance(described, LaneAccess | Atomic | CopyAsync) else 1


def _other_shapes(described: Native | None, address: int) -> str:
    """The end of a fix: the shapes with which a load or store of tensor memory would not go beyond the last column."""
    if not isinstance(described, TensorAccess):
        return ""
    from ptxlab.isa.tcgen05 import fitting_shapes

    fitting = fitting_shapes(described, address & 0xFFFF)
    return "".join(f"; the shape {shape} has as many registers and ends at column {last}" for shape, last in fitting)
