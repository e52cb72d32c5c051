"""Seeded inputs: ordinary values, and wild ones with wide exponents, zeros and subnormal numbers."""

from __future__ import annotations

import numpy as np

from .case_helpers import Array
from .reference_helpers import DTYPES

EXPONENTS = {"f16": (-24, 3), "bf16": (-40, 40), "tf32": (-60, 58), "e5m2": (-16, 3), "f32": (-60, 58)}
"""Exponents of wild values, so that sums of some hundred products stay finite in the result type."""


def matrix(shape: tuple[int, ...], element: str, seed: int, wild: bool = False, small: bool = False) -> Array:
    """Values of an element type; `small` keeps a wild e4m3 operand small, so that products fit float16."""
    generator = np.random.default_rng(seed)
    if not wild:
        return (generator.standard_normal(shape) * 0.5).astype(DTYPES[element])
    if element == "e4m3":
        magnitude = generator.integers(0, 0x20 if small else 0x7F, shape, np.uint8)
        return (magnitude | (generator.integers(0, 2, shape, np.uint8) << 7)).view(DTYPES[element])
    low, high = EXPONENTS[element]
    values = generator.uniform(1, 2, shape) * np.exp2(generator.integers(low, high + 1, shape))
    values *= generator.choice([-1.0, 0.0, 1.0], shape, p=[0.45, 0.1, 0.45])
    return values.astype(DTYPES[element])


def integers(shape: tuple[int, ...], low: int, high: int, seed: int, dtype: str = "int32") -> Array:
    """Whole numbers in [low, high)."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
