"""An instruction against the declarations of its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from ptxlab import ptx
from ptxlab.check.static._operands import Finding, Symbols, check_operand
from ptxlab.diagnostics import CODES
from ptxlab.isa import load_all
from ptxlab.isa.catalogue import Row, match
from ptxlab.isa.form import FORMS, Form, find_forms, is_declared
from ptxlab.isa.kinds import HIDDEN, Kind, Typed
from ptxlab.isa.requirements import Needs, Values, holds
from ptxlab.isa.targets import LATEST_VERSION, RENAMED, TARGETS, VERSIONS

__all__ = ["check_header", "check_instruction", "check_row", "compares_names", "takes_any_value"]

_Values = dict[str, str | None]


def check_header(target: str, version: tuple[int, int]) -> list[Finding]:
    """Whether there is such a PTX ISA version, and whether it has the target."""
    return [*_check_version(version), *_check_target(target, version)]


def _suggestion(word: str, known: Iterable[str], least: float = 0.6, before: str = "") -> str:
    """The fix that names the known word that is most like one that is not known."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1, least)
    return f"did you mean {before}{near[0]}?" if near else ""


def _check_version(version: tuple[int, int]) -> list[Finding]:
    major, minor = version
    newest = ".".join(map(str, LATEST_VERSION))
    if version > LATEST_VERSION:
        message = f"PTX ISA {major}.{minor} is newer than {newest}: what it brings is not checked"
        return [Finding("L130", message, fix=f"write .version {newest}, if that is enough")]
    if minor > VERSIONS.get(major, -1):
        last = f"the last {major}.x is {major}.{VERSIONS[major]}" if major in VERSIONS else f"the newest is {newest}"
        return [Finding("L109", f"there is no PTX ISA {major}.{minor}; {last}")]
    return []


def _check_target(target: str, version: tuple[int, int]) -> list[Finding]:
    since = TARGETS.get(target)
    if since is None:
        return [Finding("L108", f"there is no target {target}", fix=_suggestion(target, TARGETS))]
    if version < since:
        fix = f"write .version {since[0]}.{since[1]}"
        return [Finding("L108", f"{target} needs PTX ISA {since[0]}.{since[1]}; the module has {version[0]}.{version[1]}", fix=fix)]
    if target in RENAMED and version >= (9, 0):
        return [Finding("L127", f"{target} is called {RENAMED[target]} from PTX ISA 9.0 on", fix=f"write {RENAMED[target]}")]
    return []


def check_instruction(instruction: ptx.Instruction, target: str, version: tuple[int, int], symbols: Symbols) -> list[Finding] | None:
    """Findings about one instruction, or None if no declaration covers it."""
    load_all()
    forms = find_forms(instruction.opcode)
    if not forms:
        if not is_declared(instruction.opcode):
            return None
        return [Finding("L101", f"there is no instruction {instruction.opcode}", fix=_suggestion(instruction.opcode, FORMS, 0.5))]
    tried = [_check_form(form, instruction, target, version, symbols) for form in forms]
    return min(tried, key=_weight)


def check_row(instruction: ptx.Instruction, target: str, version: tuple[int, int], symbols: Symbols) -> list[Finding]:
    """Findings about an instruction of the compact notation; none where no row takes the opcode with so many operands.

    The lowering finds the row, and refuses what cannot be executed. Here stands what the assembler refuses besides.
    """
    tried = []
    for row, values, kinds in _readings(instruction.opcode, len(instruction.operands)):
        found = _beyond_syntax(row.form, instruction.opcode, values, target, version)
        for at, (kind, operand) in enumerate(zip(kinds, instruction.operands, strict=True)):
            found += [f._replace(operand=at, section=row.section) for f in check_operand(operand, kind, values, symbols)]
        tried.append(found)
    best = min(tried, key=_weight, default=[])
    if version < _WIDEST_SINCE and not any(f.code == "L107" for f in best):
        best = [*best, *_widest(instruction, version, symbols)]
    return best


_WIDEST_SINCE = (8, 3)
"""The first version with registers of type .b128."""


def _widest(instruction: ptx.Instruction, version: tuple[int, int], symbols: Symbols) -> Iterator[Finding]:
    """A finding if an operand is a register of type .b128."""
    for at, operand in enumerate(instruction.operands):
        items = operand.items if isinstance(operand, ptx.Vector) else (operand,)
        if any(isinstance(item, ptx.Name) and symbols(item.text) == "b128" for item in items):
            yield Finding("L107", f"a register of type .b128 needs PTX ISA 8.3; the module has {version[0]}.{version[1]}", at)
            return


