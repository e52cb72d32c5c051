"""The syntax of an instruction: its modifiers, its operands, and the rules between them.

The pattern of the modifiers reads like the specification's syntax: ``.word`` is required, ``.(group=a|b)`` one of several,
``{.group=a|b}`` optional; ``group*2`` takes two modifiers, which keep their order. An operand line names operands in PTX order::

    name            required                       name?               may be missing
    name?group      there if the group is          name?group=a|b      there if the group has one of the values
    [base,more]     a bracketed operand of parts   first|second        a pair of destinations

What a group has matched is its value: the modifier's text, or None where it is absent. An operand that may be missing and is there
has the value ``given`` under its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from ptxlab._records import dataclass
from ptxlab.isa.kinds import Kind
from ptxlab.isa.requirements import Condition, Needs, Values, conditions, holds

__all__ = [
    "FORMS",
    "IGNORED",
    "MAP_FIELDS",
    "Form",
    "Operands",
    "Order",
    "Placed",
    "Rule",
    "Slot",
    "both_or_none",
    "find_forms",
    "form",
    "is_declared",
    "only",
    "operand",
    "parse_slots",
    "place",
]

MAP_FIELDS = frozenset(
    {"box_dim", "swizzle_mode", "rank", "element_stride", "elemtype", "fill_mode", "global_address", "global_dim", "global_stride"}
    | {"interleave_layout", "swizzle_atomicity"}
)
IGNORED = MAP_FIELDS | {
    "acc::f32", "b4x16_p64", "b6x16_p32", "b8x16", "finite", "infinite", "normal", "notanumber", "number", "subnormal"
}  # fmt: skip
"""Modifiers of other instructions that the assembler accepts without a diagnostic on any instruction of the families in `FORMS`."""

Order = Literal["fixed", "types", "any"]
"""Which modifiers keep the pattern's order: all, those that are types, or none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a modifier. ``count`` modifiers stand for one value (``f32.bf16.bf16``), joined by dots.

    A ``flag`` is a single modifier that is there or not.
    """

    name: str
    choices: tuple[str, ...]
    optional: bool = False
    flag: bool = False
    count: int = 1

    @property
    def label(self) -> str:
        """The name as help texts show it: that of a single modifier is the modifier."""
        return self.choices[0] if _attribute(self.choices[0]) == self.name else self.name

    def text(self) -> str:
        """The modifier by its name: ``.shape``, ``{.multicast}``."""
        name = f".{self.label}" * self.count
        return f"{{{name}}}" if self.optional else name

    def pattern(self) -> str:
        """The slot in the pattern language."""
        choices = "|".join(self.choices)
        if not self.optional and len(self.choices) == 1:
            return f".{choices}"
        body = choices if self.label == choices else f"{self.name}={choices}"
        return f"{{.{body}}}" if self.optional else f".({body})"


class Placed(NamedTuple):
    """Modifiers in their slots: the values, the slot of each, those without a free slot, and required slots that stay empty."""

    values: dict[str, str | None]
    order: list[int]
    left: list[str]
    missing: list[Slot]


_TYPE = re.compile(r"(?:[busf]|bf|tf)\d+(?:x\d)?|u?e\d\w+|s2f6x2|pred")


def place(slots: tuple[Slot, ...], modifiers: tuple[str, ...], order: Order) -> Placed:
    """Give each modifier the first free slot that takes it."""
    parts: list[list[str]] = [[] for _ in slots]
    places: list[int] = []
    left: list[str] = []
    after = after_type = 0
    for modifier in modifiers:
        is_type = order == "types" and _TYPE.fullmatch(modifier) is not None
        first = after if order == "fixed" else after_type if is_type else 0
        for i in range(first, len(slots)):
            if modifier in slots[i].choices and len(parts[i]) < slots[i].count:
                parts[i].append(modifier)
                places.append(i)
                after = i + (len(parts[i]) == slots[i].count)
                after_type = after if is_type else after_type
                break
        else:
            left.append(modifier)
    values = {slot.name: ".".join(texts) or None for slot, texts in zip(slots, parts, strict=True)}
    missing = [slot for slot, texts in zip(slots, parts, strict=True) if len(texts) < slot.count and not slot.optional]
    return Placed(values, places, left, missing)


@dataclass(frozen=True, slots=True)
class Operands:
    """One operand line, and the condition under which it is there.

    ``gives`` are group values that follow from it; ``note`` says that the specification has no such line.
    """

    line: str
    when: Condition = field(default_factory=dict)
    gives: Condition = field(default_factory=dict)
    note: str = ""

    def variants(self, values: Values) -> list[tuple[str, ...]]:
        """The operand names where the modifiers have these values, with each choice of those that may be missing."""
        choices = []
        for name, condition in map(operand, self.line.split()):
            if is_there(condition, values):
                parts = [part for part, there in map(operand, _parts(name)) if is_there(there, values)]
                shown = f"[{','.join(parts)}]" if len(parts) > 1 else name
                choices.append(((shown,), ()) if condition == "" else ((shown,),))
        return [sum(chosen, ()) for chosen in product(*choices)]

    def given(self, names: tuple[str, ...]) -> dict[str, str]:
        """The values that follow from the line with these of its operands."""
        optional = (name for name, condition in map(operand, self.line.split()) if condition == "")
        return {**self.gives, **{name: "given" for name in optional if name in names}}

    def text(self) -> str:
        """The line as the specification writes it: ``d, [a]{, b}``."""
        return _text(self.line.split())


def _parts(name: str) -> list[str]:
    return name.strip("[]").split(",")


def operand(word: str) -> tuple[str, str | None]:
    """An operand's name and the condition after its question mark; None without one."""
    if word.endswith("]"):
        return word, None
    name, mark, there = word.partition("?")
    return name, there if mark else None


