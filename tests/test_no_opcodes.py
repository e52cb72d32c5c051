"""The packages above isa, but commands and record kits, read what the row of an instruction says; they never test the text of an opcode.

Forbidden in their syntax trees:

* a string that is an opcode or begins like one: dotted words of which the first is one of the catalogue's, without blanks, or such a word
  alone, unless it is one of `OTHER_MEANINGS`. Docstrings, and strings that only become part of a message, are prose: f-strings, and what a
  conditional expression chooses for one;
* a test of ``opcode`` or of ``row.base``: a comparison, a method of it, an index into it, a regular expression on it. It may be printed,
  kept, and passed on;
* a look-up of rows by a text that is written there, be it an f-string;
* a function, method or attribute whose name asks for an instruction (`is_tcgen05_ld`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ptxlab
from ptxlab.isa import CATALOGUE, load_all

PACKAGES = ("check", "cuda", "debug", "editor", "engine", "interop", "machine", "profile", "view")
ROOT = Path(ptxlab.__file__).parent
OTHER_MEANINGS = {
    *("add", "and", "fma", "max", "min", "or", "shl", "sqrt", "xor", "abs"),  # operations of atomics, of LLVM, of the vocabulary
    *("activemask", "elect", "ldmatrix", "match", "redux", "shfl", "st", "stmatrix", "vote"),  # native operations and their helpers
    *("barrier", "mbarrier", "tensormap", "wgmma"),  # groups of checks, kinds of descriptors
    *("call", "fence"),  # exported functions, names of attributes
}
"""Words of the catalogue that stand alone for something else."""
GIVEN_BY_USERS = {("debug/_stops.py", "op.opcode == opcode"), ("debug/_stops.py", "op.opcode.startswith")}
"""Tests of an opcode against a text that a user has typed: a breakpoint at ``mbarrier.arrive``."""
LOOK_UPS = {"candidates", "find_forms", "forms_of", "insert", "match"}
DOTTED = re.compile(r"[a-z]\w*(::\w+)?(\.[\w:]+)*\.?")
EXPRESSIONS = ("fullmatch", "match", "search", "startswith", "endswith")
ASKS = re.compile(r"_*(is|has|was|needs|uses)_")
WORDS = {"add", "and", "call", "clz", "cos", "cvt", "div", "exit", "match", "max", "min", "mul", "not", "or", "set", "sub", "vote"}
"""Words of the catalogue that mean something else in the name of a function."""


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def is_prose(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    """Whether a string is a docstring, part of an f-string, or chosen for a message."""
    parent = above[node]
    if isinstance(parent, ast.Expr | ast.JoinedStr | ast.FormattedValue):
        return True
    return isinstance(parent, ast.IfExp) and node is not parent.test and not isinstance(above[parent], ast.Compare)


def strings(tree: ast.AST, bases: set[str]) -> Iterator[tuple[int, str]]:
    """Opcodes, and the beginnings of some."""
    above = parents(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or is_prose(node, above):
            continue
        text = node.value
        if DOTTED.fullmatch(text) and text.split(".")[0] in bases and text not in OTHER_MEANINGS:
            yield node.lineno, repr(text)


def is_text(node: ast.AST) -> bool:
    """``x.opcode``, ``opcode`` or ``x.row.base``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "opcode" or (node.attr == "base" and isinstance(node.value, ast.Attribute) and node.value.attr == "row")
    return isinstance(node, ast.Name) and node.id == "opcode"


def is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def called_name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""


def text_tests(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Tests of the text of an opcode."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            tested = [node.left, *node.comparators]
        elif isinstance(node, ast.Attribute | ast.Subscript):
            tested = [node.value]
        elif isinstance(node, ast.Match):
            tested = [node.subject]
        elif isinstance(node, ast.Call) and called_name(node) in LOOK_UPS and node.args and is_string(node.args[0]):
            yield node.lineno, ast.unparse(node)
            continue
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EXPRESSIONS:
            tested = node.args
        elif isinstance(node, ast.Assign) and not (isinstance(node.value, ast.Attribute) and node.value.attr == "opcode"):
            tested = [node.value]
        else:
            continue
        if any(map(is_text, tested)) and not (isinstance(node, ast.Attribute) and is_text(node)):
            yield node.lineno, ast.unparse(node)


def names(tree: ast.AST, bases: set[str]) -> Iterator[tuple[int, str]]:
    """Functions, methods and attributes that ask for an instruction."""
    for node in ast.walk(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else node.attr if isinstance(node, ast.Attribute) else ""
        if ASKS.match(name) and bases & set(name.split("_")) - WORDS:
            yield node.lineno, name


def bases() -> set[str]:
    load_all()
    return set(CATALOGUE)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_opcodes(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        tree, place = ast.parse(path.read_text()), path.relative_to(ROOT).as_posix()
        wrong = [*names(tree, bases()), *strings(tree, bases()), *text_tests(tree)]
        found += [f"{place}:{line}: {what}" for line, what in wrong if (place, what) not in GIVEN_BY_USERS]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        'if op.opcode.startswith("x"): pass',
        'done = op.opcode == "x"',
        'if "x" in op.opcode: pass',
        "base = op.row.base",
        'words = op.opcode.split(".")[1]',
        "opcode = op.opcode\nif opcode in found: pass",
        'match op.opcode:\n    case "x": pass',
        "PATTERN.fullmatch(op.opcode)",
        'TABLE = {"tcgen05.ld": 1}',
        'COPIES = ("cp.async.", "mbarrier.arrive")',
        'if name == "wgmma.fence": pass',
        'match name:\n    case "bar.sync": pass',
        'if op.row.semantics == "bra": pass',
        'done = name in ("exit", "ret")',
        'rows = candidates(f"mov.b{bits}")',
        'low.insert("mov.b32", a)',
        "def is_tcgen05_ld(op): pass",
        "if op.is_mbarrier_wait: pass",
    ],
)
def test_what_is_found(text: str) -> None:
    tree = ast.parse(text)
    assert [*strings(tree, bases()), *text_tests(tree), *names(tree, bases())]


@pytest.mark.parametrize(
    "text",
    [
        '"""Like tcgen05.ld."""',
        'f"{op.opcode} waits"',
        'report(op.opcode, "insert bar.sync before")',
        'fix = "barrier.cluster" if pair else "a barrier"',
        "writer = Writer(op.opcode)",
        "services[op.opcode] += 1",
        'if native.operation == "add": pass',
        "def is_call(x): pass",
    ],
)
def test_what_is_allowed(text: str) -> None:
    tree = ast.parse(text)
    assert not [*strings(tree, bases()), *text_tests(tree), *names(tree, bases())]
