"""The catalogue: one row for each form of an instruction, declared beside its semantics.

A row's syntax has one of two notations. The compact one is a pattern, the dotted opcode with its choices, and operands as keywords::

    @pure("add{.sat}.s32", d="s32", a="s32", b="s32", section=...)

    add{.sat}.s32                          optional flag               q.sat is True or False
    add{.rnd=rn|rz|rm|rp}{.ftz}.f32        optional choice             q.rnd is "rn" ... or None
    mul.(mode=lo|hi).(type=u32|s32)        one of the choices          q.mode, q.type
    mbarrier.init{.shared::cta=shared}.b64 a flag under another name   (name stands left of =, spellings right)
    min|max.(type=u32|s32)                 one row for each name       q.base; a section may contain {base}

Modifiers of pure instructions and of rows with ``ordered=False`` may stand in any order, as for the assembler. But types keep theirs,
and a first group named ``mode`` belongs to the instruction's name (``mul.wide.u32``).
Operands stand in PTX order: a type (``"u32"``, ``"pred"``, ``"v4.b32"``), or the name of a pattern group that
holds it (``"type"``); ``"d|p"``-like pairs as ``"b32|pred"``; a leading ``?`` marks an operand that may be missing, ``"b64?hint"``
one that is there if the group ``hint`` is; a `Typed` says in addition which constants and names may stand there;
``"addr"`` a bracketed operand; ``"label"``, ``"any"`` what the row itself reads. Destinations are the leading operands, as many as
``outputs``; the semantics of a ``"pred|pred"`` destination gives both values.
``derived={"wide": ("type", {"u16": "u32", ...})}`` adds ``q.wide``, looked up by what a group matched, for types that follow from others.
``effects=`` says what the instruction does to memory and other threads (`ptxlab.isa.effects`); every service row has it.
``"carry"`` is the condition code register: it stands in the row, not in the text.

The other notation is for families whose every legal form the linter knows, those that only the assembler takes included: a `Form` with
lines of operands, their kinds and rules between modifiers. The row names the form, and in ``only`` the values with which it executes::

    LOAD = form("tcgen05.ld", ".sync.aligned.(shape=...).(num=...)", ("r [taddr]", {"shape": ...}), kinds=..., rules=..., section=...)

    @native(LOAD, only={"shape": "32x32b"}, outputs=1)

There is one row for each line of the form that goes with ``only``. Operands that the line has under a condition keep their place: where
they are absent, `isa.operands.Unused` stands for them.

``requires`` says which version of the PTX ISA and which targets the instruction needs: ``needs("7.0", "sm_80")`` or a tuple of such; the
notation stands in `isa.requirements`. A group of the pattern, or an operand that may be missing, can be named in ``when``.
``rules`` say which modifiers go together (`isa.form.only`).
``updates`` of the outputs, the leading ones, are read as well, and written when an asynchronous operation performs. They are not read if
the operand of the name ``accumulates`` is 0.
``flow`` says how undefined bits go from the operands of a service to its destinations (`Flow`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from functools import cache, lru_cache
from threading import RLock
from typing import Any, Literal, TypeAlias

from ptxlab._records import dataclass
from ptxlab.isa.effects import Effects
from ptxlab.isa.form import Form, Operands, Order, Rule, Slot, is_there, operand, parse_slots
from ptxlab.isa.kinds import Address, Kind, Typed, type_text
from ptxlab.isa.requirements import Condition, Needs, Values, conditions, holds

__all__ = ["CATALOGUE", "Control", "Fidelity", "Flow", "Qualifiers", "Row", "control", "match", "native", "pure", "service"]

Fidelity = Literal["hardware", "two-models", "spec", "deduced"]
RowKind = Literal["pure", "native", "service", "control"]


class Control(Enum):
    """What a control-flow instruction does."""

    BRANCH = auto()
    INDEXED_BRANCH = auto()
    RETURN = auto()
    EXIT = auto()
    CALL = auto()
    TRAP = auto()


class Qualifiers:
    """What the pattern's groups matched, as attributes; ``base`` is the first word of the opcode."""

    def __init__(self, values: Mapping[str, str | bool | None]) -> None:
        self.__dict__.update(values)

    def get(self, name: str) -> Any:
        """What a group matched, or None if this pattern of the row has no such group."""
        return self.__dict__.get(name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the pattern has no group {name!r}")

    def __repr__(self) -> str:
        return f"Qualifiers({self.__dict__})"


@dataclass(frozen=True, slots=True)
class Flow:
    """How undefined bits go through a service.

    Attributes
    ----------
    operands : the names of those operands whose bits may be undefined
    masks : called before the instruction executes; gives the masks of the undefined bits of each destination register, [registers, 32]
    through_memory : whether the service itself sets these in a run that follows undefined bits through memory
    """

    operands: tuple[str, ...]
    masks: Callable[[Any], Any]
    through_memory: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One catalogue row: a form with one of its lines of operands, and the function or class that gives it meaning.

    Attributes
    ----------
    pattern, slots : the opcode's modifiers with the choices that the row executes
    operands : the names of the operands, and their types in the compact notation
    only : the values of groups with which the row executes
    flow : how undefined bits go through a service; None if its operands must be defined
    matrices : the names of the operands that hold matrices A and B in registers
    """

    form: Form
    line: Operands
    pattern: str
    slots: tuple[Slot, ...]
    operands: tuple[tuple[str, str], ...]
    outputs: int
    kind: RowKind
    semantics: Any
    fidelity: Fidelity
    only: Condition
    derived: tuple[tuple[str, str, Mapping[str, str]], ...] = ()
    updates: int = 0
    effects: Effects = None
    flow: Flow | None = None
    accumulates: str = ""
    matrices: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The first word of the opcode."""
        return self.form.name.split(".")[0]

    @property
    def section(self) -> str:
        """The title of the section that describes the instruction."""
        return self.form.section

    def match(self, modifiers: tuple[str, ...]) -> Qualifiers | None:
        """Match the modifiers after the base name, or return None."""
        form, name = self.form, self.form.words[1:]
        modifiers, begins = modifiers[len(name) :], modifiers[: len(name)]
        if begins != name or (form.order == "types" and form.slots[:1] and form.slots[0].name == "mode" and not _is_mode(form, modifiers)):
            return None
        placed = form.place(modifiers)
        if placed.left or placed.missing:
            return None
        values = {**placed.values, **self.line.gives}
        if not holds(self.only, values) or not holds(self.line.when, values):
            return None
        if any(rule.is_broken(values) and not (rule.ignored or rule.executed) for rule in form.rules):
            return None
        found: dict[str, str | bool | None] = {"base": self.base, **values}
        for slot in form.slots:
            if slot.flag:
                found[slot.name] = values[slot.name] is not None
        for derived, group, table in self.derived:
            found[derived] = table[str(found[group])]
        return Qualifiers(found)

    def values(self, q: Qualifiers) -> dict[str, str | None]:
        """The values of the groups for what a pattern matched: a flag has its spelling."""
        return {name: _spelling(self, name) if value is True else value or None for name, value in q.__dict__.items()}

    def sample(self) -> Qualifiers:
        """What the pattern matches with the first choice of each group, and without what may be missing."""
        values: dict[str, str | bool | None] = {"base": self.base}
        for slot in self.slots:
            values[slot.name] = None if slot.optional else slot.flag or slot.choices[0]
        return Qualifiers(values | {name: table[str(values[group])] for name, group, table in self.derived})

    def shown(self, values: Values) -> Iterator[tuple[str, Kind, bool | None]]:
        """The operands with their kinds, and whether each is there: None where it may be missing."""
        for name, condition in map(operand, self.line.line.split()):
            yield name, _kind_of(self.form, name), None if condition == "" else is_there(condition, values)


def _is_mode(form: Form, modifiers: tuple[str, ...]) -> bool:
    """Whether a modifier that is part of the name follows it directly, or is absent where it may be."""
    mode = form.slots[0]
    return modifiers[:1] == () or modifiers[0] in mode.choices or (mode.optional and not set(mode.choices) & set(modifiers))


def _spelling(row: Row, name: str) -> str | None:
    return next((slot.choices[0] for slot in row.form.slots if slot.name == name), None)


def _kind_of(form: Form, name: str) -> Kind:
    """The kind of an operand; that of a bracketed one of several parts is an address, that of a pair is its first one's."""
    return Address() if "," in name else form.kinds[name.split("|")[0]]


class Catalogue(Mapping[str, list[Row]]):
    """The rows by the first word of the opcode. They are made when they are first asked for: a program has few of the instructions."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._declared: dict[str, list[Iterator[Row]]] = {}
        self._families: dict[str, Callable[[], object]] = {}
        self._making = RLock()

    def declare(self, base: str, rows: Iterator[Row]) -> None:
        """Enter rows that are not made yet under the first word of their opcodes."""
        self._rows.setdefault(base, [])
        self._declared.setdefault(base, []).append(rows)

    def declare_family(self, base: str, load: Callable[[], object]) -> None:
        """Call ``load``, which declares the rows of a first word, when they are first asked for."""
        if base not in self._rows:
            self._families[base] = load

    def __getitem__(self, base: str) -> list[Row]:
        if base in self._families:
            with self._making:
                if base in self._families:
                    self._families[base]()
                    self._families.pop(base, None)
        if base in self._declared:
            with self._making:
                for rows in self._declared.get(base, ()):
                    self._rows[base] += rows
                self._declared.pop(base, None)
        return self._rows[base]

    def __delitem__(self, base: str) -> None:
        self._declared.pop(base, None)
        del self._rows[base]

    def __contains__(self, base: object) -> bool:
        return base in self._rows or base in self._families

    def __iter__(self) -> Iterator[str]:
        return iter({**self._rows, **self._families})

    def __len__(self) -> int:
        return len({**self._rows, **self._families})


CATALOGUE = Catalogue()

_NAMES = re.compile(r"\w+(?:\|\w+)*")


_Parsed: TypeAlias = tuple[Form, Operands, tuple[Slot, ...], str]
"""What a row executes: a form, one of its lines of operands, the slots with their choices, and these as a pattern."""


def _typed(kind: Typed) -> tuple[Typed, str]:
    """The kind of an operand of the compact notation, and what follows its name in the line: a question mark with its condition."""
    text, mark, group = kind.text.removeprefix("?").partition("?")
    return replace(kind, text=text), "?" if kind.text[0] == "?" else mark + group


@cache
def _typed_text(text: str) -> tuple[Typed, str]:
    """`_typed` of a kind that is only a text."""
    return _typed(Typed(text))


_WIDENING = frozenset({"ld", "ldu", "st", "cvt"})
"""Instructions whose register operands may be wider than the type: section "Operand Size Exceeding Instruction-Type Size"."""


def _compact(
    base: str,
    modifiers: str,
    ordered: bool,
    operands: Mapping[str, str | Typed],
    kept: int,
    section: str,
    requires: Needs | tuple[Needs, ...],
    rules: tuple[Rule, ...],
) -> Iterator[_Parsed]:
    """The row of a name in the compact notation; the first ``kept`` operands are destinations that cannot be dropped."""
    typed = {name: _typed(given) if isinstance(given, Typed) else _typed_text(given) for name, given in operands.items()}
    line = " ".join(name + there for name, (_, there) in typed.items())
    needed = requires if isinstance(requires, tuple) else (requires,)
    order: Order = "fixed" if ordered else "types"
    wider = base in _WIDENING
    kinds: dict[str, Kind] = {
        name: replace(kind, name=name, wider=wider, sink=at >= kept) for at, (name, (kind, _)) in enumerate(typed.items())
    }
    form = Form(base, parse_slots(modifiers), (Operands(line),), kinds, section.replace("{base}", base), rules, needed, order=order)
    yield form, form.operands[0], form.slots, base + modifiers


def _narrowed(form: Form, only: Condition) -> Iterator[_Parsed]:
    """One row for each line of a form that goes with a condition."""
    for line in form.operands:
        fits = all(set(only.get(group, values)) & set(values) for group, values in line.when.items())
        if fits and not line.note and all(value in only.get(group, (value,)) for group, value in line.gives.items()):
            slots = form.narrowed(line.when, conditions(line.gives), only)
            if slots is not None:
                yield form, line, slots, form.name + "".join(slot.pattern() for slot in slots)


Derived = Mapping[str, tuple[str, Mapping[str, str]]]


def _decorator(kind: RowKind) -> Callable[..., Callable[[Any], Any]]:
    def declare(
        *syntax: str | Form,
        only: Mapping[str, Any] | None = None,
        section: str = "",
        fidelity: Fidelity = "spec",
        outputs: int | None = None,
        ordered: bool = kind != "pure",
        derived: Derived | None = None,
        updates: int = 0,
        requires: Needs | tuple[Needs, ...] = (),
        rules: tuple[Rule, ...] = (),
        effects: Effects = None,
        flow: Flow | None = None,
        accumulates: str = "",
        matrices: tuple[str, ...] = (),
        **operands: str | Typed,
    ) -> Callable[[Any], Any]:
        count = outputs if outputs is not None else int(next(iter(operands), "") == "d")
        lookups = tuple((name, group, table) for name, (group, table) in (derived or {}).items())
        condition = conditions(only or {})
        if kind == "service" and effects is None:
            raise ValueError(f"{syntax[0]}: a service row declares its effects (ptxlab.isa.effects; LOCAL if it has none)")

        def decorate(semantics: Any) -> Any:
            def rows(parsed: Iterable[_Parsed]) -> Iterator[Row]:
                for form, line, slots, pattern in parsed:
                    own = form, line, pattern, slots, tuple(_listed(form, line)), count
                    yield Row(*own, kind, semantics, fidelity, condition, lookups, updates, effects, flow, accumulates, matrices)

            for given in syntax:
                if isinstance(given, Form):
                    CATALOGUE.declare(given.words[0], rows(_narrowed(given, condition)))
                    continue
                names = _NAMES.match(given)
                if names is None:
                    raise ValueError(f"bad pattern {given!r}")
                kept, modifiers = count if kind == "pure" else 0, given[names.end() :]
                for base in names.group().split("|"):
                    CATALOGUE.declare(base, rows(_compact(base, modifiers, ordered, operands, kept, section, requires, rules)))
            return semantics

        return decorate

    return declare


def _parts_of(name: str) -> list[str]:
    """The names of the parts of a bracketed operand."""
    return [part.partition("?")[0] for part in name.strip("[]").split(",")]


def _listed(form: Form, line: Operands) -> Iterator[tuple[str, str]]:
    for name, condition in map(operand, line.line.split()):
        yield _parts_of(name)[0], ("?" if condition == "" else "") + type_text(_kind_of(form, name))


pure = _decorator("pure")
"""Declare a lane-wise pure function ``f(x, q, *sources) -> value or tuple of values`` over the vocabulary ``x``."""

native = _decorator("native")
"""Declare a function ``f(q, op) -> one of isa.native_ops``: an access or a warp collective that the engine executes itself."""

service = _decorator("service")
"""Declare a function ``f(warp: WarpContext) -> Wait | None`` that the machine calls, once for converged lanes of a warp."""

control = _decorator("control")
"""Declare a control-flow instruction; the semantics is a `Control`."""


@lru_cache(maxsize=65536)
def match(opcode: str) -> tuple[tuple[Row, Qualifiers], ...]:
    """All rows that an opcode text fits, with what their groups matched; rows differ further by their operands."""
    base, *modifiers = opcode.split(".")
    found = []
    for row in CATALOGUE.get(base, ()):
        q = row.match(tuple(modifiers))
        if q is not None:
            found.append((row, q))
    return tuple(found)
