"""Once a loop of reductions of boxes, or of contiguous bytes, has executed a few times, Python executes none of its instructions.

As in `test_steady_state`, with the kernel of `tests.isa.bulk.reduction_helpers`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.isa.bulk.reduction_helpers import inputs, kernel, launch
from tests.optimised_helpers import optimise

from .test_steady_state import assert_no_python, further_calls

LENGTHS = (16, 32)


def launch_one(operation: str, element: str, lines: bool, check: str, turns: int) -> Any:
    _, result = launch(kernel(operation, element=element if lines else ""), *inputs(element, turns), lines=lines, check=check)
    assert result.ok
    return result


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    operation, element, *lines = name.split()
    return further_calls(*(partial(launch_one, operation, element, bool(lines), check, turns) for turns in LENGTHS))


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", ["add f32", "add f16", "max s32", "xor u64", "add f32 line", "max s32 line"])
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)
