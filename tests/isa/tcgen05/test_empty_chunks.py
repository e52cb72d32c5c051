"""Metadata of 0 at chunks of a sparse A that store only zeros, as CUTLASS writes it, select nothing that the product depends on."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.descriptors import InstructionDescriptor
from ptxlab.layout import accumulator_location, metadata_location
from ptxlab.machine import KernelError
from tests.isa.tcgen05.placing_helpers import HALF, arrange, put_cells, write
from tests.isa.tcgen05.tcgen05_helpers import BASE, execute

M, N, K, METADATA = 128, 64, 32, 420
TEXT = "tcgen05.mma.sp.cta_group::1.kind::f16 [da], ad, bd, [sp], id, e"
ROW, CHUNK = 47, 4


def product(a: NDArray[np.float16], b: NDArray[np.float16], metadata: NDArray[np.uint8]) -> NDArray[np.float32]:
    """D of one instruction; ``a`` are the stored elements."""
    rng = np.random.default_rng(1)
    image, before = np.zeros((1, 1 << 17), np.uint8), np.zeros((1, 512, 128), np.uint32)
    layouts = [arrange(rng, "f16", "f16", *array.shape, base, swizzle="64B") for array, base in ((a, BASE), (b, BASE + HALF))]
    for layout, array in zip(layouts, (a, b), strict=True):
        write(image[0], layout, array.view(np.uint16))
    place = metadata_location("f16", M, 1, False)
    put_cells(before, (place.cta, METADATA + place.column, place.lane), place.bit, metadata, 4)
    idesc = int(InstructionDescriptor(kind="f16", m=M, n=N, a="f16", b="f16", sparse=True))
    given = {"a": int(layouts[0].descriptor), "b": int(layouts[1].descriptor), "idesc": idesc, "metadata": METADATA, "enable": False}
    after = execute(TEXT, image, before, **given)
    d = accumulator_location(M, N, 1, False, True)
    return after[d.cta, d.column, d.lane].view(np.float32)


def operands() -> tuple[NDArray[np.float16], NDArray[np.float16], NDArray[np.uint8]]:
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (M, K // 2)).astype(np.float16), rng.integers(-4, 5, (N, K)).astype(np.float16)
    metadata = rng.choice([4, 8, 9, 12, 13, 14], (M, K // 4)).astype(np.uint8)
    metadata[ROW, CHUNK] = 0
    return a, b, metadata


def test_a_chunk_of_zeros() -> None:
    a, b, metadata = operands()
    a[ROW, 2 * CHUNK : 2 * CHUNK + 2] = 0.0, -0.0
    rows = np.zeros((M, K), np.float64)
    for i in range(2):
        at = 4 * np.arange(K // 4) + (metadata >> 2 * i & 3)
        rows[np.arange(M)[:, None], at] += a[:, i::2].astype(np.float64)
    assert np.array_equal(product(a, b, metadata), rows @ b.T.astype(np.float64))


def test_zero_fill_of_a_and_its_metadata() -> None:
    a, b, metadata = operands()
    assert not product(np.zeros_like(a), b, np.zeros_like(metadata)).any()


def test_a_chunk_that_stores_an_element() -> None:
    a, b, metadata = operands()
    a[ROW, 2 * CHUNK : 2 * CHUNK + 2] = 0, 1
    with pytest.raises(KernelError) as error:
        product(a, b, metadata)
    (found,) = error.value.diagnostics
    assert (found.code, found.message) == ("D707", "the sparsity metadata of row 47, chunk 4 is 0b0000, which selects nothing")
