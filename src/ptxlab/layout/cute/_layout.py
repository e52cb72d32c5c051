"""`Layout`, `Swizzle`, a layout seen through a swizzle, and their notation.

CuTe writes ``((8,m),(T,2k)):((1T,SBO),(1,LBO))``, and ``Swizzle<3,4,3> o ...``.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import add
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.layout.cute._tuples import LayoutError, Symbol, as_tuple, flatten, integers, prefix_product, product, substitute, transform

__all__ = ["ComposedLayout", "Layout", "Swizzle", "make_layout", "parse_layout"]

Offsets = NDArray[np.int64]

_MOST = 16
"""Rows and columns of the table that notebooks show; the others are left out."""


def _text(value: object) -> str:
    return f"({','.join(map(_text, value))})" if isinstance(value, tuple) else str(value)


def _congruent(shape: object, stride: object) -> bool:
    if isinstance(shape, tuple):
        return isinstance(stride, tuple) and len(shape) == len(stride) and all(map(_congruent, shape, stride))
    return not isinstance(stride, tuple)


def _mode_offsets(shape: object, stride: object) -> Offsets:
    """Offsets of one mode in the order of its coordinates, first part fastest."""
    found = np.zeros(1, np.int64)
    for size, step in zip(integers(shape), integers(stride), strict=True):
        found = (np.arange(size, dtype=np.int64)[:, None] * step + found).reshape(-1)
    return found


@dataclass(frozen=True, slots=True)
class Layout:
    """A CuTe layout: a nested shape and its strides; coordinates in, offsets out.

    Parameters
    ----------
    shape : an integer or a nested tuple; leaves may be `Symbol`
    stride : of the same nesting; None: compact, first mode fastest

    Examples
    --------
    >>> a = Layout(((8, 2), (4, 4)), ((4, 32), (1, 64)))
    >>> str(a), a(9, 5), a.size, a.cosize
    ('((8,2),(4,4)):((4,32),(1,64))', 101, 256, 256)
    >>> a.offsets()[9, 5]
    np.int64(101)
    """

    shape: Any
    stride: Any

    def __init__(self, shape: object, stride: object = None) -> None:
        if stride is None:
            stride = prefix_product(shape)
        if not _congruent(shape, stride):
            raise LayoutError(f"shape {_text(shape)} and stride {_text(stride)} are not nested alike")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return product(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest offset."""
        return 1 + sum((size - 1) * abs(step) for size, step in zip(integers(self.shape), integers(self.stride), strict=True))

    @property
    def rank(self) -> int:
        """Number of modes."""
        return len(as_tuple(self.shape))

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols."""
        return frozenset(leaf.name for leaf in flatten((self.shape, self.stride)) if not isinstance(leaf, int))  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, mode: int) -> Layout:
        if not isinstance(self.shape, tuple):
            if mode:
                raise IndexError(f"mode {mode} of a layout of one mode")
            return self
        return Layout(self.shape[mode], self.stride[mode])

    def __call__(self, *coordinate: Any) -> Any:
        """The offset of a coordinate: one index for the whole layout, one for each mode, or nested ones.

        An index is an integer, an array of them, or (where the sizes are powers of two) anything that knows ``>>``, ``&``, ``*`` and ``+``.
        """
        point = coordinate[0] if len(coordinate) == 1 else coordinate
        return _offset(point, self.shape, self.stride)

    def offsets(self) -> Offsets:
        """Offsets of all coordinates; one axis for each mode."""
        shapes, strides = as_tuple(self.shape), as_tuple(self.stride)
        found = np.zeros((1,) * len(shapes), np.int64)
        for axis, (shape, stride) in enumerate(zip(shapes, strides, strict=True)):
            place = [1] * len(shapes)
            place[axis] = -1
            found = found + _mode_offsets(shape, stride).reshape(place)
        return found

    def substitute(self, **values: int) -> Layout:
        """The layout with symbols replaced.

        Examples
        --------
        >>> from ptxlab.layout import parse_layout
        >>> str(parse_layout("((8,m),(T,2k)):((1T,SBO),(1,LBO))").substitute(T=4, m=2, k=2, LBO=64, SBO=32))
        '((8,2),(4,4)):((4,32),(1,64))'
        """
        return Layout(substitute(self.shape, values), substitute(self.stride, values))

    def coefficients(self, symbol: str, **sizes: int) -> Layout:
        """The layout whose strides are the coefficients of one symbol; ``sizes`` are the values of symbols in the shape.

        Examples
        --------
        >>> from ptxlab.layout import parse_layout
        >>> cells = parse_layout("((4,8),(2,n)):((C,L),(8L,4C))")
        >>> str(cells.coefficients("C", n=2)), str(cells.coefficients("L", n=2))
        ('((4,8),(2,2)):((1,0),(0,4))', '((4,8),(2,2)):((0,1),(8,0))')
        """

        def leaf(item: object) -> object:
            return item.coefficient if isinstance(item, Symbol) and item.name == symbol else 0

        return Layout(substitute(self.shape, sizes), transform(self.stride, leaf))

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"

    def _repr_html_(self) -> str:
        return _html(self, self)


def _offset(point: Any, shape: Any, stride: Any) -> Any:
    if not isinstance(shape, tuple):
        if isinstance(point, tuple):
            raise LayoutError(f"the coordinate {_text(point)} is nested more deeply than the layout")
        return point * stride
    if isinstance(point, tuple):
        if len(point) != len(shape):
            raise LayoutError(f"the coordinate {_text(point)} has {len(point)} parts, the layout {len(shape)} modes")
        return reduce(add, (_offset(*parts) for parts in zip(point, shape, stride, strict=True)))
    terms = []
    for part, step in zip(shape[:-1], stride[:-1], strict=True):
        rest, within = _split(point, product(part))
        terms.append(_offset(within, part, step))
        point = rest
    # The last mode is open, as in CuTe.
    return reduce(add, [*terms, _offset(point, shape[-1], stride[-1])])


def _split(index: Any, size: int) -> tuple[Any, Any]:
    """Quotient and remainder."""
    if size & (size - 1):
        return index // size, index % size
    return index >> (size.bit_length() - 1), index & (size - 1)


def make_layout(*layouts: Layout) -> Layout:
    """One layout with the given ones for modes.

    Examples
    --------
    >>> str(make_layout(Layout(8), Layout((2, 2), (16, 8))))
    '(8,(2,2)):(1,(16,8))'
    """
    return Layout(tuple(one.shape for one in layouts), tuple(one.stride for one in layouts))


@dataclass(frozen=True, slots=True)
class Swizzle:
    """``Swizzle<bits, base, shift>``: the ``bits`` bits from ``base`` on are XORed with those ``shift`` higher.

    Examples
    --------
    >>> s = Swizzle(3, 4, 3)
    >>> str(s), s(0x390), str(s.recast(16))
    ('Swizzle<3,4,3>', 992, 'Swizzle<3,3,3>')
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits:
            raise LayoutError(f"{self}: bits and base are not negative, and shift is at least bits")

    def __call__(self, offset: Any) -> Any:
        """The swizzled offset, of an integer or an array."""
        source = self.base + max(self.shift, 0)
        target = self.base - min(self.shift, 0)
        return offset ^ (offset >> source & ((1 << self.bits) - 1)) << target

    def recast(self, bits: int) -> Swizzle:
        """The same swizzle on offsets in elements of ``bits`` bits instead of bytes."""
        if bits & (bits - 1):
            raise LayoutError(f"elements of {bits} bits do not divide the units of a swizzle")
        return Swizzle(self.bits, self.base - (bits.bit_length() - 4), self.shift) if self.bits else self

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True, slots=True)
class ComposedLayout:
    """A layout seen through a swizzle: ``swizzle(offset + layout(coordinate))``.

    Examples
    --------
    >>> c = ComposedLayout(Swizzle(1, 2, 3), Layout((8, 8), (8, 1)))
    >>> str(c), c(4, 0), c.offsets()[4, 0]
    ('Swizzle<1,2,3> o (8,8):(8,1)', 36, np.int64(36))
    """

    swizzle: Swizzle
    layout: Layout
    offset: int = 0

    def __call__(self, *coordinate: Any) -> int:
        found: int = self.swizzle(self.offset + self.layout(*coordinate))
        return found

    def offsets(self) -> Offsets:
        """Swizzled offsets of all coordinates; one axis for each mode."""
        found: Offsets = self.swizzle(self.offset + self.layout.offsets())
        return found

    @property
    def shape(self) -> Any:
        """Shape of the layout."""
        return self.layout.shape

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.layout.size

    def substitute(self, **values: int) -> ComposedLayout:
        """The layout with symbols replaced."""
        return ComposedLayout(self.swizzle, self.layout.substitute(**values), self.offset)

    def __str__(self) -> str:
        middle = f"{self.offset} o " if self.offset else ""
        return f"{self.swizzle} o {middle}{self.layout}"

    def _repr_html_(self) -> str:
        return _html(self, self.layout)


