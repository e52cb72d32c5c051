"""`lint_instruction` and `lint`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ptxlab import ptx
from ptxlab.check.static._legality import check_header, check_instruction, check_row
from ptxlab.check.static._operands import Finding, Symbols
from ptxlab.check.static._shapes import Names, Verdicts, check_block, verdicts_of
from ptxlab.check.static._unused import unused
from ptxlab.check.static.followed import Followed
from ptxlab.diagnostics import Diagnostic, Place, PtxlabError, diagnose
from ptxlab.engine.lowering.functions import called_functions, instructions
from ptxlab.isa.form import find_forms, is_declared
from ptxlab.native.collection import collection_paused
from ptxlab.ptx import PtxSyntaxError

if TYPE_CHECKING:
    from ptxlab.check.static.dataflow import Report
    from ptxlab.engine import Lowering

__all__ = ["Checked", "lint", "lint_instruction", "lint_module"]

_DEFAULT_TARGET = "sm_100a"
_DEFAULT_VERSION = "9.0"
_HEADER = """.version {version}
.target {target}
.address_size 64
.global .b64 gvar;
.const .b64 cvar;
.entry k() {{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<300>; .reg .b64 %rd<40>; .reg .b128 %rq<8>; .reg .f32 %f<300>;
.reg .f64 %fd<8>; .reg .u32 %u<8>; .reg .s32 %s<8>; .reg .u64 %ud<8>;
.shared .align 1024 .b8 smem[4096]; .shared .b64 mbar; .shared .b32 sdst;
"""


def _version(version: str | tuple[int, int]) -> tuple[int, int]:
    if isinstance(version, tuple):
        return version
    m = re.fullmatch(r"(\d+)\.(\d+)", version)
    if m is None:
        raise ValueError(f"{version!r} is not a PTX ISA version such as '9.0'")
    return int(m[1]), int(m[2])


def lint_instruction(text: str, target: str = _DEFAULT_TARGET, version: str | tuple[int, int] = _DEFAULT_VERSION) -> list[Diagnostic]:
    """Check one instruction.

    Registers are known by name: ``%p0``-``%p7`` predicates, ``%h`` .b16, ``%r`` .b32, ``%rd`` .b64, ``%rq`` .b128, ``%f`` .f32, ``%fd``
    .f64, ``%u`` .u32, ``%s`` .s32, ``%ud`` .u64; so are the variables ``smem``, ``mbar``, ``sdst`` (shared), ``gvar`` and ``cvar``.

    Examples
    --------
    >>> lint_instruction("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%rd1], 32;")
    []
    >>> print(lint_instruction("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%rd1], 96;")[0].message)
    96 is not the number of columns: a 32-bit register or one of 32, 64, 128, 256, 512
    """
    number = _version(version)
    header = _HEADER.format(version=f"{number[0]}.{number[1]}", target=target if re.fullmatch(r"\w+", target) else _DEFAULT_TARGET)
    found = [_diagnostic(f) for f in check_header(target, number)]
    try:
        module = ptx.parse(header + text.strip() + "\nret;\n}\n", "<instruction>")
    except PtxlabError as error:
        lines = header.count("\n")
        return found + [_shift(d, lines) for d in error.diagnostics]
    lines = header.count("\n")
    kernel = module.functions["k"]
    assert kernel.body is not None
    functions = [item for item in module.items if isinstance(item, ptx.Function)]
    written = [s for s in kernel.body.statements if isinstance(s, ptx.Instruction)]
    if len(functions) != 1 or len(written) != 2:
        return [*found, diagnose("L101", "this is not one instruction")]
    instruction = written[0]
    names = Names(Verdicts(), _module_symbols(module), {})
    for statement in kernel.body.statements:
        if isinstance(statement, ptx.RegisterDeclaration | ptx.Variable):
            names.declare(statement)
    findings = check_instruction(instruction, target, number, names)
    if findings is None:
        others = [_placed(module, instruction, f) for f in check_row(instruction, target, number, names)]
        lowered = [d for d in _lowering(module, kernel)[0] if d.place is None or d.place.line == instruction.line]
        others += _without_taken(lowered, others)
        return found + [_shift(d, lines) for d in others]
    return found + [_shift(_placed(module, instruction, f), lines) for f in (*findings, *_guard(instruction, names))]


def lint(text: str, target: str | None = None, version: str | tuple[int, int] | None = None, dataflow: bool = True) -> list[Diagnostic]:
    r"""Check a module without running it: syntax, names, operands, the legality of its instructions, and what its paths show.

    Parameters
    ----------
    text : the whole PTX text
    target, version : check for these instead of the module's own
    dataflow : follow values and states along the paths of each kernel, if nothing else is wrong with the module

    Examples
    --------
    >>> text = ".version 8.6\n.target sm_90a\n.entry k() { tcgen05.fence::before_thread_sync; ret; }"
    >>> [(d.code, d.place.line) for d in lint(text)]
    [('L106', 3)]
    """
    return lint_module(text, "<ptx>", target, version, dataflow)


def lint_module(
    text: str,
    file: str,
    target: str | None,
    version: str | tuple[int, int] | None,
    dataflow: bool = True,
    followed: Followed | None = None,
) -> list[Diagnostic]:
    """Check a module that came under a name; ``followed`` has what is known of the kernels of an earlier text."""
    with collection_paused():
        return _findings(Checked(text, file, target, version), dataflow, followed)


def _findings(checked: Checked, dataflow: bool, followed: Followed | None) -> list[Diagnostic]:
    return checked.findings(followed or Followed()) if dataflow else checked.instruction_findings


class Checked:
    """A module whose syntax, names and instructions have been checked; its paths are followed when all `findings` are asked for.

    Attributes
    ----------
    instruction_findings : what is found without following the paths, in the order of the text
    """

    def __init__(self, text: str, file: str, target: str | None = None, version: str | tuple[int, int] | None = None) -> None:
        with collection_paused():
            try:
                self._module = module = ptx.parse(text, file)
            except PtxSyntaxError as error:
                self._found = self.instruction_findings = list(error.diagnostics)
                self._lowered: dict[str, Lowering] | None = None
                return
            self._target = goal = target or module.target
            number = module.version if version is None else _version(version)
            self._found = [_diagnostic(f) for f in check_header(goal, number)]
            outer = _module_symbols(module)
            for function in module.items:
                if isinstance(function, ptx.Function) and function.body is not None:
                    scope = {p.name: p.type if p.space == "reg" else "." + p.space for p in (*function.params, *function.returns)}
                    names = Names(verdicts_of(goal, number), outer | scope, {})
                    self._found += [_placed(module, instruction, f) for instruction, f in check_block(function.body, names, goal, number)]
            self._called = {each.name: called_functions(module, each) for each in module.functions.values() if each.kind == "entry"}
            self._found += [_placed(module, instruction, f) for instruction, f in _mixed_groups(self._called)]
            self._lowered, self._whole = {}, True
            for function in module.functions.values():
                if function.kind == "entry" and function.body is not None:
                    said, lowering = _lowered(module, function)
                    self._found += _without_taken(said, self._found)
                    self._whole = self._whole and lowering is not None
                    if lowering is not None:
                        self._lowered[function.name] = lowering
            self.instruction_findings = self._in_order(self._found)

    def findings(self, followed: Followed, wanted: Callable[[], bool] = lambda: True) -> list[Diagnostic]:
        """What is found, paths included if nothing else is wrong with the module. To be asked once.

        Raises
        ------
        Abandoned
            when ``wanted``, which is asked from time to time, says no
        """
        if self._lowered is None or any(d.severity == "error" for d in self._found):
            return self.instruction_findings
        module, found = self._module, list(self._found)
        with collection_paused():
            programs = {name: self._lowered.pop(name).program(executable=False) for name in list(self._lowered)}
            for reports in followed.reports(module, programs, self._called, self._target, wanted):
                found += _reported(module, reports)
            if self._whole:
                found += unused(module, programs, self._called)
            return self._in_order(found)

    @cached_property
    def _sources(self) -> ptx.SourceMap:
        return ptx.SourceMap(self._module)

    def _in_order(self, found: list[Diagnostic]) -> list[Diagnostic]:
        """The findings with their places in the source, where the module has line information; each once, in the order of the text."""
        placed = list(dict.fromkeys(found))
        if self._module.files and placed:
            placed = [d if d.source or not d.place else d.at(d.place, d.excerpt, self._sources.at(d.place.line)) for d in placed]
        return sorted(placed, key=lambda d: (d.place.line, d.place.column) if d.place else (0, 0))


@cache
def _issue_group(opcode: str) -> str | None:
    """The .cta_group of an instruction that must have one."""
    for form in find_forms(opcode):
        if any(slot.name == "cta_group" and not slot.optional for slot in form.slots):
            return form.place(form.modifiers(opcode)).values["cta_group"]
    return None


def _mixed_groups(reachable: Mapping[str, Sequence[ptx.Function]]) -> Iterator[tuple[ptx.Instruction, Finding]]:
    """For each entry whose instructions, those of called functions included, have both groups: the first of the second group."""
    for name, functions in reachable.items():
        written = [each for function in functions if function.body is not None for each in instructions(function.body)]
        groups = {opcode: _issue_group(opcode) for opcode in {each.opcode for each in written}}
        uses = [(each, group) for each in written if (group := groups[each.opcode]) is not None]
        for instruction, group in uses:
            first, other = uses[0]
            if group != other:
                message = f"kernel {name} uses .{group} here and .{other} at line {first.line}"
                fix = "give all tcgen05 instructions of a kernel and of the functions it calls one .cta_group"
                yield instruction, Finding("L115", message, section="Issue Granularity", fix=fix)
                break


_NOT_EXECUTED = frozenset({"L129", "U202", "U206", "U207"})
"""What the lowering says of an instruction that ptxlab does not execute yet, and that may be legal."""


def _lowered(module: ptx.Module, function: ptx.Function) -> tuple[list[Diagnostic], Lowering | None]:
    """What the lowering says, but for instructions about which the declarations have spoken."""
    found, lowering = _lowering(module, function)
    if any(d.code in _NOT_EXECUTED for d in found):
        bodies = [each.body for each in module.functions.values() if each.body is not None]
        declared = {i.line for body in bodies for i in instructions(body) if find_forms(i.opcode) or is_declared(i.opcode)}
        found = [d for d in found if d.code not in _NOT_EXECUTED or d.place is None or d.place.line not in declared]
    return found, lowering


def _lowering(module: ptx.Module, function: ptx.Function) -> tuple[list[Diagnostic], Lowering | None]:
    from ptxlab.engine import resolve

    try:
        return [], resolve(module, function)
    except PtxlabError as error:
        # That ptxlab cannot execute an instruction says nothing about its legality.
        return [d if d.code != "U201" else diagnose("L129", d.message).at(d.place, d.excerpt, d.source) for d in error.diagnostics], None


def _reported(module: ptx.Module, reports: Iterable[Report]) -> Iterator[Diagnostic]:
    """What the data flow of a kernel shows."""
    for report in reports:
        place = Place(module.file, report.op.line, report.op.column, len(report.op.opcode))
        diagnostic = diagnose(report.code, report.message, severity=report.severity, fix=report.fix)
        yield diagnostic.at(place, ptx.line_text(module, place.line))


def _without_taken(lowered: list[Diagnostic], found: list[Diagnostic]) -> list[Diagnostic]:
    """What the lowering says, but for the operands that only the assembler takes."""
    taken = [d.place for d in found if d.code == "L124"]
    return [d for d in lowered if d.code != "U206" or d.place not in taken]


def _guard(instruction: ptx.Instruction, symbols: Symbols) -> list[Finding]:
    if instruction.guard is None or symbols(instruction.guard.predicate) == "pred":
        return []
    return [Finding("L111", f"the guard {instruction.guard.predicate} is not a predicate register")]


def _module_symbols(module: ptx.Module) -> dict[str, str]:
    return {item.name: "." + item.space for item in module.items if isinstance(item, ptx.Variable)}


def _diagnostic(finding: Finding) -> Diagnostic:
    return diagnose(finding.code, finding.message, reason=finding.section, fix=finding.fix)


def _placed(module: ptx.Module, instruction: ptx.Instruction, finding: Finding) -> Diagnostic:
    if finding.operand >= 0:
        line, column, length = ptx.operand_span(module, instruction, finding.operand)
        place = Place(module.file, line, column, length)
    else:
        place = ptx.place(module, instruction)
    return _diagnostic(finding).at(place, ptx.line_text(module, place.line))


def _shift(diagnostic: Diagnostic, lines: int) -> Diagnostic:
    place = diagnostic.place
    if place is None:
        return diagnostic
    return diagnostic.at(Place(place.file, place.line - lines, place.column, place.length), diagnostic.excerpt, diagnostic.source)
