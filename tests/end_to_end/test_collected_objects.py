"""What a launch has made is freed when it ends, without the garbage collector: a program may launch often, with large arrays."""

from __future__ import annotations

import gc

import pytest

from .test_steady_state import in_own_process
from .triton import cases
from .triton_sm90 import cases as cases_sm90

KERNELS = ("mm_ptr_fp16", "gl_mm_2cta_fp16", "mm_persistent_ws_fp16", "flash_fp16", "sm90_mm_persistent_ws_fp16", "sm90_flash_fp16")
OF_LAUNCHES = "ptxlab.machine.", "ptxlab.check.", "ptxlab.isa."
"""The modules of what belongs to a launch; code may be compiled at any time."""
CASES = {**cases.CASES, **cases_sm90.CASES}


def left(name: str, check: str) -> list[str]:
    """The kinds of objects of a second launch that only the garbage collector frees."""
    family = CASES[name]
    case = family(next(iter(family.sizes)))
    case.launch(check=check, policy="eager")
    gc.collect()
    gc.disable()
    result, _ = case.launch(check=check, policy="eager")
    assert result.ok
    del result
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    kinds = {type(each) for each in gc.garbage}
    return sorted(kind.__qualname__ for kind in kinds if kind.__module__.startswith(OF_LAUNCHES))


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_left_to_the_garbage_collector(name: str, check: str) -> None:
    """In a process of its own, in which nothing is left of other tests."""
    assert in_own_process("left", name, check, __name__) == []
