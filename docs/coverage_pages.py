"""The coverage pages: one for each instruction family, and an index with the totals.

A page lists every form that executes, how its behaviour is known, and the tests that show it. A test module names the forms that it shows
in a literal, which is read and not imported::

    SHOWS = {"test_function": ("glob over the catalogue's patterns", ...)}
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ptxlab import isa
from ptxlab.isa.targets import name_targets

TESTS = Path(__file__).parents[1] / "tests"

FIDELITY = {
    "hardware": "compared with recorded results of a GPU",
    "two-models": "two independent models agree",
    "spec": "follows the text of the PTX ISA",
    "deduced": "our reading where the text leaves it open",
}

FAMILIES = {
    "tcgen05": "Blackwell tensor cores and tensor memory",
    "wgmma": "Hopper tensor cores",
    "mma": "`mma.sync`, `mma.sp`, `movmatrix`",
    "bulk": "bulk and tensor copies (TMA), tensor maps, `st.async`, `red.async`, `clusterlaunchcontrol`",
    "memory": "loads, stores, atomics, caches, `cp.async`, address conversion",
    "sync": "barriers, mbarriers, fences, groups of `cp.async`, `griddepcontrol`, `setmaxnreg`",
    "warp": "shuffles, votes, `elect.sync`, `redux.sync`, `ldmatrix`, `stmatrix`",
    "scalar": "arithmetic, comparison, logic, conversion",
    "control": "branches, calls, the stack, `exit`, `trap`",
}
"""The families, in the order of the index: the subpackages of `ptxlab.isa`."""


class Claim(NamedTuple):
    """A test function and a glob of the forms that it shows."""

    path: Path
    function: str
    glob: str

    @property
    def link(self) -> str:
        path = self.path.relative_to(TESTS.parent)
        return f"[{self.path.stem}::{self.function}](../../{path.as_posix()})"


def claims() -> Iterator[Claim]:
    """The forms that the test modules say they show."""
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


class Form(NamedTuple):
    """A line of a table: an instruction form that executes."""

    section: str
    pattern: str
    needs: tuple[str, str]
    kind: str
    fidelity: str


def family_of(row: Any) -> str:
    """The subpackage of `ptxlab.isa` that declares a row; the engine executes control flow itself, by name."""
    semantics = row.semantics
    while isinstance(semantics, partial):
        semantics = semantics.func
    return "control" if isinstance(semantics, str) else semantics.__module__.split(".")[2]


def needs_of(row: Any) -> tuple[str, str]:
    """The PTX ISA version and the targets that every use of a row requires; empty where it does not say."""
    always = [needed for needed in row.form.requires if not needed.when]
    version = max((needed.since for needed in always), default=(0, 0))
    targets = [needed.targets for needed in always if needed.targets is not None]
    return f"{version[0]}.{version[1]}" if any(version) else "", name_targets(frozenset.intersection(*targets)) if targets else ""


@cache
def forms() -> dict[str, list[Form]]:
    """The forms of each family, sorted by section and pattern. Rows that differ in their operands only are one form."""
    isa.load_all()
    found: dict[str, dict[str, Form]] = {family: {} for family in FAMILIES}
    for rows in isa.CATALOGUE.values():
        for row in rows:
            form = Form(row.section, row.pattern, needs_of(row), row.kind, row.fidelity)
            lines = found[family_of(row)]
            lines[form.pattern] = min(form, lines.get(form.pattern, form))
    return {family: sorted(lines.values()) for family, lines in found.items()}


NUMBER = re.compile(r"\d+")


def shown(pattern: str) -> str:
    """A pattern as a table has it: a long choice that counts up in equal steps is shortened to its first two and its last."""
    return re.sub(r"(?<==)[^(){}=]+(?=\))", lambda choices: "|".join(_shortened(choices[0].split("|"))), pattern)


def _shortened(choices: list[str]) -> list[str]:
    numbers = [tuple(map(int, NUMBER.findall(choice))) for choice in choices]
    same_text = len({NUMBER.sub("#", choice) for choice in choices}) == 1
    if len(choices) < 8 or not same_text:
        return choices
    steps = {tuple(b - a for a, b in zip(one, other, strict=True)) for one, other in pairwise(numbers)}
    return [*choices[:2], "...", choices[-1]] if len(steps) == 1 else choices


def page(family: str) -> str:
    """The page of a family."""
    lines = [
        f"# Coverage: {family}",
        "",
        f"Generated by `python docs/generate.py` from the instruction catalogue. This page: {FAMILIES[family]}. [All families](README.md).",
        "",
        "In a pattern `{.x}` may be left out, `.(x=a|b)` is one of the choices, `a|b|...|z` counts up in equal steps.",
        "Any other opcode is refused by name.",
    ]
    said = list(claims())
    needs = any(any(form.needs) for form in forms()[family])
    columns = ["form", *(["PTX ISA", "targets"] if needs else []), "executed as", "fidelity", "test"]
    section = None
    for form in forms()[family]:
        if form.section != section:
            section = form.section
            lines += ["", f"## {section}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        pattern = shown(form.pattern).replace("|", "\\|")
        links = "<br>".join(dict.fromkeys(claim.link for claim in tests_of(form.pattern, said)))
        cells = [f"`{pattern}`", *(form.needs if needs else []), form.kind, form.fidelity, links]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def index() -> str:
    """The totals, by family and fidelity."""
    lines = [
        "# Coverage",
        "",
        "Generated by `python docs/generate.py` from the instruction catalogue. Every form that these pages list executes; any other",
        "opcode is refused by name before the launch. A form is a line of the catalogue: a pattern stands for all of its choices.",
        "",
        "| family | instructions | forms | " + " | ".join(FIDELITY) + " |",
        "|---" * (3 + len(FIDELITY)) + "|",
    ]
    total: Counter[str] = Counter()
    for family, lines_of in forms().items():
        counts = Counter(form.fidelity for form in lines_of)
        total += counts
        lines.append(
            f"| [{family}]({family}.md) | {FAMILIES[family]} | {len(lines_of)} | " + " | ".join(str(counts[f]) for f in FIDELITY) + " |"
        )
    lines.append(f"| all | | {total.total()} | " + " | ".join(str(total[f]) for f in FIDELITY) + " |")
    lines += [
        "",
        "| fidelity | how the behaviour of the form is known |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in FIDELITY.items()),
        "",
        "The test compares the form with something independent of the code that executes it: results recorded on a GPU, exact integers,",
        "the layout functions, another model. [Fidelity](../fidelity.md) explains what is compared with what.",
    ]
    return "\n".join(lines) + "\n"


PAGES = {"README.md": index, **{f"{family}.md": partial(page, family) for family in FAMILIES}}
