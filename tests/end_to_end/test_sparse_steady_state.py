"""Once a loop of sparse products has executed a few times, Python executes none of its instructions, as in `test_steady_state`.

The kernels for wgmma are CUDA C++, and those for tcgen05 those of `tests.isa.tcgen05.test_observed_sparse`.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.isa.tcgen05.test_observed_repetitions import CTAS, TURNS, changed
from tests.isa.tcgen05.test_observed_sparse import SPARSE, STORED
from tests.optimised_helpers import optimise

from .test_steady_state import assert_no_python, further_calls

WGMMA = Path(__file__).resolve().parents[1] / "hardware" / "kernels" / "sparse.ptx"
NAMES = ("sparse_f32_f16", "sparse_f32_tf32", "sparse_f32_e4m3_e4m3_registers", "sparse_s32_s8_s8", "sparse_f16_f16_registers")
LENGTHS = (12, 24)
METADATA = re.compile(r"(?<=, )(%r\d+)(?=, 0, p, 1, 1, 0, 0;)")
OTHERS = {"sparse_f32_f16 constant": "{0x44444444}", "sparse_f32_f16 in braces": r"{\1}"}
"""How else the metadata are written, which all are this constant."""
TCGEN05 = {"copied": SPARSE, "stored": STORED}


def launch_wgmma(kernel: Any, check: str, steps: int) -> Any:
    """Values are small numbers, and all metadata select the first two elements."""
    rng = np.random.default_rng(steps)
    a, b = (rng.integers(0, 0x38, (64, steps * size), np.uint8) for size in (64, 128))
    metadata, d = np.full((2 * steps, 128), 0x44444444, np.uint32), np.zeros((32, 128), np.uint32)
    result = kernel.launch(grid=1, block=128, args=[a, b, metadata, d, steps], check=check)
    result.raise_for_errors()
    return result


def launch_tcgen05(kernel: Any, tiles: bool, turns: int, check: str) -> Any:
    a: Any = np.random.default_rng(7).integers(-4, 5, (128 * CTAS, 64 * LENGTHS[-1])).astype(np.float16)
    if tiles:
        a = ptxlab.TensorMap(a, box=(64, 128), swizzle="128B")
    result = kernel.launch(grid=CTAS, block=128, args=[a, np.zeros((128 * CTAS, 64), np.float32), turns], check=check)
    assert not [each for each in result.diagnostics if each.code[0] != "O"]
    return result


def of_any_length(text: str) -> str:
    """The number of turns is a parameter."""
    changes = {
        ".param .u64 p_c)": ".param .u64 p_c, .param .u32 p_n)",
        f"setp.lt.u32 more, i, {TURNS};": "ld.param.u32 k, [p_n]; setp.lt.u32 more, i, k;",
    }
    return changed(changes, text).replace(f"own, {128 * TURNS};", f"own, {128 * LENGTHS[-1]};")


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    if name in TCGEN05:
        kernel = ptxlab.loads(of_any_length(TCGEN05[name])).kernel()
        return further_calls(*(partial(launch_tcgen05, kernel, name == "stored", turns, check) for turns in LENGTHS))
    text = WGMMA.read_text()
    kernel = ptxlab.loads(METADATA.sub(OTHERS[name], text) if name in OTHERS else text)[name.split()[0]]
    return further_calls(*(partial(launch_wgmma, kernel, check, steps) for steps in LENGTHS))


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", [*TCGEN05, *NAMES, *OTHERS])
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)
