"""The kernels of ``cute_kernels.py``, and of the example ``hopper_gemm``."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.kernels.case_helpers import FOLDER, case
from tests.hardware.kernels.gemm_cases import INF, NAN
from tests.hardware.kernels.inputs import DTYPES, full, ordinary, special
from tests.hardware.suite._kernel import Kernel, Struct


@cache
def _info() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "cute.json").read_text())
    return found


def run(name: str, arrays: list[Any], inputs: str = "") -> Kernel:
    """``arrays``: those of the host function; the last is the result."""
    info = _info()[name]
    args = [_argument(made, arrays) for made in info["args"]]
    launch = {"grid": tuple(info["grid"]), "block": info["block"], "cluster": tuple(info["cluster"]), "shared_bytes": info["shared_bytes"]}
    return case(name, info["entry"], args, [arrays[-1]], name=name, inputs=inputs, **launch)


def _argument(made: dict[str, Any], arrays: list[Any]) -> Any:
    if "map" in made:
        found = TensorMap.decode(bytes.fromhex(made["map"]))
        found.base = arrays[made["array"]]
        return found
    return Struct(bytes.fromhex(made["raw"]), tuple((place, arrays[number], 0) for place, number in made["places"]))


def zeros(*shape: int, kind: str = "f32") -> Any:
    return np.zeros(shape, DTYPES[kind])


def kernels() -> list[Kernel]:
    found = []
    for inputs in ("", "full", "special"):
        make: Any = full if inputs == "full" else ordinary
        a, b = make(301, "f16", 256, 192), make(302, "f16", 64, 192)
        if inputs == "special":
            special(a, "f16", {(3, 5): NAN, (40, 7): INF, (41, 9): -INF})
            special(b, "f16", {(9, 3): NAN, (17, 7): 0.0})
        found.append(run("cute_gemm_f16", [a, b, zeros(256, 64)], inputs))
        found.append(run("cute_gemm_e4m3", [make(303, "e4m3", 256, 384), make(304, "e4m3", 64, 384), zeros(256, 64)], inputs))
    half = full(309, "f16", 128, 128)
    special(half, "f16", {(3, 5): NAN, (40, 7): INF})
    return [
        *found[:-1],
        run("cute_gemm_mn_major", [ordinary(305, "f16", 192, 128), ordinary(306, "f16", 192, 64), zeros(128, 64)]),
        run("cute_move", [full(307, "f16", 64, 192), zeros(64, 192, kind="f16")]),
        run("cute_reduce_add", [ordinary(308, "s32", 128, 128), ordinary(310, "s32", 32, 128)]),
        run("cute_reduce_max", [np.abs(half), full(311, "f16", 32, 128)]),
        run("cute_transpose", [full(312, "f32", 64, 96), zeros(96, 64)]),
        run("cute_normalise", [special(ordinary(313, "f32", 8, 256), "f32", {(0, 3): NAN, (1, 3): INF}), zeros(8, 256, kind="f16")]),
        run("cute_warp_gemm", [ordinary(314, "f16", 64, 160), ordinary(315, "f16", 128, 160), zeros(64, 128)]),
    ]
