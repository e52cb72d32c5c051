"""Once a loop of products of operands that come in different ways has executed a few times, Python executes none of its instructions.

As in `test_steady_state`, with the kernels of `tests.check.operands.kind_kernels`.
"""

from __future__ import annotations

from functools import partial

import pytest

import ptxlab
from tests.check.operands import kind_kernels
from tests.optimised_helpers import optimise

from .test_sparse_steady_state import LENGTHS
from .test_steady_state import assert_no_python, further_calls

PAIRS = ("box computed", "computed words", "bulk box", "words bulk", "words box", "computed bulk")


def launch(text: str, turns: int, check: str) -> ptxlab.Result:
    result, _, is_right = kind_kernels.launch(text, turns, check=check)
    assert is_right
    assert result.diagnostics == ()
    return result


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    text = kind_kernels.text_of(*name.split()).replace(f"setp.eq.u32 late, i, {kind_kernels.LATE};", "")
    return further_calls(*(partial(launch, text, turns, check) for turns in LENGTHS))


@pytest.mark.parametrize("check", ["operands", "all"])
@pytest.mark.parametrize("name", PAIRS)
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)
