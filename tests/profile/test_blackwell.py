"""The kernels whose estimates stand beside published times: they compute products, and the page has the present estimates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from tests.profile.timing import blackwell
from tests.profile.timing.blackwell import PUBLISHED, TILES, Tile

PAGE = Path(__file__).parents[2] / "docs" / "profile.md"


@pytest.mark.parametrize("tile", [TILES[0], TILES[2], TILES[-1]], ids=lambda tile: tile.file)
def test_the_kernels_compute_products(tile: Tile) -> None:
    """Small whole numbers, whose sums are exact; more steps than buffers."""
    rng = np.random.default_rng(1)
    m, n, k = tile.m, 2 * tile.n, 6 * tile.k
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    texts, launch = blackwell._archive()
    info = launch[tile.file]
    maps = [value for array, block in zip((a, b, c), info["blocks"], strict=True) for value in blackwell._map(array, block)]
    kernel = ptxlab.loads(texts[f"{tile.file}.ptx"]).kernel()
    result = kernel.launch(grid=(1, 2), block=128, shared_bytes=info["shared_bytes"], args=[*maps, k, None, None])
    assert result.diagnostics == ()
    assert np.array_equal(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def test_each_published_time_has_a_source() -> None:
    groups = json.loads((Path(blackwell.DATA) / "blackwell_published.json").read_text())
    assert all(group["source"].startswith("https://") and group["source"] in PAGE.read_text() for group in groups)
    assert len(PUBLISHED) == sum(len(group["rates"]) for group in groups)


@pytest.mark.slow
def test_the_page_has_the_present_estimates() -> None:
    assert blackwell.table() in PAGE.read_text()
