"""`lint_instruction` against ptxas 13.5 on instructions of all families, over targets and versions.

`record_all_verdicts` records the table. Compared is only whether ptxas refuses and whether the linter finds an error; where ptxas crashes,
nothing is compared. `STRICTER` lists what the PTX ISA forbids and ptxas does not check: such a row is counted by itself, if the linter has
no other objection to it. Instructions of a fresh seed are compared in `make test-all`; a failure names the seed, and
``PTXLAB_FORMS_SEED=<seed>`` brings it back.
"""

from __future__ import annotations

import os
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import pytest

from ptxlab import lint_instruction

from .batches import Verdict, judge
from .grammar import FAMILIES
from .record_all_verdicts import LATEST, TARGETS, VERSIONS, Row, read, rows
from .test_verdicts import assembler

ROWS = read()
FRESH = int(os.environ.get("PTXLAB_FORMS_SEED", secrets.randbits(32)))


class Stricter(NamedTuple):
    """A rule of the PTX ISA that ptxas does not check, and how an instruction that breaks it is repaired."""

    section: str
    rule: str
    repaired: Callable[[str], str]


_FOREIGN = (
    "acc::f32|box_dim|element_stride|elemtype|fill_mode|finite|global_address|global_dim|global_stride|infinite|interleave_layout|normal|"
    "notanumber|number|rank|subnormal|swizzle_atomicity|swizzle_mode"
)


def _once(text: str) -> str:
    """Without the second of two equal modifiers that stand side by side, or the last of two that do not."""
    side_by_side = re.sub(r"(\.[^.\s;]+)\1(?=[.\s;])", r"\1", text, count=1)
    return side_by_side if side_by_side != text else re.sub(r"(\.[^.\s;]+)(\S*)\1(?=[.\s;])", r"\1\2", text, count=1)


def _own(text: str) -> str:
    """Without the modifiers of tensormap, testp and multimem on another instruction."""
    return text if re.search(r"\b(tensormap|testp|multimem)\.", text) else re.sub(rf"\.({_FOREIGN})(?=[.\s;])", "", text)


def _without_predicates(text: str) -> str:
    """With another register of the vector in the place of a predicate."""
    vector = re.search(r"\{[^{}]*%p\d[^{}]*\}", text)
    others = re.findall(r"%(?!p\d)[a-z]+", vector[0]) if vector else []
    return text.replace(vector[0], re.sub(r"%p(\d)", rf"{others[0]}\1", vector[0])) if vector and others else text


def _four(text: str) -> str:
    """With four elements of 8 or 16 bits for eight."""
    return (
        re.sub(r"\{(%\w+, %\w+, %\w+, %\w+),[^}]*\}", r"{\1}", text.replace(".v8", ".v4")) if re.search(r"\.[bus](8|16)\b", text) else text
    )


STRICTER = (
    Stricter("Instruction Set: format of instructions", "a modifier is given once", _once),
    Stricter("Instruction Set: format of instructions", "an instruction has only the modifiers of its syntax", _own),
    Stricter("Vectors as Operands", "the registers of a vector have one type; a predicate is not one of them", _without_predicates),
    Stricter("Data Movement and Conversion Instructions: ld, st", ".v8 is for types of 32 bits", _four),
)
MOST_STRICTER = 0.01
"""The share of the table that may be in this class."""


def _errors(instruction: str, target: str, version: str) -> bool:
    return any(d.severity == "error" for d in lint_instruction(instruction, target=target, version=version))


def _on_purpose(row: Row) -> Stricter | None:
    """The rule because of which alone the linter refuses what ptxas takes."""
    for rule in STRICTER:
        repaired = rule.repaired(row.instruction)
        if repaired != row.instruction and not _errors(repaired, row.target, row.version):
            return rule
    return None


class Compared(NamedTuple):
    equal: list[Row]
    differ: list[Row]
    stricter: list[tuple[Row, Stricter]]


def compare(some: Iterable[Row]) -> Compared:
    """The rows on which linter and assembler agree, on which they differ, and where the linter is stricter on purpose."""
    found = Compared([], [], [])
    for row in some:
        if row.outcome == "crash":
            continue
        refused = _errors(row.instruction, row.target, row.version)
        rule = _on_purpose(row) if refused and row.outcome == "accept" else None
        if rule:
            found.stricter.append((row, rule))
        else:
            (found.equal if refused == (row.outcome == "reject") else found.differ).append(row)
    return found


@cache
def compared(every: int) -> Compared:
    """One in so many rows of the table, compared."""
    return compare(ROWS[::every])


shares = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])


def _poor(found: Compared, field: str, least: float) -> dict[str, float]:
    """The values of a field among whose rows too few agree."""
    equal = Counter(getattr(row, field) for row in found.equal)
    differ = Counter(getattr(row, field) for row in found.differ)
    shares = {value: equal[value] / (equal[value] + differ[value]) for value in equal.keys() | differ.keys()}
    return {value: round(share, 4) for value, share in shares.items() if share < least}


