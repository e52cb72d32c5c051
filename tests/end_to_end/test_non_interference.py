"""Compiled kernels: a bit that the second run of the race check calls defined does not depend on one that is not.

Each kernel runs with other random bits in registers, shared memory and tensor memory that nothing has written, and in some bits of its
arguments. What differs at the end, in global, shared or tensor memory, must be called undefined. If undefined bits of the arguments
decide a branch, an address or an atomic, which is a finding and ends what can be compared, those arguments keep
their values.

All kernels: ``pytest tests/end_to_end/test_non_interference.py -m slow`` (about a quarter of an hour on one processor). Those that CuTe DSL
and nvcc compile are the kernels of the mutation benchmark: ``-k "cute_ or cuda_"``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from benchmarks.mutations.kernels import kernels as benchmark_kernels

from tests.check.race.filling_helpers import differences, followed, interference, some_bits
from tests.hardware.kernels import every
from tests.hardware.suite._replay import launched

from .triton.cases import CASES
from .triton_sm90.cases import CASES as CASES_SM90

FILLINGS = 3


def of_triton(family: Any) -> Any:
    result, _ = family(next(iter(family.sizes))).launch(check="none", keep_inputs=True)
    return result.replay


def of_suite(kernel: Any) -> Any:
    result, _ = launched(kernel, check="none", keep_inputs=True)
    return result.replay


def of_compiler(name: str) -> Any:
    """The smallest launch of a kernel that a compiler writes."""
    found, missing = compiled()
    if name not in found:
        pytest.skip("; ".join(missing.values()))
    launch = next(iter(found[name]().launches.values()))
    result, _ = launch.launch(check="none", keep_inputs=True)
    return result.replay


@cache
def compiled() -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The kernels of the mutation benchmark whose compilers are there, and what is missing."""
    found, missing = benchmark_kernels()
    return {name: make for name, make in found.items() if name.startswith(("cute_", "cuda_"))}, missing


KERNELS: dict[str, Callable[[], Any]] = {name: partial(of_triton, family) for name, family in (CASES | CASES_SM90).items()}
KERNELS |= {f"h200_{kernel.name}": partial(of_suite, kernel) for kernel in every()}
COMPILED = (
    *("cute_dense_f16", "cute_dense_bf16_pairs", "cute_dense_s8", "cute_dense_64_rows", "cute_scaled_mxf8", "cute_scaled_nvf4"),
    *("cute_persistent", "cute_persistent_pairs", "cute_hopper_f16", "cute_hopper_mn", "cute_attention", "cute_attention_causal"),
    *("cute_reduction", "cuda_mma_f16", "cuda_mma_tf32_pair", "cuda_mma_s8_ws", "cuda_mma_sparse_pair", "cuda_mma_scaled"),
    *("cuda_mma_scaled_pair", "cuda_copy", "cuda_copy_pair", "cuda_shift", "cuda_load", "cuda_store"),
    *("cuda_wgmma", "cuda_wgmma_registers"),
)
KERNELS |= {name: partial(of_compiler, name) for name in COMPILED}

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
