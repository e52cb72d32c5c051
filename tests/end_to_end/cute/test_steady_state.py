"""Once a loop of a CuTe DSL kernel, over k or over tiles, has executed a few times, Python executes none of its instructions.

As in `tests.end_to_end.test_steady_state`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from tests.end_to_end.test_steady_state import further_calls
from tests.optimised_helpers import optimise

from .cute_helpers import example, integers

ROOT = Path(__file__).resolve().parents[3]
CHECKS = ("none", "all")
KEYS = "<string> __eq__"
"""Comparisons of keys of dictionaries, which depend on the addresses of objects."""


def gemm(name: str, k: int, dtype: Any, m: int = 128, n: int = 128, target: str = "sm_100a", mn: bool = False, **options: Any) -> Any:
    a, b, c = integers(1, (m, k), dtype), integers(2, (n, k), dtype), np.zeros((m, n), np.float32)
    if mn:
        a, b = np.ascontiguousarray(a.T).T, np.ascontiguousarray(b.T).T
    module = example(f"{name}_gemm")
    return getattr(module, f"{name.capitalize()}Gemm")(**options), (a, b, c), target, {}


def attention(length: int) -> Any:
    q, k, v = (integers(seed, (1, length, 64), np.float16) for seed in (1, 2, 3))
    made = example("fused_attention").FusedAttention()
    return made, (q, k, v, np.zeros_like(q)), "sm_100a", {"only": [(0, 0, 0)]}


def block_scaled(k: int, bits: int) -> Any:
    """Scales of 32 elements of 8 bits, or of 16 of 4 bits."""
    import cutlass

    module, (m, n) = example("block_scaled_gemm"), (256, 128)
    element, scale, block, tile = (
        (cutlass.Float8E4M3FN, cutlass.Float8E8M0FNU, 32, 128) if bits == 8 else (cutlass.Float4E2M1FN, cutlass.Float8E4M3FN, 16, 256)
    )
    dtype = ml_dtypes.float8_e4m3fn if bits == 8 else np.uint8
    a, b = (integers(seed, (rows, k * bits // 8), dtype) for seed, rows in ((1, m), (2, n)))
    kind = ml_dtypes.float8_e8m0fnu if bits == 8 else ml_dtypes.float8_e4m3fn
    scales = [np.exp2(integers(seed, (rows, k // block), np.float64, -2, 3)).astype(kind) for seed, rows in ((3, m), (4, n))]
    given = (a, b, *(np.ascontiguousarray(module.blocked(each)) for each in scales), np.zeros((m, n), np.float32))
    return module.BlockScaledGemm(element, scale, block, tile=(128, 128, tile)), given, "sm_100a", {}


def persistent(tiles: int, ctas: int) -> Any:
    """One cluster takes all tiles."""
    a, b = (integers(seed, (rows, 128), np.float16) for seed, rows in ((1, 128 * ctas * tiles), (2, 64)))
    made = example("persistent_gemm").PersistentGemm((128 * ctas, 64, 64), ctas=ctas)
    return made, (a, b, np.zeros((len(a), len(b)), np.float16)), "sm_100a", {"device": ptxlab.Device("sm_100a", sms=ctas, ctas_per_sm=1)}


KERNELS: dict[str, Callable[[int], Any]] = {
    "dense": lambda f: gemm("dense", 1024 * f, np.float16),
    "dense by pairs": lambda f: gemm("dense", 1024 * f, ml_dtypes.bfloat16, 256, mn=True, tile=(256, 128, 64), ctas=2),
    "hopper": lambda f: gemm("hopper", 1024 * f, np.float16, 256, target="sm_90a"),
    "block-scaled by 32": lambda f: block_scaled(2048 * f, 8),
    "block-scaled by 16": lambda f: block_scaled(4096 * f, 4),
    "attention": lambda f: attention(1024 * f),
    "tiles": lambda f: persistent(8 * f, 1),
    "tiles of pairs": lambda f: persistent(8 * f, 2),
}


CASES = [(name, check) for name in KERNELS for check in CHECKS]


def launch_again(replay: Any, check: str) -> Any:
    return replay.run(check=check)[0]


def every(folder: Path) -> dict[str, tuple[dict[str, int], int, int]]:
    """What twice as many iterations of each kernel cost under each check."""
    from ptxlab.interop import cute

    optimise(pytest.MonkeyPatch())
    found = {}
    for name, make in KERNELS.items():
        replays = []
        for f in (1, 2):
            function, given, target, options = make(f)
            kernel = cute.compile(function, *given, target=target)
            path = folder / f"{name} {f}"
            kernel.launch(*given, check="none", keep_inputs=True, **options).save_bundle(path)
            replays.append(ptxlab.read_bundle(path))
        for check in (check for of, check in CASES if of == name):
            found[f"{name}, {check}"] = further_calls(*(partial(launch_again, replay, check) for replay in replays))
    return found


@cache
def measured(folder: Path) -> dict[str, tuple[dict[str, int], int, int]]:
    """All kernels in one process of their own, which imports CuTe DSL once."""
    code = f"import json; from pathlib import Path; from {__name__} import every; print(json.dumps(every(Path({str(folder)!r}))))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found: dict[str, tuple[dict[str, int], int, int]] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("name", "check"), CASES)
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    further, turns, instructions = measured(tmp_path_factory.getbasetemp())[f"{name}, {check}"]
    assert instructions > 0
    assert {what: number for what, number in further.items() if what != KEYS} == {}
    assert turns < instructions
