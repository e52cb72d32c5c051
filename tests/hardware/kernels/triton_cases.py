"""The kernels of ``triton_kernels.py`` and ``gluon_kernels.py``."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.kernels.case_helpers import FOLDER, case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import DTYPES, below_two, full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

f32 = np.float32
SWIZZLES = ("none", "32B", "64B", "128B")


@cache
def _info() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "triton.json").read_text())
    return found


def run(name: str, args: list[Any], results: list[Any], programs: tuple[int, ...], inputs: str = "") -> Kernel:
    """``programs``: of which each is a cluster of CTAs."""
    info = _info()[name]
    grid = (programs[0] * info["ctas"], *programs[1:])
    scratch = np.zeros(info["scratch"] * int(np.prod(programs)), np.uint8) if info["scratch"] else None
    given = [*args, scratch, None]
    launch = {"grid": grid, "block": info["block"], "shared_bytes": info["shared_bytes"]}
    return case(name, info["entry"], given, results, name=f"triton_{name}", inputs=inputs, **launch)


def zeros(*shape: int, kind: str = "f32") -> Any:
    return np.zeros(shape, DTYPES[kind])


def descriptor(name: str, index: int, array: Any) -> list[Any]:
    """A tensor map of the box and swizzle that the compiler chose, then dimensions and strides, outermost first."""
    made = _info()[name]["tensor_maps"][index]
    strides = [np.int64(s // array.itemsize) for s in array.strides]
    seen = array.view(np.uint8) if array.itemsize == 1 else array
    return [TensorMap(seen, made["block_size"][::-1], SWIZZLES[made["swizzle"]]), *array.shape, *strides]


def attention() -> list[Kernel]:
    found = []
    heads, length, scale = 2, 128, f32(0.18033688)
    lse, delta = ordinary(201, "f32", heads, length) + f32(6), ordinary(202, "f32", heads, length)
    for inputs in ("", "special"):
        q, k, v, do = (ordinary(seed, "f16", heads, length, 64, spread=6) for seed in (203, 204, 205, 206))
        if inputs == "special":
            special(do, "f16", {(0, 3, 5): INF, (1, 70, 1): NAN})
            special(k, "f16", {(0, 90, 7): -INF})
        dk, dv, dq = (zeros(heads, length, 64) for _ in range(3))
        found.append(run("attention_dkdv", [q, k, v, do, lse, delta, dk, dv, length, scale], [dk, dv], (length // 64, heads), inputs))
        found.append(run("attention_dq", [q, k, v, do, lse, delta, dq, length, scale], [dq], (length // 64, heads), inputs))
    q, k, v = ordinary(207, "f16", 4, 64), ordinary(208, "f16", 4, 200, 64), ordinary(209, "f16", 4, 200, 64)
    part, most, total = zeros(4, 2, 64), zeros(4, 2), zeros(4, 2)
    return [*found, run("decode_split", [q, k, v, part, most, total, 200, scale], [part, most, total], (4, 2))]


def norms() -> list[Kernel]:
    found = []
    for inputs in ("", "full", "special"):
        x = below_two(211, "bf16", 3, 400) if inputs == "full" else ordinary(211, "bf16", 3, 400)
        if inputs == "special":
            special(x, "bf16", {(0, 9): NAN, (1, 9): INF})
            x[2] = 0
        w, y = ordinary(212, "bf16", 400), zeros(3, 400, kind="bf16")
        found.append(run("rms_norm", [x, w, y, 400, f32(1e-6)], [y], (3,), inputs))
        rows = special(ordinary(213, "f32", 3, 400), "f32", {(0, 9): NAN, (1, 9): INF} if inputs == "special" else {})
        out = zeros(3, 6)
        found.append(run("statistics", [full(213, "f32", 3, 400) if inputs == "full" else rows, out, 400], [out], (3,), inputs))
    x, dy, w = ordinary(214, "f16", 10, 256), ordinary(215, "f16", 10, 256), ordinary(216, "f32", 256)
    mean, rstd = ordinary(217, "f32", 10), np.abs(ordinary(218, "f32", 10))
    dx, dw, db = zeros(10, 256, kind="f16"), zeros(4, 256), zeros(4, 256)
    found.append(run("layer_norm_grad", [x, dy, w, mean, rstd, dx, dw, db, 10, 256], [dx, dw, db], (4,)))
    logits, labels = ordinary(219, "f32", 4, 600) * f32(8), integers(220, 0, 600, 4)
    special(logits, "f32", {(1, 5): -INF, (2, 5): NAN, (3, 5): INF})
    loss, gradient = zeros(4), zeros(4, 600)
    return [*found, run("cross_entropy", [logits, labels, loss, gradient, 600], [loss, gradient], (4,))]


def elementwise() -> list[Kernel]:
    x, cos, sin, y = (
        ordinary(221, "bf16", 8, 3, 64),
        ordinary(222, "f32", 8, 32),
        ordinary(223, "f32", 8, 32),
        zeros(16, 3, 64, kind="bf16"),
    )
    a, b, c = ordinary(224, "f16", 1000, spread=12), ordinary(225, "f16", 1000, spread=12), zeros(1000, kind="f16")
    normal, uniform, bits = zeros(1024), zeros(1024), zeros(1024, kind="s32")
    p, g, m, v = ordinary(226, "f32", 900), below_two(227, "bf16", 900), ordinary(228, "f32", 900), np.abs(ordinary(229, "f32", 900))
    rates = [f32(x) for x in (0.001, 0.9, 0.999, 1e-8, 1.2, 1.05)]
    rows = full(230, "f32", 3, 256)
    special(rows, "f32", {(0, 9): INF, (1, 9): -INF, (2, 9): 0.0, (2, 10): -0.0})
    up, down, best = zeros(3, 256), zeros(3, 256), zeros(3, 8)
    values, decay = below_two(231, "f32", 2, 512), np.abs(ordinary(232, "f32", 2, 512, spread=1))
    outs = [zeros(2, 512) for _ in range(4)]
    places = zeros(2, 512, kind="s32")
    table, index, gathered, counts = full(233, "f32", 16, 64), integers(234, 0, 64, 16, 64), zeros(16, 64), zeros(64, kind="s32")
    tiles, sums = full(235, "f32", 96, 64), full(236, "f32", 96, 64)
    return [
        run("rotary", [x, cos, sin, y, 3], [y], (8,)),
        run("dropout_residual", [a, b, c, 1000, f32(0.8), 77], [c], (2,)),
        run("random_numbers", [normal, uniform, bits, 4321], [normal, uniform, bits], (2,)),
        run("adam", [p, g, m, v, 900, *rates], [p, m, v], (2,)),
        run("sort_and_select", [rows, up, down, best], [up, down, best], (3,)),
        run("scans", [values, decay, *outs, places], [*outs, places], (2,)),
        run("gather_and_count", [table, index, gathered, counts], [gathered, counts], (1,)),
        run("reduce_tiles", [tiles, sums], [sums], (3,)),
    ]


def products() -> list[Kernel]:
    found = []
    m, n, k = 128, 128, 384
    for inputs in ("", "full", "special"):
        make: Any = full if inputs == "full" else ordinary
        a, b = make(241, "e4m3", m, k), make(242, "e4m3", n, k)
        if inputs == "special":
            special(a, "e4m3", {(3, 5): NAN})
        for name in ("mm_fp8_precise", "mm_fp8_fast"):
            c = zeros(m, n)
            found.append(run(name, [a, b, c, m, n, k], [c], (m // 64, n // 128), inputs))
    sa, sb, c = ordinary(243, "f32", m, k // 128), ordinary(244, "f32", n // 64, k // 128), zeros(m, n, kind="bf16")
    found.append(run("mm_scaled_blocks", [ordinary(241, "e4m3", m, k), ordinary(242, "e4m3", n, k), sa, sb, c, m, n, k], [c], (2, 2)))
    for inputs in ("", "full", "special"):
        make = below_two if inputs == "full" else ordinary
        x, y = make(245, "f32", 64, 96), ordinary(246, "f32", 64, 96)
        if inputs == "special":
            special(x, "f32", {(3, 5): NAN, (4, 7): INF, (5, 9): 3e38})
            special(y, "f32", {(9, 5): 0.0, (30, 13): -INF, (31, 13): 2.0**-140})
        z, u = zeros(64, 64), zeros(64, 64)
        found.append(run("mm_f32_tf32x3", [x, y, z, 64, 64, 96], [z], (1, 1), inputs))
        found.append(run("mm_f32_ieee", [x, y, u, 64, 64, 96], [u], (2, 2), inputs))
    a, packed, scales, c = (
        ordinary(247, "f16", 64, 192),
        ordinary(248, "u8", 64, 96),
        ordinary(249, "f16", 64, 3),
        zeros(64, 64, kind="f16"),
    )
    found.append(run("mm_int4", [a, packed, scales, c, 64, 64, 192], [c], (1, 1)))
    for inputs in ("", "full"):
        make = below_two if inputs == "full" else ordinary
        a, b, c = make(250, "f16", 64, 192), make(251, "f16", 128, 192), zeros(64, 128, kind="f16")
        found.append(run("mm_f16_sums", [a, b, c, 64, 128, 192], [c], (1, 2), inputs))
    a, b = ordinary(252, "e4m3", 64, 256), ordinary(253, "u8", 64, 128)
    sa, sb = integers(254, 120, 134, 64, 8, dtype=np.uint8), integers(255, 120, 134, 64, 8, dtype=np.uint8)
    special(sa, "u8", {(3, 1): 255, (4, 2): 0, (5, 2): 254})
    c = zeros(64, 64)
    found.append(run("mm_mixed_scales", [a, sa, b, sb, c, 64, 256], [c], (1,)))
    ia, ib, ic = ordinary(256, "s8", 128, 384), ordinary(257, "s8", 64, 384), zeros(128, 64, kind="s32")
    found.append(run("mm_split_integers", [ia, ib, ic, 128, 64, 384], [ic], (2, 1, 3)))
    ga, gb, gc = ordinary(258, "bf16", 260, 128), ordinary(259, "bf16", 4, 64, 128), zeros(260, 64, kind="bf16")
    firsts = np.array([0, 70, 70, 200, 260], np.int32)
    found.append(run("mm_groups", [ga, gb, gc, firsts, 64, 128], [gc], (3,)))
    x, gate, up, down = (
        ordinary(260, "bf16", 128, 64),
        ordinary(261, "bf16", 64, 128),
        ordinary(262, "bf16", 64, 128),
        ordinary(263, "bf16", 128, 64),
    )
    y = zeros(128, 64, kind="bf16")
    found.append(run("mlp_swiglu", [x, gate, up, down, y], [y], (2,)))
    image, filters, out = ordinary(264, "f16", 2, 13, 15, 64), ordinary(265, "f16", 64, 3, 3, 64), zeros(2, 7, 8, 64, kind="f16")
    return [*found, run("convolution", [image, filters, out, 13, 15, 7, 8], [out], (2, 1))]


def gluon() -> list[Kernel]:
    found = []
    for inputs in ("", "special"):
        a, b, c = ordinary(271, "f16", 128, 320), ordinary(272, "f16", 128, 320), zeros(128, 128, kind="f16")
        if inputs == "special":
            special(a, "f16", {(3, 5): NAN, (4, 7): INF, (5, 9): 60000.0})
            special(b, "f16", {(9, 5): 0.0, (30, 7): -INF, (31, 9): 2.0**-24})
        maps = [x for i, array in enumerate((a, b, c)) for x in descriptor("gl_pipelined", i, array)]
        found.append(run("gl_pipelined", [*maps, 320], [c], (2, 1), inputs))
    a, b, c = below_two(273, "f16", 128, 192), full(274, "f16", 192, 64), zeros(128, 64)
    found.append(run("gl_registers", [a, *descriptor("gl_registers", 0, b), c, 64, 192], [c], (2, 1)))
    a, b, c = ordinary(275, "bf16", 128, 320), ordinary(276, "bf16", 64, 320), zeros(128, 64)
    maps = [x for i, array in enumerate((a, b)) for x in descriptor("gl_specialised", i, array)]
    found.append(run("gl_specialised", [*maps, c, 64, 320], [c], (2, 1)))
    a, b, c = ordinary(277, "f16", 64, 160), ordinary(278, "f16", 128, 160), zeros(64, 128)
    found.append(run("gl_async_copy", [a, b, c, 128, 160], [c], (1, 2)))
    a, b, c = ordinary(279, "e4m3", 256, 384), ordinary(280, "e4m3", 64, 384), zeros(256, 64)
    maps = [x for i, array in enumerate((a, b)) for x in descriptor("gl_multicast", i, array)]
    found.append(run("gl_multicast", [*maps, c, 64, 384], [c], (2, 1)))
    image, filters, out = ordinary(281, "f16", 2, 8, 16, 64), ordinary(282, "f16", 64, 9 * 64), zeros(256, 64)
    pixels = TensorMap.im2col(image, (-1, -1), (-1, -1), 64, 64, "128B")
    shape = [pixels, 256, 64, np.int64(64), np.int64(1)]  # of which the kernel reads none
    found.append(run("gl_im2col", [*shape, *descriptor("gl_im2col", 1, filters), out, 8, 16, 64], [out], (4, 1)))
    x = ordinary(283, "s32", 4, 32, 32)
    outs = [ordinary(284 + i, "s32", 32, 32) for i in range(3)]
    maps = [v for i, array in enumerate(outs) for v in descriptor("gl_reductions", i, array)]
    return [*found, run("gl_reductions", [x, *maps], outs, (4,))]


def kernels() -> list[Kernel]:
    return [*attention(), *norms(), *elementwise(), *products(), *gluon()]
