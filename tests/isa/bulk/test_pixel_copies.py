"""im2col mode by compiled code: what the handler gives, and what a walk of one pixel at a time does."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab.isa.bulk import _tensor
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise_race_check
from tests.repetition_helpers import three_ways

from .pixel_step_helpers import SIZE, STEPS, Form, launch
from .test_box import swizzled
from .test_box_parts import MODES, NAN

NOWHERE = "no pixel inside"
"""A store cannot begin there."""
FORMS = {
    "lines": Form(np.float16, (64, 9, 3), (-1,), (1,), (1,), 32, 20, "64B"),
    "images": Form(np.float16, (104, 7, 6, 4), (-1, -1), (-1, 0), (1, 1), 64, 24, "128B"),
    "images filled with NaN": Form(ml_dtypes.bfloat16, (104, 7, 6, 3), (-1, -2), (1, 1), (2, 1), 64, 24, "128B", "nan", pad=16),
    "volumes": Form(np.float32, (20, 5, 4, 3, 3), (-1, 0, -1), (0, 1, 0), (1, 2, 1), 8, 33, "32B", "nan"),
    "pieces of 1 byte": Form(np.uint8, (37, 6, 5, 3), (0, -1), (-1, 1), (1, 3), 32, 30, "32B", pad=11),
    "narrower than the swizzling": Form(np.float32, (12, 6, 5, 3), (-1, -1), (1, 1), (1, 1), 8, 40, "128B"),
    "without swizzling": Form(np.uint8, (272, 4, 3), (-2,), (2,), (1,), 256, 40),
    "many pixels": Form(np.uint8, (16, 40, 33, 3), (-1, -1), (1, 1), (1, 1), 16, 1000),
    NOWHERE: Form(np.uint8, (16, 4, 4, 2), (-8, -8), (-8, -8), (1, 1), 16, 4),
}
WIDE_FORMS = {
    "wide lines": Form(np.float16, (64, 9, 3), (-1,), (1,), (1,), 8, 20, "32B", halo=3),
    "wide images": Form(np.uint8, (112, 7, 6, 4), (-1, -1), (-1, 0), (2, 1), 64, 24, "64B", pad=16, halo=7),
    "wide volumes": Form(np.float32, (20, 5, 4, 3, 3), (-1, 0, -1), (0, 1, 0), (1, 2, 1), 8, 33, "32B", "nan"),
    "wide, narrower than the swizzling": Form(np.float32, (12, 6, 5, 3), (0, 0), (1, 1), (1, 1), 4, 40, "64B", halo=2),
}
FORMS |= WIDE_FORMS
CASES = [
    (name, kind)
    for name in FORMS
    for kind in STEPS
    if (kind.startswith("wide") == (name in WIDE_FORMS)) and (name, kind) != (NOWHERE, "store")
]
SHORT = Form(np.uint8, (16, 8, 64, 1), (0, 0), (0, 0), (1, 1), 16, 8)
SHORT_BYTES = 18 * 8 * 16 - 8


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> None:
    """Copy although functions are not optimised yet."""
    optimise_race_check()


def some_places(form: Form, kind: str, choice: Random, count: int = 24) -> list[tuple[int, ...]]:
    """Where copies may begin; stores only at coordinates that are not negative."""
    unit, image, found = 16 // np.dtype(form.dtype).itemsize, form.rank - 2, []
    for _ in range(count):
        at = [unit * choice.randrange(-1 - form.channels // unit, form.dims[0] // unit + 2)]
        at += [choice.randrange(low, size + high) for low, high, size in zip(form.lower, form.upper, form.dims[1:], strict=False)]
        at.append(choice.choice((choice.randrange(form.dims[-1]), choice.randrange(-2, form.dims[-1] + 2))))
        if kind == "store":
            at = [max(each, 0) for each in at]
        offsets = [choice.choice((0, choice.randrange(4))) for _ in range(image)]
        if kind.startswith("wide"):
            at[1] -= choice.choice((0, choice.randrange(20)))
            offsets = [form.halo, offsets[0]]
        found.append((*at, *[0] * (5 - len(at)), *offsets, *[0] * (3 - len(offsets))))
    return found


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_form(name: str, kind: str, check: str) -> None:
    """The handler is called once for each range of channels that is inside, and in a second launch without checks for none."""
    form, choice = FORMS[name], Random(name)
    places = some_places(form, kind, choice) * 2
    data = np.random.default_rng(3).integers(0, 256, (len(places), SIZE), np.uint8)
    (_, before, tensor, boxes), times = three_ways(lambda: launch(form, kind, places, data, check=check), _tensor, "start")
    channels = {
        (max(0, -at[0]), min(form.channels, form.dims[0] - at[0])) if -form.channels < at[0] < form.dims[0] else None for at in places
    }
    assert times[2] == len(places)
    assert times[0] <= len(channels) + 1
    assert times[1] <= (0 if check == "none" else 2)
    expected = stored(form, places, before, data) if kind == "store" else loaded(form, kind, places, before)
    assert np.array_equal(tensor if kind == "store" else boxes, expected)


REFUSED = {
    "begins before the bounding box": ("images", "load", (0, -2, 0, 0, 0, 0, 0, 0), "D724"),
    "begins behind the bounding box": ("images", "load", (0, 0, 6, 0, 0, 0, 0, 0), "D724"),
    "an offset of 256": ("images", "load", (0, 0, 0, 0, 0, 1, 256, 0), "D724"),
    "an offset of 32": ("volumes", "load", (0, 0, 0, 0, 0, 0, 0, 32), "D724"),
    "a channel between 16 bytes": ("images", "load", (4, 0, 0, 0, 0, 0, 0, 0), "D724"),
    "a store at a negative channel": ("images", "store", (-64, 0, 0, 0, 0, 0, 0, 0), "D724"),
    "a store at a negative pixel": ("images", "store", (0, -1, 0, 0, 0, 0, 0, 0), "D724"),
    "a store at a negative image": ("images", "store", (0, 0, 0, -1, 0, 0, 0, 0), "D724"),
    "the last pixel is outside the allocation": ("short", "load", (0, 4, 17, 0, 0, 0, 0, 0), "M"),
    "a part of the last pixel is": ("short", "load", (0, 0, 17, 0, 0, 0, 0, 0), "M"),
    "a halo of 512": ("wide images", "wide", (0, 0, 0, 0, 0, 512, 0, 0), "D724"),
    "a halo of 32": ("wide images", "wide 128", (0, 0, 0, 0, 0, 32, 0, 0), "D724"),
    "an offset of 32 in W": ("wide images", "wide", (0, 0, 0, 0, 0, 7, 32, 0), "D724"),
    "begins behind the last pixel of a line": ("wide images", "wide 128", (0, 6, 0, 0, 0, 7, 0, 0), "D724"),
    "all pixels are": ("short", "load", (0, 0, 40, 0, 0, 0, 0, 0), "M"),
}
"""A place that handlers refuse, after others that they do not, and how the code begins. The allocation ends in the last pixel of line 17.
"""


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    of, kind, bad, code = REFUSED[name]
    form = SHORT if of == "short" else FORMS[of]
    places = [(*[0] * 5, form.halo, 0, 0)] * 3 + [bad]
    data = np.zeros((4, SIZE), np.uint8)
    found = []
    for way in (context_words._table_of_repetitions, lambda launch: 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            result, _, tensor, boxes = launch(form, kind, places, data, held=SHORT_BYTES if of == "short" else None, check="none")
        found.append((list(map(str, result.diagnostics)), tensor.tobytes(), boxes.tobytes()))
        assert [each.code[: len(code)] for each in result.diagnostics] == [code]
    assert found[0] == found[1]


def walk(form: Form, place: tuple[int, ...], kind: str) -> list[list[int] | None]:
    """The coordinates of each pixel of a copy with its offsets, from W on; None where it is outside the tensor."""
    image = form.rank - 2
    if kind.startswith("wide"):
        return [wide_pixel(form, place, step) for step in wide_steps(form, kind)]
    at, offsets, found = list(place[1 : image + 2]), place[5 : 5 + image], []
    for _ in range(form.pixels):
        pixel = [x + y for x, y in zip(at, (*offsets, 0), strict=True)]
        found.append(pixel if all(0 <= x < size for x, size in zip(pixel, form.dims[1:], strict=True)) else None)
        for d in range(image):
            at[d] += form.steps[d]
            if at[d] < form.dims[1 + d] + form.upper[d]:
                break
            at[d] = form.lower[d]
        else:
            at[-1] += 1
    return found


def wide_steps(form: Form, kind: str) -> list[int]:
    """The place of each pixel in the traversal: with .im2col::w::128 each pixel of the halo follows for all four groups of 32."""
    if kind == "wide":
        return list(range(form.pixels + form.halo))
    return [*range(128), *(32 * group + 32 + number for number in range(form.halo) for group in range(4))]


def wide_pixel(form: Form, place: tuple[int, ...], step: int) -> list[int] | None:
    """The pixel after so many steps in W, which go on in the next image."""
    w, *others, image = place[1 : form.rank]
    for _ in range(step):
        w += form.steps[0]
        if w >= form.dims[1] + form.upper[0]:
            w, image = form.lower[0], image + 1
    pixel = [w + place[6], *others, image]
    return pixel if all(0 <= x < size for x, size in zip(pixel, form.dims[1:], strict=True)) else None


def byte_place(form: Form, row: int, byte: int) -> int:
    """The offset of a byte of a row in shared memory."""
    width = {"none": 0, "32B": 32, "64B": 64}.get(form.swizzle, 128)
    return swizzled(row * max(form.channels * np.dtype(form.dtype).itemsize, width) + byte, MODES[form.swizzle])


def address(form: Form, pixel: list[int]) -> int:
    return sum(x * stride for x, stride in zip(pixel, form.strides, strict=True))


def loaded(form: Form, kind: str, places: list[tuple[int, ...]], tensor: Any) -> Any:
    size, found = np.dtype(form.dtype).itemsize, np.full((len(places), SIZE), 0xEE, np.uint8)
    for shared, place in zip(found, places, strict=True):
        for row, pixel in enumerate(walk(form, place, kind)):
            for byte in range(form.channels * size):
                at = place[0] + byte // size
                inside = pixel is not None and 0 <= at < form.dims[0]
                fill = NAN[byte % 2] if form.fill == "nan" else 0
                shared[byte_place(form, row, byte)] = tensor[address(form, pixel) + at * size + byte % size] if inside else fill
    return found


def stored(form: Form, places: list[tuple[int, ...]], tensor: Any, boxes: Any) -> Any:
    """In order, and 16 bytes of a pixel as a whole."""
    size, found = np.dtype(form.dtype).itemsize, tensor.copy()
    written = -(-form.dims[0] * size // 16) * 16
    for box, place in zip(boxes, places, strict=True):
        for row, pixel in enumerate(walk(form, (*place[:5], 0, 0, 0), "store")):
            for byte in range(form.channels * size):
                at = place[0] * size + byte
                if pixel is not None and at < written:
                    found[address(form, pixel) + at] = box[byte_place(form, row, byte)]
    return found
