"""The fast path, the general path and the exact reference give the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab import native, numerics
from ptxlab.formats import encode
from ptxlab.numerics import _prepared
from ptxlab.numerics._mma import check_call
from ptxlab.numerics.ir import _fused, kernels
from ptxlab.numerics.ir import group as group_steps
from tests.sweep_helpers import first_of_each, one_in

from .machine_interface_helpers import by_machine_interface
from .wild_value_helpers import FORMS, NARROW, SCALED, SPARSE, SPARSE_SYNC, SYNC, Case, Form, case, edges, reaches_floor

MACHINE = [*FORMS, *SCALED, *SPARSE]
CHAINS = [*SYNC, *SPARSE_SYNC]
SOME = [form for form in MACHINE if form.kind not in ("f8f6f4", "mxf8f6f4") or form.b == "e5m2"]


@pytest.mark.parametrize("form", first_of_each(MACHINE, lambda form: form.sort), ids=str)
def test_three_paths_agree(form: Form) -> None:
    rng = np.random.default_rng(MACHINE.index(form))
    for one in (*(case(rng, form) for _ in range(4)), *edges(rng, form)):
        exact = one.run(numerics.reference.mma)
        one.check(one.run(), exact)
        one.check(by_machine_interface(one, general=False), exact)
        one.check(by_machine_interface(one, general=True), exact)


@pytest.mark.parametrize("form", first_of_each(CHAINS, lambda form: form.sort), ids=str)
def test_chains_of_steps(form: Form) -> None:
    rng = np.random.default_rng(CHAINS.index(form))
    for one in (*(case(rng, form) for _ in range(3)), *edges(rng, form)):
        one.check(one.run(), one.run(numerics.reference.mma))


@pytest.fixture
def fresh_kernels() -> Iterator[None]:
    caches = (kernels.preparer, kernels._preparers, kernels.multiplier, kernels._multiplier)
    for one in caches:
        one.cache_clear()
    yield
    for one in caches:
        one.cache_clear()


def parameters(form: Form) -> tuple[str, ...]:
    """Of a step, those that some input shows."""
    return ("window", "floor") if reaches_floor(form) else ("window",)


def exact_with(one: Case, **wrong: int) -> Any:
    call = check_call(one.arguments())
    return numerics.reference._run(replace(call, step=replace(call.step, **wrong)))


@pytest.mark.parametrize("form", first_of_each([*MACHINE, *CHAINS], lambda form: form.sort), ids=str)
def test_edges_show_every_parameter(form: Form) -> None:
    """With a window or floor that is off by one, the cases at the edges have other bits."""
    given = edges(np.random.default_rng(0), form, 2, 3)
    wrong_ones = [{name: getattr(form.step, name) + by} for name, by in product(parameters(form), (1, -1))]
    if form.k > form.step.k:
        wrong_ones += [{"k": form.step.k * 2}, {"k": form.step.k // 2}]
    for wrong in wrong_ones:
        assert any(not np.array_equal(exact_with(one, **wrong), exact_with(one)) for one in given), wrong


def test_what_shows_no_floor() -> None:
    """Nothing does where no product has a place so low: narrow types without ue8m0 scales, f16 into f32, f16 times bf16 (2^-157)."""
    hidden = {(form.a, form.b, form.d, form.scale and form.scale[0]) for form in (*MACHINE, *CHAINS) if not reaches_floor(form)}
    narrow = {(a, b, d, None) for a in NARROW for b in NARROW for d in ("f32", "f16")}
    halves = {("f16", "f16", "f32", None), ("f16", "bf16", "f32", None), ("bf16", "f16", "f32", None)}
    assert hidden == narrow | halves | {("e2m1", "e2m1", "f32", "ue4m3")}


def kernel(form: Form) -> tuple[object, ...]:
    """What tells compiled kernels apart."""
    wide = form.a in ("bf16", "tf32") or form.b in ("bf16", "tf32")
    step = form.step
    return (step.group, step.window, step.floor, step.output, wide, bool(step.scales))


KERNELS = list({kernel(form): form for form in reversed([form for form in MACHINE if not form.sparse])}.values())


@pytest.mark.parametrize("general", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("form", one_in(3, KERNELS), ids=str)
def test_compiled_kernels_have_their_parameters(form: Form, general: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with another window or floor gives what exact arithmetic with that one gives, and no longer the instruction's bits."""
    for name in parameters(form):
        wrong = replace(form.step, **{name: getattr(form.step, name) - 1})
        monkeypatch.setattr(_prepared, "_step", lambda *_, wrong=wrong: wrong)
        differs = False
        for one in edges(np.random.default_rng(0), form):
            found = by_machine_interface(one, general)
            one.check(found, exact_with(one, **{name: getattr(wrong, name)}))
            differs |= not np.array_equal(found, exact_with(one))
        assert differs, name


