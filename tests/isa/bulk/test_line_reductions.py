"""Bulk copies and reductions of contiguous bytes to global memory by compiled code, as in `tests.isa.bulk.test_box_reductions`."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.bulk import _linear

from .reduction_helpers import BYTES, CTAS, DTYPES, inputs, kernel, text_of
from .test_box_reductions import EXACT, READ, TURNS, _count, both

__all__ = ["_count"]

LINE_TEXT = text_of("add", element="u32")
FORMS = [("add", name) for name in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")]
FORMS += [(name, element) for name in ("min", "max") for element in ("u32", "s32", "u64", "s64", "f16", "bf16")]
FORMS += [("inc", "u32"), ("dec", "u32"), *((name, element) for name in ("and", "or", "xor") for element in ("b32", "b64"))]
ARRAYS = {"b32": "u32", "b64": "u64"}


@pytest.fixture(autouse=True)
def _count_lines(monkeypatch: pytest.MonkeyPatch, _count: None) -> None:
    from ptxlab.isa.bulk import _tensor

    monkeypatch.setattr(_linear, "start", _tensor.start)


def expected(tensor: Any, boxes: Any, operation: str) -> Any:
    """The exact result of an operation that is the same in each order."""
    found = tensor.copy().reshape(4, -1)
    for turn in range(boxes.shape[1]):
        found[turn & 3] = reduce(EXACT[operation], boxes[:, turn].reshape(CTAS, -1), found[turn & 3])
    return found.reshape(tensor.shape)


@pytest.mark.parametrize(("operation", "element"), FORMS)
def test_every_operation(operation: str, element: str) -> None:
    loaded, dtype = kernel(operation, element=element), DTYPES[ARRAYS.get(element, element)]
    for bits in (False, True):
        tensor, boxes = inputs(ARRAYS.get(element, element), TURNS, bits)
        out, result, handled = both(loaded, tensor, boxes, lines=True, check="none")
        assert result.ok
        assert handled <= 1
        if np.dtype(dtype).kind in "iu" and operation in EXACT:
            assert np.array_equal(out, expected(tensor, boxes, operation))
        assert out.tobytes() != tensor.tobytes()


def test_copies() -> None:
    tensor, boxes = inputs("u32", TURNS)
    out, result, handled = both(kernel("", element="u32"), tensor, boxes, lines=True, check="none")
    assert result.ok
    assert handled == 1
    assert all(out.tobytes()[BYTES * n : BYTES * (n + 1)] in boxes[:, TURNS - 4 + n].tobytes() for n in range(4))


@pytest.mark.parametrize("check", ["race", "operands", "all"])
@pytest.mark.parametrize(("operation", "element"), [("add", "f32"), ("add", "bf16"), ("max", "f16"), ("xor", "b64"), ("add", "u32")])
def test_checks(operation: str, element: str, check: str) -> None:
    tensor, boxes = inputs(ARRAYS.get(element, element), TURNS)
    _, result, handled = both(kernel(operation, element=element), tensor, boxes, lines=True, check=check)
    noted = check == "all" and operation == "add" and element != "u32"
    assert [each.code for each in result.diagnostics] == ["M410"] * noted
    assert handled <= CTAS


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize("operation", ["add", ""])
@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"wait": ""}, {"X104", "X119"}),
        ({"wait": "cp.async.bulk.wait_group 1;"}, {"X104", "X119"}),
        ({"end": READ}, {"X112", "X103"}),
    ],
)
def test_races(changes: dict[str, str], codes: set[str], operation: str, check: str) -> None:
    """Of later writes to the source, and of a thread that reads what is written; copies of several CTAs to one place are races, too."""
    tensor, boxes = inputs("u32", TURNS)
    _, result, _ = both(kernel(operation, element="u32", **changes), tensor, boxes, lines=True, check=check)
    found = {each.code for each in result.diagnostics}
    assert codes <= found
    assert found == codes or not operation


@pytest.mark.parametrize(
    ("wrong", "code"), [("@q add.u64 w, w, 8;", "C901"), ("@q add.u64 w, w, 4096;", "M402"), ("@q mov.u64 w, 64;", "M401")]
)
def test_addresses_that_are_not_legal(wrong: str, code: str) -> None:
    """The handler is called for them, in a later turn."""
    text = LINE_TEXT.replace("cp.reduce", f"setp.eq.u32 q, i, 5; {wrong} cp.reduce").replace(".reg .pred one,", ".reg .pred q, one,")
    tensor, boxes = inputs("u32", TURNS)
    _, result, _ = both(ptxlab.loads(text).kernel(), tensor, boxes, lines=True, check="none")
    assert [each.code for each in result.diagnostics] == [code]
