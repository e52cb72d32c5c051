"""Once a loop has executed a few times, Python executes none of its instructions, and no check is asked in Python for any of them.

More iterations of the loop only cost turns of the scheduler. Each kernel runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ptxlab.isa.bulk import _tensor
from ptxlab.numerics import MmaProgram
from tests.optimised_helpers import optimise

from .triton.cases import CASES as SM100
from .triton_sm90.cases import CASES as SM90

CASES = SM100 | SM90
ROOT = Path(__file__).resolve().parents[2]
LENGTHS = {
    "mm_ptr_fp16": {"k": 1024},
    "mm_bt_e4m3": {"k": 2048},
    "mm_device_desc_fp16": {"k": 1024},
    "mm_host_desc_fp16_cta2": {"k": 1024},
    "mm_persistent_ws_fp16": {"k": 1024},
    "mm_tile_cta4_fp16": {"k": 1024},
    "gl_mm_2cta_fp16": {"k": 1024},
    "gl_mm_a_in_tmem_fp16": {"k": 1024},
    "gl_mm_multicast_bf16": {"k": 1024},
    "gl_mm_fp16": {"k": 1024},
    "mm_batched_fp16": {"k": 1024},
    "mm_weights_int8": {"k": 1024},
    "mm_desc_weights_int8": {"k": 1024},
    "flash_fp16": {"s": 1024},
    "flash_causal_fp16": {"s": 1024},
    "flash_ws_fp16": {"s": 2048},
    "sm90_mm_ptr_fp16": {"k": 1024},
    "sm90_mm_bt_int8": {"k": 2048},
    "sm90_mm_device_desc_fp16": {"k": 1024},
    "sm90_mm_ws_fp16": {"k": 1024},
    "sm90_mm_weights_int8": {"k": 1024},
    "sm90_mm_desc_weights_int8": {"k": 1024},
    "sm90_flash_fp16": {"s": 1024},
    "sm90_flash_ws_fp16": {"s": 1024},
}
"""By kernel a size that has several times as many iterations as buffers."""
PROGRAMS = 148
TILES = ("mm_persistent_ws_fp16", "sm90_mm_persistent_ws_fp16")
"""Each program takes every 148th tile of 128 by 128 elements."""
LAUNCHES = 12
ALLOCATIONS = ("/machine/launch/launch.py allocation_count", "/machine/launch/launch.py _count_allocations")
"""Once for a launch with large arrays."""
SCHEDULER = ("/machine/schedule/", "/machine/warp/warp.py catch_up", "/engine/llvm/executable.py run", *ALLOCATIONS)


def launch_of(name: str, check: str, size: dict[str, int]) -> Callable[[], Any]:
    """A launch of a kernel of Triton or Gluon."""
    family = CASES[name]
    case = family.make(**next(iter(family.sizes.values())) | size)
    only = [(size["s"] // 128 - n, 0, 0) for n in (1, 2)] if "s" in size else None  # as many CTAs for each length
    return lambda: case.launch(check=check, only=only)[0]


def calls(launch: Callable[[], Any]) -> tuple[Counter[str], Counter[str], int]:
    """The calls of Python functions in a launch like the one before, in the scheduler and others; and the executed instructions.

    Earlier launches may compile functions again, optimised.
    """
    made: tuple[Counter[str], Counter[str]] = Counter(), Counter()

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            what = f"{frame.f_code.co_filename} {frame.f_code.co_name}"
            made[all(part not in what for part in SCHEDULER)][what] += 1

    for _ in range(LAUNCHES):
        before, made = made, (Counter(), Counter())
        sys.setprofile(count)
        try:
            result = launch()
        finally:
            sys.setprofile(None)
        if made == before:
            break
    return *made, result.stats.instructions


def further_calls(short: Callable[[], Any], long: Callable[[], Any]) -> tuple[dict[str, int], int, int]:
    """What more iterations cost: further calls of functions outside of the scheduler, further calls of its own, instructions."""
    (turns, few, before), (more_turns, many, after) = map(calls, (short, long))
    further = {what: number - few[what] for what, number in many.items() if number > few[what]}
    return further, more_turns.total() - turns.total(), after - before


def grown(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many iterations of a kernel of Triton or Gluon cost."""
    optimise(pytest.MonkeyPatch())
    return further_calls(*(launch_of(name, check, {key: n * f for key, n in LENGTHS[name].items()}) for f in (1, 2)))


def more_tiles(name: str, check: str) -> tuple[dict[str, int], int, int]:
    """What twice as many tiles of one program of a persistent kernel cost."""
    optimise(pytest.MonkeyPatch())
    sizes = next(iter(CASES[name].sizes.values()))
    cases = [CASES[name].make(**sizes | {"m": 128 * PROGRAMS, "n": 128 * tiles, "k": 64}) for tiles in (6, 12)]
    short, long = (partial(launch_one, case, check) for case in cases)
    return further_calls(short, long)


def launch_one(case: Any, check: str) -> Any:
    return case.launch(check=check, only=[(0, 0, 0)])[0]


def in_own_process(what: str, name: str, check: str, module: str) -> Any:
    """What a function of a test module returns in a process of its own."""
    code = f"import json; from {module} import {what}; print(json.dumps({what}({name!r}, {check!r})))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def assert_no_python(what: str, name: str, check: str, module: str = __name__) -> None:
    """In a process of its own."""
    further, turns, instructions = in_own_process(what, name, check, module)
    assert instructions > 0
    assert further == {}
    assert turns < instructions


@pytest.mark.parametrize(("name", "check"), [(name, check) for name in LENGTHS for check in ("none", "all")])
def test_python_executes_no_instruction_of_a_long_loop(name: str, check: str) -> None:
    assert_no_python("grown", name, check)


@pytest.mark.parametrize(("name", "check"), [(name, check) for name in TILES for check in ("none", "all")])
def test_python_executes_no_instruction_of_later_tiles(name: str, check: str) -> None:
    assert_no_python("more_tiles", name, check)


def test_copies_and_products_of_later_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers execute one product for each CTA, which is the first one, and boxes only until all places of boxes are known."""
    optimise(monkeypatch)
    family, prepare, multiply = CASES["mm_host_desc_fp16_cta2"], _tensor._prepare, MmaProgram.run
    loads, products = [], []

    def prepared(*given: Any) -> Any:
        loads.extend([1] * (not given[-1]))
        return prepare(*given)

    def multiplied(*given: Any) -> Any:
        products.append(1)
        return multiply(*given)

    monkeypatch.setattr(_tensor, "_prepare", prepared)
    monkeypatch.setattr(MmaProgram, "run", multiplied)
    found = []
    for columns in (256, 512):
        case = family.make(m=512, n=columns, k=512)
        case.launch(check="all")
        loads.clear()
        products.clear()
        case.launch(check="all")
        found.append((len(loads), len(products)))
    (few, first), (many, all_products) = found
    assert many == few
    assert all_products - first <= 2 * 8
