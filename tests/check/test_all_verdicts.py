"""`lint_instruction` against ptxas 13.5 on instructions of all families, over targets and versions.

`all_verdicts` records the table. Compared is only whether ptxas refuses and whether the linter finds an error; where ptxas crashes, nothing
is compared. `STRICTER` lists where the linter refuses on purpose what ptxas takes without a check: those rows are counted by themselves.
A third of the table is compared in every run, the whole table and instructions of a fresh seed in `make test-all`; a failure names the
seed, and ``PTXLAB_FORMS_SEED=<seed>`` brings it back.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pytest

from ptxlab import lint_instruction

from .all_verdicts import LATEST, TARGETS, VERSIONS, Row, read, rows
from .batches import judge
from .grammar import FAMILIES
from .test_verdicts import assembler

ROWS = read()
FRESH = int(os.environ.get("PTXLAB_FORMS_SEED", secrets.randbits(32)))


class Stricter(NamedTuple):
    """A rule of the PTX ISA that ptxas does not check: a section, what it asks, the codes of the findings, the opcodes."""

    section: str
    rule: str
    codes: frozenset[str]
    opcode: str


STRICTER: tuple[Stricter, ...] = ()
MOST_STRICTER = 0.01
"""The share of the table that may be in this class."""


def _errors(row: Row) -> set[str]:
    found = lint_instruction(row.instruction, target=row.target, version=row.version)
    return {d.code for d in found if d.severity == "error"}


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
        codes = _errors(row)
        on_purpose = row.outcome == "accept" and next(
            (s for s in STRICTER if codes and codes <= s.codes and re.search(s.opcode, row.instruction)), None
        )
        if on_purpose:
            found.stricter.append((row, on_purpose))
        else:
            (found.equal if bool(codes) == (row.outcome == "reject") else found.differ).append(row)
    return found


@cache
def _third() -> Compared:
    return compare(ROWS[::3])


@cache
def _whole() -> Compared:
    return compare(ROWS)


def _poor(found: Compared, field: str, least: float) -> dict[str, float]:
    """The values of a field among whose rows too few agree."""
    equal = Counter(getattr(row, field) for row in found.equal)
    differ = Counter(getattr(row, field) for row in found.differ)
    shares = {value: equal[value] / (equal[value] + differ[value]) for value in equal.keys() | differ.keys()}
    return {value: round(share, 4) for value, share in shares.items() if share < least}


def _check(found: Compared) -> None:
    share = len(found.equal) / (len(found.equal) + len(found.differ))
    assert _poor(found, "family", 0.98) == {}
    assert _poor(found, "target", 0.98) == {}
    assert share >= 0.995, [row[:5] for row in found.differ[:20]]
    assert len(found.stricter) <= MOST_STRICTER * (len(found.equal) + len(found.differ))


def test_a_third_of_the_recorded_verdicts() -> None:
    _check(_third())


@pytest.mark.slow
def test_all_recorded_verdicts() -> None:
    _check(_whole())


@pytest.mark.slow
def test_every_stricter_rule_is_used() -> None:
    assert {rule for _, rule in _whole().stricter} == set(STRICTER)
    assert all(rule.section and rule.rule for rule in STRICTER)


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
    assert min(targets.values()) >= 0.02 * len(ROWS)
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


# ----------------------------------------------------------------------------------------------- the assembler itself


@pytest.fixture(scope="module")
def ptxas() -> str:
    found = assembler()
    if found is None:
        pytest.skip("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    return found


@pytest.mark.oracle
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
