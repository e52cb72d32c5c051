"""Approximate instructions lie within the error bounds of the ISA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ..form_helpers import cases, form, with_numpy

Reals = NDArray[np.float64]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
COUNT = 20_000


def arguments(seed: int = 0, low: float = -1.0, high: float = 1.0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(low, high, COUNT).astype(np.float32)


def result(opcode: str, *values: NDArray[np.float32]) -> Reals:
    (got,) = with_numpy(form(opcode, len(values)), [v.view(np.uint32) for v in values])
    return got.view(np.float32).astype(np.float64)


POSITIVE = np.exp2(arguments(1, -120, 120)).astype(np.float32)
FAR_FROM_ONE = POSITIVE[(POSITIVE <= 0.5) | (POSITIVE >= 2)]
CASES: list[tuple[str, NDArray[np.float32], Callable[[Reals], Reals], float, float]] = [
    ("ex2.approx.f32", arguments(2, -126, 127), np.exp2, 2**-22.5, 0.0),
    ("ex2.approx.ftz.f32", arguments(3, -1, 1), np.exp2, 2**-22.5, 0.0),
    ("lg2.approx.f32", FAR_FROM_ONE, np.log2, 2**-22.0, 0.0),
    ("lg2.approx.f32", arguments(4, 0.5, 2.0), np.log2, 0.0, 2**-22.0),
    ("sin.approx.f32", arguments(5, -6.28, 6.28), np.sin, 0.0, 2**-20.5),
    ("cos.approx.f32", arguments(6, -6.28, 6.28), np.cos, 0.0, 2**-20.4),
    ("sin.approx.f32", arguments(7, -314, 314), np.sin, 0.0, 2**-14.7),
    ("tanh.approx.f32", arguments(8, -10, 10), np.tanh, 2**-11.0, 0.0),
    ("tanh.approx.f32", arguments(9, -1e-3, 1e-3), np.tanh, 2**-11.0, 0.0),
    ("rcp.approx.f32", POSITIVE, lambda a: 1 / a, 2**-23.0, 0.0),
    ("sqrt.approx.f32", POSITIVE, np.sqrt, 2**-23.0, 0.0),
    ("rsqrt.approx.ftz.f32", POSITIVE, lambda a: 1 / np.sqrt(a), 2**-22.9, 0.0),
]


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_bounds(case: tuple[str, NDArray[np.float32], Callable[[Reals], Reals], float, float]) -> None:
    opcode, values, exact, relative, absolute = case
    want = exact(values.astype(np.float64))
    assert (np.abs(result(opcode, values) - want) <= relative * np.abs(want) + absolute).all()


@pytest.mark.parametrize("opcode", ["div.full.f32", "div.approx.f32", "div.approx.ftz.f32"])
def test_quotients(opcode: str) -> None:
    a, b = arguments(10, -100, 100), POSITIVE[::-1].copy()
    want = a.astype(np.float64) / b.astype(np.float64)
    normal = (np.abs(want) > 2.0**-125) & (np.abs(want) < 2.0**127)
    got = result(opcode, a, b)
    assert (np.abs(got - want) <= 2 * 2.0**-23 * np.abs(want))[normal].all()


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("opcode", "operands", "want"),
    [
        ("ex2.approx.f32", (-INF,), 0.0),
        ("ex2.approx.f32", (INF,), INF),
        ("ex2.approx.f32", (0.0,), 1.0),
        ("ex2.approx.f32", (-149.0,), 2.0**-149),
        ("ex2.approx.ftz.f32", (-149.0,), 0.0),
        ("ex2.approx.f32", (10.0,), 1024.0),
        ("lg2.approx.f32", (0.0,), -INF),
        ("lg2.approx.f32", (-1.0,), NAN),
        ("lg2.approx.f32", (INF,), INF),
        ("lg2.approx.f32", (8.0,), 3.0),
        ("lg2.approx.f32", (2.0**-149,), -149.0),
        ("lg2.approx.ftz.f32", (2.0**-149,), -INF),
        ("sin.approx.f32", (INF,), NAN),
        ("cos.approx.f32", (0.0,), 1.0),
        ("tanh.approx.f32", (INF,), 1.0),
        ("rcp.approx.f32", (-0.0,), -INF),
        ("rsqrt.approx.f32", (-1.0,), NAN),
        ("rsqrt.approx.f32", (0.0,), INF),
        ("div.approx.f32", (INF, 2.0**127), NAN),
        ("div.approx.f32", (1.0, 2.0**127), 0.0),
        ("div.full.f32", (2.0**127, 2.0**127), 1.0),
    ],
)
def test_special_values(opcode: str, operands: tuple[float, ...], want: float) -> None:
    got = result(opcode, *(np.array([v], np.float32) for v in operands))[0]
    assert np.array_equal(got, want, equal_nan=True)
    assert np.signbit(got) == np.signbit(want) or np.isnan(want)


@pytest.mark.parametrize(("kind", "bound"), [("f16", 2**-9.9), ("bf16", 2**-7.0)])
def test_halves(kind: str, bound: float) -> None:
    words = np.arange(65536, dtype=np.uint32).astype(np.uint16)

    def real(w: NDArray[np.uint16]) -> Reals:
        narrow = w.view(np.float16) if kind == "f16" else (w.astype(np.uint32) << 16).view(np.float32)
        return narrow.astype(np.float64)

    values = real(words)
    some = np.isfinite(values) & (np.abs(values) < 10)
    ex2 = "ex2.approx.f16" if kind == "f16" else "ex2.approx.ftz.bf16"
    got = real(with_numpy(form(ex2, 1), [words])[0])
    assert (np.abs(got - np.exp2(values)) <= bound * np.exp2(values))[some].all()
    got = real(with_numpy(form(f"tanh.approx.{kind}", 1), [words])[0])
    # For two numbers of bf16, tanh of an H200 is 0.0039065 off, a little more than the bound.
    assert (np.abs(got - np.tanh(values)) <= (2**-10.987 if kind == "f16" else 1.0001 * 2**-8.0))[some].all()


@pytest.mark.parametrize("opcode", ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"])
def test_gross_f64(opcode: str) -> None:
    """The low word of the result is zero; 20 bits of it are right."""
    words = cases("f64", 4000, 0)
    words = words[np.isfinite(words.view(np.float64)) & (words.view(np.float64) > 1e-200) & (words.view(np.float64) < 1e200)]
    (got,) = with_numpy(form(opcode, 1), [words])
    values = words.view(np.float64)
    want = 1 / values if opcode.startswith("rcp") else 1 / np.sqrt(values)
    assert not (got & np.uint64(0xFFFFFFFF)).any()
    assert (np.abs(got.view(np.float64) / want - 1) < 2**-19).all()
