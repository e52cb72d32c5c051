"""NumPy and LLVM give the same bits on every scalar row."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.sweep_helpers import one_in

from .form_helpers import Form, compare_with_numpy, forms, pure_rows

COUNT = 512
BATCH = 200

FAMILIES: dict[str, list[Form]] = defaultdict(list)
for _row in pure_rows():
    FAMILIES[_row.semantics.__module__.rsplit(".", 1)[1]] += [f for f in forms(_row) if "b128" not in f.sources]


BATCHES = [
    (f"{family}-{start // BATCH}", listed[start : start + BATCH])
    for family, listed in sorted(FAMILIES.items())
    for start in range(0, len(listed), BATCH)
]


@pytest.mark.parametrize("batch", one_in(4, [b for _, b in BATCHES]), ids=[name for name, _ in BATCHES])
def test_same_bits(batch: list[Form]) -> None:
    compare_with_numpy(batch, COUNT)
