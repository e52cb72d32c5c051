"""Once the loop of a CUTLASS GEMM, or that over tiles, has executed a few times, Python executes none of its instructions.

As in `tests.end_to_end.test_steady_state`. The kernels are of those that `test_gemm` compiles.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.end_to_end.test_steady_state import further_calls
from tests.optimised_helpers import optimise

from .compile_helpers import call, compiled
from .operand_helpers import block_scaled
from .test_gemm import DENSE, GROUPED, SCALED

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).resolve().parents[3]
FACTORS = (1, 2)
MOST_CALLS = {"none": 0, "all": 200}
"""With the checks warps meet in another order at the end of the longer loop; Python is called once for what it finds there."""


def further(folder: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    replays = [ptxlab.read_bundle(Path(folder) / str(factor)) for factor in FACTORS]
    return further_calls(*(partial(launched, replay, check) for replay in replays))


def launched(replay: Any, check: str) -> Any:
    return replay.run(check=check)[0]


def dense(factor: int) -> Any:
    """The host of a launch."""
    case, k = DENSE["sm100_1sm"], 1024 * factor
    m, n, _ = case.tile
    host = compiled("dense.cu", "sm_100a", case.macros(), sms=1)
    host.options = {"check": "none", "keep_inputs": True}
    sizes = 2 * m * k, 2 * n * k, 4 * m * n, 4 * m * n
    call(host, "gemm", m, n, k, *(host.device.array(np.zeros(size, np.uint8)) for size in sizes), 1.0, 0.0, 1)
    return host


def scaled(factor: int) -> Any:
    """The same of a block-scaled GEMM, whose result is exact."""
    case, k = SCALED["nvf4"], 4096 * factor
    m, n, _ = case.tile
    host = compiled("block_scaled.cu", "sm_100a", case.macros(), sms=1)
    host.options = {"check": "none", "keep_inputs": True}
    a, b = (block_scaled(np.random.default_rng(rows), rows, k, case.element, case.scale, case.block) for rows in (m, n))
    d = host.device.array(np.zeros((m, n), np.float32))
    call(host, "gemm", m, n, k, *(host.device.array(x) for x in (*a[:2], *b[:2])), d)
    assert np.array_equal(d.numpy(), a[2] @ b[2].T)
    return host


def pingpong(factor: int) -> Any:
    """The same of a persistent GEMM for Hopper, with more tiles instead of more iterations."""
    case, k = DENSE["sm90_pingpong"], 256
    m, n = case.tile[0] * case.cluster * 8 * factor, case.tile[1]
    host = compiled("dense.cu", "sm_90a", case.macros(), sms=case.cluster)
    host.options = {"check": "none", "keep_inputs": True}
    sizes = 2 * m * k, 2 * n * k, 4 * m * n, 4 * m * n
    call(host, "gemm", m, n, k, *(host.device.array(np.zeros(size, np.uint8)) for size in sizes), 1.0, 0.0, 1)
    return host


def grouped(factor: int) -> Any:
    """A persistent grouped GEMM for Hopper: its tiles begin in any pipeline stage, with other instructions than the rest."""
    arch, mainloop, epilogue = GROUPED["sm90_grouped"]
    macros = {"ARCH": arch, "TILE_M": 128, "TILE_N": 128, "TILE_K": 64, "MAINLOOP": mainloop, "EPILOGUE": epilogue}
    host = compiled("grouped.cu", "sm_90a", macros, sms=1)
    host.options = {"check": "none", "keep_inputs": True}
    sizes = np.array([(128 * 12 * factor, 128, 256), (128, 128, 64)], np.int32)
    buffers = [[host.device.array(np.zeros(size, np.uint8)) for size in (2 * m * k, 2 * n * k, 4 * m * n)] for m, n, k in sizes.tolist()]
    call(host, "gemm", len(sizes), sizes, *np.array([[x.address for x in row] for row in buffers], np.uint64).T.copy())
    return host


@pytest.mark.parametrize("launch", [dense, scaled, pingpong, pytest.param(grouped, marks=pytest.mark.slow)])
def test_python_executes_no_instruction_of_a_long_loop(launch: Callable[[int], Any], tmp_path: Path) -> None:
    for factor in FACTORS:
        launch(factor).launches[-1].result.save_bundle(tmp_path / str(factor))
    for check, most in MOST_CALLS.items():
        code = f"import json; from {__name__} import further; print(json.dumps(further({str(tmp_path)!r}, {check!r})))"
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        found, turns, instructions = json.loads(run.stdout.splitlines()[-1])
        assert instructions > 10 * most
        assert sum(found.values()) <= most, found
        assert turns < instructions
