"""The page of every instruction form that executes: how it is known, and the tests that show it.

A test module names the forms it shows in a literal, which is read and not imported::

    SHOWS = {"test_function": ("glob over the catalogue's patterns", ...)}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ptxlab import isa

TESTS = Path(__file__).parents[1] / "tests"

FIDELITY = {
    "hardware": "compared with recorded results of real silicon",
    "two-models": "two independent models agree",
    "spec": "follows the text of the PTX ISA",
    "deduced": "our reading where the text leaves it open",
}


class Claim(NamedTuple):
    """A test function and a glob of the forms that it shows."""

    path: Path
    function: str
    glob: str

    @property
    def link(self) -> str:
        path = self.path.relative_to(TESTS.parent)
        return f"[{self.path.stem}::{self.function}](../{path.as_posix()})"


def claims() -> Iterator[Claim]:
    """What the test modules say they show."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "\nSHOWS" not in text:
            continue
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == ["SHOWS"]:
                for function, globs in ast.literal_eval(statement.value).items():
                    yield from (Claim(path, function, glob) for glob in globs)


def tests_of(pattern: str, said: list[Claim]) -> list[Claim]:
    """The claims about a form whose globs are most specific: the longest."""
    found = [claim for claim in said if fnmatchcase(pattern, claim.glob)]
    longest = max((len(claim.glob) for claim in found), default=0)
    return [claim for claim in found if len(claim.glob) == longest]


def coverage() -> str:
    isa.load_all()
    said = list(claims())
    lines = [
        "# Coverage",
        "",
        "Generated from the catalogue by `python docs/generate.py`. Every form below executes; any other opcode is refused by name.",
        "",
        "| fidelity | meaning |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in FIDELITY.items()),
        "",
        "In a pattern `{.x}` may be left out, `.(x=a|b)` is one of the choices. The test compares the form with something",
        "independent of the code that executes it: recorded silicon, exact integers, the layout functions, another model.",
    ]
    sections: dict[str, set[str]] = {}
    for rows in isa.CATALOGUE.values():
        for row in rows:
            shown = "<br>".join(dict.fromkeys(claim.link for claim in tests_of(row.pattern, said)))
            pattern = row.pattern.replace("|", "\\|")
            sections.setdefault(row.section, set()).add(f"| `{pattern}` | {row.kind} | {row.fidelity} | {shown} |")
    for section in sorted(sections):
        lines += ["", f"## {section}", "", "| form | executed as | fidelity | test |", "|---|---|---|---|", *sorted(sections[section])]
    return "\n".join(lines) + "\n"
