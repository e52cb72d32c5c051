"""Executions of tcgen05.cp and of block-scaled tcgen05.mma that compiled code repeats.

What a first launch has executed is repeated in a second one with other data, in which no handler is called. Copies are compared byte by
byte; products with those of operands that NumPy gathers and unpacks, and that are prepared one by one.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.isa.tcgen05._mma_plan import Plan
from tests.isa.tcgen05.repeated_product_helpers import HANDLED, STORE, _at_once, compare, factors, repeated, shares
from tests.isa.tcgen05.tcgen05_helpers import BASE, Cells, launch, random_state
from tests.isa.tcgen05.test_cp import SHAPES, copied_rows, source_of
from tests.isa.tcgen05.test_mma import Operand, arrange
from tests.isa.tcgen05.test_repetitions import loop
from tests.isa.tcgen05.test_scaled_and_sparse import SCALES, place_factors

__all__ = ["_at_once"]


@pytest.mark.parametrize("form", ["", "b4x16_p64", "b6x16_p32"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_copies(shape: str, group: int, form: str) -> None:
    rng = np.random.default_rng([len(shape), group, len(form)])
    operand, formats = source_of(rng, shape), f".b8x16.{form}" if form else ""
    column, lane = 4 * int(rng.integers(0, 126)), int(rng.integers(0, 32)) if shape == "4x256b" else 0
    states = [random_state(rng, group) for _ in range(2)]
    text, d = f"tcgen05.cp.cta_group::{group}.{shape}{formats} [da], ad", (lane << 16) + column
    for (image, before), after in zip(states, repeated(text, states, a=operand.descriptor(), d=d, group=group), strict=True):
        assert np.array_equal(after, copied_rows(operand, shape, form, image, before, column, lane))


CASES = [
    *((kind, vector, scale, group, tensor) for (kind, vector), scale in SCALES.items() for group in (1, 2) for tensor in (False, True)),
    *(("mxf4", ".block32", ("ue8m0", 3), group, tensor) for group in (1, 2) for tensor in (False, True)),
    *(("mxf4nvf4", ".block16", ("ue4m3", 6), group, tensor) for group in (1, 2) for tensor in (False, True)),
]
IDS = {1: (0, 1, 2, 3), 2: (0, 2), 3: (0, 1, 2, 3), 4: (0,), 6: (0, 2)}
"""The scale factor IDs that so many scale factors of a row may have."""


def product(plan: Plan, group: int, image: np.ndarray, before: Cells, accumulate: bool) -> Cells:
    """Tensor memory after a product, whose operands are gathered and prepared one by one."""
    after, scaling = before.copy(), plan.scaling
    assert scaling is not None
    how = {"kind": plan.kind, "scale": scaling.type, "block": scaling.block}
    for share in shares(plan, group, image, before):
        words = before[share.cta]
        a = numerics.prepare(
            share.a,
            plan.a_format.name,
            role="a",
            negate=plan.instruction.negate_a,
            scales=scaling.factors("a", words),
            **how,
        )
        b = numerics.prepare(
            share.b,
            plan.b_format.name,
            role="b",
            negate=plan.instruction.negate_b,
            scales=scaling.factors("b", words)[share.columns],
            **how,
        )
        cells = words[share.place].copy()
        numerics.mma_prepared(plan.kind, "f32", a, b, cells, accumulate=accumulate)
        after[share.cta][share.place] = cells
    return after


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(("kind", "vector", "scale", "group", "tensor"), CASES)
def test_products(kind: str, vector: str, scale: tuple[str, int], group: int, tensor: bool, wild: bool) -> None:
    fmt, count = scale
    rng = np.random.default_rng([len(kind), len(vector), count, group, tensor, wild])
    k96, dense = count in (3, 6), kind != "mxf8f6f4"
    a, b = ("e2m1", "e2m1") if dense else (str(rng.choice(["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])) for _ in range(2))
    m = 128 * group if k96 or group == 1 else int(rng.choice([128, 256]))
    n = int(rng.choice([32, 96, 160, 256]))
    mn = [bool(rng.integers(2)) and len(name) == 4 and name in ("e4m3", "e5m2") for name in (a, b)]
    operands = [
        Operand("128B", False, base, 16, 1024) if k96 else arrange(rng, "u8" if dense else name, rows, base, transposed)
        for name, rows, base, transposed in ((a, m // group, BASE, mn[0] and not tensor), (b, n // group, BASE + 65536, mn[1]))
    ]
    ids = [int(rng.choice(IDS[count])) for _ in range(2)]
    accumulate, negate = bool(rng.integers(2)), [bool(each) for each in rng.integers(0, 2, 2)]
    idesc = InstructionDescriptor(
        kind=kind,
        m=m,
        n=n,
        a=a,
        b=b,
        scale=fmt,
        scale_a_id=ids[0],
        scale_b_id=ids[1],
        k96=k96,
        negate_a=negate[0],
        negate_b=negate[1],
        transpose_a=operands[0].transposed,
        transpose_b=operands[1].transposed,
    )
    states = []
    for _ in range(2):
        image, before = random_state(rng, group)
        before[:, :256] = rng.normal(0, 100, (group, 256, 128)).astype(np.float32).view(np.uint32)
        for cells in before:
            place_factors(cells, 300, factors(rng, (m // group, count), fmt, wild), ids[0], False)
            # Those of the CTAs of a pair need not be the same.
            place_factors(cells, 320, factors(rng, (n, count), fmt, wild), ids[1], m == 128 and group == 2)
        states.append((image, before))
    source = "[at]" if tensor else "ad"
    found = repeated(
        f"tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{vector} [da], {source}, bd, id, [sa], [sb], e",
        states,
        a=360 if tensor else operands[0].descriptor(),
        b=operands[1].descriptor(),
        idesc=int(idesc),
        enable=accumulate,
        factors=(300, 320),
        group=group,
        target="sm_103a" if k96 else "sm_100a",
    )
    compare(product, states, found, group, accumulate)


MMA = "tcgen05.mma.cta_group::{group}.kind::mxf8f6f4.block_scale [da], ad, bd, id, [sa], [sb], e"


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("matrix", "column"), [("A", 301), ("B", 309)])
def test_scale_factors_that_come_to_differ(matrix: str, column: int, group: int) -> None:
    """The handler reports what compiled code asks before each product: in the third turn a warp changes its copy of the scale factors."""
    image, before = random_state(np.random.default_rng(5), group)
    before[:, 300:320] = 0x7F7F7F7F
    operands = [Operand("128B", False, base, 16, 1024) for base in (BASE, BASE + 65536)]
    body = f"""
        @p {MMA.format(group=group)};
        bar.sync 0;
        add.u32 at, taddr, {column};
        setp.eq.u32 q, warp, 2;
        setp.eq.and.u32 q, i, 1, q;
        mov.u32 n, 0x7F7F7F80;
        {STORE.replace("{n}", "{{n}}").format(n="n")}
        bar.sync 0;
    """
    codes, services = [], []
    for _ in range(2):
        HANDLED.clear()
        _, result = launch(
            loop(body, 4),
            image,
            before,
            a=operands[0].descriptor(),
            b=operands[1].descriptor(),
            idesc=int(InstructionDescriptor(kind="mxf8f6f4", m=128 * group, n=64, a="e4m3", b="e5m2")),
            factors=(300, 308),
            group=group,
            check="none",
        )
        codes.append([each.code for each in result.diagnostics])
        assert f"of {matrix}" in str(result.diagnostics[0])
        services.append(len(HANDLED))
    assert codes == [["D708"]] * 2
    assert services == [2, 1]
