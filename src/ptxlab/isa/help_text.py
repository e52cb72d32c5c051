"""The forms of an instruction or of a family, and forms as help text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap

from ptxlab.isa.catalogue import CATALOGUE, Row
from ptxlab.isa.effects import Asynchronous, resolve
from ptxlab.isa.form import FORMS, Form, Operands, Slot, find_forms
from ptxlab.isa.kinds import HIDDEN
from ptxlab.isa.requirements import Condition, Needs
from ptxlab.isa.targets import name_targets

__all__ = ["effects_text", "forms_of", "help_text"]

_WIDTH = 110
_SHOWN = 4
"""How many values of a condition are listed; where there are more, the group is named."""


def help_text(form: Form) -> str:
    """A form as the specification would print it: syntax, groups of modifiers, operands, rules, targets and versions.

    >>> from ptxlab.isa import load_all
    >>> from ptxlab.isa.form import FORMS
    >>> load_all()
    >>> print(help_text(FORMS["tcgen05.shift"][0]))
    tcgen05.shift.cta_group.down [taddr];
    <BLANKLINE>
      .cta_group   = .cta_group::1, .cta_group::2
      [taddr]        a tensor-memory address in brackets, [%r1]
    <BLANKLINE>
      asynchronous: unit tcgen05, async proxy, completed by tcgen05.commit on an mbarrier
    <BLANKLINE>
      tcgen05.shift: sm_100a, sm_103a, sm_107a, sm_110a; PTX ISA 8.6
    <BLANKLINE>
      PTX ISA: Tensorcore 5th Generation Instructions: tcgen05.shift
    """
    lines = [_in_the_text(form, operands) for operands in form.operands if not operands.note]
    syntax = [_line(form.opcode(), line) for line in lines]
    groups = [(f".{s.label}", "= " + ", ".join(f".{c}" for c in s.choices)) for s in form.slots if _is_group(s)]
    shown = re.findall(r"[\w.-]+", " ".join(lines))
    operands = [(name, "  " + kind.says) for name, kind in form.kinds.items() if name.strip("[]") in shown]
    blocks = [
        syntax,
        list(_table([*groups, *operands])),
        list(_rules(form)),
        list(_effects(form)),
        list(_requirements(form)),
    ]
    return "\n\n".join("\n".join(block) for block in [*blocks, [f"  PTX ISA: {form.section}"]] if block)


def effects_text(row: Row) -> str:
    """What performs an asynchronous operation, through which proxy, and what completes it; empty for another instruction."""
    effects = resolve(row.effects, row.sample()) if row.effects is not None else None
    if not isinstance(effects, Asynchronous):
        return ""
    return f"asynchronous: unit {effects.unit.value}, {effects.proxy.value} proxy, completed by {effects.completion.value}"


def _effects(form: Form) -> Iterator[str]:
    """The effects of the rows; where they differ, with what distinguishes the lines of operands."""
    found: dict[str, list[str]] = {}
    for row in CATALOGUE.get(form.words[0], ()):
        if row.form is form and (text := effects_text(row)):
            found.setdefault(text, []).append(_condition(row.line.when))
    for text, conditions in found.items():
        where = "; ".join(dict.fromkeys(filter(None, conditions))) if len(found) > 1 else ""
        yield f"  {where}: {text}" if where else f"  {text}"


def _in_the_text(form: Form, operands: Operands) -> str:
    """A line of operands without implicit operands."""
    words = operands.line.split()
    return Operands(" ".join(word for word in words if getattr(form.kinds.get(word), "text", "") not in HIDDEN)).text()


def _may_hold(when: Condition, form: Form) -> bool:
    """Whether the form has modifiers or operands for which a condition holds."""
    groups = {slot.name: {*slot.choices, None} for slot in form.slots}
    others = {slot.name for slot in form.slots if slot.count > 1}.union(*(line.gives for line in form.operands))
    return all("given" in values or group in others or groups.get(group, {None}) & set(values) for group, values in when.items())


def _line(opcode: str, operands: str) -> str:
    gap = " " if len(opcode) + len(operands) < _WIDTH else "\n    "
    return f"{opcode}{gap}{operands}".rstrip() + ";"


def _is_group(slot: Slot) -> bool:
    return len(slot.choices) > 1 or slot.label != slot.choices[0]


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    widest = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        first, *rest = wrap(text, _WIDTH - widest, subsequent_indent="  ", drop_whitespace=False) or [""]
        yield f"  {name:{widest}} {first}".rstrip()
        yield from (f"  {'':{widest}} {line}".rstrip() for line in rest)


def _rules(form: Form) -> Iterator[str]:
    for rule in form.rules:
        where = _condition(rule.when)
        yield f"  {where}: {rule.message}" if where else f"  {rule.message}"


def _condition(when: Condition) -> str:
    parts = []
    for group, values in when.items():
        named = [f".{value}" for value in values if value]
        if len(named) > _SHOWN:
            parts.append(f"with .{group} {named[0]} ... {named[-1]}")
        elif named:
            parts.append("with " + " or ".join(named))
        else:
            parts.append(f"without .{group}")
    return ", ".join(parts)


def _requirements(form: Form) -> Iterator[str]:
    yield from (f"  {_needs(needed, form)}" for needed in form.requires if _may_hold(needed.when, form))


def _needs(available: Needs, form: Form) -> str:
    wanted = []
    if available.targets is not None:
        wanted.append(name_targets(available.targets))
    if available.since > (0, 0):
        wanted.append(f"PTX ISA {available.since[0]}.{available.since[1]}")
    if not available.specified:
        wanted.append("in the assembler, not in the specification")
    return f"{available.what or _condition(available.when) or form.name}: {'; '.join(wanted)}"


def forms_of(name: str) -> list[Form]:
    """The forms of an instruction, or of the instructions of a family: those that the words of an opcode, or its first ones, fit.

    >>> from ptxlab.isa import load_all
    >>> load_all()
    >>> [form.name for form in forms_of("wgmma")][:2], [form.opcode() for form in forms_of("popc.b64")]
    (['wgmma.mma_async', 'wgmma.mma_async'], ['popc.type'])
    """
    found = [*find_forms(name)] or [form for known, forms in FORMS.items() if known.startswith(f"{name}.") for form in forms]
    base, *words = name.split(".")
    rows = [row for row in CATALOGUE.get(base, ()) if all(any(word in slot.choices for slot in row.slots) for word in words)]
    return found or list(dict.fromkeys(row.form for row in rows))
