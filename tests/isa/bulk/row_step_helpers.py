"""A kernel that gathers or scatters four rows in each turn, at coordinates from memory."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ptxlab

from .test_box_parts import KINDS, SIZE, TEXT

STEPS = {
    "gather": KINDS["load"].replace(".tile.", ".tile::gather4."),
    "scatter": KINDS["store"].replace(".tile.", ".tile::scatter4."),
}


class Form(NamedTuple):
    """A tensor map of so many columns and rows; ``pad`` bytes are between rows."""

    dtype: Any
    columns: int
    rows: int
    box: int
    swizzle: str = "none"
    fill: str = "none"
    pad: int = 0

    @property
    def pitch(self) -> int:
        return self.columns * np.dtype(self.dtype).itemsize + self.pad


@cache
def kernel(kind: str) -> ptxlab.Kernel:
    text = TEXT.replace("BODY", STEPS[kind]).replace("DIM", "2").replace("COORDINATES", "c0, c1, c2, c3, c4")
    return ptxlab.loads(text.replace("SIZE", str(SIZE))).kernel()


def launch(form: Form, kind: str, places: list[tuple[int, ...]], data: NDArray[np.uint8], **options: Any) -> tuple[Any, ...]:
    """The result of a launch, the tensor before it, the bytes of the tensor, and the boxes."""
    device = ptxlab.Device("sm_100a")
    tensor = np.random.default_rng(7).integers(0, 256, form.pitch * form.rows + 64, np.uint8)
    held, boxes = device.array(tensor), device.array(data)
    tensor_map = ptxlab.TensorMap(
        held, (form.box, 1), form.swizzle, (form.columns, form.rows), (form.pitch,), form.dtype, oob_fill=form.fill
    )  # fmt: skip
    size = 4 * form.box * np.dtype(form.dtype).itemsize
    args = [tensor_map, np.array(places, np.int32), len(places), size, boxes]
    result = kernel(kind).launch(grid=1, block=32, args=args, device=device, **options)
    return result, tensor, held.numpy(), boxes.numpy()
