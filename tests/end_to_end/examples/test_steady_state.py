"""Once the loops of the tutorial's GEMM have executed a few times, Python executes none of their instructions.

As in `tests.end_to_end.test_steady_state`. One lane of a warp fills the stages, one of another warp multiplies; the others wait for them.
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
from tests.end_to_end.test_steady_state import further_calls
from tests.optimised_helpers import optimise

ROOT = Path(__file__).resolve().parents[3]
STEPS = (32, 64)
TURNS = ("/machine/warp/warp.py take_over_lanes", "/machine/warp/warp.py hand_over_lanes", "/machine/warp/convergence.py choose")
"""What the scheduler calls each time that it gives such a warp a turn itself."""


def launched(kernel: ptxlab.Kernel, steps: int, check: str) -> Any:
    rng = np.random.default_rng(steps)
    a, b = (ptxlab.TensorMap(rng.standard_normal((128, 64 * steps)).astype(np.float16), box=(64, 128), swizzle="128B") for _ in "ab")
    c = ptxlab.TensorMap(np.zeros((128, 128), np.float32), box=(32, 128))
    return kernel.launch(grid=1, block=128, shared_bytes=81920, args=[a, b, c, steps], check=check)


def further(check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    kernel = ptxlab.load(ROOT / "examples" / "tutorial" / "gemm.ptx").kernel()
    return further_calls(*(partial(launched, kernel, steps, check) for steps in STEPS))


@pytest.mark.parametrize("check", ["none", "all"])
def test_python_executes_no_instruction_of_a_loop_of_one_lane(check: str) -> None:
    code = f"import json; from {__name__} import further; print(json.dumps(further({check!r})))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found, turns, instructions = json.loads(run.stdout.splitlines()[-1])
    assert instructions > 0
    assert [what for what in found if not what.endswith(TURNS)] == []
    assert turns + sum(found.values()) < (STEPS[1] - STEPS[0]) // 2
