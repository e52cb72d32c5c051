"""The kernels of the mutation benchmark and their inputs."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.mutations import kernels as sources
from benchmarks.mutations.inputs import KEPT, arrays_of

import ptxlab
from ptxlab.interop import nvcc
from tests.benchmarks.mutation_helpers import RACE


def test_kernels_whose_compiler_is_absent_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise nvcc.NvccError(ptxlab.Diagnostic(code="I201", message="nvcc was not found", severity="error"))

    monkeypatch.setattr(nvcc, "find_nvcc", absent)
    found, skipped = sources.kernels()
    assert skipped["CUDA C++"] == "nvcc was not found"
    assert "gl_mm_fp16" in found
    assert not [name for name in found if name.startswith("cuda_")]


@pytest.mark.compiler
def test_kernels_of_every_source() -> None:
    found, skipped = sources.kernels()
    assert {"Triton and Gluon", "CuTe DSL", "CUDA C++"} >= set(skipped)
    for name, source in (
        ("gl_mm_i8", "Triton and Gluon"),
        ("sm90_softmax_fp32", "Triton and Gluon"),
        ("cute_hopper_mn", "CuTe DSL"),
        ("cuda_copy", "CUDA C++"),
    ):
        if source not in skipped:
            made = found[name]()
            assert all(launch.launch(check=RACE)[0].ok for launch in made.launches.values())


@pytest.mark.compiler
@pytest.mark.parametrize("source", ["Triton and Gluon", "CuTe DSL", "CUDA C++"])
def test_arrays_hold_many_values(source: str) -> None:
    """Unordered writes of the same bits change nothing: inputs and the memory of results are random."""
    try:
        makers = ({"Triton and Gluon": sources._from_files} | sources._COMPILED)[source]()
    except ptxlab.PtxlabError as error:
        pytest.skip(error.diagnostic.message)
    found, _ = sources.kernels()
    kept = set()
    for name in makers:
        for launch in found[name]().launches.values():
            for number, array in arrays_of(launch).items():
                if (name, number) in KEPT:
                    kept.add((name, number))
                    continue
                values = np.unique(np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}"))
                assert len(values) >= min(64, (array.size + 1) // 2), (name, number)
    assert kept == {key for key in KEPT if key[0] in makers}


@pytest.mark.sweep
def test_inputs_are_the_same_each_time() -> None:
    makers, _ = sources.kernels()
    for name in ("mm_split_k_fp16", "gl_mm_fp16"):
        one, other = ([arrays_of(launch) for launch in makers[name]().launches.values()] for _ in range(2))
        for arrays, again in zip(one, other, strict=True):
            assert all(arrays[number].tobytes() == again[number].tobytes() for number in arrays)


def test_sums_of_a_split_product_are_exact() -> None:
    """In whatever order programs add their parts, the bits of the result are the same."""
    case = sources.kernels()[0]["mm_split_k_fp16"]().launches["128x64x512"]
    a, b, c = (arrays_of(case)[number].astype(np.float64) for number in range(3))
    _, found = case.launch(check="none", policy="random", seed=5)
    assert np.array_equal(found["c"], c + a @ b.T)
