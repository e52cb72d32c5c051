"""Each memory and asynchronous instruction in a pair of kernels: with the order that the PTX ISA asks for, and without it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.engine import lower
from ptxlab.isa import CATALOGUE, load_all
from tests.sweep_helpers import first_seen, part

from .order_table import FRAME, NO_ACCESS, TABLE, Pair

WORDS, MAP = 16384, 24576
"""The array, and where it holds a tensor map, in bytes."""
OPTIONS: dict[str, Any] = {"block": 64, "shared_bytes": 32768, "max_instructions": 200_000, "check": "all", "policy": "eager"}
CASES = [(pair, form) for pair in TABLE for form in pair.forms]


def launch(pair: Pair, form: str, ordered: bool) -> Any:
    """The result of one kernel, or of its last launch."""
    options = OPTIONS | {name: value for name, value in pair.options.items() if name not in ("target", "launches")}
    kernel = ptxlab.loads(pair.text(form, ordered), file="pair.ptx").kernel()
    device = ptxlab.Device(pair.target)
    content = np.zeros(WORDS, np.uint32)
    array = device.array(content)
    tensor_map = bytes(128) if pair.tensor_map is None else bytes(pair.tensor_map(array))
    content.view(np.uint8)[MAP : MAP + 128] = np.frombuffer(tensor_map, np.uint8)
    array.write(content)
    for _ in range(int(pair.options.get("launches", 1))):
        result = kernel.launch(args=[array, tensor_map], device=device, **options)
    return result


def instruction(pair: Pair, form: str) -> tuple[str, str]:
    """The code of a line of the table, and an instruction without most of its modifiers."""
    return pair.code, ".".join(form.partition(" ")[0].rstrip(";").split(".")[:3])


def cases(with_code: bool) -> list[Any]:
    """Every form of every line of the table, or of those that have a code.

    `make quick` runs the first form of each third line, `make test` the first form of each line, and of each instruction with each code.
    """
    first = first_seen(instruction)
    parameters = [
        pytest.param(
            pair,
            form,
            id=f"{pair.code or 'no order'} {form.partition(' ')[0].rstrip(';')}",
            marks=[pytest.mark.sweep] if form != pair.forms[0] or TABLE.index(pair) % 3 else [],
        )
        for pair, form in CASES
        if pair.code or not with_code
    ]
    return part(parameters, lambda pair, form: first(pair, form) or form == pair.forms[0])


@pytest.mark.parametrize(("pair", "form"), cases(with_code=False))
def test_with_the_order(pair: Pair, form: str) -> None:
    result = launch(pair, form, ordered=True)
    assert {d.code for d in result.diagnostics} <= {"X123", *pair.always}, result


@pytest.mark.parametrize(("pair", "form"), cases(with_code=True))
def test_without_the_order(pair: Pair, form: str) -> None:
    """The code, in a finding that names the instruction."""
    result = launch(pair, form, ordered=False)
    findings = [d for d in result.diagnostics if d.code in pair.code.split()]
    assert findings, result
    assert {d.code for d in result.diagnostics} <= {*pair.code.split(), *pair.also, *pair.always, "X123"}, result
    line, name = pair.line(), ".".join(form.split(".")[:2])
    if line:
        assert any(line == (d.place and d.place.line) or re.search(rf"line {line}\b", str(d)) or name in d.message for d in findings), (
            result
        )


@cache
def rows_in_table() -> set[int]:
    """The catalogue rows of all forms, by identity: one kernel holds them all."""
    forms = {form: None for _, form in CASES}
    text = FRAME.format(target="sm_100a", body=".local .b32 own;\n" + "\n".join(forms), use="")
    module = ptxlab.loads(text).ast
    opcodes = {form.partition(" ")[0].rstrip(";") for form in forms}
    return {id(op.row) for op in lower(module, module.functions["k"]).ops if op.opcode in opcodes}


def rows() -> list[Any]:
    """The rows of the catalogue that may access memory or act asynchronously."""
    load_all()
    return [row for rows in CATALOGUE.values() for row in rows if row.kind in ("native", "service")]


def without_access(pattern: str) -> bool:
    """Whether the list says that the instructions of this row access no memory."""
    return any(re.match(re.escape(opcode) + r"(?![\w:])", pattern) for opcode in NO_ACCESS)


def test_every_row_is_in_the_table() -> None:
    missing = [row.pattern for row in rows() if id(row) not in rows_in_table() and not without_access(row.pattern)]
    assert not missing, "\n".join(missing)


def test_the_list_of_rows_without_access_is_not_longer_than_needed() -> None:
    patterns = [row.pattern for row in rows()]
    assert [opcode for opcode in NO_ACCESS if not any(re.match(re.escape(opcode) + r"(?![\w:])", p) for p in patterns)] == []
    assert [row.pattern for row in rows() if id(row) in rows_in_table() and without_access(row.pattern)] == []
