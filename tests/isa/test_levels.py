"""Compiled code of scalar instructions for each level of processors gives the bits of NumPy."""

from __future__ import annotations

import pytest

from tests.native.level_helpers import functions_of
from tests.sweep_helpers import first_of_each

from .form_helpers import Form, compare_with_numpy
from .test_backends import BATCHES, FAMILIES

COUNT = 128
LEVELS = ("SSE4", "AVX2", "NEON")
"""Those that differ in more than sums of products of integers, which `test_backends` compares on this processor."""
FIRST = {f"{family}-0" for family in FAMILIES}
SOME = ("_half-0", "_convert-0")
"""Families whose code differs most between levels."""


@pytest.mark.parametrize(
    ("level", "name"),
    first_of_each([(level, name) for level in LEVELS for name in sorted(FIRST)], lambda pair: pair if pair[1] in SOME else 0),
)
def test_same_bits(level: str, name: str) -> None:
    batch: list[Form] = dict(BATCHES)[name]
    with functions_of(level):
        compare_with_numpy(batch, COUNT)
