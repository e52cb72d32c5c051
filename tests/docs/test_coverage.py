"""The coverage page: what the tests say they show is there, and nothing is without a test."""

from __future__ import annotations

import ast
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ptxlab import isa

from .test_generated import generate

isa.load_all()
PATTERNS = sorted({row.pattern for rows in isa.CATALOGUE.values() for row in rows})
coverage = generate.coverage.__globals__
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
