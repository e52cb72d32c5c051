"""Executions of sparse tcgen05.mma that compiled code repeats.

As in `tests.isa.tcgen05.test_repeated_scaling`: a second launch with other data and other metadata calls no handler. Products are compared
with those of `numerics.mma` on operands that NumPy gathers and unpacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.isa.tcgen05._mma_plan import Plan
from tests.isa.tcgen05.repeated_product_helpers import HANDLED, PLANS, STORE, _at_once, compare, factors, repeated, shares
from tests.isa.tcgen05.tcgen05_helpers import BASE, Cells, launch, random_state
from tests.isa.tcgen05.test_mma import Operand, arrange
from tests.isa.tcgen05.test_repetitions import loop
from tests.isa.tcgen05.test_scaled_and_sparse import SCALES, place_factors

__all__ = ["_at_once"]

METADATA = slice(340, 344)
"""The columns of tensor memory with metadata."""
LEGAL = {"tf32": [4, 14]}
TYPES = {
    "f16": [("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f16")],
    "tf32": [("tf32", "tf32", "f32")],
    "f8f6f4": [("e4m3", "e5m2", "f32"), ("e5m2", "e2m1", "f16"), ("e2m3", "e4m3", "f32"), ("e2m1", "e3m2", "f32"), ("e3m2", "e2m1", "f16")],
    "i8": [("s8", "u8", "s32"), ("u8", "s8", "s32")],
}
CASES = [
    (kind, types, group, ws, tensor)
    for kind, found in TYPES.items()
    for types in found
    for group, ws in ((1, False), (2, False), (1, True))
    for tensor in (False, True)
]


def place_metadata(rng: np.random.Generator, cells: Cells, kind: str) -> None:
    """Fill the columns with legal codes."""
    codes = rng.choice(LEGAL.get(kind, [4, 8, 9, 12, 13, 14, 6]), (*cells[:, METADATA].shape, 8)).astype(np.uint32)
    cells[:, METADATA] = (codes << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)


def product(plan: Plan, group: int, image: np.ndarray, before: Cells, accumulate: bool) -> Cells:
    """Tensor memory after a product."""
    after, scaling, d = before.copy(), plan.scaling, plan.instruction.d
    for share in shares(plan, group, image, before):
        words = before[share.cta]
        metadata = plan.metadata[share.bank].read(words)
        c = words[share.place].T
        options: dict[str, Any] = {}
        if scaling is not None:
            options = {
                "scale_a": scaling.factors("a", words),
                "scale_b": scaling.factors("b", words)[share.columns],
                "scale": scaling.type,
                "block": scaling.block,
            }
        found = numerics.mma(
            arch="tcgen05",
            kind=plan.kind,
            a=plan.a_format.name,
            b=plan.b_format.name,
            d=d,
            A=share.a,
            B=share.b,
            C=(c.astype(np.uint16) if d == "f16" else np.ascontiguousarray(c)) if accumulate else None,
            negate_a=plan.instruction.negate_a,
            negate_b=plan.instruction.negate_b,
            metadata=np.where(metadata == 0, np.uint8(4), metadata),
            **options,
        )
        after[share.cta][share.place] = found.astype(np.uint32).T
    return after


def shape(rng: np.random.Generator, group: int, ws: bool) -> tuple[int, int]:
    if ws:
        return int(rng.choice([32, 64, 128])), int(rng.choice([64, 128]))
    return int(rng.choice([64, 128])) * group, int(rng.choice([32, 96, 160, 256]))


@pytest.mark.parametrize(("kind", "types", "group", "ws", "tensor"), CASES)
def test_products(kind: str, types: tuple[str, str, str], group: int, ws: bool, tensor: bool) -> None:
    """The bytes of A and B are any: some elements are infinite or NaN."""
    rng = np.random.default_rng([len(kind), *map(ord, "".join(types)), group, ws, tensor])
    a, b, d = types
    m, n = shape(rng, group, ws)
    mn = bool(rng.integers(2)) and kind == "f16" and not tensor
    operands = [arrange(rng, a, m // group, BASE, mn), arrange_wide(rng, b, n // group)]
    accumulate, negate = bool(rng.integers(2)), [bool(each) and kind != "i8" for each in rng.integers(0, 2, 2)]
    selector = int(rng.integers(2)) if kind in ("f16", "tf32") else 0
    fields = {"negate_a": negate[0], "negate_b": negate[1], "transpose_a": mn, "selector": selector}
    idesc = InstructionDescriptor(kind=kind, m=m, n=n, a=a, b=b, d=d, sparse=True, **fields)
    states = []
    for _ in range(2):
        image, before = random_state(rng, group)
        moderate = rng.normal(0, 100, (group, 256, 128)).astype(np.float32)
        before[:, :256] = moderate.astype(np.float16).view(np.uint16) if d == "f16" else moderate.view(np.uint32)
        place_metadata(rng, before, kind)
        states.append((image, before))
    source = "[at]" if tensor else "ad"
    found = repeated(
        f"tcgen05.mma{'.ws' * ws}.sp.cta_group::{group}.kind::{kind} [da], {source}, bd, [sp], id, e",
        states,
        a=360 if tensor else operands[0].descriptor(),
        b=operands[1].descriptor(),
        idesc=int(idesc),
        enable=accumulate,
        metadata=340,
        group=group,
    )
    compare(product, states, found, group, accumulate)


def arrange_wide(rng: np.random.Generator, name: str, rows: int) -> Operand:
    """An arrangement of B, whose rows have twice the bytes of those of a stored A."""
    return Operand(str(rng.choice(["64B", "128B"])), False, BASE + 65536, 16, 1024)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize(("kind", "vector"), SCALES)
def test_scaled_products(kind: str, vector: str, group: int, tensor: bool) -> None:
    fmt, count = SCALES[kind, vector]
    rng = np.random.default_rng([len(kind), len(vector), count, group, tensor])
    a, b = (str(rng.choice(["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])) if kind == "mxf8f6f4" else "e2m1" for _ in range(2))
    m, n = 128 * group, int(rng.choice([32, 96, 160, 256]))
    operands = [Operand("128B", False, BASE, 16, 1024), arrange_wide(rng, b, n)]
    accumulate, negate = bool(rng.integers(2)), [bool(each) for each in rng.integers(0, 2, 2)]
    about = {"scale": fmt, "negate_a": negate[0], "negate_b": negate[1]}
    idesc = InstructionDescriptor(kind=kind, m=m, n=n, a=a, b=b, sparse=True, **about)
    states = []
    for _ in range(2):
        image, before = random_state(rng, group)
        before[:, :256] = rng.normal(0, 100, (group, 256, 128)).astype(np.float32).view(np.uint32)
        for cells in before:
            place_factors(cells, 300, factors(rng, (m // group, count), fmt, False), 0, False)
            place_factors(cells, 320, factors(rng, (n, count), fmt, False), 0, False)
        place_metadata(rng, before, kind)
        states.append((image, before))
    source = "[at]" if tensor else "ad"
    found = repeated(
        f"tcgen05.mma.sp.cta_group::{group}.kind::{kind}.block_scale{vector} [da], {source}, bd, [sp], id, [sa], [sb], e",
        states,
        a=360 if tensor else operands[0].descriptor(),
        b=operands[1].descriptor(),
        idesc=int(idesc),
        enable=accumulate,
        factors=(300, 320),
        metadata=340,
        group=group,
    )
    compare(product, states, found, group, accumulate)


MMA = "tcgen05.mma.sp.cta_group::{group}.kind::{kind} [da], ad, bd, [sp], id, e"
OPERANDS = {"a": Operand("128B", False, BASE, 16, 1024).descriptor(), "b": Operand("128B", False, BASE + 65536, 16, 1024).descriptor()}
ONE_TYPE = {"f16": "f16", "tf32": "tf32", "f8f6f4": "e5m2", "i8": "s8"}


def idesc_of(kind: str, group: int) -> int:
    name = ONE_TYPE[kind]
    d = "s32" if kind == "i8" else "f32"
    return int(InstructionDescriptor(kind=kind, m=128 * group, n=64, a=name, b=name, d=d, sparse=True))


@pytest.mark.parametrize("kind", ONE_TYPE)
def test_codes_of_0_at_zeros(kind: str) -> None:
    """Some elements of A are zeros, some of them negative ones: the code 0 is legal there."""
    rng = np.random.default_rng(len(kind))
    states = []
    for _ in range(2):
        image, before = random_state(rng, 1)
        size = {"f16": 2, "tf32": 4}.get(kind, 1)
        zeros = np.zeros((65536 // size, size), np.uint8)
        zeros[rng.random(len(zeros)) < 0.5, -1] = 0 if kind == "i8" else 0x80
        image[:, :65536] = zeros.reshape(-1)
        place_metadata(rng, before, kind)
        for nibble in range(8):
            chosen = rng.random((4, 128)) < 0.3
            before[0, METADATA][chosen] &= ~np.uint32(15 << 4 * nibble)
        before[:, :256] = 0
        image[:, 65536:] &= rng.choice([0xFF, 0x3B], image[:, 65536:].shape).astype(np.uint8)
        states.append((image, before))
    options = {**OPERANDS, "idesc": idesc_of(kind, 1), "metadata": 340, "enable": False}
    for (image, before), after in zip(states, repeated(MMA.format(group=1, kind=kind), states, **options), strict=True):
        assert np.array_equal(after, product(PLANS[0], 1, image, before, False))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4"])
@pytest.mark.parametrize("code", [0, 5, 15])
def test_metadata_that_come_to_select_nothing(kind: str, group: int, code: int) -> None:
    """The handler reports what compiled code asks before each product: in the third turn a warp changes the metadata of its rows."""
    rng = np.random.default_rng(5)
    image, before = random_state(rng, group)
    image |= 1
    place_metadata(rng, before, kind)
    body = f"""
        @p {MMA.format(group=group, kind=kind)};
        bar.sync 0;
        add.u32 at, taddr, 340;
        setp.eq.u32 q, warp, 2;
        setp.eq.and.u32 q, i, 1, q;
        mov.u32 n, 0x4444444{code:X};
        {STORE.replace("{n}", "{{n}}").format(n="n")}
        bar.sync 0;
    """
    found = []
    for _ in range(2):
        HANDLED.clear()
        _, result = launch(loop(body, 4), image, before, idesc=idesc_of(kind, group), metadata=340, group=group, check="none", **OPERANDS)
        found.append([(each.code, each.message) for each in result.diagnostics])
        assert len(HANDLED) == 2 - (len(found) == 2)
    assert found[0] == found[1]
    message = f"the sparsity metadata of row 64, chunk 0 is {code:#06b}, which selects nothing"
    assert found[0] == [("D707", message)]
