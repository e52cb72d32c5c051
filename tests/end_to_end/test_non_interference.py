"""Compiled kernels: a bit that the second run of the race check calls defined does not depend on one that is not.

Each kernel runs with other random bits in registers, shared memory and tensor memory that nothing has written, and in some bits of its
arguments. What differs at the end, in global, shared or tensor memory, must be called undefined. If undefined bits of the arguments
decide a branch, an address or an atomic, which is a finding and ends what can be compared, those arguments keep
their values.

All kernels: ``pytest tests/end_to_end/test_non_interference.py -m slow`` (about a quarter of an hour on one processor). Those that CuTe DSL
and nvcc compile are the kernels of the mutation benchmark: ``-k "cute_ or cuda_"``.
"""

from __future__ import annotations

import pytest

from tests.check.race.filling_helpers import differences, followed, interference, some_bits

from .replay_cases import COMPILED, KERNELS, compiled

FILLINGS = 3

SAMPLE = (
    *("cute_dense_f16", "cute_reduction", "cuda_load", "cuda_copy", "cuda_wgmma"),
    *("vector_add_fp32", "layer_norm_fp16", "softmax_fp32", "gl_packed_fp16", "mm_tile_64x64_fp16", "h200_cluster_layer_norm"),
    *("h200_carry_flags", "h200_log_softmax_fast", "h200_selective_scan", "h200_bit_operations", "h200_fourier", "h200_cluster_bulk"),
)


def check(name: str) -> None:
    replay = KERNELS[name]()
    for kinds in ("fiuV", "fV", ""):
        masks = some_bits(replay, 1, kinds)
        observer = followed(replay, masks)
        if observer.ended_by is None:
            break
    assert observer.ended_by is None, observer.ended_by
    found = interference(observer.final(), differences(replay, masks, FILLINGS))
    assert not found, found


@pytest.mark.parametrize("name", SAMPLE)
def test_some_kernels(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in SAMPLE])
def test_every_kernel(name: str) -> None:
    check(name)


def test_all_kernels_that_need_compilers_are_listed() -> None:
    found, missing = compiled()
    assert set(found) <= set(COMPILED)
    assert missing or set(found) == set(COMPILED)