def ordinary(form: Form) -> Case:
    """Numbers near one, no special values, no options."""
    rng = np.random.default_rng(1)
    A, B = (
        encode(rng.uniform(0.5, 2, (rows, form.k)) * rng.choice([-1, 1], (rows, form.k)), fmt) for rows, fmt in ((64, form.a), (9, form.b))
    )
    one = Case(form, A, B, encode(rng.standard_normal((64, 9)), form.d))
    if form.scale:
        scales = {f"scale_{side}": np.full((rows, form.k // form.scale[1]), 127, np.uint8) for side, rows in (("a", 64), ("b", 9))}
        one.options = {"scale": form.scale[0], "block": form.scale[1], **scales}
    return one


@pytest.mark.parametrize("form", KERNELS, ids=str)
def test_rows_without_specials_take_the_fast_path(form: Form, fresh_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the right bits though the general path, here one with a window of two bits, has not."""
    right, broken = _fused.general, group_steps._General
    monkeypatch.setattr(_fused, "general", lambda module, step, wide: right(module, replace(step, window=2), wide))
    monkeypatch.setattr(group_steps, "_General", lambda module, step: broken(module, replace(step, window=2)))
    lanes = native.host().vector_bits // 32
    monkeypatch.setattr(kernels, "_compile", lambda _key, write, exports, _quick=False: native.compile_ir(write(lanes), exports, opt=1))
    one = ordinary(form)
    exact = one.run(numerics.reference.mma)
    one.check(by_machine_interface(one, general=False), exact)
    assert not np.array_equal(by_machine_interface(one, general=True), exact)


@settings(deadline=None, max_examples=120)
@given(st.sampled_from([*SOME, *SYNC]), st.integers(0, 2**32 - 1))
def test_fast_is_exact(form: Form, seed: int) -> None:
    one = case(np.random.default_rng(seed), form, 4, 4)
    one.check(one.run(), one.run(numerics.reference.mma))


@pytest.mark.parametrize("form", SOME, ids=str)
def test_fast_is_general_on_many(form: Form) -> None:
    rng = np.random.default_rng(7)
    for _ in range(8):
        one = case(rng, form, 64, 64)
        one.check(by_machine_interface(one, general=False), by_machine_interface(one, general=True))


@pytest.mark.parametrize("fmt", ["bf16", "tf32"])
def test_subnormal_results_beside_wide_exponents(fmt: str) -> None:
    """Cells that the fast path leaves to the general one are not rounded to zero, and neither is what NumPy computes afterwards."""
    rng = np.random.default_rng(3)
    k = 16 if fmt == "bf16" else 8
    A, B = (encode(rng.standard_normal((64, k)) * np.exp2(rng.choice([-69, 0, 60], (64, 1))), fmt) for _ in range(2))
    call = {"arch": "tcgen05", "kind": "tf32" if fmt == "tf32" else "f16", "a": fmt, "b": fmt, "d": "f32", "A": A, "B": B}
    exact = numerics.reference.mma(**call)
    magnitude = exact.view(np.uint32) & 0x7FFFFFFF
    assert ((magnitude > 0) & (magnitude < 0x800000)).any()
    assert (magnitude > 200 << 23).any()
    np.testing.assert_array_equal(numerics.mma(**call).view(np.uint32), exact.view(np.uint32))
    assert np.array([2.0**-100], np.float32) * np.array([2.0**-40], np.float32) == [2.0**-140]


@pytest.mark.parametrize("bits", one_in(3, [512, 256, 128]))
def test_every_vector_width(bits: int, fresh_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    here = native.host()
    monkeypatch.setattr(native, "host", lambda: replace(here, vector_bits=bits))
    rng = np.random.default_rng(bits)
    for form in (FORMS[0], FORMS[3], FORMS[4], Form("wgmma", None, "e4m3", "e5m2", "f32"), SCALED[0], SCALED[-1], SPARSE[0]):
        one = case(rng, form, 70, 5)
        exact = one.run(numerics.reference.mma)
        one.check(one.run(), exact)
        one.check(by_machine_interface(one, general=False), exact)


@pytest.mark.parametrize("bits", [512, 256])
def test_sums_that_overflow(bits: int, fresh_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor rounds toward zero, a float32 that overflows would become the largest finite number."""
    here = native.host()
    monkeypatch.setattr(native, "host", lambda: replace(here, vector_bits=bits))
    rng = np.random.default_rng(5)
    A, B = (encode(rng.choice([-1, 1], (64, 16)) * rng.uniform(1, 2, (64, 16)) * 2.0**exponent, "bf16") for exponent in (23, 101))
    call = {"arch": "tcgen05", "kind": "f16", "a": "bf16", "b": "bf16", "d": "f32", "A": A, "B": B}
    exact = numerics.reference.mma(**call).view(np.float32)
    assert 100 < np.isinf(exact).sum() < exact.size - 100
    np.testing.assert_array_equal(numerics.mma(**call).view(np.uint32), exact.view(np.uint32))
    assert np.array([1], np.float32) + np.array([1.5 * 2**-24], np.float32) == [1 + 2**-23]
