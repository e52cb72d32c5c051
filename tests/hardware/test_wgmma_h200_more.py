"""wgmma with every N, sparse A, A from registers, satfinite: recorded on an H200, every output bit for bit."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics

from . import wgmma_cases as cases

INSTRUCTIONS = cases.instructions()
TYPES = list(dict.fromkeys((i.d, i.a, i.b) for i in INSTRUCTIONS))


@cache
def record() -> dict[str, NDArray[Any]]:
    with np.load(Path(__file__).with_name("wgmma_h200_more.npz")) as data:
        return dict(data)


def run(i: cases.Instruction, case: cases.Case, mma: Any = numerics.mma, rows: Any = slice(None)) -> NDArray[Any]:
    metadata = None if case.metadata is None else case.metadata[rows]
    found: NDArray[Any] = mma(
        arch="wgmma", kind=None, a=i.a, b=i.b, d=i.d, A=case.A[rows], B=case.B, C=case.C[rows], saturate=i.satfinite, metadata=metadata
    )
    return found


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_recorded(types: tuple[str, str, str]) -> None:
    data = record()
    for i in INSTRUCTIONS:
        if (i.d, i.a, i.b) != types:
            continue
        for number in range(i.cases):
            D = run(i, cases.Case.of(i, number, data))
            kept = data[f"{i}/rows"][number]
            assert np.array_equal(D if i.whole else D[cases.KEPT], kept), i
            assert hashlib.sha256(D.tobytes()).digest() == data[f"{i}/sha256"][number].tobytes(), i


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_reference(types: tuple[str, str, str], sparse: bool) -> None:
    data, i = record(), cases.Instruction(*types, 8, False, sparse)
    for number in range(i.cases):
        D = run(i, cases.Case.of(i, number, data), numerics.reference.mma, slice(24))
        assert np.array_equal(D, data[f"{i}/rows"][number][:24])


def test_the_recording_has_every_shape() -> None:
    for types in TYPES:
        sizes = cases.INTEGER_N if types[0] == "s32" else range(8, 257, 8)
        for sparse in (False, True):
            assert {i.n for i in INSTRUCTIONS if (i.d, i.a, i.b) == types and i.sparse == sparse and not i.registers} == set(sizes)
            assert any(i.registers and i.sparse == sparse for i in INSTRUCTIONS if (i.d, i.a, i.b) == types)


def test_special_values_in_elements_that_are_not_selected() -> None:
    """The recording has infinities and NaN in B that sparse rows of A do not meet; multiplying them by zeros gives other results."""
    data, i = record(), cases.Instruction("f32", "f16", "f16", 8, False, True)
    differ = 0
    for number in range(i.cases):
        case = cases.Case.of(i, number, data)
        codes, _ = numerics.expand_sparse(case.A, case.metadata, "f16", False)
        types: dict[str, Any] = {"arch": "wgmma", "kind": None, "a": "f16", "b": "f16", "d": "f32"}
        cells = case.C
        # The first sixteen of K, then the rest: where nothing is special, C alone decides the few other differences.
        for half in (slice(16), slice(16, 32)):
            cells = numerics.mma(**types, A=np.ascontiguousarray(codes[:, half]), B=case.B[:, half], C=cells)
        differ += int(((cells == 0x7FFFFFFF) & (data[f"{i}/rows"][number] != 0x7FFFFFFF)).sum())
    assert differ > 0
