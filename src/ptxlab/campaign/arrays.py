"""Arrays that a launch file describes: generated, read from ``.npy`` files, or computed as an expectation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILLS", "MAX_BYTES", "ArrayError", "dtype_of", "generate", "read_npy"]

MAX_BYTES = 8 << 30
"""The largest array that a launch file may ask for."""

Array = NDArray[Any]


class ArrayError(ValueError):
    """An array that cannot be made, with the reason."""


@cache
def extended_dtypes() -> dict[str, np.dtype[Any]]:
    """The real types of the installed ml_dtypes, by name. Each element has at least a byte."""
    import ml_dtypes

    prefixes = ("bfloat", "float", "int", "uint")
    return {name: np.dtype(getattr(ml_dtypes, name)) for name in dir(ml_dtypes) if name.startswith(prefixes)}


def dtype_of(name: object) -> np.dtype[Any]:
    """The NumPy or ml_dtypes element type of that name.

    Raises
    ------
    ArrayError
        if there is no such type, or one that holds no plain numbers
    """
    if not isinstance(name, str):
        raise ArrayError(f"dtype must be a name such as 'float16', not {name!r}")
    extended = extended_dtypes()
    if name in extended:
        return extended[name]
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        raise ArrayError(f"unknown dtype {name!r}; NumPy names and {', '.join(extended)} are known") from None
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ArrayError(f"dtype {name!r} holds no numbers that a kernel could read")
    return dtype


Fill = Callable[[np.random.Generator, tuple[int, ...], Mapping[str, Any]], Array]
FILLS: dict[str, Fill] = {
    "normal": lambda rng, shape, spec: rng.standard_normal(shape, dtype=np.float32) * np.float32(spec.get("scale", 1.0)),
    "uniform": lambda rng, shape, spec: rng.uniform(spec.get("low", 0.0), spec.get("high", 1.0), shape).astype(np.float32),
    "integers": lambda rng, shape, spec: rng.integers(spec.get("low", 0), spec.get("high", 16), shape),
    "constant": lambda rng, shape, spec: np.full(shape, spec.get("value", 0)),
    "arange": lambda rng, shape, spec: np.arange(math.prod(shape)).reshape(shape),
}
"""How an array may be filled. ``scale`` belongs to normal, ``low`` and ``high`` to uniform and integers, ``value`` to constant."""

ARRAY_KEYS = {"shape", "dtype", "fill", "seed", "scale", "low", "high", "value"}


def generate(spec: Mapping[str, Any], seed: int = 0) -> Array:
    """Make the array of an ``array = {shape, dtype, fill, seed, ...}`` table; the default fill is zeros. ``seed`` is added to its own.

    Raises
    ------
    ArrayError
        for unknown keys, impossible shapes and sizes over `MAX_BYTES`
    """
    unknown = set(spec) - ARRAY_KEYS
    if unknown:
        raise ArrayError(f"unknown key {min(unknown)!r} in array; known are {', '.join(sorted(ARRAY_KEYS))}")
    shape = spec.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 16:
        raise ArrayError(f"shape must be a list of at most 16 sizes, not {shape!r}")
    dtype = dtype_of(spec.get("dtype", "float32"))
    size = math.prod(shape) * dtype.itemsize
    if size > MAX_BYTES:
        raise ArrayError(f"an array of {size} bytes is over the limit of {MAX_BYTES}")
    fill = spec.get("fill", "constant")
    if not isinstance(fill, str) or fill not in FILLS:
        raise ArrayError(f"unknown fill {fill!r}; known are {', '.join(FILLS)}")
    for key in ("scale", "low", "high", "value"):
        if key in spec and type(spec[key]) not in (int, float):
            raise ArrayError(f"{key} must be a number, not {spec[key]!r}")
    own = spec.get("seed", 0)
    if type(own) is not int or own < 0:
        raise ArrayError(f"seed must be a whole number of at least 0, not {own!r}")
    try:
        with np.errstate(all="ignore"):
            return FILLS[fill](np.random.default_rng(own + seed), tuple(shape), spec).astype(dtype)
    except (ValueError, OverflowError, MemoryError) as error:
        raise ArrayError(f"the array cannot be filled: {error}") from None


def read_npy(path: Path, dtype: object = None) -> Array:
    """Read a ``.npy`` file without unpickling.

    Parameters
    ----------
    path : the file
    dtype : the element type, if it is one of ml_dtypes: the file does not keep its name

    Raises
    ------
    ArrayError
        if it cannot be read, holds objects or elements of another size
    """
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise ArrayError(f"{path.name} cannot be read as .npy: {error}") from None
    if not isinstance(loaded, np.ndarray):
        raise ArrayError(f"{path.name} holds no single array")
    if dtype is None:
        return loaded
    known = dtype_of(dtype)
    if known.itemsize != loaded.dtype.itemsize:
        raise ArrayError(f"{path.name} has elements of {loaded.dtype.itemsize} bytes, {dtype} has {known.itemsize}")
    return loaded.view(known)
