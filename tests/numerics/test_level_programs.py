"""Programs of mma, as compiled kernels run them, in code for each level of processors: with and without optimisation, the exact bits."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.formats import Packing, pack
from ptxlab.native import address_of
from ptxlab.numerics import AccumulatorRef, MetadataGather, MmaKernel, OperandGather, ScaleGather
from tests.native.level_helpers import LEVELS, functions_of

from .wild_value_helpers import Case, Form, case

M, N = 64, 5
UE8M0, UE4M3 = ("ue8m0", 32), ("ue4m3", 16)
CASES: dict[str, tuple[Form, Packing | None, Packing | None]] = {
    "f16": (Form("tcgen05", "f16", "f16", "f16", "f32"), None, None),
    "f16 into f16": (Form("tcgen05", "f16", "f16", "f16", "f16"), None, None),
    "bf16": (Form("tcgen05", "f16", "bf16", "bf16", "f32"), None, None),
    "sparse tf32": (Form("tcgen05", "tf32", "tf32", "tf32", "f32", sparse=True), None, None),
    "e4m3": (Form("wgmma", None, "e4m3", "e5m2", "f32"), None, None),
    "padded codes": (Form("tcgen05", "f8f6f4", "e3m2", "e2m1", "f32"), "padded", "padded"),
    "codes in bytes, sparse": (Form("tcgen05", "f8f6f4", "e2m3", "e2m1", "f16", sparse=True), "bytes", "bytes"),
    "mxf8": (Form("tcgen05", "mxf8f6f4", "e4m3", "e2m1", "f32", 32, UE8M0), None, "padded"),
    "sparse mxf8": (Form("tcgen05", "mxf8f6f4", "e2m1", "e5m2", "f32", 32, UE8M0, sparse=True), "padded", None),
    "mxf4": (Form("tcgen05", "mxf4", "e2m1", "e2m1", "f32", 64, UE8M0), "dense", "dense"),
    "nvf4": (Form("tcgen05", "mxf4nvf4", "e2m1", "e2m1", "f32", 96, UE4M3), "dense", "dense"),
    "sparse nvf4": (Form("tcgen05", "mxf4nvf4", "e2m1", "e2m1", "f32", 64, UE4M3, sparse=True), "dense", "dense"),
}


@cache
def exact(name: str) -> list[tuple[Case, NDArray[Any]]]:
    form, *_ = CASES[name]
    rng = np.random.default_rng(len(name))
    found = []
    while len(found) < 3:
        one = case(rng, form, M, N)
        if one.C is not None and not {"negate_a", "scale_input_d"} & one.options.keys():
            found.append((one, one.run(numerics.reference.mma)))
    return found


def gathered(rng: np.random.Generator, codes: NDArray[Any], fmt: str, base: int, packing: Packing | None) -> tuple[Any, OperandGather]:
    """Memory that holds codes in pieces of 16 bytes in any order, and where they are."""
    pieces = (np.ascontiguousarray(codes).view(np.uint8) if packing is None else pack(codes, fmt, packing)).reshape(-1, 16)
    order = rng.permutation(len(pieces))
    memory = np.empty_like(pieces)
    memory[order] = pieces
    strides = codes.strides if packing is None else (codes.shape[1], 1)
    return memory, OperandGather(base, 0, order, 16, *strides, packing=packing)


def places(array: NDArray[np.uint8], base: int) -> ScaleGather:
    return ScaleGather(base, np.arange(array.size).reshape(array.shape))


def run(one: Case, packings: tuple[Packing | None, Packing | None], optimised: bool) -> NDArray[Any]:
    """What a program computes."""
    form, options, rng = one.form, one.options, np.random.default_rng(1)
    k = form.k * (1 + form.sparse)
    kernel = MmaKernel(form.kind, (form.d, form.a, form.b), M, N, k, (False, False), False, form.sparse, form.scale)
    assert kernel.quick_runs > 1
    if optimised:
        kernel.quick_runs = 0
    (a, left), (b, right) = (gathered(rng, *each) for each in ((one.A, form.a, 1, packings[0]), (one.B, form.b, 2, packings[1])))
    memory = [a, b, np.ascontiguousarray(cast(NDArray[Any], one.C).T.astype(np.uint32))]
    for role in "ab":
        memory.append(np.ascontiguousarray(options.get(f"scale_{role}", np.zeros((1, 1), np.uint8))))
    if form.scale:
        left, right = left._replace(scales=places(memory[3], 4)), right._replace(scales=places(memory[4], 5))
    if form.sparse:
        shifts = rng.choice(np.array([0, 4], np.uint8), (form.chunks, M))
        memory.append(options["metadata"].T << shifts)
        left = left._replace(metadata=MetadataGather(6, np.arange(shifts.size).reshape(shifts.shape), shifts))
    program = kernel.program([(left, right, AccumulatorRef(3, 0, 4 * M))])
    bases = np.array([0, *map(address_of, memory)])
    program.run(address_of(bases), True, 0)
    return memory[2].T


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("level", LEVELS)
def test_programs(level: str, name: str) -> None:
    _, *packings = CASES[name]
    with functions_of(level):
        for one, wanted in exact(name):
            for optimised in (False, True):
                one.check(run(one, (packings[0], packings[1]), optimised), wanted)
