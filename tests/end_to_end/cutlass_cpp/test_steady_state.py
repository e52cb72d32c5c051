"""Once the loop of a CUTLASS GEMM has executed a few times, Python executes none of its instructions.

As in `tests.end_to_end.test_steady_state`. The kernel is one of those that `test_gemm` compiles.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.end_to_end.test_steady_state import further_calls, optimise

from .compile_helpers import call, compiled
from .test_gemm import DENSE

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).resolve().parents[3]
NAME = "sm100_1sm"
LENGTHS = (1024, 2048)


def further(folder: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    replays = [ptxlab.read_bundle(Path(folder) / str(length)) for length in LENGTHS]
    return further_calls(*(partial(launched, replay) for replay in replays))


def launched(replay: Any) -> Any:
    return replay.run(check="none")[0]


def test_python_executes_no_instruction_of_a_long_loop(tmp_path: Path) -> None:
    case = DENSE[NAME]
    m, n, _ = case.tile
    for k in LENGTHS:
        host = compiled("dense.cu", "sm_100a", case.macros(), sms=1)
        host.options = {"check": "none", "keep_inputs": True}
        sizes = 2 * m * k, 2 * n * k, 4 * m * n, 4 * m * n
        call(host, "gemm", m, n, k, *(host.device.array(np.zeros(size, np.uint8)) for size in sizes), 1.0, 0.0, 1)
        host.launches[-1].result.save_bundle(tmp_path / str(k))
    code = f"import json; from {__name__} import further; print(json.dumps(further({str(tmp_path)!r})))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found, turns, instructions = json.loads(run.stdout.splitlines()[-1])
    assert instructions > 0
    assert found == {}
    assert turns < instructions
