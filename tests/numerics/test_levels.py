"""Code for each level of processors gives the bits of exact arithmetic."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.formats import encode
from tests.native.level_helpers import LEVELS, functions_of
from tests.sweep_helpers import first_of_each

from .machine_interface_helpers import by_machine_interface
from .wild_value_helpers import FORMS, SCALED, SPARSE, SPARSE_SYNC, SYNC, Case, Form, case, edges

MACHINE = [*FORMS, *SCALED, *SPARSE]
EVERY = [*MACHINE, *SYNC, *SPARSE_SYNC]


def is_wide(form: Form) -> bool:
    return form.a in ("bf16", "tf32") or form.b in ("bf16", "tf32")


def code(form: Form) -> tuple[object, ...]:
    """What tells the code of products apart."""
    step = form.step
    return step.group, step.window, step.floor, step.output, is_wide(form), bool(step.scales), form.sparse


NARROW = [form for form in MACHINE if form.kind in ("f8f6f4", "mxf8f6f4") and form.a == form.b and form.d == "f32" and not form.sparse]
SORTS = list({(code(form), form.k, form.scale, form.arch == "tcgen05"): form for form in reversed(EVERY)}.values())
SORTS += [form for form in NARROW if form not in SORTS]


@cache
def exact(form: Form) -> list[tuple[Case, NDArray[Any]]]:
    rng = np.random.default_rng(EVERY.index(form))
    given = [*(case(rng, form) for _ in range(5)), case(rng, form, 35, 3), *edges(rng, form)]
    return [(one, one.run(numerics.reference.mma)) for one in given]


@pytest.mark.parametrize(
    ("level", "form"),
    first_of_each([(level, form) for level in LEVELS for form in SORTS], lambda pair: (pair[0], code(pair[1]))),
    ids=str,
)
def test_every_sort_of_product(level: str, form: Form) -> None:
    """From codes, and on prepared operands by the fast and by the general path."""
    with functions_of(level):
        for one, wanted in exact(form):
            one.check(one.run(), wanted)
            if form in MACHINE:
                one.check(by_machine_interface(one, general=False), wanted)
                one.check(by_machine_interface(one, general=True), wanted)


@pytest.mark.parametrize("level", LEVELS)
def test_integers(level: str) -> None:
    rng = np.random.default_rng(3)
    A, B = (rng.integers(0, 256, shape, np.uint8) for shape in ((35, 32), (5, 32)))
    A[0], B[0] = 0x80, 0xFF
    C = rng.choice(np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32), (35, 5))
    with functions_of(level):
        for a, b in (("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")):
            for saturate in (False, True):
                given = {"arch": "tcgen05", "kind": "i8", "a": a, "b": b, "d": "s32", "A": A, "B": B, "C": C, "saturate": saturate}
                assert np.array_equal(numerics.mma(**given), numerics.reference.mma(**given))


@pytest.mark.parametrize("level", LEVELS)
def test_sums_of_more_than_32_bits(level: str) -> None:
    """Sixteen products that are almost four units of the largest exponent, and C of the same sign."""
    rng = np.random.default_rng(11)
    A, B = (np.full((rows, 16), 0x3FFF, np.uint16) for rows in (5, 64))
    A[:, 0] -= rng.integers(0, 512, 5, np.uint16)
    A[::2] |= 0x8000
    B[1] ^= 0x8000
    C = rng.uniform(-4, 4, (5, 64)).astype(np.float32)
    given = {"arch": "tcgen05", "kind": "f16", "a": "f16", "b": "f16", "d": "f32", "A": A, "B": B, "C": C}
    exact = numerics.reference.mma(**given)
    assert (np.abs(exact.view(np.float32)) >= 64).any()
    with functions_of(level):
        assert np.array_equal(numerics.mma(**given), exact)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_infinite_accumulators_beside_finite_products(fmt: str, level: str) -> None:
    """B has as many rows as a block of cells: no row is padding, whose cells have no products."""
    rng = np.random.default_rng(12)
    A, B = (encode(rng.uniform(1, 2, (rows, 16)) * rng.choice([-1, 1], (rows, 16)), fmt) for rows in (6, 64))
    C = rng.standard_normal((6, 64)).astype(np.float32)
    for place, value in enumerate((np.inf, -np.inf, np.nan, 3e38, -3e38)):
        C[place, 7 * place] = value
    given = {"arch": "tcgen05", "kind": "f16", "a": fmt, "b": fmt, "d": "f32", "A": A, "B": B, "C": C}
    exact = numerics.reference.mma(**given)
    with functions_of(level):
        assert np.array_equal(numerics.mma(**given), exact)


DOUBLES = [0.0, -0.0, 1.0, -1.5, 2.0**-1074, -(2.0**-1022), 2.0**-530, 2.0**512, -1.7e308, float("inf"), -float("inf"), float("nan")]


@cache
def doubles_of_the_host(mode: str) -> list[tuple[NDArray[np.float64], ...]]:
    """Operands and products of code for this processor, which `test_double` compares with fractions."""
    rng = np.random.default_rng(5)
    found = []
    for specials in (0.0, 0.2):
        shapes = (16, 8), (8, 8), (16, 8)
        A, B, C = (rng.standard_normal(shape) * 2.0 ** rng.choice([0, 0, -530, 500], shape) for shape in shapes)
        for each in (A, B, C):
            chosen = rng.random(each.shape) < specials
            each[chosen] = rng.choice(DOUBLES, int(chosen.sum()))
        found.append((A, B, C, numerics.mma_f64(A, B, C, mode)))
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_doubles(level: str) -> None:
    for mode in ("rn", "rz", "rm", "rp"):
        given = doubles_of_the_host(mode)
        with functions_of(level):
            for A, B, C, wanted in given:
                found = numerics.mma_f64(A, B, C, mode)
                assert np.array_equal(found.view(np.uint64), wanted.view(np.uint64))
