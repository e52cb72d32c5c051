"""A product that is looked up once gives what `mma` gives, for every pair of types, with any strides and options."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab import numerics
from ptxlab.formats import FORMATS
from ptxlab.numerics import product_of
from ptxlab.numerics._steps import STEPS, is_wide

CASES = [
    (kind, step.d, a, b, step.lengths[0], step)
    for (arch, kind), steps in STEPS.items()
    if arch == "tcgen05"
    for step in steps
    if not step.scales
    for a in step.a
    for b in step.b
]


def codes(generator: np.random.Generator, fmt: str, shape: tuple[int, int], transposed: bool) -> np.ndarray:
    made = generator.integers(0, 1 << FORMATS[fmt].bits, shape[::-1] if transposed else shape, dtype=np.uint64).astype(FORMATS[fmt].dtype)
    return made.T if transposed else made


@pytest.mark.parametrize(("kind", "d", "a", "b", "k", "step"), CASES, ids=lambda v: str(v) if isinstance(v, str | int) else "")
def test_it_is_the_step(kind: str, d: str, a: str, b: str, k: int, step: object) -> None:
    generator = np.random.default_rng(7)
    m, n = 128, 24
    for transposed in (False, True):
        for negate in (False, True) if not FORMATS[a].is_integer else (False,):
            product = product_of(kind, d, a, b, m, n, k, negate, False, False)
            if is_wide(a) != is_wide(b):
                assert product is None
                continue
            assert product is not None
            left, right = codes(generator, a, (m, k), transposed), codes(generator, b, (n, k), not transposed)
            c = generator.integers(0, 1 << 32, (m, n), np.uint32).astype(np.uint16 if d == "f16" else np.uint32)
            space, cells = product.workspace(), np.zeros((n, m + 4), np.uint32)
            for accumulate in (True, False):
                cells[:, :m] = c.T
                product.prepare_a(left, space.a)
                product.prepare_b(right, space.b)
                product.run(space.a, space.b, cells.ctypes.data, cells.strides[0], accumulate, 0)
                wanted = numerics.mma(
                    arch="tcgen05", kind=kind, a=a, b=b, d=d, A=left, B=right, C=c if accumulate else None, negate_a=negate
                )
                assert np.array_equal(cells[:, :m].T, wanted.view(c.dtype))


def test_where_there_is_none() -> None:
    assert product_of("f16", "f32", "f16", "bf16", 128, 8, 16, False, False, False) is None
    assert product_of("f16", "f32", "f16", "f16", 32, 8, 16, False, False, False) is None
