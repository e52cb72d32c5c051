"""A kernel in which CTAs reduce boxes from shared memory into one tensor, turn after turn."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import ptxlab

CTAS, ROWS = 3, 8
BYTES = 1024
"""Of a box."""
DTYPES: dict[str, Any] = {
    "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip

REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [map, {{x, y}}], [buffer];"
LINE = "and.b32 x, i, 3; mul.wide.u32 w, x, {size}; add.u64 w, w, out; {instruction} [w], [buffer], {size};"
"""Of contiguous bytes."""
WAIT = "cp.async.bulk.wait_group 0;"
TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_in, .param .u64 p_out, .param .u32 p_turns, .param .u32 p_columns)
{
.shared .align 1024 .b8 buffer[1024];
.reg .pred one, more;
.reg .b32 i, x, y, cta, lane, turns, columns, at, v<8>;
.reg .b64 in, out, w;
ld.param.u64 in, [p_in]; ld.param.u64 out, [p_out]; ld.param.u32 turns, [p_turns]; ld.param.u32 columns, [p_columns];
mov.u32 cta, %ctaid.x; mov.u32 lane, %tid.x; mov.u32 i, 0;
shl.b32 x, lane, 5; mov.u32 at, buffer; add.u32 at, at, x;
mul.lo.u32 y, cta, turns; mul.wide.u32 w, y, 1024; add.u64 in, in, w; cvt.u64.u32 w, x; add.u64 in, in, w;
TURN:
bar.sync 0;
ld.global.v4.b32 {v0, v1, v2, v3}, [in]; ld.global.v4.b32 {v4, v5, v6, v7}, [in+16];
st.shared.v4.b32 [at], {v0, v1, v2, v3}; st.shared.v4.b32 [at+16], {v4, v5, v6, v7};
fence.proxy.async.shared::cta;
bar.sync 0;
setp.lt.u32 one, lane, LANES;
and.b32 x, i, 1; mul.lo.u32 x, x, columns; and.b32 y, i, 2; shl.b32 y, y, 2;
@!one bra NEXT;
REDUCE
cp.async.bulk.commit_group;
WAIT
NEXT:
add.u64 in, in, 1024; add.u32 i, i, 1;
setp.lt.u32 more, i, turns;
@more bra TURN;
END
ret;
}
"""


def line(operation: str, element: str, size: int = BYTES) -> str:
    """A reduction, or a copy, of contiguous bytes."""
    if not operation:
        return LINE.format(instruction="cp.async.bulk.global.shared::cta.bulk_group", size=size)
    form = f"{operation}{'.noftz' if operation == 'add' and element in ('f16', 'bf16') else ''}.{element}"
    return LINE.format(instruction=f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form}", size=size)


@cache
def kernel(operation: str, lanes: int = 1, wait: str = WAIT, end: str = "", element: str = "") -> ptxlab.Kernel:
    """``element``: of reductions or copies of contiguous bytes."""
    return ptxlab.loads(text_of(operation, lanes, wait, end, element)).kernel()


def text_of(operation: str, lanes: int = 1, wait: str = WAIT, end: str = "", element: str = "") -> str:
    issued = line(operation, element) if element else REDUCE.format(operation=operation)
    changes = {"LANES": str(lanes), "REDUCE": issued, "WAIT": wait, "END": end}
    text = TEXT
    for name, value in changes.items():
        text = text.replace(name, value)
    return text


def inputs(element: str, turns: int, bits: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    """The tensor of 2 x 2 boxes, and the boxes of each CTA and turn; numbers, or any ``bits``."""
    dtype = np.dtype(DTYPES[element])
    columns = BYTES // ROWS // dtype.itemsize
    rng = np.random.default_rng(turns)
    shapes = (2 * ROWS, 2 * columns), (CTAS, turns, ROWS, columns)
    if bits or dtype.kind in "iu":
        tensor, boxes = (rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0] for shape in shapes)
        if bits and dtype.kind not in "iu":  # infinities, NaNs, subnormals and zeros, each against each
            special = boxes.view(f"u{dtype.itemsize}")
            special.flat[::3] &= special.dtype.type(1) << special.dtype.type(8 * dtype.itemsize - 1)
            special.flat[1::5] |= np.array(np.inf, dtype).view(special.dtype)
        return tensor, boxes
    tensor, boxes = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return tensor, boxes


def launch(
    loaded: ptxlab.Kernel, tensor: NDArray[Any], boxes: NDArray[Any], lines: bool = False, **options: Any
) -> tuple[NDArray[Any], ptxlab.Result]:
    """The tensor after a launch."""
    device = ptxlab.Device("sm_100a")
    held = device.array(tensor)
    columns = boxes.shape[-1]
    placed = boxes.view(np.uint8).reshape(-1) if lines else swizzled(boxes)
    args = [ptxlab.TensorMap(held, box=(columns, ROWS), swizzle="128B"), placed, held, boxes.shape[1], columns]
    result = loaded.launch(grid=len(boxes), block=32, args=args, device=device, **options)
    return held.numpy(), result


def swizzled(boxes: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of the boxes as they are in shared memory: chunk j of row i is at i ^ j."""
    chunks = boxes.view(np.uint8).reshape(-1, ROWS, 8, 16)
    placed = np.empty_like(chunks)
    for row in range(ROWS):
        placed[:, row, np.arange(8) ^ row] = chunks[:, row]
    return placed.reshape(-1)
