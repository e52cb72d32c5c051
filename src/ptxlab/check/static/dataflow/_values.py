"""What is known of the value of a register: a constant, one number for each thread, or a symbol plus such an offset."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["EVERYWHERE", "Data", "Symbol", "Symbols", "Value", "constant"]

Data: TypeAlias = "int | NDArray[Any]"
"""One number, or one for each thread of the CTA."""


EVERYWHERE = frozenset({1 << 40})
"""The leaves of a symbol that may have another value after any turn of any loop."""


class Symbol:
    """An unknown number that is the same wherever it is named.

    Attributes
    ----------
    key : what it is: a parameter, what an instruction has written, registers that join at a block, or an instruction with its operands
    leaves : the indices of the ops and the numbers of the blocks (as ``-1 - number``) whose next execution gives it another value
    uniform : whether all threads of a CTA have the same
    limits : for a predicate, the threads in which it may hold; None: any
    root : the name of the variable whose address it was made from
    options : exact values that it has on some path
    first : whether it has the first option whenever its instruction is executed for the first time
    zeros : how many of its low bits are zero
    """

    __slots__ = ("first", "key", "leaves", "limits", "options", "root", "uniform", "zeros")

    def __init__(self, key: Hashable, leaves: frozenset[int], uniform: bool, limits: NDArray[np.bool_] | None, root: str) -> None:
        self.key, self.leaves, self.uniform, self.limits, self.root = key, leaves, uniform, limits, root
        self.options: tuple[Value, ...] = ()
        self.first = False
        self.zeros = 0


@dataclass(slots=True, eq=False)
class Value:
    """``symbol + data``; without a symbol exactly ``data``. Numbers are unsigned; those of a predicate are added without carry."""

    symbol: Symbol | None
    data: Data
    root: str = ""
    """The variable whose address it was made from, if any."""
    _key: tuple[int, Hashable] | None = None
    _inverse: Value | None = None

    @property
    def constant(self) -> int | None:
        """The number, if it is known and the same in all threads."""
        return self.data if self.symbol is None and isinstance(self.data, int) else None

    @property
    def exact(self) -> bool:
        """Whether the number of each thread is known."""
        return self.symbol is None

    @property
    def key(self) -> tuple[int, Hashable]:
        """Equal for equal values: what stands for the symbol, and what stands for the data."""
        found = self._key
        if found is None:
            data = self.data
            found = self._key = id(self.symbol), data if isinstance(data, int) else (data.dtype.char, data.tobytes())
        return found

    @property
    def inverse(self) -> Value:
        """Of a predicate, its negation: the same object each time, since what is calculated from values is known by their identity."""
        found = self._inverse
        if found is None:
            data = self.data
            found = self._inverse = Value(self.symbol, data ^ 1 if isinstance(data, int) else ~data.astype(np.bool_))
        return found

    def same(self, other: Value) -> bool:
        """Whether two values are surely equal."""
        if self is other:
            return True
        if self.symbol is not other.symbol:
            return False
        a, b = self.data, other.data
        if isinstance(a, int) or isinstance(b, int):
            return isinstance(a, int) and isinstance(b, int) and a == b
        return a is b or np.array_equal(a, b)

    @property
    def alternatives(self) -> tuple[Value, ...]:
        """Exact values that it has on some path; itself if it is exact."""
        if self.symbol is None:
            return (self,)
        if not self.symbol.options or (isinstance(self.data, int) and not self.data):
            return self.symbol.options
        return tuple(Value(None, _added(option.data, self.data), self.root) for option in self.symbol.options)

    @property
    def first(self) -> Value | None:
        """The exact value that it has when its instruction is executed for the first time, or always."""
        if self.symbol is None:
            return self
        return self.alternatives[0] if self.symbol.first else None

    def low(self, bits: int) -> Data | None:
        """The lowest bits of the number, if they are known."""
        if self.symbol is not None and self.symbol.zeros < bits:
            return None
        mask = (1 << bits) - 1
        return self.data & mask if isinstance(self.data, int) else self.data & self.data.dtype.type(mask)

    def of(self, thread: int) -> int | None:
        """The number in one thread, if it is known."""
        if self.symbol is not None:
            return None
        return self.data if isinstance(self.data, int) else int(self.data[thread])


def _added(a: Data, b: Data) -> Data:
    """The sum of two unsigned numbers, of 32 bits if an offset is a negative number of 32 bits."""
    wraps = isinstance(b, int) and 1 << 31 <= b < 1 << 32
    mask = (1 << (32 if wraps else 64)) - 1
    if isinstance(a, int) and isinstance(b, int):
        return a + b & mask
    total: NDArray[Any] = np.asarray(a, np.uint64) + np.asarray(b, np.uint64) & np.uint64(mask)
    return total


def constant(value: int) -> Value:
    """A value that is known and the same in all threads."""
    return Value(None, value)


class Symbols:
    """The symbols of one program, by their keys."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Symbol] = {}

    def get(
        self,
        key: Hashable,
        leaves: frozenset[int] = frozenset(),
        uniform: bool = False,
        limits: NDArray[np.bool_] | None = None,
        root: str = "",
    ) -> Symbol:
        """The symbol of a key."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Symbol(key, leaves, uniform, limits, root)
        return found
