"""The algebra of layouts: coalesce, composition, complement, inverses, divisions and products, as CuTe defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ptxlab.layout.cute._layout import ComposedLayout, Layout, make_layout
from ptxlab.layout.cute._tuples import LayoutError, integers, prefix_product

__all__ = [
    "coalesce",
    "complement",
    "composition",
    "filter_zeros",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "right_inverse",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]


L = TypeVar("L", Layout, ComposedLayout)


def _flat(layout: Layout) -> list[tuple[int, int]]:
    return list(zip(integers(layout.shape), integers(layout.stride), strict=True))


def _of(modes: list[tuple[int, int]]) -> Layout:
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(*(tuple(part) for part in zip(*modes, strict=True)))


def coalesce(layout: Layout) -> Layout:
    """The same function of one index, with as few modes as possible.

    Examples
    --------
    >>> str(coalesce(Layout((2, (1, 6)), (1, (7, 2)))))
    '12:1'
    """
    modes: list[tuple[int, int]] = []
    for size, step in _flat(layout):
        if size == 1:
            continue
        if modes and modes[-1][0] * modes[-1][1] == step:
            modes[-1] = (modes[-1][0] * size, modes[-1][1])
        else:
            modes.append((size, step))
    return _of(modes)


def filter_zeros(layout: Layout) -> Layout:
    """The layout without the modes that do not move, coalesced.

    Examples
    --------
    >>> str(filter_zeros(Layout((4, 2, 8), (1, 0, 4))))
    '32:1'
    """
    return coalesce(_of([(1 if step == 0 else size, step) for size, step in _flat(layout)]))


def composition(a: L, b: Any) -> L:
    """``a(b(x))``; b is a layout, an integer (a compact layout of that size), or a tuple of these, one for each mode of a.

    Raises
    ------
    LayoutError
        if the shapes do not divide

    Examples
    --------
    >>> str(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    '((2,2),3):((24,2),8)'
    """
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, composition(a.layout, b), a.offset)
    return _by_mode(_compose, a, b)


def _compose(a: Layout, b: Layout) -> Layout:
    if isinstance(b.shape, tuple):
        return make_layout(*(_compose(a, b[mode]) for mode in range(b.rank)))
    if b.stride == 0:
        return Layout(b.shape, 0)
    size, step = integers((b.shape, b.stride))
    found: list[tuple[int, int]] = []
    modes = _flat(coalesce(a))
    for shape, stride in modes[:-1]:
        if shape % step and step % shape:
            raise LayoutError(f"{b} cannot be composed with {a}: stride {step} and shape {shape} do not divide each other")
        taken = min(max(1, shape // step), size)
        if size % taken:
            raise LayoutError(f"{b} cannot be composed with {a}: {taken} does not divide {size}")
        if taken != 1:
            found.append((taken, step * stride))
        size //= taken
        step = -(-step // shape)
    if size != 1 or not found:
        found.append((size, step * modes[-1][1]))
    return _of(found)


def _by_mode(operation: Callable[[Layout, Layout], Layout], a: Layout, tiler: Any) -> Layout:
    """The operation on the layout, or on its modes if the tiler is a tuple; an integer is a compact layout of that size."""
    if not isinstance(tiler, tuple):
        return operation(a, Layout(tiler) if isinstance(tiler, int) else tiler)
    if a.rank < len(tiler):
        raise LayoutError(f"{len(tiler)} tilers for the {a.rank} modes of {a}")
    modes = [_by_mode(operation, a[mode], part) for mode, part in enumerate(tiler)]
    return make_layout(*modes, *(a[mode] for mode in range(len(tiler), a.rank)))


def complement(layout: Layout, size: int = 1) -> Layout:
    """What the layout leaves out: a layout whose offsets, added to those of this one, make ``size`` of them without a gap.

    Examples
    --------
    >>> str(complement(Layout((2, 2), (1, 6)), 24))
    '(3,2):(2,12)'
    """
    found: list[tuple[int, int]] = []
    current = 1
    for step, count in sorted((step, count) for count, step in _flat(layout) if step and count != 1):
        if step < current or step % current:
            raise LayoutError(f"{layout} has no complement: stride {step} is not a multiple of {current}")
        found.append((step // current, current))
        current = count * step
    found.append((-(-size // current), current))
    return coalesce(_of(found))


def right_inverse(layout: Layout) -> Layout:
    """The longest layout r with ``layout(r(i)) == i``, for a layout without repeated offsets.

    Examples
    --------
    >>> str(right_inverse(Layout((4, 8), (8, 1))))
    '(8,4):(4,1)'
    """
    modes = _flat(layout)
    places = integers(prefix_product(tuple(size for size, _ in modes)))
    found: list[tuple[int, int]] = []
    current = 1
    for step, size, place in sorted((step, size, place) for (size, step), place in zip(modes, places, strict=True)):
        if size == 1:
            continue
        if step != current:
            break
        found.append((size, place))
        current = size * step
    return coalesce(_of(found))


def left_inverse(layout: Layout) -> Layout:
    """A layout l with ``l(layout(i)) == i``, for a layout without repeated offsets.

    Examples
    --------
    >>> a = Layout((4, 2), (2, 16))
    >>> [left_inverse(a)(a(i)) for i in range(8)]
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    return right_inverse(make_layout(layout, complement(layout)))


def logical_divide(a: Layout, tiler: Any) -> Layout:
    """Each divided mode becomes (tile, rest).

    Examples
    --------
    >>> str(logical_divide(Layout(24, 2), Layout(4, 2)))
    '(4,(2,3)):(4,(2,16))'
    """
    return _by_mode(lambda a, tiler: _compose(a, make_layout(tiler, complement(tiler, a.size))), a, tiler)


def logical_product(a: Layout, tiler: Any) -> Layout:
    """Each mode becomes (tile, repetitions).

    Examples
    --------
    >>> str(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    '((2,2),(2,3)):((4,1),(2,8))'
    """
    return _by_mode(lambda a, tiler: make_layout(a, _compose(complement(a, a.size * tiler.cosize), tiler)), a, tiler)


def _zip(layout: Layout, tiler: Any) -> Layout:
    """Gather the first parts of the modes, and the second parts."""
    if not isinstance(tiler, tuple):
        return layout
    pairs = [_zip(layout[mode], part) for mode, part in enumerate(tiler)]
    rest = [layout[mode] for mode in range(len(tiler), layout.rank)]
    return make_layout(make_layout(*(pair[0] for pair in pairs)), make_layout(*(pair[1] for pair in pairs), *rest))


def zipped_divide(a: Layout, tiler: Any) -> Layout:
    """``((tiles...), (rests...))``.

    Examples
    --------
    >>> str(zipped_divide(Layout((8, 16), (16, 1)), (4, 8)))
    '((4,8),(2,2)):((16,1),(64,8))'
    """
    return _zip(logical_divide(a, tiler), tiler)


def zipped_product(a: Layout, tiler: Any) -> Layout:
    """``((tiles...), (repetitions...))``."""
    return _zip(logical_product(a, tiler), tiler)


def _tiled(zipped: Layout) -> Layout:
    rest = zipped[1]
    return make_layout(zipped[0], *(rest[mode] for mode in range(rest.rank)))


def tiled_divide(a: Layout, tiler: Any) -> Layout:
    """``((tiles...), rest, rest, ...)``."""
    return _tiled(zipped_divide(a, tiler))


def tiled_product(a: Layout, tiler: Any) -> Layout:
    """``((tiles...), repetitions, repetitions, ...)``."""
    return _tiled(zipped_product(a, tiler))
