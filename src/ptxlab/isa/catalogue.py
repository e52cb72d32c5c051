"""The catalogue: one row for each form of an instruction, declared beside its semantics.

A pattern is the dotted opcode with its choices::

    add{.sat}.s32                          optional flag               q.sat is True or False
    add{.rnd=rn|rz|rm|rp}{.ftz}.f32        optional choice             q.rnd is "rn" ... or None
    mul.(mode=lo|hi).(type=u32|s32)        one of the choices          q.mode, q.type
    mbarrier.init{.shared::cta=shared}.b64 a flag under another name   (name stands left of =, spellings right)

Modifiers of pure instructions and of rows with ``ordered=False`` may stand in any order, as for the assembler. But types keep theirs,
and a first group named ``mode`` belongs to the instruction's name (``mul.wide.u32``).
Operands are given as keyword arguments in PTX order: a type (``"u32"``, ``"pred"``, ``"v4.b32"``), or the name of a pattern group that
holds it (``"type"``); ``"d|p"``-like pairs as ``"b32|pred"``; a leading ``?`` marks an operand that may be missing;
``"addr"`` a bracketed operand; ``"label"``, ``"any"`` what the row itself reads. Destinations are the leading operands, as many as
``outputs``; the semantics of a ``"pred|pred"`` destination gives both values.
``updates`` of the outputs, the leading ones, are read as well, and written when an asynchronous operation performs.
``derived={"wide": ("type", {"u16": "u32", ...})}`` adds ``q.wide``, looked up by what a group matched, for types that follow from others.
``effects=`` says what the instruction does to memory and other threads (`ptxlab.isa.effects`); every service row has it.
``"carry"`` is the condition code register: it stands in the row, not in the text.
``requires`` says which version of the PTX ISA and which targets the instruction needs: ``needs("7.0", "sm_80")`` or a tuple of such; the
notation stands in `isa.requirements`. A group of the pattern, or an operand that may be missing, can be named in ``when``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ptxlab.isa.effects import Effects
from ptxlab.isa.requirements import Needs

__all__ = ["CATALOGUE", "Fidelity", "Qualifiers", "Row", "control", "known_bases", "match", "native", "pure", "service"]

Fidelity = Literal["hardware", "two-models", "spec", "deduced"]
Kind = Literal["pure", "native", "service", "control"]


class Qualifiers:
    """What the pattern's groups matched, as attributes."""

    def __init__(self, values: Mapping[str, str | bool | None]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the pattern has no group {name!r}")

    def __repr__(self) -> str:
        return f"Qualifiers({self.__dict__})"


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    choices: tuple[str, ...]
    optional: bool
    flag: bool


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One catalogue row: the pattern, its operands, and the function or class that gives it meaning."""

    pattern: str
    base: str
    slots: tuple[_Slot, ...]
    operands: tuple[tuple[str, str], ...]
    outputs: int
    kind: Kind
    semantics: Any
    section: str
    fidelity: Fidelity
    ordered: bool
    derived: tuple[tuple[str, str, Mapping[str, str]], ...] = ()
    updates: int = 0
    requires: tuple[Needs, ...] = ()
    effects: Effects = None

    def __post_init__(self) -> None:
        if self.kind == "service" and self.effects is None:
            raise ValueError(f"{self.pattern}: a service row declares its effects (ptxlab.isa.effects; LOCAL if it has none)")

    def match(self, modifiers: tuple[str, ...]) -> Qualifiers | None:
        """Match the modifiers after the base name, or return None."""
        found: dict[str, str | bool | None] = {s.name: False if s.flag else None for s in self.slots}
        filled = [False] * len(self.slots)
        named = self.slots[0].choices if not self.ordered and self.slots and self.slots[0].name == "mode" else modifiers[:1]
        if not set(modifiers[:1]) <= set(named):
            return None
        at = typed = 0
        for modifier in modifiers:
            is_type = _TYPE.fullmatch(modifier) is not None
            for i in range(at if self.ordered else typed if is_type else 0, len(self.slots)):
                slot = self.slots[i]
                if not filled[i] and modifier in slot.choices:
                    filled[i] = True
                    found[slot.name] = True if slot.flag else modifier
                    at = i + 1
                    typed = at if is_type else typed
                    break
                if self.ordered and not slot.optional:
                    return None
            else:
                return None
        if any(not done and not slot.optional for done, slot in zip(filled, self.slots, strict=True)):
            return None
        for name, group, table in self.derived:
            found[name] = table[str(found[group])]
        return Qualifiers(found)


CATALOGUE: dict[str, list[Row]] = {}

_TYPE = re.compile(r"(?:[busf]|bf|tf)\d+(?:x\d)?|u?e\d\w+|s2f6x2|pred")
_TOKEN = re.compile(r"\{\.([^{}]+)\}|\.\(([^()]+)\)|\.([\w:]+)")


def _slots(pattern: str) -> tuple[str, tuple[_Slot, ...]]:
    base = re.match(r"[\w]+(?:::\w+)?", pattern)
    if base is None:
        raise ValueError(f"bad pattern {pattern!r}")
    slots: list[_Slot] = []
    position = base.end()
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"bad pattern {pattern!r} at {position}")
        optional, choice, literal = token.groups()
        text = optional or choice or literal
        name, _, spellings = text.partition("=")
        flag = not spellings or (optional is not None and "|" not in spellings)
        attribute = re.sub(r"\W+", "_", name)
        slots.append(_Slot(attribute, tuple((spellings or name).split("|")), optional is not None, flag))
        position = token.end()
    return base.group(), tuple(slots)


Derived = Mapping[str, tuple[str, Mapping[str, str]]]


def _decorator(kind: Kind) -> Callable[..., Callable[[Any], Any]]:
    def declare(
        *patterns: str,
        section: str,
        fidelity: Fidelity = "spec",
        outputs: int | None = None,
        ordered: bool = kind != "pure",
        derived: Derived | None = None,
        updates: int = 0,
        requires: Needs | tuple[Needs, ...] = (),
        effects: Effects = None,
        **operands: str,
    ) -> Callable[[Any], Any]:
        def decorate(semantics: Any) -> Any:
            count = outputs if outputs is not None else int(next(iter(operands), "") == "d")
            lookups = tuple((name, group, table) for name, (group, table) in (derived or {}).items())
            needed = requires if isinstance(requires, tuple) else (requires,)
            for pattern in patterns:
                base, slots = _slots(pattern)
                given = tuple(operands.items())
                row = Row(
                    pattern, base, slots, given, count, kind, semantics, section, fidelity, ordered, lookups, updates, needed, effects
                )
                CATALOGUE.setdefault(base, []).append(row)
            return semantics

        return decorate

    return declare


pure = _decorator("pure")
"""Declare a lane-wise pure function ``f(x, q, *sources) -> value or tuple of values`` over the vocabulary ``x``."""

native = _decorator("native")
"""Declare a function ``f(q, op) -> one of isa.native_ops``: an access or a warp collective that the engine executes itself."""

service = _decorator("service")
"""Declare a function ``f(warp: WarpContext) -> Wait | None`` that the machine calls, once for converged lanes of a warp."""

control = _decorator("control")
"""Declare a control-flow instruction; the semantics is its name: bra, brx, exit, ret, call, trap."""


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


def known_bases() -> frozenset[str]:
    """The first words of all opcodes in the catalogue."""
    return frozenset(CATALOGUE)
