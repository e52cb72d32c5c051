"""Once a loop of bulk copies of contiguous bytes has executed a few times, Python executes none of its instructions.

As in `test_steady_state`, with the kernels of `tests.isa.bulk.line_loop_helpers`, and with products whose operands such copies bring.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.isa.bulk import line_loop_helpers as loops
from tests.isa.tcgen05.line_product_helpers import BY_LANES, BY_ONE
from tests.isa.tcgen05.test_observed_repetitions import CTAS, TURNS
from tests.isa.wgmma import line_product_helpers as wgmma
from tests.optimised_helpers import optimise

from .test_sparse_steady_state import LENGTHS, of_any_length
from .test_steady_state import assert_no_python, further_calls

PRODUCTS = {"products, copies of lanes": BY_LANES, "products, copies of one thread": BY_ONE}
OF_WARPGROUP = "products of a warpgroup"


def launch_loop(name: str, check: str, turns: int) -> ptxlab.Result:
    out, totals, result = loops.launch(loops.text_of(name), turns, check=check)
    assert result.diagnostics == ()
    assert all(map(np.array_equal, (out, totals), loops.expected(name, turns)))
    return result


def launch_products(kernel: ptxlab.Kernel, check: str, turns: int) -> ptxlab.Result:
    a: Any = np.random.default_rng(7).integers(-4, 5, (128 * CTAS, 64 * LENGTHS[-1])).astype(np.float16)
    result = kernel.launch(grid=CTAS, block=128, args=[a, np.zeros((128 * CTAS, 64), np.float32), turns], check=check)
    assert result.diagnostics == ()
    return result


def launch_wgmma(kernel: ptxlab.Kernel, check: str, turns: int) -> ptxlab.Result:
    _, result = wgmma.launch(kernel, turns, check=check)
    assert result.diagnostics == ()
    return result


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    if name in loops.BODIES:
        return further_calls(*(partial(launch_loop, name, check, turns) for turns in LENGTHS))
    if name == OF_WARPGROUP:
        kernel = ptxlab.loads(wgmma.text_of()).kernel()
        return further_calls(*(partial(launch_wgmma, kernel, check, turns) for turns in LENGTHS))
    text = of_any_length(PRODUCTS[name]).replace(f"mad.lo.u32 x0, cta, {TURNS}, i;", f"mad.lo.u32 x0, cta, {LENGTHS[-1]}, i;")
    kernel = ptxlab.loads(text).kernel()
    return further_calls(*(partial(launch_products, kernel, check, turns) for turns in LENGTHS))


CASES = [(name, check) for name in loops.BODIES for check in ("none", "race", "all")]
CASES += [(name, check) for name in (*PRODUCTS, OF_WARPGROUP) for check in ("none", "race", "operands", "all")]


@pytest.mark.parametrize(("name", "check"), CASES)
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)
