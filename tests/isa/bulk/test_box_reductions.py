"""Reductions of boxes by compiled code: the same bytes, statistics and findings as by the handler, which NumPy executes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.isa.bulk import _tensor
from ptxlab.isa.native_ops import REDUCED_TYPES
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise_race_check
from tests.repetition_helpers import both_ways, note_handled

from .reduction_helpers import CTAS, DTYPES, ROWS, inputs, kernel, launch

FORMS = [(operation, element) for operation, types in REDUCED_TYPES.items() for element in DTYPES if element in types]
EXACT: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
TURNS = 8
HANDLED: list[int] = []
"""The lines of the instructions whose handler was called."""


@pytest.fixture(autouse=True)
def _count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note the calls of the handler; the race check repeats from the start."""
    optimise_race_check()
    note_handled(monkeypatch, _tensor, "start", HANDLED)
    yield
    HANDLED.clear()


def both(loaded: ptxlab.Kernel, tensor: Any, boxes: Any, **options: Any) -> tuple[NDArray[Any], ptxlab.Result, int]:
    """What a launch gives, which is the same if the handler executes each reduction; and how often it is called."""
    (out,), result, handled, by_handler = both_ways(lambda: launch(loaded, tensor, boxes, **options), HANDLED)
    assert len(handled) < len(by_handler)
    return out, result, len(handled)


def sequence(tensor: NDArray[Any], boxes: NDArray[Any], operation: str) -> NDArray[Any]:
    """The exact result of an operation that is the same in each order."""
    found, columns = tensor.copy(), boxes.shape[-1]
    for turn in range(boxes.shape[1]):
        x, y = turn % 2 * columns, turn // 2 % 2 * ROWS
        part = found[y : y + ROWS, x : x + columns]
        part[...] = reduce(EXACT[operation], boxes[:, turn], part)
    return found


@pytest.mark.parametrize(("operation", "element"), FORMS)
def test_every_operation(operation: str, element: str) -> None:
    for bits in (False, True):
        tensor, boxes = inputs(element, TURNS, bits)
        out, result, handled = both(kernel(operation), tensor, boxes, check="none")
        assert result.ok
        assert handled <= 1
        if np.dtype(DTYPES[element]).kind in "iu" and operation in EXACT:
            assert np.array_equal(out, sequence(tensor, boxes, operation))
        assert out.tobytes() != tensor.tobytes()


@pytest.mark.parametrize("lanes", [2, 32])
@pytest.mark.parametrize("check", ["none", "race", "all"])
def test_lanes_that_reduce_the_same_box(lanes: int, check: str) -> None:
    """Each of them adds it."""
    tensor, boxes = inputs("s32", TURNS)
    out, result, handled = both(kernel("add", lanes), tensor, boxes, check=check)
    assert result.ok
    assert handled <= lanes * (1 if check == "none" else 2 * CTAS)
    assert np.array_equal(out, sequence(tensor, boxes * lanes, "add"))


@pytest.mark.parametrize("check", ["race", "operands", "all"])
@pytest.mark.parametrize(("operation", "element"), [("add", "f32"), ("add", "bf16"), ("max", "f16"), ("xor", "u64")])
def test_checks(operation: str, element: str, check: str) -> None:
    """The note on sums that depend on the order is the same, too."""
    tensor, boxes = inputs(element, TURNS)
    _, result, handled = both(kernel(operation), tensor, boxes, check=check)
    noted = check == "all" and operation == "add"
    assert [each.code for each in result.diagnostics] == ["M410"] * noted
    assert handled <= CTAS


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_sums_that_are_exact(element: str) -> None:
    tensor, boxes = (np.rint(each.astype(np.float64)).astype(DTYPES[element]) for each in inputs(element, TURNS))
    _, result, _ = both(kernel("add"), tensor, boxes, check="all")
    assert result.diagnostics == ()


READ = "@one bra LAST; ld.global.b32 v0, [out]; st.shared.b32 [at], v0; LAST:"


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"wait": ""}, ["X104", "X104", "X119"]),
        ({"wait": "cp.async.bulk.wait_group 1;"}, ["X104", "X104", "X119"]),
        ({"end": READ}, ["X112", "X103"]),
    ],
)
def test_races(changes: dict[str, str], codes: list[str], check: str) -> None:
    """Of later writes to the source, and of a thread that reads the box."""
    tensor, boxes = inputs("u32", TURNS)
    _, result, _ = both(kernel("add", **changes), tensor, boxes, check=check)
    assert [each.code for each in result.diagnostics] == codes


def test_rows_that_share_elements() -> None:
    """The handler reads all elements before it writes one."""
    tensor, boxes = inputs("u32", TURNS)
    device, found = ptxlab.Device("sm_100a"), []
    for way in (context_words._table_of_repetitions, lambda launch: 0):
        held = device.array(tensor)
        shared = ptxlab.TensorMap(held, box=(32, ROWS), swizzle="128B", dims=(64, 16), strides=(64,))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            result = kernel("add").launch(
                grid=CTAS, block=32, args=[shared, boxes.reshape(-1), held, TURNS, 32], device=device, check="none"
            )
        assert result.ok
        found.append(held.numpy().tobytes())
    assert found[0] == found[1]