@lru_cache(maxsize=4096)
def takes_any_value(opcode: str, count: int) -> bool:
    """Whether no integer constant is wrong as such for an opcode with so many operands."""
    load_all()
    readings = _readings(opcode, count)
    compact = not find_forms(opcode) and not is_declared(opcode)
    return compact and all(isinstance(kind, Typed) and kind.values is None for _, _, kinds in readings for kind in kinds)


@lru_cache(maxsize=4096)
def compares_names(opcode: str) -> bool:
    """Whether a finding about an instruction may depend on names that stand in more than one operand."""
    return any("redval" in form.kinds for form in find_forms(opcode))


@lru_cache(maxsize=4096)
def _readings(opcode: str, count: int) -> tuple[tuple[Row, Values, tuple[Kind, ...]], ...]:
    """The rows that take an opcode with so many operands, with the values of their groups and the kinds of these operands."""
    load_all()
    found = []
    for row, q in match(opcode):
        values = row.values(q)
        shown = [each for each in row.shown(values) if each[2] is not False and not _is_hidden(each[1])]
        spare = count - sum(there is True for _, _, there in shown)
        kinds: list[Kind] = []
        for name, kind, there in shown:
            if there or spare > 0:
                kinds.append(kind)
            if there is None and spare > 0:
                values[name] = "given"
                spare -= 1
        if len(kinds) == count:
            found.append((row, values, tuple(kinds)))
    return tuple(found)


def _is_hidden(kind: Kind) -> bool:
    return isinstance(kind, Typed) and kind.text in HIDDEN


def _beyond_syntax(form: Form, opcode: str, values: Values, target: str, version: tuple[int, int]) -> list[Finding]:
    """The rules between modifiers, and the requirements."""
    broken = [rule for rule in form.rules if rule.is_broken(values)]
    found = [Finding("L122" if rule.ignored else "L105", rule.message, section=rule.section or form.section) for rule in broken]
    return found + _needs(form, opcode, values, target, version)


def _needs(form: Form, opcode: str, values: Values, target: str, version: tuple[int, int]) -> list[Finding]:
    return [f for needed in form.requires for f in _check_needs(needed, opcode, values, target, version)]


def _errors(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if CODES[f.code].severity == "error"]


_NUMBERS = {1: "one", 2: "two", 3: "three"}
_STAGES = {"L102": 50, "L103": 40, "L104": 30, "L105": 20}


def _weight(findings: list[Finding]) -> int:
    """How far an instruction is from a form: the least is the best fit."""
    return sum(_STAGES.get(f.code, 10) for f in _errors(findings)) * 100 + len(findings)


def _check_form(form: Form, instruction: ptx.Instruction, target: str, version: tuple[int, int], symbols: Symbols) -> list[Finding]:
    values, findings = _modifiers(form, form.modifiers(instruction.opcode), instruction)
    if _errors(findings):
        return findings + _needs(form, instruction.opcode, values, target, version)
    findings += _operands(form, values, instruction, symbols)
    return findings + _beyond_syntax(form, instruction.opcode, values, target, version)


def _modifiers(form: Form, modifiers: tuple[str, ...], instruction: ptx.Instruction) -> tuple[_Values, list[Finding]]:
    """The values of the form's groups, and what is wrong with the modifiers."""
    placed = form.place(modifiers)
    found = placed.values
    findings = [_without_slot(form, modifier, found, instruction) for modifier in placed.left]
    for slot in placed.missing:
        choices = ", ".join(f".{c}" for c in slot.choices[:8]) + (", ..." if len(slot.choices) > 8 else "")
        needed = choices if len(slot.choices) == 1 else f"{_NUMBERS[slot.count]} of {choices}"
        findings.append(Finding("L103", f"{form.name} needs {needed}", section=form.section))
    if placed.order != sorted(placed.order):
        message = "the specification has the modifiers in another order: " + form.opcode()
        findings.append(Finding("L121", message, section=form.section))
    if any(slot.name == "aligned" and slot.optional for slot in form.slots) and found["aligned"] is None:
        findings.append(Finding("L126", f"the specification requires .aligned on {form.name}", section=form.section))
    if found.get("src_fmt") and found.get("dst_fmt") and modifiers.index(str(found["dst_fmt"])) > modifiers.index(str(found["src_fmt"])):
        findings.append(Finding("L105", f".{found['dst_fmt']} must stand before .{found['src_fmt']}", section=form.section))
    return found, findings


