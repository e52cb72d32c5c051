"""The examples of docs/arithmetic.md."""

from __future__ import annotations

import doctest
from pathlib import Path

from ptxlab.numerics._steps import STEPS

PAGE = Path(__file__).parents[2] / "docs" / "arithmetic.md"


def test_the_examples_give_what_the_page_says() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted > 35


def test_the_table_of_steps_is_the_one_that_runs() -> None:
    page = PAGE.read_text()
    for (arch, kind), steps in STEPS.items():
        for step in steps:
            if step.output == "s32":
                continue
            name = kind or arch.removeprefix("mma.")
            rows = [line for line in page.splitlines() if line.startswith("| ") and name in line.split("|")[1]]
            assert any(f"| {step.window} |" in row.replace("*", "") and str(step.floor) in row for row in rows), (arch, kind)
