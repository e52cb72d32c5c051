"""Nested tuples of integers and symbols, the leaves of layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import prod

from ptxlab._records import dataclass
from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["LayoutError", "Symbol", "as_tuple", "flatten", "integers", "prefix_product", "product", "substitute", "transform"]


class LayoutError(PtxlabError, ValueError):
    """An operation that the layout does not allow, or text that is no layout."""

    def __init__(self, message: str, fix: str = "", code: str = "D741") -> None:
        super().__init__(diagnose(code, message, fix=fix))


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic leaf: ``T``, ``2k``, ``8T``, ``SBO``; ``1T`` and ``T`` are equal but print as they were written."""

    name: str
    coefficient: int = 1
    written: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.coefficient}{self.name}" if self.written or self.coefficient != 1 else self.name


def as_tuple(value: object) -> tuple[object, ...]:
    """The value, or a tuple of it alone."""
    return value if isinstance(value, tuple) else (value,)


def flatten(value: object) -> tuple[object, ...]:
    """All leaves in order.

    Examples
    --------
    >>> flatten(((8, 2), (4, (4, 1))))
    (8, 2, 4, 4, 1)
    """
    return tuple(_leaves(value))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def integers(value: object) -> tuple[int, ...]:
    """All leaves, which must be integers."""
    found = []
    for leaf in _leaves(value):
        if not isinstance(leaf, int):
            raise LayoutError(f"the layout contains the symbol {leaf}", fix="give it a value with substitute()")
        found.append(leaf)
    return tuple(found)


def product(value: object) -> int:
    """Product of all leaves."""
    return prod(integers(value))


def transform(value: object, leaf: Callable[[object], object]) -> object:
    """The same nesting, every leaf replaced."""
    return tuple(transform(part, leaf) for part in value) if isinstance(value, tuple) else leaf(value)


def prefix_product(shape: object, first: int = 1) -> object:
    """Compact strides of a shape, first leaf fastest.

    Examples
    --------
    >>> prefix_product(((8, 2), 4))
    ((1, 8), 16)
    """
    if not isinstance(shape, tuple):
        return first
    found = []
    for part in shape:
        found.append(prefix_product(part, first))
        first *= product(part)
    return tuple(found)


def substitute(value: object, values: Mapping[str, int]) -> object:
    """The same nesting with symbols of known value replaced."""

    def leaf(item: object) -> object:
        return item.coefficient * values[item.name] if isinstance(item, Symbol) and item.name in values else item

    return transform(value, leaf)
