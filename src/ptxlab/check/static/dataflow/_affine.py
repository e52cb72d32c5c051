"""The semantics of pure instructions on values: exact numbers, and symbols with an offset that the instruction keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._values import Symbol
from ptxlab.engine.reference import NumpyVocabulary

__all__ = ["Affine", "Multiple", "Opaque", "Sum"]


class Opaque(Exception):
    """The result is no symbol plus an offset.

    ``limits`` are the threads in which a predicate may hold, or may not hold if it is ``inverted``; ``options`` what the result may be;
    ``low`` its low bits, and how many of them are known.
    """

    def __init__(
        self,
        limits: NDArray[np.bool_] | None = None,
        options: tuple[Any, ...] = (),
        inverted: bool = False,
        low: tuple[Any, int] | None = None,
    ) -> None:
        super().__init__()
        self.limits = limits
        self.options = options
        self.inverted = inverted
        self.low = low


class Sum:
    """A symbol plus numbers of a type. NumPy's functions raise TypeError for it."""

    __slots__ = ("offset", "symbol")
    __array_ufunc__ = None

    def __init__(self, symbol: Symbol, offset: NDArray[Any]) -> None:
        self.symbol, self.offset = symbol, offset


class Multiple:
    """An unknown multiple of a power of two, whose exponent is ``zeros``."""

    __slots__ = ("zeros",)
    __array_ufunc__ = None

    def __init__(self, zeros: int) -> None:
        self.zeros = zeros


class Affine(NumpyVocabulary):
    """Evaluates what keeps the form, and raises `Opaque`, TypeError or AttributeError elsewhere.

    An address is assumed not to wrap when its width changes.
    """

    def type(self, a: Any) -> str:
        return super().type(a.offset if type(a) is Sum else a)

    def _keep(self, name: str, a: Any, type: str) -> Any:
        exact = getattr(super(), name)
        if type == "i1" and self.type(a) != "i1" and isinstance(a, Sum):
            raise Opaque
        return Sum(a.symbol, exact(a.offset, type)) if isinstance(a, Sum) else exact(a, type)

    def zext(self, a: Any, type: str) -> Any:
        return self._keep("zext", a, type)

    def sext(self, a: Any, type: str) -> Any:
        return self._keep("sext", a, type)

    def trunc(self, a: Any, type: str) -> Any:
        return self._keep("trunc", a, type)

    def bitcast(self, a: Any, type: str) -> Any:
        if isinstance(a, Sum) and type[0] == "f":
            raise Opaque
        return self._keep("bitcast", a, type)

    def add(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        if isinstance(a, Sum) and isinstance(b, Sum):
            raise Opaque
        if isinstance(a, Sum):
            return Sum(a.symbol, a.offset + b)
        return Sum(b.symbol, a + b.offset) if isinstance(b, Sum) else a + b

    def sub(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        if isinstance(b, Sum):
            if isinstance(a, Sum) and a.symbol is b.symbol:
                return a.offset - b.offset
            raise Opaque
        return Sum(a.symbol, a.offset - b) if isinstance(a, Sum) else a - b

    def shl(self, a: Any, b: Any) -> Any:
        if isinstance(a, Sum) and not isinstance(b, Sum) and b.size == 1:
            return Multiple(int(b.flat[0]))
        return super().shl(a, b)

    def eq(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        return self._compared(a, b, np.equal)

    def ne(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        return self._compared(a, b, np.not_equal)

    def _compared(self, a: Any, b: Any, compare: Any) -> Any:
        if isinstance(a, Sum) or isinstance(b, Sum):
            if isinstance(a, Sum) and isinstance(b, Sum) and a.symbol is b.symbol:
                return compare(a.offset, b.offset)
            raise Opaque
        return compare(a, b)

    def not_(self, a: Any) -> Any:  # type: ignore[override]
        if isinstance(a, Sum):
            if self.type(a) != "i1":
                raise Opaque
            return Sum(a.symbol, ~a.offset)
        return ~a

    def and_(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        if not isinstance(a, Sum) and not isinstance(b, Sum):
            return a & b
        if self.type(a) == "i1":
            for known, other in ((a, b), (b, a)):
                if not isinstance(known, Sum):
                    if known.all():
                        return other
                    if not known.any():
                        return known
            limits = [_limits(each) for each in (a, b)]
            given = [each for each in limits if each is not None]
            if given:
                raise Opaque(given[0] & given[-1])
        elif not isinstance(b, Sum) and not (~b).any():
            return a
        raise Opaque

    def or_(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        if isinstance(b, Multiple) and not isinstance(a, Sum | Multiple):
            raise Opaque(low=(a & a.dtype.type((1 << b.zeros) - 1), b.zeros))
        if not isinstance(a, Sum) and not isinstance(b, Sum):
            return a | b
        for known, other in ((a, b), (b, a)):
            if not isinstance(known, Sum) and not known.any():
                return other
            if not isinstance(known, Sum) and self.type(known) == "i1" and known.all():
                return known
        if self.type(a) == "i1":
            given = [each for each in (_limits(self.not_(each)) for each in (a, b)) if each is not None]
            if given:
                raise Opaque(given[0] & given[-1], inverted=True)
        raise Opaque

    def select(self, condition: Any, a: Any, b: Any) -> Any:  # type: ignore[override]
        if any(isinstance(each, Multiple) for each in (a, b)):
            raise Opaque
        if not any(isinstance(each, Sum) for each in (condition, a, b)):
            return np.where(condition, a, b)
        if not isinstance(condition, Sum):
            if condition.all():
                return a
            if not condition.any():
                return b
            raise Opaque
        raise Opaque(options=tuple(each for each in (a, b) if not isinstance(each, Sum)))


def _limits(predicate: Any) -> NDArray[np.bool_] | None:
    """The threads in which a predicate may hold."""
    if not isinstance(predicate, Sum):
        return np.asarray(predicate)
    return predicate.symbol.limits if not predicate.offset.any() else None
