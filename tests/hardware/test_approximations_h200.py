"""What an H200 gives for the approximate instructions against the exact value in float64, at the bound that the ISA states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .scalar_forms import Form, approximate_forms
from .test_scalar_h200 import floats, record, recorded

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """The exact function, the error that is allowed, and where: ``relative`` to the exact value, plus ``absolute``."""

    exact: Callable[..., Any]
    relative: float = 0.0
    absolute: float = 0.0
    domain: Callable[..., Any] = np.isfinite


def near_one(a: F64) -> Any:
    return (a > 0.5) & (a < 2)


def divisor(_: F64, b: F64) -> Any:
    return (np.abs(b) >= 2.0**-126) & (np.abs(b) <= 2.0**126)


def within(limit: float) -> Callable[..., Any]:
    return lambda a: np.abs(a) <= limit


BOUNDS = {
    "rcp.approx": [Bound(lambda a: 1 / a, 2.0**-23)],
    "sqrt.approx": [Bound(np.sqrt, 2.0**-23)],
    "rsqrt.approx": [Bound(lambda a: 1 / np.sqrt(a), 2.0**-22.9)],
    "ex2.approx": [Bound(np.exp2, 2.0**-22.5)],
    "lg2.approx": [Bound(np.log2, 0.0, 2.0**-22, near_one), Bound(np.log2, 2.0**-22, 0.0, lambda a: ~near_one(a))],
    "sin.approx": [Bound(np.sin, 0.0, 2.0**-20.5, within(2 * np.pi)), Bound(np.sin, 0.0, 2.0**-14.7, within(100 * np.pi))],
    "cos.approx": [Bound(np.cos, 0.0, 2.0**-20.5, within(2 * np.pi)), Bound(np.cos, 0.0, 2.0**-14.7, within(100 * np.pi))],
    "tanh.approx": [Bound(np.tanh, 2.0**-11)],
    "div.approx": [Bound(np.divide, 2 * 2.0**-23, 0.0, divisor)],
    "div.full": [Bound(np.divide, 2 * 2.0**-23, 0.0, lambda a, b: b != 0)],
    "ex2.approx.f16": [Bound(np.exp2, 2.0**-9.9)],
    "ex2.approx.bf16": [Bound(np.exp2, 2.0**-7)],
    "tanh.approx.f16": [Bound(np.tanh, 0.0, 2.0**-10.987)],
    "tanh.approx.bf16": [Bound(np.tanh, 0.0, 2.0**-8)],
}
"""The sections of the instructions state these; the first that fits an element type holds."""
SMALLEST = {"f32": (2.0**-126, 2.0**-149), "f16": (2.0**-14, 2.0**-24), "bf16": (2.0**-126, 2.0**-133)}
"""The least normal number, and the step below it."""
FORMS = [form for form in approximate_forms() if form.result != "f64"]


def bounds(form: Form) -> list[Bound]:
    family, kind = ".".join(form.opcode.split(".")[:2]), form.result.removesuffix("x2")
    return BOUNDS.get(f"{family}.{kind}", BOUNDS[family]) if kind != "f32" else BOUNDS[family]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.opcode)
def test_error(form: Form) -> None:
    kind = form.result.removesuffix("x2")
    least, step = SMALLEST[kind]
    with np.errstate(invalid="ignore"):
        sources = [floats(record()[f"in_{source}_{i}"], source) for i, source in enumerate(form.sources)]
        found = floats({f.opcode: words for f, words in recorded()}[form.opcode], form.result)
    if ".ftz" in form.opcode:
        sources = [np.where(np.abs(a) < least, np.copysign(0.0, a), a) for a in sources]
    judged = 0
    for bound in bounds(form):
        with np.errstate(all="ignore"):
            want = bound.exact(*sources)
            tiny = np.where(np.abs(want) < least, least if ".ftz" in form.opcode else step, 0.0)
            near = np.abs(found - want) <= np.maximum(bound.relative * np.abs(want), bound.absolute) + tiny
            inside = np.abs(want) < (65504 if kind == "f16" else 2.0**127)
            inside &= np.logical_and.reduce([np.isfinite(a) for a in sources]) & bound.domain(*sources)
        assert not np.flatnonzero(inside & ~near).size, [(float(found[i]), float(want[i])) for i in np.flatnonzero(inside & ~near)[:4]]
        judged += int(inside.sum())
    assert judged > 100
