"""Once a loop of reductions of boxes has executed a few times, Python executes none of its instructions, as in `test_steady_state`.

The kernel is that of `tests.isa.bulk.reduction_helpers`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.isa.bulk.reduction_helpers import inputs, kernel, launch

from .test_steady_state import assert_no_python, further_calls, optimise

LENGTHS = (16, 32)


def launch_one(operation: str, element: str, check: str, turns: int) -> Any:
    _, result = launch(kernel(operation), *inputs(element, turns), check=check)
    assert result.ok
    return result


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations cost."""
    optimise(pytest.MonkeyPatch())
    return further_calls(*(partial(launch_one, *name.split(), check, turns) for turns in LENGTHS))


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", ["add f32", "add f16", "max s32", "xor u64"])
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check, __name__)
