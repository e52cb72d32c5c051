"""Programs of mma run functions that are compiled without optimisation at first; the bits are those of the optimised ones."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ptxlab import native
from ptxlab.formats import FORMATS
from ptxlab.native import address_of
from ptxlab.numerics import AccumulatorRef, MmaKernel, OperandGather, ScaleGather, _mma_kernel
from ptxlab.numerics.ir import kernels
from ptxlab.numerics.ir.prepare import prepare_ir

CASES = [
    ("f16", ("f32", "f16", "f16"), 16, np.uint16),
    ("f16", ("f16", "f16", "f16"), 16, np.uint16),
    ("f16", ("f32", "bf16", "bf16"), 16, np.uint16),
    ("tf32", ("f32", "tf32", "tf32"), 8, np.uint32),
    ("f8f6f4", ("f32", "e4m3", "e5m2"), 32, np.uint8),
    ("i8", ("s32", "s8", "u8"), 32, np.uint8),
    ("mxf8f6f4", ("f32", "e4m3", "e5m2"), 32, np.uint8),
    ("mxf4", ("f32", "e2m1", "e2m1"), 64, np.uint8),
    ("mxf4nvf4", ("f32", "e2m1", "e2m1"), 64, np.uint8),
]
SCALES = {"mxf8f6f4": ("ue8m0", 32), "mxf4": ("ue8m0", 32), "mxf4nvf4": ("ue4m3", 16)}


@pytest.mark.parametrize("name", ["f16", "tf32", "e4m3"])
def test_a_step_of_a_transposition_has_a_block_of_its_own(name: str) -> None:
    """LLVM takes twice as long for shuffles of shuffles in one block."""
    blocks = re.split(r"^\w+:$", prepare_ir(FORMATS[name], wide=False), flags=re.MULTILINE)
    assert sum(block.count("shufflevector") == 16 for block in blocks) == 4
    assert max(block.count("shufflevector") for block in blocks) == 16


@pytest.fixture
def fresh_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    for one in (kernels.preparer, kernels._preparers, kernels._group_preparers, kernels.multiplier, kernels._multiplier):
        one.cache_clear()


def loaded(kernel: MmaKernel) -> list[int]:
    return [int(address) for address in kernel._functions]


@pytest.mark.usefixtures("fresh_kernels")
@pytest.mark.parametrize(("kind", "types", "k", "dtype"), CASES, ids=lambda case: case[0] if isinstance(case, str) else None)
def test_functions_are_optimised_after_many_runs_and_give_the_same_bits(
    kind: str, types: tuple[str, str, str], k: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mma_kernel, "QUICK_RUNS", 3)
    rng = np.random.default_rng(7)
    most = 1 << 8 * np.dtype(dtype).itemsize
    a, b = (rng.integers(0, most, (rows, k), dtype) for rows in (64, 8))
    scale = SCALES.get(kind)
    kernel = MmaKernel(kind, types, 64, 8, k, (False, False), False, False, scale)
    row = a.itemsize * k
    left, right = (OperandGather(base, 0, np.arange(x.nbytes // 16), 16, row, x.itemsize) for base, x in ((1, a), (2, b)))
    factors = [rng.integers(40, 100, (len(x), k // scale[1] if scale else 0), np.uint8) for x in (a, b)]
    if scale:
        left, right = (
            operand._replace(scales=ScaleGather(base, np.arange(x.size).reshape(x.shape)))
            for operand, base, x in zip((left, right), (4, 5), factors, strict=True)
        )
    cells = np.zeros((8, 64), np.uint32)
    program = kernel.program([(left, right, AccumulatorRef(3, 0, 256))])
    bases = np.array([0, *map(address_of, (a, b, cells, *factors))])
    first, found = loaded(kernel), []
    for _ in range(4):
        cells[:] = 0
        program.run(address_of(bases), False, 0)
        found.append(cells.copy())
    assert all(first)
    assert not set(first) & set(loaded(kernel))
    assert kernel.quick_runs == 0
    assert found[0].any()
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.usefixtures("fresh_kernels")
def test_optimised_functions_of_the_cache_are_taken_at_once() -> None:
    if native.cache_directory() is None:
        pytest.skip("there is no cache")
    kind, types, k, _ = CASES[0]
    kernel = MmaKernel(kind, types, 64, 8, k, (False, False), False, False)
    kernels.multiplier(kernel._step, kernel.wide)
    kept = set(native.OBJECTS.directory().rglob("*.o"))  # type: ignore[union-attr]
    for one in (kernels.multiplier, kernels._multiplier):
        one.cache_clear()
    kernel._place("multiply")
    assert set(native.OBJECTS.directory().rglob("*.o")) == kept  # type: ignore[union-attr]
