"""Random values for the arrays of launches, so that unordered writes of the same bits, which nothing could show, are rare.

Tests give their kernels small whole numbers and zeros, because exact results are compared. Here only results of the same kernel are
compared. Arrays with few different values get others in their place, of the values that the kernel accepts. All are drawn from seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import ptxlab

__all__ = ["KEPT", "arrays_of", "distinct", "enough", "fill"]

Array = NDArray[Any]
Values = Callable[[np.random.Generator, Array], Array]
_MANY = 64


def arrays_of(launch: Any) -> dict[int, Array]:
    """The arrays of a launch by the number of their argument; of a tensor map the array that it describes."""
    case = getattr(launch, "case", launch)
    given = case.args if hasattr(case, "args") else (*case.given, *case.options.get("args", ()))
    values = {number: value.base if isinstance(value, ptxlab.TensorMap) else value for number, value in enumerate(given)}
    return {number: value for number, value in values.items() if isinstance(value, np.ndarray)}


def distinct(array: Array) -> int:
    """How many different elements an array has, compared by their bits."""
    return len(np.unique(np.ascontiguousarray(array).view(f"u{array.itemsize}")))


def enough(array: Array) -> bool:
    """Whether an array has many different elements: 64, or half of its elements."""
    return distinct(array) >= min(_MANY, (array.size + 1) // 2)


def _bits(generator: np.random.Generator, array: Array) -> Array:
    return np.frombuffer(generator.bytes(array.nbytes), array.dtype).reshape(array.shape)


def _normal(generator: np.random.Generator, array: Array) -> Array:
    return generator.standard_normal(array.shape).astype(array.dtype)


def _whole(low: int, high: int) -> Values:
    """Whole numbers whose sums are exact in any order."""
    return lambda generator, array: generator.integers(low, high, array.shape).astype(array.dtype)


def _elements(dtype: Any, values: Values = _normal) -> Values:
    """Bytes that hold elements of another type."""
    return lambda generator, array: values(generator, array.view(dtype)).view(array.dtype)


def _powers(generator: np.random.Generator, array: Array) -> Array:
    """Powers of two, as scale factors of the type ue8m0: from 2^-32 to 2^31."""
    return generator.integers(95, 159, array.shape).astype(np.uint8).view(array.dtype)


def _positive(generator: np.random.Generator, array: Array) -> Array:
    """Finite positive values of the type e4m3."""
    return generator.integers(1, 127, array.shape).astype(np.uint8).view(array.dtype)


_F16, _F32, _E4M3, _E5M2 = (_elements(t) for t in (np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
_SPLIT_K = {0: _whole(-100, 101), 1: _whole(-100, 101), 2: _whole(-1000, 1001)}
"""Sums of 1536 products and a start value are below 2^24."""
_VALUES: dict[str, dict[int, Values]] = {
    "mm_split_k_fp16": _SPLIT_K,
    "sm90_mm_split_k_fp16": _SPLIT_K,
    "gl_reduce_store_fp32": dict.fromkeys((0, 1), _whole(-1000, 1001)),
    "cute_reduction": dict.fromkeys((0, 1), _whole(0, 1 << 20)),
    "cute_scaled_mxf8": dict.fromkeys((2, 3), _powers),
    "cute_scaled_nvf4": dict.fromkeys((2, 3), _positive),
    "cuda_mma_f16": dict.fromkeys((1, 2), _F16),
    "cuda_mma_tf32_pair": dict.fromkeys((1, 2), _F32),
    "cuda_mma_sparse_pair": {1: _E4M3, 2: _E5M2},
    "cuda_mma_scaled": {1: _E4M3, 2: _E5M2, 3: _powers},
    "cuda_mma_scaled_pair": {3: _positive},
}
"""By kernel and argument, the values of arrays to which the rule by the type of the array does not apply."""

_NO_SCALES = "the kernel has no scale factors, and does not read the array"
KEPT: dict[tuple[str, int], str] = {
    ("mm_split_k_ordered_fp16", 3): "locks, which are 0 at first",
    ("cuda_mma_f16", 3): _NO_SCALES,
    ("cuda_mma_tf32_pair", 3): _NO_SCALES,
    ("cuda_mma_s8_ws", 3): _NO_SCALES,
    ("cuda_mma_sparse_pair", 3): _NO_SCALES,
}
"""By kernel and argument, the arrays that stay as they are, with the reason."""


def fill(kernel: str, launch: Any) -> None:
    """Give the arrays of a launch that have few different values random ones, in place."""
    for number, array in arrays_of(launch).items():
        if (kernel, number) not in KEPT and not enough(array):
            default = _bits if array.dtype.kind in "iu" else _normal
            array[...] = _VALUES.get(kernel, {}).get(number, default)(np.random.default_rng(number + 1), array)
