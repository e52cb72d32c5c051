"""Host memory as arrays."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

__all__ = ["bytes_at"]


def bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    """Host memory as an array."""
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8) if size else np.zeros(0, np.uint8)
