"""What bulk copies and tensor maps refuse: the exact text."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.address_space import PARAM_BASE, PARAM_WINDOW
from ptxlab.machine import KernelError
from tests.isa.bulk.bulk_helpers import CLUSTER, EXPECT, INIT, SIZE, WAIT, kernel

TENSOR = np.zeros((64, 64), np.float16)


def tensor_map(**options):
    return ptxlab.TensorMap(TENSOR, **{"box": (64, 8), "swizzle": "128B", **options})


LOAD = "@p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [dst], [m, {c0, c1}], [bar];\n"
STORE = "@p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {c0, c1}], [dst];\n"
LINEAR = "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [dst], [in], bytes, [bar];\n"


IMAGES = np.zeros((2, 6, 5, 32), np.float16)


def images(swizzle="128B"):
    return ptxlab.TensorMap.im2col(IMAGES, lower=(0, 0), upper=(0, 0), channels=32, pixels=8, swizzle=swizzle)


def columns(mode, info):
    return LOAD.replace("2d", "4d").replace(".tile", "." + mode).replace("{c0, c1}", "{c0, c1, c2, c3}").replace("[bar]", f"[bar], {info}")


def replaced(*changes):
    """A body that builds a tensor map in shared memory, and uses it from there."""
    body = "setp.lt.u32 t, tid, 32;\nmov.u32 v, 0;\nshl.b32 w, tid, 2;\nadd.u32 w, w, dst;\n@t st.shared.u32 [w+16384], v;\nbar.sync 0;\n"
    return body + "".join(f"@p tensormap.replace.tile.{c};\n" for c in changes)


CASES = {
    "alignment of the destination": (
        "add.u32 dst, dst, 64;\n" + LOAD,
        {},
        "C901",
        "operand 1, shared memory address 0x440, is not a multiple of 128",
    ),
    "end of shared memory": (
        "add.u32 dst, dst, 32640;\n" + LOAD,
        {},
        "C903",
        "1024 bytes at 0x8380 run past the end of the CTA's shared memory, which has 33824 bytes",
    ),
    "rank": (
        LOAD.replace("2d", "3d").replace("{c0, c1}", "{c0, c1, c2}"),
        {},
        "D723",
        "the instruction copies a 3-dimensional box, but the tensor map has rank 2",
    ),
    "coordinates": (
        LOAD.replace("{c0, c1}", "{c0}"),
        {},
        "D724",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes needs 2 coordinates, not 1",
    ),
    "innermost coordinate": (LOAD, {"coordinates": (4, 0)}, "D724", "coordinate 0 is 4; it must be a multiple of 8 elements (16 bytes)"),
    "negative coordinates of a store": (
        STORE,
        {"coordinates": (0, -1)},
        "D724",
        "the coordinates (0, -1) of a write to global memory must not be negative",
    ),
    "alignment of the map": ("add.u64 m, m, 4;\n" + LOAD, {}, "D721", None),
    "a map of zeros": (
        LOAD.replace("2d", "1d").replace("{c0, c1}", "{c0}"),
        {"map": bytes(128)},
        "D722",
        f"the tensor map at {PARAM_WINDOW + PARAM_BASE:#x}: the innermost box dimension of 1 elements is not a multiple of 16 bytes",
    ),
    "a tile of an im2col map": (
        LOAD.replace("2d", "4d").replace("{c0, c1}", "{c0, c1, c2, c3}"),
        {"map": images()},
        "D723",
        "the instruction copies tiles, but the tensor map is in im2col mode",
    ),
    "im2col of tiles": (
        columns("im2col", "{0, 0}"),
        {"map": ptxlab.TensorMap(IMAGES, box=(32, 1, 1, 1))},
        "D723",
        "the instruction copies columns in im2col mode, but the tensor map is in tiled mode",
    ),
    "im2col offset": (
        columns("im2col", "{0, 256}"),
        {"map": images()},
        "D724",
        "im2col offset 1 is 256; with .im2col it can be 0 to 255",
    ),
    "outside the bounding box": (
        columns("im2col", "{0, 0}"),
        {"map": images(), "coordinates": (0, 5, 0, 0)},
        "D724",
        "the coordinates (0, 5, 0, 0) begin outside the bounding box, whose corners are (0, 0) to (4, 5)",
    ),
    "wHalo": (columns("im2col::w::128", "{32, 0}"), {"map": images()}, "D724", "wHalo is 32; with .im2col::w::128 it can be 0 to 31"),
    "im2col::w without swizzle": (
        columns("im2col::w", "{0, 0}"),
        {"map": images("none")},
        "D723",
        ".im2col::w needs a swizzled map without interleave and flip; this is no swizzled one",
    ),
    "no mbarrier": (LOAD.replace("[bar]", "[bar+8]"), {}, "B503", None),
    "mbarrier of the peer": (
        CLUSTER + "xor.b32 r1, bar, 0x1000000;\n" + LOAD.replace("[bar]", "[r1]") + CLUSTER,
        {"ctas": 2, "cluster": 2},
        "C904",
        "the mbarrier is in CTA rank 1, but the bytes go to CTA rank 0",
    ),
    "mask": (
        "mov.b16 h, 6;\n" + LOAD.replace("bytes [dst]", "bytes.multicast::cluster [dst]").replace("[bar]", "[bar], h"),
        {"ctas": 2, "cluster": 2},
        "C905",
        "the CTA mask 0x0006 names CTAs that are not among the 2 of the cluster",
    ),
    "size": (LINEAR, {"size": 24}, "C902", "the size is 24 bytes, not a multiple of 16"),
    "global alignment": ("add.u64 in, in, 8;\n" + LINEAR, {"size": 32}, "C901", None),
    "global memory": (LINEAR, {"size": 32768 + 16}, "M402", None),
    "reduction of the type": (
        STORE.replace("cp.async", "cp.reduce.async").replace(".bulk_group", ".xor.bulk_group"),
        {},
        "D726",
        ".xor is not available for the tensor map's element type f16",
    ),
    "reduction of contiguous bytes": (
        "@p cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.f16 [out], [dst], 2048;\n",
        {},
        "D726",
        ".xor is not available for .f16",
    ),
    "reduction of 64-bit integers": (
        "@p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [out], [dst], 2048;\n",
        {},
        "D726",
        ".add is not available for .s64",
    ),
    "value of replace": (
        replaced("rank.shared::cta.b1024.b32 [dst+16384], 5"),
        {},
        "D727",
        "rank: the new value is 5; it can be 0 to 4",
    ),
    "ordinal of replace": (
        replaced("box_dim.shared::cta.b1024.b32 [dst+16384], 5, 8"),
        {},
        "D727",
        "box_dim: the ordinal is 5; it can be 0 to 4",
    ),
    "alignment of replace": (
        "@p tensormap.replace.tile.rank.shared::cta.b1024.b32 [dst+64], 1;\n",
        {},
        "D721",
        "the tensor map address 0x440 is not a multiple of 128",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_text_of_refusals(case):
    body, options, code, message = CASES[case]
    five = (*options.get("coordinates", ()), 0, 0, 0, 0, 0)[:5]
    out = np.zeros(SIZE * 2, np.uint8)
    args = [options.get("map", tensor_map()), np.zeros(SIZE, np.uint8), out, *five, options.get("size", 0)]
    result = kernel(INIT + body).launch(grid=options.get("ctas", 1), block=128, cluster=options.get("cluster", 1), args=args)
    errors = [d for d in result.diagnostics if d.severity == "error"]
    assert errors
    assert errors[0].code == code, errors[0]
    if message is not None:
        assert errors[0].message == message
    assert errors[0].place is not None
    assert errors[0].reason or code[0] == "M"


def test_a_hang_names_the_missing_bytes():
    """Expecting more bytes than the copy brings."""
    args = [tensor_map(), np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8), 0, 0, 0, 0, 0, 2048]
    result = kernel(INIT + EXPECT + LOAD + WAIT).launch(grid=1, block=128, args=args)
    with pytest.raises(KernelError) as error:
        result.raise_for_errors()
    assert error.value.diagnostic.code == "H601"
    assert "+1024 still to come" in str(error.value)


def test_a_map_that_reaches_beyond_its_array_is_refused_where_it_is_read():
    wrong = bytearray(bytes(tensor_map(oob_fill="none")))
    # The size of dimension 1, at bit 288: 1000 rows instead of 64.
    wrong[36:40] = (999).to_bytes(4, "little")
    args = [bytes(wrong), np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8), 0, 200, 0, 0, 0, 1024]
    result = kernel(INIT + EXPECT + LOAD + WAIT).launch(grid=1, block=128, args=args)
    errors = [d.code for d in result.diagnostics if d.severity == "error"]
    assert errors[0] in ("M401", "M402")