def _text(words: list[str]) -> str:
    shown = ""
    for name, there in map(operand, words):
        whole = f"[{_text(_parts(name))}]" if "," in name else name
        shown += f", {whole}" if there is None else f"{{, {whole}}}"
    return shown.removeprefix(", ")


def is_there(condition: str | None, values: Values) -> bool:
    """Whether an operand with this condition can be there."""
    if not condition:
        return True
    group, _, allowed = condition.partition("=")
    found = values.get(group)
    return found in allowed.split("|") if allowed else found is not None


@dataclass(frozen=True, slots=True)
class Rule:
    """Where ``when`` holds, the group must have one of the values (None: be absent)."""

    when: Condition
    group: str
    values: tuple[str | None, ...]
    message: str
    section: str
    ignored: bool = False
    """Whether the assembler accepts another value."""
    executed: bool = False
    """Whether the semantics refuses another value when the instruction executes, so that a row matches it."""

    def is_broken(self, values: Values) -> bool:
        """Whether the modifiers break it."""
        return holds(self.when, values) and values.get(self.group) not in self.values


def only(group: str, allowed: str | Iterable[str | None] | None, **when: str | Iterable[str | None] | None) -> Rule:
    """A rule of the compact notation: where the groups of ``when`` have these values, the group has one of those allowed.

    >>> only("space", "global", nc="nc").message, only("cop", None, order="relaxed|acquire").message
    ('.nc needs .global', '.relaxed or .acquire goes without .cop')
    """
    values, condition = conditions({group: allowed})[group], conditions(when)
    given = " with ".join(_alternatives(named, name) for name, named in condition.items())
    wanted = _alternatives(values, group)
    message = f"{given} goes without .{group}" if values == (None,) else f"{given} needs {wanted}"
    return Rule(condition, group, values, message, "", executed=True)


def _alternatives(values: Iterable[str | None], group: str) -> str:
    return " or ".join(f".{value}" if value else f"no .{group}" for value in values)


