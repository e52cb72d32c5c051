"""Results of instructions on numbers, and on symbols with offsets, for all kernels: they are the same whatever a symbol stands for."""

from __future__ import annotations

from collections.abc import Hashable

from ptxlab.check.static.dataflow._values import Data, Symbol, Value
from ptxlab.native import BoundedCache

__all__ = ["Outcomes"]

_MOST = 2048
_EXACT = -1
_KNOWN: BoundedCache[Hashable, list[tuple[int, Data]]] = BoundedCache(_MOST)
"""For each result the position of its symbol among those of the sources, and its offset."""


class Outcomes:
    """What is known of an instruction on certain sources; ``instruction`` is all else that its results depend on."""

    def __init__(self, instruction: Hashable, sources: list[Value | None]) -> None:
        self._symbols: list[Symbol] = []
        self._root = ""
        key: list[Hashable] = [instruction]
        for value in sources:
            if value is None:
                key.append(None)
                continue
            self._root = self._root or value.root
            key += self._position(value.symbol), value.key[1]
        self._key = tuple(key)

    def _position(self, symbol: Symbol | None) -> int:
        if symbol is None:
            return _EXACT
        if symbol not in self._symbols:
            self._symbols.append(symbol)
        return self._symbols.index(symbol)

    def find(self) -> tuple[Value, ...] | None:
        """The results, if they are known."""
        found = _KNOWN.get(self._key)
        if found is None:
            return None
        return tuple([Value(None if at == _EXACT else self._symbols[at], data, self._root) for at, data in found])

    def keep(self, results: tuple[Value, ...]) -> None:
        """Note results, unless there is a symbol in them that stands for the result of this kernel only."""
        if all(value.symbol is None or value.symbol in self._symbols for value in results):
            _KNOWN[self._key] = [(self._position(value.symbol), value.data) for value in results]
