"""Launches of all compiled kernels, kept with their inputs: those of Triton, of the record kit, of CuTe DSL and of nvcc."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from benchmarks.mutations.kernels import kernels as benchmark_kernels

from tests.hardware.kernels import every
from tests.hardware.suite._replay import launched

from .triton.cases import CASES
from .triton_sm90.cases import CASES as CASES_SM90


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
