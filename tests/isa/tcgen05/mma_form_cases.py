"""Every syntax form of the tcgen05 rows of the catalogue: all choices of all modifiers, with and without operands that may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from zlib import crc32

from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import Row
from tests.isa.test_opcodes import OPCODES

load_all()


@dataclass(frozen=True)
class Form:
    """One form: the opcode, what its choices are, and the operands that it has."""

    row: Row
    opcode: str
    choices: tuple[tuple[str, str | None], ...]
    operands: tuple[str, ...]

    def choice(self, name: str) -> str | None:
        return dict(self.choices).get(name)

    def has(self, *words: str) -> bool:
        return set(words) <= set(self.opcode.split("."))


def _operation(row: Row) -> str:
    return row.pattern.split(".")[1].split("::")[0]


def rows(operation: str) -> list[Row]:
    """The rows of ``tcgen05.operation``; those of wait and fence have ``::`` after it."""
    return [row for row in CATALOGUE["tcgen05"] if _operation(row) == operation]


def operations() -> set[str]:
    """What follows ``tcgen05.`` in the catalogue."""
    return {_operation(row) for row in CATALOGUE["tcgen05"]}


def forms(row: Row) -> Iterator[Form]:
    """All forms of a row: the choices that the rules between modifiers leave."""
    optional = [name for name, type in row.operands if type.startswith("?")]
    texts = [(*slot.choices, *((None,) if slot.optional else ())) for slot in row.slots]
    for chosen in product(*texts):
        opcode = ".".join((row.form.name, *(text for text in chosen if text is not None)))
        if row.match(tuple(opcode.split("."))[1:]) is None:
            continue
        choices = tuple((slot.name, text) for slot, text in zip(row.slots, chosen, strict=True))
        for present in product((False, True), repeat=len(optional)):
            missing = {name for name, there in zip(optional, present, strict=True) if not there}
            yield Form(row, opcode, choices, tuple(name for name, _ in row.operands if name not in missing))


REAL = {frozenset(opcode.split(".")) for opcode in OPCODES}
"""The opcodes of real kernels, in whatever order their modifiers stand."""


def is_real(form: Form) -> bool:
    return frozenset(form.opcode.split(".")) in REAL


def cover(row: Row) -> list[Form]:
    """Forms of a row: every choice of every modifier, each operand present and missing, and all opcodes of real kernels occur."""
    seen: set[tuple[str, object]] = set()
    found = []
    for form in sorted(forms(row), key=lambda form: hash_of(form.opcode, form.operands)):
        here = {*form.choices, *(("operand", name) for name in form.operands), ("operands", len(form.operands))}
        here |= {("real", form.opcode)} if is_real(form) else set()
        if not here <= seen:
            seen |= here
            found.append(form)
    return found


def hash_of(*texts: object) -> int:
    """A number that scatters texts, the same in every run."""
    return crc32(repr(texts).encode())
