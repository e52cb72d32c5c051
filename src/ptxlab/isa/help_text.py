"""Forms as help text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap

from ptxlab.isa.form import Form, Slot
from ptxlab.isa.requirements import Condition, Needs
from ptxlab.isa.targets import at_least

__all__ = ["help_text"]

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
      tcgen05.shift: sm_100a, sm_101a, sm_103a, sm_107a, sm_110a; PTX ISA 8.6
    <BLANKLINE>
      PTX ISA: Tensorcore 5th Generation Instructions: tcgen05.shift
    """
    syntax = [_line(form.opcode(), operands.text()) for operands in form.operands if not operands.note]
    groups = [(f".{s.label}", "= " + ", ".join(f".{c}" for c in s.choices)) for s in form.slots if _is_group(s)]
    shown = re.findall(r"[\w.-]+", " ".join(operands.text() for operands in form.operands if not operands.note))
    operands = [(name, "  " + kind.says) for name, kind in form.kinds.items() if name.strip("[]") in shown]
    blocks = [syntax, list(_table([*groups, *operands])), list(_rules(form)), [f"  {_needs(a)}" for a in form.requires]]
    return "\n\n".join("\n".join(block) for block in [*blocks, [f"  PTX ISA: {form.section}"]] if block)


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


def _needs(available: Needs) -> str:
    wanted = []
    if available.targets is not None:
        newer = next((f"sm_{n} and newer" for n in (70, 80, 90, 100) if available.targets == at_least(n)), "")
        wanted.append(newer or ", ".join(sorted(available.targets)))
    if available.since > (0, 0):
        wanted.append(f"PTX ISA {available.since[0]}.{available.since[1]}")
    if not available.specified:
        wanted.append("in the assembler, not in the specification")
    return f"{available.what}: {'; '.join(wanted)}"
