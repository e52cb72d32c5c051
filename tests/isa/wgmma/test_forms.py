"""Every form of wgmma.mma_async in the catalogue: it executes and equals numerics on placed operands."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import Row
from tests.isa.tcgen05.mma_form_cases import Form, cover, hash_of, is_real
from tests.isa.wgmma import test_mma as dense
from tests.isa.wgmma import test_sparse as sparse
from tests.sweep_helpers import one_in

SHOWS = {
    "test_some_forms": ("wgmma.mma_async*", "wgmma.mma_async.sync*s32.b1.b1*"),
}

load_all()
ROWS = [row for row in CATALOGUE["wgmma"] if row.pattern.startswith("wgmma.mma_async")]
IDS = [str(number) for number in range(len(ROWS))]


def columns(shape: str) -> int:
    found = re.fullmatch(r"m64n(\d+)k\d+", shape)
    assert found is not None
    return int(found[1])


def execute(form: Form) -> None:
    """The form with random operands, majors, signs and selector, as far as it has them."""
    rng = np.random.default_rng(hash_of(form.opcode, form.row.operands))
    d, a, b = str(form.choice("types")).split(".")
    n, registers = columns(str(form.choice("shape"))), "a" in form.operands
    if a == "b1":
        dense.check_bits(form.opcode, n, registers, bool(rng.integers(2)))
        return
    majors = [str(rng.choice(["k", "mn"])) if f"imm-trans-{name}" in form.operands else "k" for name in "ab"]
    scale = [int(rng.choice([-1, 1])) if f"imm-scale-{name}" in form.operands else 1 for name in "ab"]
    # A row of K of sparse B is 64 bytes wide.
    swizzles = [str(rng.choice(["none", "32B"] * narrow + ["64B", "128B"])) for narrow in (True, not form.has("sp"))]
    given = {"registers": registers, "majors": tuple(majors), "scale": tuple(scale), "swizzles": tuple(swizzles)}
    given |= {"satfinite": form.has("satfinite"), "opcode": form.opcode}
    if form.has("sp"):
        selector = int(rng.integers(2)) if dense.BITS[a] > 8 else 0
        sparse.check((d, a, b), n, int(rng.integers(1000)), selector=selector, **given)
    else:
        dense.check((d, a, b), n, int(rng.integers(1000)), enable=bool(rng.integers(4)), **given)


def some_forms(row: Row) -> list[Form]:
    """The smallest and the largest N, one between, and those of real kernels; of the rest every choice."""
    (shapes,) = [slot.choices for slot in row.slots if slot.name == "shape"]
    between = shapes[1 + hash_of(row.pattern, row.operands) % (len(shapes) - 2)]
    few = {shapes[0], between, shapes[-1]}
    chosen = [form for form in cover(row) if form.choice("shape") in few or is_real(form)]
    assert {form.choice("shape") for form in chosen} >= few
    return chosen


@pytest.mark.parametrize("row", one_in(8, ROWS), ids=IDS)
def test_some_forms(row: Row) -> None:
    for form in some_forms(row):
        execute(form)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_forms(row: Row) -> None:
    """Every choice of every modifier."""
    for form in cover(row):
        execute(form)
