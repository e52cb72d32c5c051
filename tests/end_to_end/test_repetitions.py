"""Compiled kernels whose executions compiled code repeats: memory, statistics and findings are those of handlers that are always called.

All kernels with tcgen05.mma or wgmma: ``pytest tests/end_to_end/test_repetitions.py -m slow``.
"""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.engine.repetitions import Repetitions
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise

from .replay_cases import KERNELS
from .test_workers import outcome

SAMPLE = (
    *("mm_ptr_fp16", "mm_host_desc_fp16_cta2", "mm_tile_cta4_fp16", "mm_persistent_ws_fp16", "mm_split_k_fp16"),
    *("gl_mm_a_in_tmem_fp16", "gl_mm_2cta_fp16", "gl_mm_multicast_bf16", "gl_mm_fp16_m64", "gl_mm_i8"),
    *("flash_fp16", "flash_ws_fp16"),
    *(
        "sm90_mm_ptr_fp16",
        "sm90_mm_ws_fp16",
        "sm90_mm_bt_int8",
        "sm90_mm_tile_64x128_e5m2",
        "sm90_flash_fp16",
        "sm90_flash_ws_fp16",
        "cuda_wgmma_registers",
    ),
)


def compare(name: str, monkeypatch: pytest.MonkeyPatch, check: str = "none") -> int:
    """Compare launches; returns how many executions were known at the end."""
    replay = KERNELS[name]()
    optimise(monkeypatch)
    known: list[Any] = []
    add = Repetitions.add
    monkeypatch.setattr(Repetitions, "add", lambda self, *given: (known.append(given), add(self, *given)))
    found = [outcome(replay, check=check, workers=workers)[1] for workers in (1, 1, 2)]
    monkeypatch.setattr(context_words, "_table_of_repetitions", lambda launch: 0)
    found.append(outcome(replay, check=check)[1])
    assert all(each == found[0] for each in found)
    return len(known)


@pytest.mark.parametrize("name", SAMPLE)
def test_some_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(name, monkeypatch)


@pytest.mark.parametrize("name", SAMPLE)
def test_some_kernels_with_checks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(name, monkeypatch, "all")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in SAMPLE])
def test_every_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(name, monkeypatch)
    monkeypatch.undo()
    compare(name, monkeypatch, "all")
