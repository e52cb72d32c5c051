"""A kernel that copies pixels of a tensor in im2col mode in each turn, at coordinates and with offsets from memory."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ptxlab

from .test_box_parts import KINDS, TEXT

SIZE = 16384
"""Of the buffer."""
LOAD = "cp.async.bulk.tensor.DIMd.shared::cta.global.im2col.mbarrier::complete_tx::bytes [buffer], [map, {COORDINATES}], [mb], {OFFSETS};"
TILED = "cp.async.bulk.tensor.DIMd.shared::cta.global.tile.mbarrier::complete_tx::bytes [buffer], [map, {COORDINATES}], [mb];"
WIDE = LOAD.replace("im2col", "im2col::w").replace("{OFFSETS}", "{{o0, o1}}")
STEPS = {
    "load": KINDS["load"].replace(TILED, LOAD),
    "wide": KINDS["load"].replace(TILED, WIDE),
    "wide 128": KINDS["load"].replace(TILED, WIDE.replace("im2col::w", "im2col::w::128")),
    "store": KINDS["store"].replace(".tile.", ".im2col_no_offs."),
}
OFFSETS = """
ld.global.u16 o0, [at+20]; ld.global.u16 o1, [at+24]; ld.global.u16 o2, [at+28];
"""
WORDS = 8
"""Of a place: five coordinates and three offsets."""


class Form(NamedTuple):
    """A tensor map in im2col mode: the sizes of the tensor from the channels on, without the last one, which are the images."""

    dtype: Any
    dims: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    channels: int
    pixels: int
    swizzle: str = "none"
    fill: str = "none"
    pad: int = 0
    halo: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    def rows(self, kind: str) -> int:
        """How many pixels a copy has."""
        return {"wide": self.pixels + self.halo, "wide 128": 128 + 4 * self.halo}.get(kind, self.pixels)

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes, of the dimensions from 1 on."""
        found = [self.dims[0] * np.dtype(self.dtype).itemsize + self.pad]
        for size in self.dims[1:-1]:
            found.append(found[-1] * size)
        return tuple(found)

    @property
    def size(self) -> int:
        return self.strides[-1] * self.dims[-1]


@cache
def kernel(kind: str, rank: int) -> ptxlab.Kernel:
    image = rank - 2
    text = TEXT.replace("BODY", OFFSETS + STEPS[kind]).replace("add.u64 at, at, 20", f"add.u64 at, at, {4 * WORDS}")
    text = text.replace(".reg .b64 at,", ".reg .b16 o<3>;\n.reg .b64 at,").replace("DIM", str(rank))
    text = text.replace("COORDINATES", ", ".join(f"c{d}" for d in range(rank)))
    text = text.replace("{OFFSETS}", f"{{{', '.join(f'o{d}' for d in range(image))}}}")
    return ptxlab.loads(text.replace("SIZE", str(SIZE))).kernel()


def launch(
    form: Form, kind: str, places: list[tuple[int, ...]], data: NDArray[np.uint8], held: int | None = None, **options: Any
) -> tuple[Any, ...]:
    """The result of a launch, the tensor before it, the bytes of the tensor, and the boxes; only so many bytes of it are ``held``."""
    device = ptxlab.Device("sm_100a")
    tensor = np.random.default_rng(7).integers(0, 256, form.size + 64 if held is None else held, np.uint8)
    array, boxes = device.array(tensor), device.array(data)
    tensor_map = ptxlab.TensorMap.im2col(
        array,
        lower=form.lower,
        upper=form.upper,
        channels=form.channels,
        pixels=form.pixels,
        swizzle=form.swizzle,
        dims=form.dims,
        strides=form.strides,
        element_strides=(1, *form.steps, 1),
        dtype=form.dtype,
        oob_fill=form.fill,
    )
    size = form.rows(kind) * form.channels * np.dtype(form.dtype).itemsize
    args = [tensor_map, np.array(places, np.int32), len(places), size, boxes]
    result = kernel(kind, form.rank).launch(grid=1, block=32, args=args, device=device, **options)
    return result, tensor, array.numpy(), boxes.numpy()