def _without_slot(form: Form, modifier: str, values: _Values, instruction: ptx.Instruction) -> Finding:
    """What a modifier that found no free slot means."""
    taken = next((slot for slot in form.slots if modifier in slot.choices), None)
    if taken is not None and modifier in form.repeatable:
        return Finding("L123", f".{modifier} is given twice")
    if taken is not None:
        others = str(values[taken.name]).split(".")
        return Finding("L104", f".{modifier} is given twice" if modifier in others else f".{others[0]} and .{modifier} exclude each other")
    if modifier in form.ignored:
        return Finding("L122", f".{modifier} means nothing on {form.name}; the assembler lets it pass")
    if modifier == form.length and all(f"v{len(o.items)}" == modifier for o in instruction.operands if isinstance(o, ptx.Vector)):
        name = form.words[0]
        return Finding("L122", f".{modifier} means nothing on {name}; the assembler lets it pass where it is the length of the vectors")
    fix = _suggestion(modifier, [c for slot in form.slots for c in slot.choices], before=".")
    return Finding("L102", f"{form.name} has no modifier .{modifier}", fix=fix, section=form.section)


def _operands(form: Form, values: _Values, instruction: ptx.Instruction, symbols: Symbols) -> list[Finding]:
    """Find the line of operands that fits best; what it gives enters the values."""
    given = instruction.operands
    lines = [(line, names) for line in form.operands if holds(line.when, values) for names in line.variants(values)]
    counts = sorted({len(names) for _, names in lines})
    fitting = [(line, names) for line, names in lines if len(names) == len(given)]
    if not lines:
        return []
    if not fitting:
        wanted = " or ".join(map(str, counts))
        usage = "; or: ".join(sorted({", ".join(names) for _, names in lines}))
        return [
            Finding("L110", f"{form.name} takes {wanted} operands here, not {len(given)}", section=form.section, fix=f"operands: {usage}")
        ]
    best: tuple[list[Finding], int] | None = None
    for i, (line, names) in enumerate(fitting):
        found = [
            f._replace(operand=at, section=form.section)
            for at, (name, operand) in enumerate(zip(names, given, strict=True))
            for f in _element(name, operand, form, values, symbols)
        ]
        if "redval" in names and isinstance(vector := given[0], ptx.Vector):
            reduced = given[1].items if isinstance(given[1], ptx.Vector) else (given[1],)
            if any(register in vector.items for register in reduced):
                found.append(Finding("L114", "the reduced value and the vector share a register", 1, form.section))
        if line.note:
            found = _errors(found)
            found.append(Finding("L125", line.note, section=form.section))
        if best is None or _weight(found) < _weight(best[0]):
            best = found, i
    assert best is not None
    line, names = fitting[best[1]]
    values.update(line.given(names))
    return best[0]


def _element(name: str, operand: ptx.Operand, form: Form, values: _Values, symbols: Symbols) -> list[Finding]:
    """Check an operand, or each part of a bracketed one and of a pair."""
    if "|" in name:
        if not isinstance(operand, ptx.Pair):
            return [Finding("L111", f"a pair of destinations, {name}, stands here")]
        parts = list(zip(name.split("|"), (operand.first, operand.second), strict=True))
    elif "," in name:
        names = name[1:-1].split(",")
        if not isinstance(operand, ptx.Memory) or len(operand.extra) != len(names) - 1:
            return [Finding("L111", f"the operand is not of the form [{', '.join(names)}]")]
        parts = list(zip(names, (ptx.Memory(operand.base, operand.offset, (), operand.unified), *operand.extra), strict=True))
    else:
        parts = [(name, operand)]
    return [finding for part, given in parts for finding in check_operand(given, form.kinds[part], values, symbols)]


def _check_needs(needed: Needs, opcode: str, values: Values, target: str, version: tuple[int, int]) -> list[Finding]:
    """Whether target and version have what a requirement names."""
    if not holds(needed.when, values):
        return []
    found = []
    wrong_target, too_old = needed.missing(target, version)
    what = needed.described(opcode, values)
    if wrong_target:
        fix = "its targets: " + ", ".join(sorted(needed.targets or ()))
        found.append(Finding("L106", f"{target} does not have {what}", fix=fix))
    if too_old:
        found.append(Finding("L107", f"{what} needs PTX ISA {needed.since[0]}.{needed.since[1]}; the module has {version[0]}.{version[1]}"))
    if not found and not needed.specified:
        found.append(Finding("L128", f"the specification's text does not have {what}; the assembler does"))
    return found
