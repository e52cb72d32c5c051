"""Host memory as arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bytes_at"]


def bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    """Host memory as an array."""
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(memory, np.uint8)
