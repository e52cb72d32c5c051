"""Matrices whose elements come from several arrays: what is of one array has an image, and A and B are compared as far as both have one.

Which k of one array belongs to which k of another one, no address says. Where k of A is of one array and the same k of B of one array, too,
both must advance alike: if the k of the two are the same ones, moved or in steps of another size, they must stand in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands.elements._images import Addresses, RegisterImage, image_of_elements
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.machine.memory.elements import ArrayPlace

__all__ = ["ArrayPart", "first_apart", "parts_of"]

_FEWEST = 2
"""The k of an order."""
ArrayAt = Callable[[int], "ArrayPlace | None"]


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPart:
    """The elements of a matrix that come from one array.

    Attributes
    ----------
    array : the array
    row : the first row of the matrix that has them
    columns : the units of a row, in order
    k : of each unit the index in the dimension of the array in which k advances
    per_unit : elements that count as one
    """

    array: ArrayPlace
    row: int
    columns: NDArray[np.intp]
    k: NDArray[np.int64]
    per_unit: int


def parts_of(elements: Addresses, per_unit: int, fits: Callable[[ArrayPlace], bool], array_at: ArrayAt) -> list[ArrayPart]:
    """The parts of a matrix ``[row, unit]``, all of whose sources are known, of each array that fits, as far as its k is known."""
    found: list[ArrayPart] = []
    rest = elements > NO_SOURCE
    while rest.any():
        array = array_at(int(elements[rest].min()))
        if array is None:
            return []
        indices, held = array.locate(elements.reshape(-1))
        own = rest & (held & (indices < array.shape).all(axis=1)).reshape(elements.shape)
        if not own.any():
            return []
        rest &= ~own
        rows, columns = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
        if not fits(array) or own.sum() < rows.size * columns.size or columns.size < _FEWEST:
            continue
        places = elements[np.ix_(rows, columns)]
        image = image_of_elements(places, array, per_unit)
        if not isinstance(image, RegisterImage) or image.doubt is not None:
            continue
        if image.k_dimension >= 0 and image.k_dimension not in image.row_dimensions:
            k = array.locate(places[0])[0][:, image.k_dimension]
            found.append(ArrayPart(array, int(rows[0]), columns, k, per_unit))
    return found


def first_apart(of_a: Sequence[ArrayPart], of_b: Sequence[ArrayPart]) -> tuple[ArrayPart, ArrayPart, int] | None:
    """Parts of A and of B that have units in common in which their k are in different orders, and the first of these units."""
    for a in of_a:
        for b in of_b:
            if a.per_unit == b.per_unit:
                units, in_a, in_b = np.intersect1d(a.columns, b.columns, assume_unique=True, return_indices=True)
                apart = _apart(a.k[in_a], b.k[in_b]) if units.size >= _FEWEST else None
                if apart is not None:
                    return a, b, int(units[apart])
    return None


def _apart(a: NDArray[np.int64], b: NDArray[np.int64]) -> int | None:
    """Where the order of two sequences differs; None if it does not, if one is the other one backwards, or if they have different steps."""
    order_a, order_b = np.argsort(a, kind="stable"), np.argsort(b, kind="stable")
    steps_a, steps_b = np.diff(a[order_a]), np.diff(b[order_b])
    if (steps_a == 0).any() or (steps_b == 0).any():
        return None
    if (steps_a * steps_b[0] != steps_b * steps_a[0]).any() and (steps_a * steps_b[-1] != steps_b[::-1] * steps_a[0]).any():
        return None
    places_a, places_b = np.argsort(order_a), np.argsort(order_b)
    if (places_a == places_b).all() or (places_a == len(a) - 1 - places_b).all():
        return None
    return int((places_a != places_b).argmax())
