"""Agreement with MMA-Sim, whose authors compared it with silicon: at least 10,240 dot products of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.numerics._mma import check_call
from tests.sweep_helpers import first_of_each

from .wild_value_helpers import (
    FORMS,
    GROUPED,
    NARROW,
    SCALED,
    SPARSE,
    SPARSE_SYNC,
    SYNC,
    Case,
    Form,
    case,
    edges,
    reaches_floor,
    stored_positions,
)

pytestmark = pytest.mark.oracle

LEAST = 10240
SIDE = 16
ROWS = 2
GENERATIONS = {
    "mma.sm_70": "Volta",
    "mma.sm_75": "Turing",
    "mma.sm_80": "Ampere",
    "mma.sm_89": "Ada Lovelace",
    "mma.sm_90": "Hopper",
    "mma.sm_100": "Blackwell",
    "mma.sm_120": "RTX Blackwell",
}
SHAPES = {4: "m16n8k4", 8: "m16n8k8", 16: "m16n8k16", 32: "m16n8k32", 64: "m16n8k64"}


def model(form: Form) -> Any:
    sim = pytest.importorskip("mmasim.nv_ptx")
    # The tensors are small: threads would only wait for each other.
    pytest.importorskip("torch").set_num_threads(1)
    k = form.k
    if form.arch == "wgmma":
        return sim.WGMMA("Hopper", f"m64n{SIDE}k{k}.{form.d}.{form.a}.{form.b}")
    if form.scale and k == 96:
        # MMA-Sim has no K = 96; its rule for groups with six of them.
        from mmasim.arithmetic.fdpa import MMA_GST_FDPA

        return MMA_GST_FDPA(G=16, F=35, rho="RZ-FP32", L_max=96, e_zero=-139)
    if form.scale:
        tail = f"kind::{form.kind}.block{form.scale[1]}.f32.{form.a}.{form.b}"
        if form.arch == "tcgen05":
            return sim.TCGen05MMABlockScale("Blackwell", f"m128n{SIDE}k{k}.{tail}.{form.scale[0]}")
        return sim.MMABlockScale(GENERATIONS[form.arch], f"{SHAPES[k]}.{tail}.f32.{form.scale[0]}")
    if form.arch == "tcgen05":
        return sim.TCGen05MMA("Blackwell", f"m64n{SIDE}k{k}.kind::{form.kind}.{form.d}.{form.a}.{form.b}")
    shape = "m8n8k4" if form.a == "f16" and k == 4 else SHAPES[k]
    kind = f".kind::{form.kind}" if form.kind else ""
    return sim.MMA(GENERATIONS[form.arch], f"{shape}{kind}.{form.d}.{form.a}.{form.b}.{form.d}")


def tensor(codes: Any, fmt: str, packed: bool = False) -> Any:
    torch = pytest.importorskip("torch")
    if packed:  # two of e2m1 in a byte
        return torch.from_numpy(codes[:, ::2] << 4 | codes[:, 1::2])
    if fmt in NARROW[2:]:  # byte containers: e2m1 stands in bits 5:2
        return torch.from_numpy(codes << 2 if fmt == "e2m1" else codes)
    dtype = {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "tf32": torch.float32,
        "f32": torch.float32,
        "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
        "ue8m0": torch.float8_e8m0fnu,
        "ue4m3": torch.float8_e4m3fn,
    }[fmt]
    codes = np.ascontiguousarray(codes)
    signed = codes.view(np.dtype(f"i{codes.dtype.itemsize}")) if codes.dtype.itemsize > 1 else codes
    return torch.from_numpy(signed).view(dtype)


def theirs(simulated: Any, one: Case) -> Any:
    form, packed = one.form, one.form.kind in GROUPED
    assert one.C is not None
    operands = [tensor(one.A, form.a, packed), tensor(one.B, form.b, packed).T, tensor(one.C, form.d)]
    if form.scale:
        operands += [tensor(one.options["scale_a"], form.scale[0]), tensor(one.options["scale_b"], form.scale[0]).T]
    D = simulated(*operands)
    return D.contiguous().view(D.dtype).numpy().view(one.C.dtype)


def plain(one: Case) -> Case:
    """With what MMA-Sim has: no negation, no scale-input-d, C always."""
    for name in ("negate_a", "negate_b", "scale_input_d"):
        one.options.pop(name, None)
    if one.C is None:
        one.C = np.zeros((len(one.A), len(one.B)), np.uint16 if one.form.d == "f16" else np.uint32)
    return one


def of_one_type(*forms: Form) -> list[Form]:
    """Without f16 times bf16, which MMA-Sim lacks."""
    return [form for form in forms if {form.a, form.b} != {"f16", "bf16"}]


ALL = of_one_type(*FORMS, *SCALED, *SYNC)
KINDS = Counter((form.arch, form.kind) for form in ALL)


def sample(form: Form, least: int) -> Iterator[Case]:
    """Cases of many spreads with this many dot products, from a seed of their own; first those at the window and the floor."""
    rng = np.random.default_rng(ALL.index(form))
    yield from (plain(one) for one in edges(rng, form, SIDE, SIDE))
    for _ in range(max(3, -(-least // SIDE**2))):
        yield plain(case(rng, form, SIDE, SIDE))


@pytest.mark.parametrize("form", first_of_each(ALL, lambda form: form.sort), ids=str)
def test_dot_products(form: Form) -> None:
    """And the sample tells: with a window, floor or step length that is off, exact arithmetic does not give MMA-Sim's bits."""
    agree(form, LEAST // KINDS[form.arch, form.kind] + 1)


@pytest.mark.slow
@pytest.mark.parametrize("form", ALL, ids=str)
def test_many_dot_products(form: Form) -> None:
    agree(form, LEAST)


def agree(form: Form, least: int) -> None:
    simulated = model(form)
    unnoticed = mutations(form)
    for one in sample(form, least):
        expected = theirs(simulated, one)
        one.check(one.run(), expected)
        unnoticed = [wrong for wrong in unnoticed if np.array_equal(exact_with(wrong, one), expected[:ROWS])]
    assert not unnoticed


def mutations(form: Form) -> list[dict[str, int]]:
    """Parameters of the step that some input shows, a little off; `wild.reaches_floor` says where none can show the floor."""
    names = ("window", "floor") if reaches_floor(form) else ("window",)
    wrong = [{name: getattr(form.step, name) + by} for name in names for by in (1, -1)]
    return [*wrong, {"k": 2 * form.step.k}, {"k": form.step.k // 2}] if form.k > form.step.k else wrong


def exact_with(wrong: dict[str, int], one: Case) -> Any:
    """The first rows."""
    call = check_call(
        {name: given[:ROWS] if name in ("A", "C", "scale_a") and given is not None else given for name, given in one.arguments().items()}
    )
    return numerics.reference._run(replace(call, step=replace(call.step, **wrong)))


SPARSE_FORMS = of_one_type(*SPARSE, *SPARSE_SYNC)


@pytest.mark.parametrize("form", first_of_each(SPARSE_FORMS, lambda form: form.sort), ids=str)
def test_sparse_dot_products(form: Form) -> None:
    """The elements of B that a row of A meets, and that row, make a dense step."""
    simulated = model(form)
    rng = np.random.default_rng(SPARSE_FORMS.index(form))
    for one in (*edges(rng, form, 4, SIDE), *(case(rng, form, 6, SIDE) for _ in range(2))):
        plain(one)
        one.check(one.run(), np.concatenate([theirs(simulated, dense(one, row)) for row in range(len(one.A))]))


def dense(one: Case, row: int) -> Case:
    """A row of A and what it meets."""
    assert one.C is not None
    options = {name: value for name, value in one.options.items() if name != "metadata"}
    if one.form.scale:
        options["scale_a"] = options["scale_a"][row : row + 1]
    met = one.B[:, stored_positions(one.form, one.options["metadata"][row])]
    return Case(replace(one.form, sparse=False), one.A[row : row + 1], met, one.C[row : row + 1], options)
