"""Which programs of a checkout are run, for which device, and with which options: `collections.toml`, read."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

__all__ = ["Collection", "Program", "collections", "programs"]

_FILE = Path(__file__).with_name("collections.toml")


@dataclass(frozen=True, slots=True)
class Collection:
    """Programs of one repository.

    Attributes
    ----------
    folder : where they are in a checkout
    files : which files are programs, as patterns
    packages : packages whose versions the table names
    rules : the tables ``rule`` of the collection; all that match a program apply, in order
    """

    name: str
    repository: str
    folder: str
    files: tuple[str, ...]
    packages: tuple[str, ...]
    rules: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and how it is run.

    Attributes
    ----------
    path : its file, in the folder of the collection
    target : the device
    options : its own options, which make its sizes small
    tests : options of pytest, if tests of the program are run in its place; they choose sizes that are small
    calls : expressions that are evaluated in the program's module, in place of its main part; they choose sizes that are small
    ptxlab : options of ``ptxlab exec``
    environment : variables
    build : of a program in CUDA C++: options of nvcc; ``{checkout}`` stands for the folder of the checkout, ``{headers}`` for
        that of our own headers, beside this module
    seconds : the time after which it is ended
    left_out : why it is not run; empty if it is
    judged : by the code of a finding, or by a way to end: whether it is true, or why that is so
    """

    path: str
    target: str = "sm_100a"
    options: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    ptxlab: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    build: tuple[str, ...] = ()
    seconds: int = 300
    left_out: str = ""
    judged: dict[str, str] = field(default_factory=dict)


def collections(text: str | None = None) -> dict[str, Collection]:
    """Return the collections by name; ``text`` in place of the file."""
    tables = tomllib.loads(_FILE.read_text() if text is None else text)
    return {
        name: Collection(
            name,
            table["repository"],
            table["folder"],
            tuple(table.get("files", ["*.py"])),
            tuple(table.get("packages", ())),
            tuple(table.get("rule", ())),
        )
        for name, table in tables.items()
    }


def programs(collection: Collection, checkout: Path) -> list[Program]:
    """Return the programs of a collection that a checkout holds."""
    root = checkout / collection.folder
    paths = {path for pattern in collection.files for path in root.rglob(pattern)}
    return [_program(collection, path.relative_to(root).as_posix()) for path in sorted(paths)]


def _program(collection: Collection, path: str) -> Program:
    program = Program(path)
    for rule in collection.rules:
        if fnmatch(path, rule["match"]):
            changes: dict[str, Any] = {name: value for name, value in rule.items() if name != "match"}
            for name in changes.keys() & {"options", "tests", "ptxlab", "build"}:
                changes[name] = tuple(shlex.split(changes[name]))
            if "calls" in changes:
                changes["calls"] = tuple(changes["calls"])
            program = replace(program, **changes)
    return program
