"""Once a loop over boxes that are partly outside their tensors has executed a few times, Python executes none of its instructions.

As in `test_steady_state`: GEMMs of which no size is a multiple of the tile, loops of stores or reductions, and of copies of rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.isa.bulk import row_step_helpers
from tests.isa.bulk.reduction_helpers import ROWS, inputs, kernel, swizzled, text_of
from tests.isa.bulk.test_box_parts import SIZE
from tests.optimised_helpers import optimise

from .test_steady_state import CASES, assert_no_python, further_calls, launch_one

CHECKS = ("none", "race", "operands", "all")
SIZES = {
    "mm_device_desc_fp16": {"m": 72, "n": 104, "k": 1000},
    "mm_host_desc_fp16_cta2": {"m": 200, "n": 40, "k": 1000},
    "mm_persistent_ws_fp16": {"m": 72, "n": 40, "k": 1000},
    "mm_batched_fp16": {"m": 72, "n": 104, "k": 1000},
    "gl_mm_fp16": {"m": 56, "n": 40, "k": 1000},
    "sm90_mm_device_desc_fp16": {"m": 72, "n": 104, "k": 1000},
    "sm90_mm_ws_fp16": {"m": 72, "n": 40, "k": 1000},
}
"""One tile, which is larger than the tensors."""
FIRST = next(iter(SIZES))
OPERATIONS = {"": "f32", "add": "f32", "max": "s32"}
"""Of a loop of stores and of reductions."""
LENGTHS = (16, 32)
MISSING = 3
"""Rows that the tensor has less than two boxes, and groups of 16 bytes that a row has less."""


@pytest.mark.parametrize("name", SIZES)
def test_the_results(name: str) -> None:
    case = CASES[name].make(**next(iter(CASES[name].sizes.values())) | SIZES[name])
    result, found = case.launch(check="all")
    assert result.ok
    case.check(found)


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations of a GEMM cost."""
    optimise(pytest.MonkeyPatch())
    sizes = next(iter(CASES[name].sizes.values())) | SIZES[name]
    short, long = (partial(launch_one, CASES[name].make(**sizes | {"k": factor * sizes["k"]}), check) for factor in (1, 2))
    return further_calls(short, long)


@pytest.mark.parametrize(
    ("name", "check"), [*((name, check) for name in SIZES for check in ("none", "all")), *((FIRST, check) for check in CHECKS[1:3])]
)
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)


def stored(operation: str, check: str, turns: int) -> tuple[Any, ...]:
    """Four boxes in turn, of which three are partly outside, by one CTA if they are stored: the tensor before and after, and the boxes."""
    tensor, boxes = inputs(OPERATIONS[operation], turns)
    boxes = boxes if operation else boxes[:1]
    loaded = kernel(operation) if operation else _kernel_that_stores()
    device = ptxlab.Device("sm_100a")
    held, columns = device.array(tensor), boxes.shape[-1]
    dims = tensor.shape[1] - MISSING * 16 // tensor.itemsize, tensor.shape[0] - MISSING
    mapped = ptxlab.TensorMap(held, box=(columns, ROWS), swizzle="128B", dims=dims, strides=tensor.strides[:1])
    result = loaded.launch(
        grid=len(boxes), block=32, args=[mapped, swizzled(boxes), held, turns, columns], device=device, check=check
    )  # fmt: skip
    return result, tensor, held.numpy(), boxes


def rows(kind: str, check: str, turns: int) -> Any:
    """A loop that gathers or scatters rows, of which some are outside the tensor, or end there."""
    places = [(64 * (turn % 2), turn % 16, 3, 20 + turn % 2, 15) for turn in range(turns)]
    data = np.zeros((turns, SIZE), np.uint8)
    form = row_step_helpers.Form(np.float16, 101, 20, 64, "128B", pad=6)
    result, *_ = row_step_helpers.launch(form, kind, places, data, check=check)
    assert result.ok
    return result


def more_rows(kind: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many gathers or scatters cost."""
    optimise(pytest.MonkeyPatch())
    short, long = (partial(rows, kind, check, turns) for turns in LENGTHS)
    return further_calls(short, long)


@pytest.mark.parametrize(("kind", "check"), [(kind, check) for kind in row_step_helpers.STEPS for check in CHECKS])
def test_python_executes_no_instruction_of_many_rows(kind: str, check: str) -> None:
    assert_no_python("more_rows", kind, check, __name__)


def _kernel_that_stores() -> ptxlab.Kernel:
    reduction = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.tile"
    return ptxlab.loads(text_of("xor").replace(reduction, "cp.async.bulk.tensor.2d.global.shared::cta.tile")).kernel()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_results_of_stores(operation: str) -> None:
    result, tensor, found, boxes = stored(operation, "none", LENGTHS[0])
    assert result.ok
    columns = boxes.shape[-1]
    inside = slice(tensor.shape[0] - MISSING), slice(tensor.shape[1] - MISSING * 16 // tensor.itemsize)
    expected = tensor.copy()
    for turn in range(LENGTHS[0]):
        for cta in range(len(boxes)):
            y, x = ROWS * (turn >> 1 & 1), columns * (turn & 1)
            place, box = expected[y : y + ROWS, x : x + columns], boxes[cta, turn]
            place[...] = box if not operation else np.maximum(place, box) if operation == "max" else place + box
    same = np.array_equal if operation != "add" else partial(np.allclose, rtol=1e-4, atol=1e-4)
    assert same(found[inside], expected[inside])
    rest = np.ones(tensor.shape, np.bool_)
    rest[inside] = False
    assert np.array_equal(found[rest], tensor[rest])


def launch_stores(operation: str, check: str, turns: int) -> Any:
    return stored(operation, check, turns)[0]


def more_stores(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many stores cost."""
    optimise(pytest.MonkeyPatch())
    short, long = (partial(launch_stores, name.strip("-"), check, turns) for turns in LENGTHS)
    return further_calls(short, long)


@pytest.mark.parametrize(("operation", "check"), [(operation, check) for operation in OPERATIONS for check in CHECKS])
def test_python_executes_no_instruction_of_many_stores(operation: str, check: str) -> None:
    assert_no_python("more_stores", operation or "-", check, __name__)