def _html(layout: Layout | ComposedLayout, inner: Layout) -> str:
    """The notation; of a layout of integers with one or two modes also offsets, coordinates of the first mode downward."""
    from html import escape

    text = f"<p><code>{escape(str(layout))}</code></p>"
    if inner.symbols or inner.rank > 2:
        return text
    found = np.atleast_2d(layout.offsets().T).T
    rows, columns = found.shape
    shown = found[:_MOST, :_MOST].tolist()
    more = ["<td>...</td>"] * (columns > _MOST)
    head = "".join(["<th></th>", *(f"<th>{j}</th>" for j in range(len(shown[0]))), *more])
    lines = ["".join([f"<th>{i}</th>", *(f"<td>{x}</td>" for x in line), *more]) for i, line in enumerate(shown)]
    note = (
        f"<p>{rows} x {columns} coordinates; the first {len(shown)} x {len(shown[0])}</p>"
        if found.size > len(shown) * len(shown[0])
        else ""
    )
    return f"{text}<table>{''.join(f'<tr>{line}</tr>' for line in [head, *lines])}</table>{note}"


_SWIZZLE = re.compile(r"\s*(?:Swizzle|Sw|S)\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>\s*[o∘]\s*")
_OFFSET = re.compile(r"(?:(\d+)|smem_ptr\[[^]]*\]\([^)]*\))\s*[o∘]\s*")
_LEAF = re.compile(r"_?(\d+)?([A-Za-z][A-Za-z0-9]*)?")
_FORM = "write a layout as SHAPE:STRIDE, for instance Swizzle<3,4,3> o ((8,2),(4,4)):((4,32),(1,64))"


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def refuse(self, wanted: str) -> NoReturn:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        raise LayoutError(f"column {self.at + 1} of {self.text!r}: expected {wanted}, found {found}", fix=_FORM, code="D742")

    def skip(self, literal: str) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def value(self) -> object:
        if self.skip("("):
            parts: list[object] = []
            while not parts or self.skip(","):
                parts.append(self.value())
            if not self.skip(")"):
                self.refuse("',' or ')'")
            return tuple(parts)
        match = _LEAF.match(self.text, self.at)
        if match is None or match.group(1) is match.group(2) is None:
            self.refuse("an integer, a symbol or '('")
        self.at = match.end()
        number, name = match.groups()
        if name is None:
            return int(number)
        return Symbol(name, int(number or 1), written=number is not None)


def parse_layout(text: str) -> Layout | ComposedLayout:
    """Read CuTe notation; integers, symbols, and multiples of symbols. A missing stride means compact.

    Raises
    ------
    LayoutError
        if the text is not a layout

    Examples
    --------
    >>> str(parse_layout("Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))"))
    'Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))'
    >>> parse_layout("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")(1, 8)
    72
    """
    reader = _Reader(text)
    swizzle = _SWIZZLE.match(text)
    offset = 0
    if swizzle is not None:
        reader.at = swizzle.end()
        middle = _OFFSET.match(text, reader.at)
        if middle is not None:
            reader.at = middle.end()
            offset = int(middle.group(1) or 0)
    shape = reader.value()
    stride = reader.value() if reader.skip(":") else None
    reader.skip("")
    if reader.at < len(text):
        reader.refuse("':' or the end" if stride is None else "the end")
    layout = Layout(shape, stride)
    return layout if swizzle is None else ComposedLayout(Swizzle(*map(int, swizzle.groups())), layout, offset)