def both_or_none(section: str, orders: tuple[str, ...], scopes: tuple[str, ...]) -> tuple[Rule, ...]:
    """``.sem`` and ``.scope`` stand together or not at all."""
    return (
        Rule({"sem": orders}, "scope", scopes, "an order needs a scope: " + " or ".join(f".{s}" for s in scopes), section),
        Rule({"scope": scopes}, "sem", orders, "a scope needs an order: " + " or ".join(f".{o}" for o in orders), section),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """An instruction: its fixed name, modifiers, operand lines, kinds of operands, rules, versions and targets."""

    name: str
    slots: tuple[Slot, ...]
    operands: tuple[Operands, ...]
    kinds: Mapping[str, Kind]
    section: str
    rules: tuple[Rule, ...] = ()
    requires: tuple[Needs, ...] = ()
    ignored: frozenset[str] = frozenset()
    """Modifiers that the assembler takes although they mean nothing here."""
    repeatable: frozenset[str] = frozenset()
    """Modifiers that the assembler takes twice."""
    order: Order = "any"
    length: str = ""
    """A modifier that the assembler takes without meaning where it is the length of the instruction's vectors."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the name."""
        return tuple(self.name.split("."))

    def opcode(self) -> str:
        """The opcode with its modifiers by name, in the specification's order."""
        return self.name + "".join(slot.text() for slot in self.slots)

    def modifiers(self, opcode: str) -> tuple[str, ...]:
        """The modifiers of an opcode, which follow the name."""
        return tuple(opcode.split("."))[len(self.words) :]

    def place(self, modifiers: tuple[str, ...]) -> Placed:
        """Give the modifiers after the name their slots."""
        return place(self.slots, modifiers, self.order)

    def takes(self, opcode: str) -> bool:
        """Whether the modifiers of an opcode that begins with the name are legal."""
        placed = self.place(self.modifiers(opcode))
        return not (placed.left or placed.missing or any(rule.is_broken(placed.values) for rule in self.rules))

    def narrowed(self, *when: Condition) -> tuple[Slot, ...] | None:
        """The slots where conditions hold, with the choices that the rules leave; None if there is no such instruction.

        Several modifiers whose values are known become one choice.
        """
        left: dict[str, set[str | None]] = {slot.name: {*slot.choices, None} for slot in self.slots if slot.count == 1}
        rules, decided = list(self.rules), [item for each in when for item in each.items()]
        while True:
            for group, values in decided:
                left[group] = left.get(group, set(values)) & set(values)
            for rule in rules:
                excluded = [g for g, values in rule.when.items() if not left.get(g, {""}) <= set(values)]
                if len(excluded) == 1 and excluded[0] in left and left.get(rule.group, {""}).isdisjoint({*rule.values, ""}):
                    left[excluded[0]] -= set(rule.when[excluded[0]])
            now = [rule for rule in rules if all(left.get(g, {""}) <= set(values) for g, values in rule.when.items())]
            if not now:
                break
            rules = [rule for rule in rules if rule not in now]
            decided = [(rule.group, rule.values) for rule in now if not rule.executed]
        found = []
        for slot in self.slots:
            values = left.get(slot.name)
            if values is None:
                found.append(slot)
            elif values - {None}:
                every = slot.choices if slot.count == 1 else sorted(str(value) for value in values if value)
                choices = tuple(choice for choice in every if choice in values)
                found.append(Slot(slot.name, choices, slot.optional and None in values, slot.flag))
            elif not slot.optional:
                return None
        return tuple(found)


_TOKEN = re.compile(r"\{\.([^{}]+)\}|\.\(([^()]+)\)|\.([\w:]+)")


def _attribute(name: str) -> str:
    return re.sub(r"\W+", "_", name)


@cache
def parse_slots(pattern: str) -> tuple[Slot, ...]:
    """The slots of a pattern of modifiers.

    >>> [(slot.name, slot.choices, slot.optional, slot.count) for slot in parse_slots("{.sat}.(rnd=rn|rz).(types*2=f32|f16)")]
    [('sat', ('sat',), True, 1), ('rnd', ('rn', 'rz'), False, 1), ('types', ('f32', 'f16'), False, 2)]
    """
    slots = []
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"bad pattern {pattern!r} at {position}")
        optional, choice, literal = token.groups()
        name, _, spellings = (optional or choice or literal).partition("=")
        name, _, count = name.partition("*")
        choices = tuple((spellings or name).split("|"))
        flag = not spellings or (optional is not None and len(choices) == 1)
        slots.append(Slot(_attribute(name), choices, optional is not None, flag and not count, int(count or 1)))
        position = token.end()
    return tuple(slots)


FORMS: dict[str, tuple[Form, ...]] = {}
"""Fixed name -> the forms under it that `form` has declared (dense and sparse ones share theirs); `isa.load_all` declares all."""

_FAMILIES = ("tcgen05", "wgmma", "mbarrier", "fence", "membar", "tensormap", "cp.async.bulk", "cp.async.mbarrier", "cp.reduce")
"""Beginnings of opcodes whose every form stands in `FORMS`."""


def form(
    name: str,
    modifiers: str,
    *operands: str | tuple[str, Condition] | tuple[str, Condition, Condition, str],
    section: str,
    kinds: Mapping[str, Kind] | None = None,
    rules: tuple[Rule, ...] = (),
    requires: Needs | tuple[Needs, ...] = (),
    ignored: frozenset[str] = IGNORED,
    repeatable: frozenset[str] = frozenset(),
    length: str = "",
) -> Form:
    """Declare a form: the name that cannot change, the modifiers, and the lines of operands (with their conditions).

    Parameters
    ----------
    name, modifiers : the opcode: its fixed beginning, and the pattern of what follows
    operands : lines; or tuples of a line, when it is there, the values that it gives, and a note if the specification has no such line
    kinds : what each operand may be, by its name in the lines
    rules : which modifiers go together
    requires : PTX ISA versions and targets: see `isa.requirements`
    ignored, repeatable, length : modifiers that the assembler takes without meaning, twice, or as the length of vectors
    """
    lines = tuple(Operands(given) if isinstance(given, str) else Operands(*given) for given in operands or ("",))
    needed = requires if isinstance(requires, tuple) else (requires,)
    made = Form(name, parse_slots(modifiers), lines, kinds or {}, section, rules, needed, ignored, repeatable, length=length)
    FORMS[name] = (*FORMS.get(name, ()), made)
    return made


def is_declared(opcode: str) -> bool:
    """Whether every form of the opcode's family stands in `FORMS`: another opcode of the family does not exist."""
    return any(f"{opcode}.".startswith(f"{family}.") for family in _FAMILIES)


def find_forms(opcode: str) -> tuple[Form, ...]:
    """The forms that an opcode begins like, those with the longest name.

    >>> from ptxlab.isa import load_all
    >>> load_all()
    >>> [form.name for form in find_forms("tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32")]
    ['tcgen05.ld.red']
    """
    words = opcode.split(".")
    return next((FORMS[name] for length in range(5, 0, -1) if (name := ".".join(words[:length])) in FORMS), ())
