"""Where an array lies in this process's memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["address_of"]

_word = ctypes.c_size_t.from_address
_DATA = object.__basicsize__
_PROBE = np.empty(4, np.uint8)[1::2]
_IS_FIRST = _word(id(_PROBE) + _DATA).value == _PROBE.ctypes.data
"""Whether the pointer to the first element is the first field behind what every object begins with, as in all versions of NumPy so far."""


def address_of(array: NDArray[Any]) -> int:
    """The host address of an array's first element, bytes.

    What ``array.ctypes.data`` says, which makes several objects to say it; compiled code is called with addresses all the time.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.arange(6).reshape(2, 3)
    >>> address_of(numbers[1]) - address_of(numbers)
    24
    """
    return _word(id(array) + _DATA).value if _IS_FIRST else int(array.ctypes.data)
