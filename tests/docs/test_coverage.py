"""The coverage pages: what the tests say they show is there, nothing is without a test, and no form is left out."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ptxlab import isa
from ptxlab.isa.targets import RENAMED, parse_targets

from .test_generated import generate

isa.load_all()
PATTERNS = sorted({row.pattern for rows in isa.CATALOGUE.values() for row in rows})
coverage = vars(generate.coverage_pages)
CLAIMS = list(coverage["claims"]())
MODULES = defaultdict(list)
for _claim in CLAIMS:
    MODULES[_claim.path].append(_claim)


def name(path: Path) -> str:
    return path.relative_to(coverage["TESTS"]).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_claims_name_tests_and_forms(path: Path) -> None:
    functions = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert {claim.function for claim in MODULES[path]} <= functions
    assert [claim.glob for claim in MODULES[path] if not any(fnmatchcase(pattern, claim.glob) for pattern in PATTERNS)] == []


def test_no_form_is_without_a_test() -> None:
    assert [pattern for pattern in PATTERNS if not coverage["tests_of"](pattern, CLAIMS)] == []


def test_the_most_specific_claim_counts() -> None:
    claim, path = coverage["Claim"], coverage["TESTS"] / "test_x.py"
    said = [claim(path, "test_a", "add*"), claim(path, "test_b", "add{.sat}*"), claim(path, "test_c", "sub*")]
    assert [c.function for c in coverage["tests_of"]("add{.sat}.s32", said)] == ["test_b"]
    assert [c.function for c in coverage["tests_of"]("add.s64", said)] == ["test_a"]


FIRST_WORDS = {"tcgen05": ["tcgen05"], "wgmma": ["wgmma"], "mma": ["mma"]}
"""The first words of all opcodes of a family, which no other family has."""


def test_the_pages_hold_every_form_once() -> None:
    lines = Counter(form.pattern for forms in coverage["forms"]().values() for form in forms)
    assert lines == Counter(PATTERNS)


def test_every_form_is_in_its_family() -> None:
    families = {re.match(r"\w+", form.pattern)[0]: set[str]() for forms in coverage["forms"]().values() for form in forms}  # type: ignore[index]
    for family, forms in coverage["forms"]().items():
        for form in forms:
            families[re.match(r"\w+", form.pattern)[0]].add(family)  # type: ignore[index]
    assert {word: families[word] for words in FIRST_WORDS.values() for word in words} == {
        word: {family} for family, words in FIRST_WORDS.items() for word in words
    }
    assert {word for word, found in families.items() if found & set(FIRST_WORDS)} == {
        word for words in FIRST_WORDS.values() for word in words
    }


def test_the_totals_are_those_of_the_pages() -> None:
    """Counted in the text of the pages, where the index counts rows of the catalogue."""
    pages = Path(generate.__file__).parent / "coverage"
    table = [line for line in (pages / "README.md").read_text().splitlines() if line.startswith(("| [", "| all"))]
    totals = {re.findall(r"\w+", line)[0]: [int(number) for number in re.findall(r"\d+", line)[-5:]] for line in table}
    for family in coverage["FAMILIES"]:
        lines = [line for line in (pages / f"{family}.md").read_text().splitlines() if line.startswith("| `")]
        counts = Counter(re.split(r",| \(", re.split(r"(?<!\\) \| ", line)[-2])[0] for line in lines)
        assert totals[family] == [len(lines), *(counts[fidelity] for fidelity in coverage["FIDELITY"])]
    assert totals["all"] == [sum(column) for column in zip(*(totals[family] for family in coverage["FAMILIES"]), strict=True)]


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (
            "x.(shape=m64n8k16|m64n16k16|m64n24k16|m64n32k16|m64n40k16|m64n48k16|m64n56k16|m64n64k16)",
            "x.(shape=m64n8k16|m64n16k16|...|m64n64k16)",
        ),
        ("x.(num=x1|x2|x4|x8|x16|x32|x64|x128)", "x.(num=x1|x2|x4|x8|x16|x32|x64|x128)"),
        ("x.(type=a0|b1|a2|a3|a4|a5|a6|a7)", "x.(type=a0|b1|a2|a3|a4|a5|a6|a7)"),
        ("x.(n=1|2|3|4|5|6|7)", "x.(n=1|2|3|4|5|6|7)"),
    ],
)
def test_only_choices_in_equal_steps_are_shortened(pattern: str, shown: str) -> None:
    assert coverage["shown"](pattern) == shown


TARGET_SETS = sorted(
    {need.targets for rows in isa.CATALOGUE.values() for row in rows for need in row.form.requires if need.targets}, key=sorted
)


def with_old_names(targets: frozenset[str]) -> set[str]:
    return {*targets, *(old for old, new in RENAMED.items() if new in targets)}


@pytest.mark.parametrize("targets", TARGET_SETS, ids=lambda targets: coverage["name_targets"](targets))
def test_the_short_form_of_targets_names_all_of_them(targets: frozenset[str]) -> None:
    words = coverage["name_targets"](targets).replace(" and newer", "").replace(" family", "").replace(",", "")
    assert with_old_names(parse_targets(words)) == with_old_names(targets)


@pytest.mark.parametrize(
    ("page", "opcode", "requires"),
    [
        ("tcgen05", "tcgen05.wait::ld", "PTX ISA 8.6, sm_100f family, sm_110f family"),
        ("wgmma", "wgmma.fence", "PTX ISA 8.0, sm_90a"),
        ("warp", "stmatrix.sync.aligned.m8n8", "PTX ISA 7.8, sm_90 and newer"),
        ("mma", "mma.sync.aligned.(shape=m16n8k32).row.col.(d=f16).(a=e4m3", "PTX ISA 8.7, sm_89 and newer"),
        ("scalar", "add{.rnd=rn|rz|rm|rp}.f64", "any target and version"),
    ],
)
def test_what_forms_require(page: str, opcode: str, requires: str) -> None:
    """Read in the text of the PTX ISA."""
    text = (Path(generate.__file__).parent / "coverage" / f"{page}.md").read_text()
    lines = [line for line in text.splitlines() if line.replace("\\|", "|").startswith(f"| `{opcode}")]
    assert lines
    assert {re.split(r"(?<!\\) \| ", line)[1] for line in lines} == {requires}