def test_a_tenth_of_the_recorded_verdicts() -> None:
    found = compare(ROWS[::10])
    assert {row.family for row in found.equal} == set(FAMILIES)
    assert len(found.equal) / (len(found.equal) + len(found.differ)) >= 0.995, [row[:5] for row in found.differ]


@pytest.mark.sweep
@shares
def test_recorded_verdicts(every: int) -> None:
    found = compared(every)
    total = len(found.equal) + len(found.differ)
    assert {row.family for row in found.equal} == set(FAMILIES)
    assert {row.target for row in found.equal} == set(TARGETS)
    assert _poor(found, "family", 0.98) == {}
    assert _poor(found, "target", 0.98) == {}
    assert len(found.equal) / total >= 0.995, [row[:5] for row in found.differ[:20]]
    assert len(found.stricter) <= MOST_STRICTER * total


@pytest.mark.sweep
@shares
def test_every_stricter_rule_is_needed(every: int) -> None:
    assert {rule for _, rule in compared(every).stricter} == set(STRICTER)


# ----------------------------------------------------------------------------------------------- what the table is made of


def test_shares() -> None:
    total = len(ROWS)
    assert total >= 30_000
    assert len({row[:3] for row in ROWS}) == total
    outcomes = Counter(row.outcome for row in ROWS)
    assert outcomes["accept"] >= 0.4 * total
    assert outcomes["reject"] >= 0.25 * total
    assert outcomes["crash"] <= 0.005 * total
    assert sum(row.base >= 0 for row in ROWS) >= 0.4 * total


def test_balance() -> None:
    families = Counter(row.family for row in ROWS)
    assert set(families) == set(FAMILIES)
    assert min(families.values()) >= 0.8 * max(families.values())
    targets = Counter(row.target for row in ROWS)
    assert set(targets) == set(TARGETS)
    assert min(targets.values()) >= 0.015 * len(ROWS)
    versions = Counter(row.version for row in ROWS)
    assert set(versions) == {f"{major}.{minor}" for major, minor in VERSIONS}
    assert 0.4 <= versions["{}.{}".format(*LATEST)] / len(ROWS) <= 0.6


def _tokens(text: str) -> tuple[str, ...]:
    """Modifiers and operands; braces, brackets and pairs hold their operand together."""
    guard, opcode, operands = re.fullmatch(r"(?:L1: )?(@\S+ |)(\S+?)(?: (.*))?;", text).groups()  # type: ignore[union-attr]
    listed = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,\s])+", operands or "")
    return (guard, *(f".{word}" for word in opcode.split(".")), "|", *listed)


def _one_edit(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one token replaced, dropped, added or moved turns a into b."""
    if len(a) == len(b):
        differ = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        if len(differ) <= 1:
            return True
        low, high = differ[0], differ[-1] + 1
        return a[low:high] in (b[low + 1 : high] + b[low : low + 1], b[high - 1 : high] + b[low : high - 1])
    short, long = sorted((a, b), key=len)
    return len(long) == len(short) + 1 and any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def test_edits_are_one_edit_away_from_what_ptxas_accepts() -> None:
    for row in ROWS:
        if row.base < 0:
            continue
        base = ROWS[row.base]
        assert base.outcome == "accept"
        assert base.made == "grammar"
        changed = (row.instruction != base.instruction) + (row.target != base.target) + (row.version != base.version)
        assert changed == 1, row
        assert _one_edit(_tokens(base.instruction), _tokens(row.instruction)), (base.instruction, row.instruction)


def test_rows_follow_from_the_seed() -> None:
    def invented(instructions: Sequence[str], target: str, version: str) -> dict[str, Verdict]:
        return {i: Verdict("accept" if zlib.crc32(f"{i}{target}{version}".encode()) % 3 else "reject", "") for i in instructions}

    made = rows(5, 20, invented)
    assert len(made) > 300
    assert made == rows(5, 20, invented)
    assert made != rows(6, 20, invented)


# ----------------------------------------------------------------------------------------------- the assembler itself


@pytest.fixture(scope="module")
def ptxas() -> str:
    found = assembler()
    if found is None:
        pytest.skip("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    return found


@pytest.mark.oracle
@pytest.mark.compiler
def test_recorded_verdicts_are_those_of_single_instructions(ptxas: str) -> None:
    """In a batch no instruction has changed the verdict on another."""
    some = ROWS[:: len(ROWS) // 250]
    for row in some:
        assert judge(ptxas, [row.instruction], row.target, row.version)[row.instruction].outcome == row.outcome, row


@pytest.mark.slow
@pytest.mark.oracle
def test_fresh_instructions_against_the_assembler(ptxas: str) -> None:
    found = compare(rows(FRESH, 120, lambda *given: judge(ptxas, *given)))
    assert len(found.equal) + len(found.differ) > 1800
    share = len(found.equal) / (len(found.equal) + len(found.differ))
    assert share >= 0.99, (f"PTXLAB_FORMS_SEED={FRESH}", [row[:5] for row in found.differ[:20]])
