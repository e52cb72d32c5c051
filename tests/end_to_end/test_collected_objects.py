"""What a launch has made is freed when it ends, without the garbage collector: a program may launch often, with large arrays."""

from __future__ import annotations

import gc

import pytest

from .triton import cases
from .triton_sm90 import cases as cases_sm90

KERNELS = ("mm_ptr_fp16", "gl_mm_2cta_fp16", "mm_persistent_ws_fp16", "flash_fp16", "sm90_mm_persistent_ws_fp16", "sm90_flash_fp16")
CASES = {**cases.CASES, **cases_sm90.CASES}


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_left_to_the_garbage_collector(name: str, check: str) -> None:
    family = CASES[name]
    case = family(next(iter(family.sizes)))
    case.launch(check=check, policy="eager")
    gc.collect()
    gc.disable()
    try:
        result, _ = case.launch(check=check, policy="eager")
        assert result.ok
        del result
        assert gc.collect() < 32
    finally:
        gc.enable()
