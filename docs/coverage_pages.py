"""The coverage pages: one for each instruction family, and an index with the totals.

A page lists every form that executes, how its behaviour is known, and the tests that show it. A test module names the forms that it shows
in a literal, which is read and not imported::

    SHOWS = {"test_function": ("glob over the catalogue's patterns", ...)}
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ptxlab import isa
from ptxlab.isa.help_text import effects_text
from ptxlab.isa.targets import name_targets

TESTS = Path(__file__).parents[1] / "tests"
KITS = TESTS / "hardware" / "kits"
"""What `ptxlab import-records --into` has written: results of record kits, and which forms they show."""

FIDELITY = {
    "hardware": "compared with recorded results of a GPU",
    "two-models": "two independent models agree",
    "spec": "follows the text of the PTX ISA",
    "deduced": "our reading where the text leaves it open",
}

FAMILIES = {
    "tcgen05": "Blackwell tensor cores and tensor memory",
    "wgmma": "Hopper tensor cores",
    "mma": "`mma.sync`, `mma.sp`",
    "bulk": "bulk and tensor copies (TMA), tensor maps, `st.async`, `red.async`, `clusterlaunchcontrol`",
    "memory": "loads, stores, atomics, caches, `cp.async`, address conversion",
    "sync": "barriers, mbarriers, fences, groups of `cp.async`, `griddepcontrol`, `setmaxnreg`",
    "warp": "shuffles, votes, `elect.sync`, `redux.sync`, `ldmatrix`, `stmatrix`, `movmatrix`",
    "scalar": "arithmetic, comparison, logic, conversion",
    "control": "branches, calls, the stack, `exit`, `trap`",
}
"""The families, in the order of the index: the subpackages of `ptxlab.isa`."""

NOTES = {
    "scalar": "`.approx` and `div.full` are recorded on an H200. That other architectures give the same bits is\n"
    "deduced: [the approximate functions](../approximations.md).",
}
"""What holds for some forms of a family."""


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


@cache
def evidence() -> tuple[tuple[str, str, bool], ...]:
    """GPU, glob of patterns, and whether every choice of every modifier is shown, of all results of record kits."""
    files = [json.loads(path.read_text()) for path in sorted(KITS.glob("*.json"))]
    return tuple(
        (file["gpu"], glob, extent == "all") for file in files for globs in file["evidence"].values() for glob, extent in globs.items()
    )


def known_by(pattern: str, fidelity: str) -> str:
    """The fidelity of a form as a table has it, with the GPUs whose results show it."""
    found = [(gpu, whole) for gpu, glob, whole in evidence() if fnmatchcase(pattern, glob)]
    if whole := sorted({gpu for gpu, every in found if every}):
        return f"hardware ({', '.join(whole)})"
    part = sorted({gpu for gpu, _ in found})
    return f"{fidelity}, in part hardware ({', '.join(part)})" if part and fidelity != "hardware" else fidelity


def category(fidelity: str) -> str:
    """What `known_by` says, as the totals count it."""
    return re.split(r",| \(", fidelity)[0]


class Form(NamedTuple):
    """A line of a table: an instruction form that executes."""

    section: str
    pattern: str
    requires: str
    kind: str
    fidelity: str
    effects: str


def family_of(row: Any) -> str:
    """The subpackage of `ptxlab.isa` that declares a row; the engine executes control flow itself."""
    semantics = row.semantics
    while isinstance(semantics, partial):
        semantics = semantics.func
    return "control" if row.kind == "control" else semantics.__module__.split(".")[2]


def requirements_of(row: Any) -> str:
    """The PTX ISA versions and targets that a row requires: those that always apply, and those that apply with some modifiers."""
    always, sometimes = [], []
    for need in row.form.requires:
        possible = {group: values & _values(row, group) for group, values in ((g, set(v)) for g, v in need.when.items())}
        if all(possible.values()):
            certain = all(possible[group] == _values(row, group) for group in possible)
            (always if certain else sometimes).append(need)
    since = max((need.since for need in always), default=(0, 0))
    named = [need.targets for need in always if need.targets is not None]
    targets = frozenset.intersection(*named) if named else None
    more = [need for need in sometimes if need.since > since or (need.targets is not None and not (targets and targets <= need.targets))]
    first = _requirement(since, targets) or "any target and version"
    return "<br>".join(dict.fromkeys([first, *(f"{_condition(need.when)}: {_requirement(need.since, need.targets)}" for need in more)]))


def _values(row: Any, group: str) -> set[str | None]:
    """The values that a group of modifiers or an operand can have in an instruction of this row."""
    if group in row.line.gives:
        return {row.line.gives[group]}
    for slot in row.slots:
        if slot.name == group:
            return {*slot.choices, *([None] if slot.optional else [])}
    for name, condition in (word.split("?", 1) if "?" in word else (word, None) for word in row.line.line.split()):
        if name == group:
            return {"given"} if condition is None else {"given", None}
    return {None}


def _requirement(since: tuple[int, int], targets: frozenset[str] | None) -> str:
    parts = [f"PTX ISA {since[0]}.{since[1]}"] if since > (0, 0) else []
    return ", ".join(parts + ([name_targets(targets)] if targets is not None else []))


def _condition(when: Any) -> str:
    parts = []
    for group, values in when.items():
        named = [value for value in values if value]
        if named == ["given"]:
            parts.append(f"with the operand {group}")
        else:
            parts.append("with " + " or ".join(f"`.{value}`" for value in named) if named else f"without .{group}")
    return ", ".join(parts)


@cache
def forms() -> dict[str, list[Form]]:
    """The forms of each family, sorted by section and pattern. Rows that differ in their operands only are one form."""
    isa.load_all()
    found: dict[str, dict[tuple[str, ...], set[str]]] = {family: {} for family in FAMILIES}
    for rows in isa.CATALOGUE.values():
        for row in rows:
            key = (row.section, row.pattern, row.kind, known_by(row.pattern, row.fidelity), effects_text(row))
            found[family_of(row)].setdefault(key, set()).add(requirements_of(row))
    return {
        family: sorted(Form(section, pattern, _joined(texts), *rest) for (section, pattern, *rest), texts in rows.items())
        for family, rows in found.items()
    }


def _joined(texts: set[str]) -> str:
    """The requirements of rows with different operands."""
    first, *others = sorted(texts)
    return "<br>".join([first, *(f"with other operands: {other.partition('<br>')[0]}" for other in others)])


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
        "In a pattern `{.x}` may be left out, `.(x=a|b)` is one of the choices, `a|b|...|z` counts up in equal steps. Any other",
        "opcode is refused by name. `sm_100f family` means `sm_100f`, `sm_100a` and the same of later members of the family. Targets",
        "sm_101 are not listed beside sm_110, their newer name.",
    ]
    lines += ["", NOTES[family]] if family in NOTES else []
    said = list(claims())
    columns = ["form", "requires", "executed as", "fidelity", "test"]
    section = None
    for form in forms()[family]:
        if form.section != section:
            section = form.section
            lines += ["", f"## {section}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        pattern = shown(form.pattern).replace("|", "\\|")
        links = "<br>".join(dict.fromkeys(claim.link for claim in tests_of(form.pattern, said)))
        executed = f"{form.kind}<br>{form.effects}" if form.effects else form.kind
        cells = [f"`{pattern}`", form.requires, executed, form.fidelity, links]
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
        counts = Counter(category(form.fidelity) for form in lines_of)
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
        "A GPU in brackets has run the kernels of a [record kit](../hardware.md); in part: some choices of the modifiers.",
        "",
        "The test compares the form with something independent of the code that executes it: results recorded on a GPU, exact integers,",
        "the layout functions, another model. [Fidelity](../fidelity.md) explains what is compared with what.",
    ]
    return "\n".join(lines) + "\n"


PAGES = {"README.md": index, **{f"{family}.md": partial(page, family) for family in FAMILIES}}
