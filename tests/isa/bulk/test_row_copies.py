"""tile::gather4 and tile::scatter4 by compiled code: what the handler gives, and what NumPy does with single rows."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab.isa.bulk import _rows
from tests.optimised_helpers import optimise_race_check
from tests.repetition_helpers import three_ways

from .row_step_helpers import STEPS, Form, launch
from .test_box import swizzled
from .test_box_parts import MODES, NAN, SIZE

FORMS = {
    "inside 16 bytes": Form(np.float16, 104, 20, 64, "128B"),
    "filled with NaN": Form(np.float16, 104, 20, 64, "128B", "nan"),
    "rows that end within 16 bytes": Form(np.float16, 101, 20, 64, "128B", "nan", pad=6),
    "pieces of 1 byte": Form(np.uint8, 37, 9, 32, "32B", pad=11),
    "narrower than the swizzling": Form(np.float32, 20, 9, 8, "64B", "nan"),
    "halves of 8 bytes": Form(ml_dtypes.bfloat16, 76, 11, 64, "128B_32B_flip_8B", "nan", pad=8),
    "without swizzling": Form(np.uint8, 400, 7, 256),
    "wider than the tensor": Form(np.float16, 24, 5, 64, "128B"),
}


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> None:
    """Copy although functions are not optimised yet."""
    optimise_race_check()


def some_places(form: Form, kind: str, choice: Random, count: int = 30) -> list[tuple[int, ...]]:
    unit, found = 16 // np.dtype(form.dtype).itemsize, []
    for _ in range(count):
        at = [unit * choice.randrange(-1 - form.box // unit, form.columns // unit + 2)]
        at += [choice.choice((choice.randrange(form.rows), choice.randrange(-2, form.rows + 2), (1 << 31) - 1)) for _ in range(4)]
        found.append(tuple(max(each, 0) if kind == "scatter" else each for each in at))
    return found


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("name", FORMS)
def test_a_form(name: str, kind: str, check: str) -> None:
    """The handler is called once for each range of columns that is inside, and in a second launch without checks for none."""
    form, choice = FORMS[name], Random(name)
    places = some_places(form, kind, choice) * 2
    data = np.random.default_rng(3).integers(0, 256, (len(places), SIZE), np.uint8)
    (_, before, tensor, boxes), times = three_ways(lambda: launch(form, kind, places, data, check=check), _rows, "start")
    columns = {(max(0, -at[0]), min(form.box, form.columns - at[0])) if -form.box < at[0] < form.columns else None for at in places}
    assert times[2] == len(places)
    assert times[0] <= len(columns) + 1
    assert times[1] <= (0 if check == "none" else 2)
    expected = gathered(form, places, before) if kind == "gather" else scattered(form, places, before, data)
    assert np.array_equal(boxes if kind == "gather" else tensor, expected)


def place(form: Form, row: int, byte: int) -> int:
    """The offset of a byte of a row in shared memory."""
    width = {"none": 0, "32B": 32, "64B": 64}.get(form.swizzle, 128)
    return swizzled(row * max(form.box * np.dtype(form.dtype).itemsize, width) + byte, MODES[form.swizzle])


def gathered(form: Form, places: list[tuple[int, ...]], tensor: Any) -> Any:
    size, found = np.dtype(form.dtype).itemsize, np.full((len(places), SIZE), 0xEE, np.uint8)
    for shared, (column, *rows) in zip(found, places, strict=True):
        for i, row in enumerate(rows):
            for byte in range(form.box * size):
                at = column + byte // size
                inside = 0 <= row < form.rows and 0 <= at < form.columns
                fill = NAN[byte % 2] if form.fill == "nan" else 0
                shared[place(form, i, byte)] = tensor[row * form.pitch + at * size + byte % size] if inside else fill
    return found


def scattered(form: Form, places: list[tuple[int, ...]], tensor: Any, boxes: Any) -> Any:
    """In order, and 16 bytes of a row as a whole."""
    size, found = np.dtype(form.dtype).itemsize, tensor.copy()
    written = -(-form.columns * size // 16) * 16
    for box, (column, *rows) in zip(boxes, places, strict=True):
        for i, row in enumerate(rows):
            for byte in range(form.box * size):
                at = column * size + byte
                if 0 <= row < form.rows and at < written:
                    found[row * form.pitch + at] = box[place(form, i, byte)]
    return found
