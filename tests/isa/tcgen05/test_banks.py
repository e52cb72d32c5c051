"""Layouts B, E and G: each bank of the data path multiplies its own copy of A in tensor memory, with its own copy of the metadata."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.descriptors import InstructionDescriptor
from ptxlab.layout import a_location, accumulator_location, metadata_location
from ptxlab.tables import DATA_PATHS
from tests.isa.tcgen05.placing_helpers import HALF, arrange, put_cells, write
from tests.isa.tcgen05.tcgen05_helpers import BASE, execute, random_state

BANKED = [key for key, path in DATA_PATHS.items() if path.banks > 1]
A, METADATA, N = 400, 420, 64


@pytest.mark.parametrize(("m", "group", "ws", "sparse"), BANKED)
def test_copies_that_differ(m: int, group: int, ws: bool, sparse: bool) -> None:
    rng = np.random.default_rng([m, group, ws, sparse])
    banks = DATA_PATHS[m, group, ws, sparse].banks
    k = 32 if sparse else 16
    image, before = random_state(rng, group)
    a = rng.normal(0, 1, (banks, m, 16)).astype(np.float16).view(np.uint16)
    b = rng.normal(0, 1, (N, k)).astype(np.float16).view(np.uint16)
    at = a_location(m, 16, 16, group, ws, sparse)
    put_cells(before, (at.cta, A + at.column, at.lane), at.bit, a, 16)
    metadata = rng.choice([4, 8, 9, 12, 13, 14, 6], (banks, m, 8)).astype(np.uint8) if sparse else None
    if metadata is not None:
        place = metadata_location("f16", m, group, ws)
        put_cells(before, (place.cta, METADATA + place.column, place.lane), place.bit, metadata, 4)
    layout = arrange(rng, "f16", "f16", N // group, k, BASE + HALF, swizzle="128B")
    for cta in range(group):
        write(image[cta], layout, b[cta * N // group : (cta + 1) * N // group])
    idesc = InstructionDescriptor(kind="f16", m=m, n=N, a="f16", b="f16", sparse=sparse)
    text = f"tcgen05.mma{'.ws' * ws}{'.sp' * sparse}.cta_group::{group}.kind::f16 [da], [at], bd, {'[sp], ' * sparse}id, e"
    given = {"a": A, "b": int(layout.descriptor), "idesc": int(idesc), "metadata": METADATA, "group": group, "enable": False}
    after = execute(text, image, before, **given)
    expected = before.copy()
    d = accumulator_location(m, N, group, ws, sparse)
    for bank in range(banks):
        part = slice(bank * N // banks, (bank + 1) * N // banks)
        own = None if metadata is None else metadata[bank]
        product = numerics.mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=a[bank], B=b[part], C=None, metadata=own)
        expected[d.cta[:, part], d.column[:, part], d.lane[:, part]] = product
    assert np.array_equal(after, expected)


@pytest.mark.parametrize("m", [128, 256])
def test_either_cta_of_a_pair_issues(m: int) -> None:
    """Descriptors and addresses mean the same place in both CTAs, whichever of them issues; so do the words of the mask."""
    rng = np.random.default_rng(m)
    image, before = random_state(rng, 2)
    layouts = [arrange(rng, "f16", "f16", rows, 16, base) for rows, base in ((m // 2, BASE), (N // 2, BASE + HALF))]
    idesc = int(InstructionDescriptor(kind="f16", m=m, n=N, a="f16", b="f16"))
    text = "tcgen05.mma.cta_group::2.kind::f16 [da], ad, bd, id, {m0, m1, m2, m3, m4, m5, m6, m7}, e"
    given = {"a": int(layouts[0].descriptor), "b": int(layouts[1].descriptor), "idesc": idesc, "mask": tuple(range(1, 9)), "group": 2}
    even, odd = (execute(text, image, before, issuer=issuer, **given) for issuer in (0, 1))
    assert np.array_equal(even, odd)
    assert not np.array_equal(even, before)
