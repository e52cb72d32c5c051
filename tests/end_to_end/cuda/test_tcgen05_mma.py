"""Every form of tcgen05.mma in a kernel of CUDA C++, compiled here: ``tcgen05_mma.cu``; the products are computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc
from tests.end_to_end.cuda.mma_helpers import USES, Problem, forms
from tests.end_to_end.schedule_helpers import IN_TURN, Schedules
from tests.sweep_helpers import part

SOURCE = Path(__file__).with_name("tcgen05_mma.cu")


@cache
def module(arch: str) -> ptxlab.Module:
    return nvcc.compile(SOURCE, arch=arch, fmad=False)


TYPES = {
    "f16": [("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f16")],
    "tf32": [("tf32", "tf32", "f32")],
    "i8": [("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "u8", "s32")],
    "f8f6f4": [("e4m3", "e5m2", "f32"), ("e5m2", "e2m1", "f16"), ("e2m3", "e3m2", "f32"), ("e3m2", "e2m3", "f32"), ("e2m1", "e4m3", "f16")],
    "mxf4": [("e2m1", "e2m1", "f32")],
    "mxf4nvf4": [("e2m1", "e2m1", "f32")],
}
TYPES["mxf8f6f4"] = [(a, b, "f32") for a, b, _ in TYPES["f8f6f4"]]
KINDS = ("f16", "tf32", "f8f6f4", "i8")
VECTORS = {
    "mxf8f6f4": ("", "scale_vec::1X", "block32"),
    "mxf4": ("", "scale_vec::2X", "block32"),
    "mxf4nvf4": ("scale_vec::2X", "block32", "scale_vec::4X", "block16"),
}


def solve(problem: Problem, schedules: Sequence[dict[str, Any]] = IN_TURN[:1]) -> None:
    """Run it: all of tensor memory is as it should be, and nothing is found."""
    problem.build()
    before = problem.tensor_before()
    args, shared = problem.arguments(before)
    after = problem.tensor_after(before)
    kernel = module("sm_103a" if problem.k96 else "sm_100a")["pair" if problem.group == 2 else "one"]
    size: dict[str, Any] = {"grid": problem.group, "block": 128, "cluster": problem.group, "shared_bytes": shared}
    for schedule in schedules:
        args[-1] = np.zeros_like(before)
        done = kernel.launch(**size, args=args, check="all", **schedule)
        assert not done.diagnostics, str(done.diagnostics[0])
        wrong = np.argwhere(args[-1] != after)
        assert not len(wrong), f"{len(wrong)} cells (CTA, lane, column), {wrong[:4].tolist()}"


def variants(kind: str, types: int | None = None, **options: object) -> Iterator[Problem]:
    """The types of a kind (or the first of them), A in both places, one CTA and two."""
    for i, (a, b, d) in enumerate(TYPES[kind][:types]):
        for tensor_a in (False, True):
            yield Problem(kind, (64, 128)[i % 2], 96, a, b, d, tensor_a=tensor_a, **options)  # type: ignore[arg-type]
            yield Problem(kind, (256, 128)[i % 2], 96, a, b, d, group=2, tensor_a=tensor_a, **options)  # type: ignore[arg-type]


def dense(kind: str) -> Iterator[Problem]:
    yield from variants(kind)


def disabled(kind: str) -> Iterator[Problem]:
    yield from variants(kind, 2, disabled=True)


def sparse(kind: str) -> Iterator[Problem]:
    yield from variants(kind, sparse=True)
    yield from variants(kind, 1, sparse=True, disabled=True)


def scaled_d(kind: str) -> Iterator[Problem]:
    for options in ({}, {"disabled": True}, {"sparse": True}, {"sparse": True, "disabled": True}):
        yield from (p for p in variants(kind, scale_d=True, steps=1, **options) if p.d == "f32")


def weight_stationary(kind: str) -> Iterator[Problem]:
    for i, (tensor_a, zero, sparse) in enumerate(product((False, True), repeat=3)):
        for j in range(2):
            a, b, d = TYPES[kind][(i + j) % len(TYPES[kind])]
            m = (32, 64, 128)[(i + 2 * j) % 3]
            n = (64, 128, 256)[(i + j) % (2 if sparse else 3)]
            yield Problem(kind, m, n, a, b, d, ws=True, sparse=sparse, tensor_a=tensor_a, zero_columns=zero)


def modified(kind: str) -> Iterator[Problem]:
    """Negated and transposed operands, saturation."""
    a, b, d = TYPES[kind][0]
    if kind == "i8":
        yield Problem(kind, 128, 64, a, b, d, saturate=True)
        yield Problem(kind, 256, 64, a, b, d, group=2, saturate=True, tensor_a=True)
    else:
        yield Problem(kind, 128, 64, a, b, d, negate_a=True)
        yield Problem(kind, 256, 64, a, b, d, group=2, negate_a=True, negate_b=True)
        yield Problem(kind, 64, 64, a, b, d, negate_b=True, tensor_a=True, sparse=True)
    for a, b, d in TYPES[kind]:
        if {a, b} <= {"f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2"}:
            yield Problem(kind, 128, 128, a, b, d, transpose_a=True)
            yield Problem(kind, 128, 128, a, b, d, transpose_b=True)
            yield Problem(kind, 256, 256, a, b, d, group=2, transpose_a=True, transpose_b=True)
            yield Problem(kind, 256, 256, a, b, d, group=2, transpose_b=True, tensor_a=True)


def operands(kind: str) -> Iterator[dict[str, bool]]:
    """With and without metadata, lanes that keep their value, and D scaled."""
    scales = (False, True) if kind in ("f16", "tf32") else (False,)
    for sparse, disabled, scale_d in product((False, True), (False, True), scales):
        yield {"sparse": sparse, "disabled": disabled, "scale_d": scale_d}


def shifted(kind: str) -> Iterator[Problem]:
    """Shifted A, once kept before."""
    alone, kept = (".ashift", ".ashift.collector::a::discard"), (".collector::a::fill", ".ashift.collector::a::lastuse")
    a, b, d = TYPES[kind][0]
    for group, options in product((1, 2), operands(kind)):
        more: dict[str, Any] = {"group": group, "tensor_a": True, "steps": 1, **options}
        yield Problem(kind, 128 * group, 64, a, b, d, collectors=alone * 2, **more)
        yield Problem(kind, 128 * group, 64, a, b, d, collectors=kept * 2, takes=(0, 0, 2, 2), **more)


def block_scaled(kind: str) -> Iterator[Problem]:
    for vector in VECTORS[kind]:
        for i, (sparse, tensor_a, group) in enumerate(product((False, True), (False, True), (1, 2))):
            a, b, d = TYPES[kind][i % len(TYPES[kind])]
            n = (96, 256, 160, 128)[i % 4]
            yield Problem(kind, 128 * group, n, a, b, d, group=group, sparse=sparse, tensor_a=tensor_a, vector=vector, negate_b=i == 3)
        yield from (Problem(kind, 128, 96 + 160 * t, a, b, d, group=2, tensor_a=bool(t), vector=vector) for t in range(2))


def k_of_96(kind: str) -> Iterator[Problem]:
    """A and B of 48 bytes: sm_103a alone."""
    for vector, tensor_a, group in product(set(VECTORS[kind]) & {"block16", "block32"}, (False, True), (1, 2)):
        yield Problem(kind, 128 * group, 96, "e2m1", "e2m1", group=group, tensor_a=tensor_a, vector=vector, k96=True)


class TilesOfN(Problem):
    """The four multiplications of a step take the same A, kept in the collector buffer, and B by quarters."""

    def descriptor(self, k: int) -> int:
        return super().descriptor(0) & ~(63 << 17) | self.n // 4 >> 3 << 17

    def multiplications(self, a: list[int], b: list[int]) -> list[list[int]]:
        quarter = self.n // 4
        found = super().multiplications(a, b)
        found[3], found[4] = [k * quarter // self.group * 128 for k in range(4)], [k * quarter for k in range(4)]
        return found

    def result(self) -> NDArray[np.float64]:
        product_ = self.full_a[:, 0] @ self.full_b[:, 0].T
        # each CTA has half of a quarter
        order = np.arange(self.n).reshape(self.group, 4, -1).transpose(1, 0, 2).ravel()
        return self.c + product_[:, order]


class TilesOfM(Problem):
    """The four multiplications of a step take the same B, kept in a collector buffer, and A by quarters of 32 rows."""

    def descriptor(self, k: int) -> int:
        return super().descriptor(k) & ~(31 << 24) | 32 >> 4 << 24

    def multiplications(self, a: list[int], b: list[int]) -> list[list[int]]:
        found = super().multiplications(a, b)
        found[2], found[4] = [k * 32 * 128 for k in range(4)], [k * self.n // 4 for k in range(4)]
        return found

    def place(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        m, n = np.meshgrid(np.arange(self.m), np.arange(self.n), indexing="ij")
        part = self.n // 4
        return 0 * m, m % 32 + 32 * (n // part), m // 32 * part + n % part

    def result(self) -> NDArray[np.float64]:
        return self.c + self.full_a[:, 0] @ self.full_b[:, 0].T


def kept(buffer: str) -> tuple[str, ...]:
    """A sequence of the four uses of a collector buffer."""
    return tuple(f".collector::{buffer}::{use}" for use in USES)


def collected(kind: str) -> Iterator[Problem]:
    """One matrix for several tiles of the other."""
    same: dict[str, Any] = {"takes": (0,) * 4, "steps": 1}
    for i, (group, sparse) in enumerate(product((1, 2), (False, True))):
        types = TYPES[kind][i % len(TYPES[kind])]
        yield TilesOfN(kind, 128 * group, 128, *types, group=group, sparse=sparse, collectors=kept("a"), **same)
    for buffer in range(4):
        yield TilesOfM(kind, 128, 64, *TYPES[kind][buffer % len(TYPES[kind])], ws=True, collectors=kept(f"b{buffer}"), **same)


def collected_a(kind: str) -> Iterator[Problem]:
    """A matrix for three parts of K, and another that takes its place."""
    for i, (group, tensor_a, options) in enumerate(product((1, 2), (False, True), operands(kind))):
        a, b, d = next(t for t in np.roll(TYPES[kind], i, axis=0).tolist() if t[2] != "f16" or not options["scale_d"])
        more: dict[str, Any] = {"tensor_a": tensor_a, "collectors": kept("a"), "takes": (0, 0, 0, 3), "steps": 1, **options}
        yield Problem(kind, (64, 128)[i % 2] * group, (96, 64, 160)[i % 3], a, b, d, group=group, **more)


def collected_b(kind: str) -> Iterator[Problem]:
    for i, (tensor_a, zero, sparse, buffer) in enumerate(product((False, True), (False, True), (False, True), range(4))):
        a, b, d = TYPES[kind][i % len(TYPES[kind])]
        more: dict[str, Any] = {"collectors": kept(f"b{buffer}"), "takes": (0, 0, 0, 3), "steps": 1}
        m, n = (32, 64, 128)[i % 3], (64, 128)[i // 2 % 2]
        yield Problem(kind, m, n, a, b, d, ws=True, sparse=sparse, tensor_a=tensor_a, zero_columns=zero, **more)


def collected_scaled(kind: str) -> Iterator[Problem]:
    """A with its scale factors."""
    for i, (vector, sparse, tensor_a, group) in enumerate(product(VECTORS[kind], (False, True), (False, True), (1, 2))):
        a, b, d = TYPES[kind][i % len(TYPES[kind])]
        more: dict[str, Any] = {"collectors": kept("a"), "takes": (0, 0, 0, 3), "steps": 1}
        m = 128 * group if sparse or i // 2 % 2 else 128
        yield Problem(kind, m, (96, 64, 128)[i % 3], a, b, d, group=group, sparse=sparse, tensor_a=tensor_a, vector=vector, **more)


FAMILIES = [(family, kind) for family in (dense, disabled, sparse, weight_stationary, modified) for kind in KINDS]
FAMILIES += [(family, kind) for family in (shifted, collected_a, collected_b) for kind in KINDS]
FAMILIES += [(collected_scaled, kind) for kind in VECTORS]
FAMILIES += [(scaled_d, kind) for kind in ("f16", "tf32")] + [(block_scaled, kind) for kind in VECTORS]
FAMILIES += [(k_of_96, kind) for kind in ("mxf4", "mxf4nvf4")]


def of_part(family: Callable[[str], Iterator[Problem]], kind: str) -> bool:
    """Half of the families of each kind, and half of the kinds of each family that has four."""
    families = list(dict.fromkeys(family for family, _ in FAMILIES))
    kinds = list(dict.fromkeys(kind for _, kind in FAMILIES))
    return (families.index(family) + kinds.index(kind)) % 2 == 0


@pytest.mark.parametrize(("family", "kind"), part(FAMILIES, of_part), ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_family(family: Callable[[str], Iterator[Problem]], kind: str, schedules: Schedules) -> None:
    for i, problem in enumerate(family(kind)):
        solve(problem, schedules(i))


@pytest.mark.parametrize("kind", KINDS)
def test_collector_buffers(kind: str, schedules: Schedules) -> None:
    for problem in collected(kind):
        solve(problem, schedules(0, 3))


def test_every_form_is_tested() -> None:
    problems = [problem for family, kind in FAMILIES for problem in family(kind)]
    problems += [problem for kind in KINDS for problem in collected(kind)]
    assert {line for problem in problems for line in problem.multiplications([0] * 4, [0] * 4)[0]} == set(forms().values())
