"""Once a loop of products that use collector buffers or zero columns has executed a few times, Python executes none of its instructions.

As in `test_steady_state`, with the kernels of `tests.isa.tcgen05.test_observed_repetitions`; some have scale factors or metadata, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.isa.tcgen05.test_observed_repetitions import BY_CP_ASYNC, CTAS, FENCE, KEPT, MULTIPLY, TENSOR_TEXT, TEXT, changed
from tests.isa.tcgen05.test_observed_scaling import KEPT_SCALED
from tests.isa.tcgen05.test_observed_sparse import KEPT_SPARSE
from tests.isa.tcgen05.test_observed_zero_columns import zeroed
from tests.optimised_helpers import optimise

from .test_sparse_steady_state import LENGTHS, of_any_length
from .test_steady_state import assert_no_python, further_calls

TEXTS = {name: changed({MULTIPLY: body}, kernel) for name, (body, kernel) in KEPT.items() if not name.endswith("pairs")}
GROUPS = BY_CP_ASYNC | {FENCE: f"cp.async.commit_group; cp.async.wait_group 0; {FENCE}"}
TEXTS |= {f"{name} by cp.async": changed(GROUPS, text) for name, text in TEXTS.items() if "words" in name}
TEXTS |= {"zero columns, words": zeroed(TEXT), "zero columns, tiles": zeroed(TENSOR_TEXT)}
TEXTS |= {f"scaled: {name}": text for name, text in KEPT_SCALED.items()} | {f"sparse: {name}": text for name, text in KEPT_SPARSE.items()}


def launch(kernel: ptxlab.Kernel, tiles: bool, turns: int, check: str) -> ptxlab.Result:
    """The elements of the array are f16, also where products take others, or a part of them: the operand check says so."""
    a: Any = np.random.default_rng(7).integers(-4, 5, (128 * CTAS, 64 * LENGTHS[-1])).astype(np.float16)
    if tiles:
        a = ptxlab.TensorMap(a, box=(64, 128), swizzle="128B")
    result = kernel.launch(grid=CTAS, block=128, args=[a, np.zeros((128 * CTAS, 64), np.float32), turns], check=check)
    assert result.completed
    assert not [each for each in result.diagnostics if each.code[0] != "O"]
    return result


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    kernel, tiles = ptxlab.loads(of_any_length(TEXTS[name])).kernel(), "p_a[128]" in TEXTS[name]
    return further_calls(*(partial(launch, kernel, tiles, turns, check) for turns in LENGTHS))


PARTS = tuple(name for name in TEXTS if name[0] == "B" or "one D" in name)
"""They write parts of D only, so that under the race check launches are repeated that follow undefined bits."""
CASES = [(name, check) for name in TEXTS for check in ("operands", "all") if name not in PARTS or check == "operands"]
CASES += [(name, check) for name in ("A of words", "zero columns, words") for check in ("none", "race")]


@pytest.mark.parametrize(("name", "check"), CASES)
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)
