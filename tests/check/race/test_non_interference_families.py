"""Random programs of every instruction family: a bit that is called defined never depends on one that is not.

More programs: ``pytest tests/check/race/test_non_interference_families.py -m slow``.
"""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.replay.replay import Replay
from tests.isa.form_helpers import cases
from tests.sweep_helpers import one_in

from .filling_helpers import Bytes, differences, followed, interference
from .random_programs import BYTES, FAMILIES, Writer

FILLINGS = 24
PROGRAMS, MORE = 1, 24
INPUT_BYTES = 64 * BYTES
"""What the bulk copies read and write behind the bytes of the threads."""


def given(seed: int) -> Bytes:
    """What the threads load: words on which things go wrong, numbers, and random bits."""
    types = ("u64", "f64", "f32x2", "u32", "f32", "f16x2", "bf16x2", "f16", "bf16", "u16", "u8x4")
    words = [cases(each, 2 * INPUT_BYTES // (8 * len(types)), seed).view(np.uint8) for each in types]
    every = np.concatenate([each[: each.size // 8 * 8] for each in words]).reshape(-1, 8)
    chosen = np.random.default_rng(seed).integers(0, len(every), 2 * INPUT_BYTES // 8)
    return np.ascontiguousarray(every[chosen]).reshape(-1)


def masks(seed: int) -> Bytes:
    """Undefined bits of what they load: of some words one bit, a byte, a half, or all."""
    rng = np.random.default_rng([seed, 1])
    count = 2 * INPUT_BYTES // 8
    one = np.uint64(1) << rng.integers(0, 64, count).astype(np.uint64)
    byte = np.uint64(0xFF) << (8 * rng.integers(0, 8, count)).astype(np.uint64)
    half = np.uint64(0xFFFFFFFF) << (32 * rng.integers(0, 2, count)).astype(np.uint64)
    none = np.zeros(count, np.uint64)
    found: Bytes = np.choose(rng.integers(0, 8, count), [none, none, none, none, one, byte, half, ~none]).view(np.uint8)
    return found


def replay_of(name: str, seed: int) -> tuple[Replay, dict[int, Bytes]]:
    """A launch of a random program, and the undefined bits of its argument."""
    family = FAMILIES[name]
    ctas = 2 if family.cluster else 1
    arguments = [np.zeros(2 * INPUT_BYTES, np.uint8), given(seed)]
    kernel = ptxlab.loads(Writer(family, seed).text()).kernel()
    result = kernel.launch(grid=ctas, block=32, args=arguments, check="none", keep_inputs=True)
    assert result.completed, result.diagnostics
    assert result.replay is not None
    return result.replay, {result.replay.placed("given").address: masks(seed)}


def check(name: str, seed: int) -> None:
    replay, undefined = replay_of(name, seed)
    observer = followed(replay, undefined)
    assert observer.ended_by is None, observer.ended_by
    found = interference(observer.final(), differences(replay, undefined, FILLINGS))
    assert not found, found


@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.parametrize("family", one_in(3, FAMILIES))
def test_a_defined_bit_never_differs(family: str, seed: int) -> None:
    check(family, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PROGRAMS, MORE))
@pytest.mark.parametrize("family", FAMILIES)
def test_more_programs(family: str, seed: int) -> None:
    check(family, seed)


def test_stores_of_several_loads_from_tensor_memory() -> None:
    """A program that moves what one load has brought to registers that are noted for the store of another one; it ended in a `KeyError`."""
    check("tensor_copies", 11)
