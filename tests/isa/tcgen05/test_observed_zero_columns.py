"""Products with zeroed columns of B that compiled code repeats while checks observe the launch, as in `test_observed_repetitions`."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.descriptors import ZeroColumnMask
from tests.isa.tcgen05.test_observed_repetitions import (
    CASES,
    CHECKS,
    CTAS,
    MMA,
    TENSOR_CASES,
    TENSOR_TEXT,
    TEXT,
    TURNS,
    Case,
    _at_once,
    both,
    changed,
    launch,
)
from tests.sweep_helpers import spread

__all__ = ["_at_once"]

MASKS = [
    ZeroColumnMask(non_zero=True, skip_span=skip, use_span=use, first_spans=(zero_first, 0, 0, 0), start_counts=(1, 0, 0, 0))
    for skip, use, zero_first in ((2, 3, 1), (7, 4, 0))
]


def zeroed(text: str, mask: ZeroColumnMask = MASKS[0], more: str = "") -> str:
    """The products of a kernel have such a mask."""
    masked = MMA.replace("tcgen05.mma.", "tcgen05.mma.ws.").replace(", acc;", ", acc, w;")
    return changed({MMA: f"mov.b64 w, {int(mask)}; {more} {masked}"}, text)


KERNELS: dict[str, tuple[str, Case]] = {name: (TEXT, case) for name, case in CASES.items()} | {
    f"tiles: {name}": (TENSOR_TEXT, case) for name, case in TENSOR_CASES.items()
}
KERNELS = {name: kernel for name, kernel in KERNELS.items() if "number of columns" not in name}  # N = 32 is not legal with .ws


@pytest.mark.parametrize(("name", "checks"), spread(4, KERNELS, CHECKS))
def test_findings(name: str, checks: str) -> None:
    text, (changes, race, operands) = KERNELS[name]
    codes, handled = both(zeroed(changed(changes, text)), **CHECKS[checks])
    assert {"race": {race}, "operands": {operands}}.get(checks, {race, operands}) - {""} <= set(codes)
    assert len(handled) < 6 * TURNS * CTAS


@pytest.mark.parametrize("checks", [{"check": "none"}, *CHECKS.values()], ids=str)
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("text", [TEXT, TENSOR_TEXT], ids=["words", "tiles"])
def test_bits(text: str, mask: ZeroColumnMask, checks: dict[str, str]) -> None:
    """The products of integers are exact, and zeros in the columns that the mask names; few of them are computed by the handler."""
    found = launch(zeroed(text, mask), **checks)
    a = np.random.default_rng(7).integers(-4, 5, (CTAS, 128, 64 * TURNS))
    expected = np.einsum("cmk,cnk->cmn", a, a[:, :64])
    kept = columns_kept(mask, 64)
    assert 0 < kept.sum() < 64
    expected[..., ~kept] = 0
    assert np.array_equal(np.frombuffer(found[1], np.float32).reshape(expected.shape), expected)
    assert found[4] == []
    assert len(found[5]) <= 15


def columns_kept(mask: ZeroColumnMask, n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Spans of zeros and of columns that are kept, in turn: section "Zero-Column Mask Descriptor"."""
    kept: list[bool] = []
    skips, left = bool(mask.first_spans[0]), mask.start_counts[0]
    while len(kept) < n:
        span = (mask.skip_span if skips else mask.use_span) + 1
        kept += [not skips] * (span - left)
        skips, left = not skips, 0
    return np.array(kept[:n])


@pytest.mark.parametrize("checks", ["operands", "all"])
def test_another_mask_in_one_turn(checks: str) -> None:
    """It is a value of the execution: the handler is called for it."""
    other = f"@late mov.b64 w, {int(MASKS[1])};"
    _, few = both(zeroed(TEXT), **CHECKS[checks])
    _, handled = both(zeroed(TEXT, more=other), **CHECKS[checks])
    assert len(few) < len(handled) < len(few) + 5 * CTAS
