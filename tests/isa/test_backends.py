"""NumPy and LLVM give the same bits on every scalar row."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from tests.sweep_helpers import one_in

from .form_helpers import Compiled, Form, body_of, cases, forms, pure_rows, with_numpy

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
    compiled = Compiled([body_of(form) for form in batch])
    for i, form in enumerate(batch):
        words = [cases(type, COUNT, seed) for seed, type in enumerate(t for t in form.sources if t != "any")]
        for got, want in zip(compiled(i, words), with_numpy(form, words), strict=True):
            if words:
                bad = np.flatnonzero(got != want)
                assert not bad.size, (
                    f"{form.opcode}({', '.join(hex(w[bad[0]]) for w in words)}): LLVM {got[bad[0]]:#x}, NumPy {want[bad[0]]:#x}"
                )
