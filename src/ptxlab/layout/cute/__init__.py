"""CuTe layouts: nested shapes and strides, their algebra, swizzles, and the notation. Section "Canonical Layouts" is written in it."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.layout.cute._layout import ComposedLayout, Layout, Swizzle, make_layout, parse_layout
from ptxlab.layout.cute._tuples import LayoutError, Symbol, flatten

if TYPE_CHECKING:
    from ptxlab.layout.cute._algebra import (
        coalesce,
        complement,
        composition,
        filter_zeros,
        left_inverse,
        logical_divide,
        logical_product,
        right_inverse,
        tiled_divide,
        tiled_product,
        zipped_divide,
        zipped_product,
    )
else:
    _HOMES = {
        "_algebra": (
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
        )
    }
    __getattr__ = deferred(__name__, _HOMES)

__all__ = [
    "ComposedLayout",
    "Layout",
    "LayoutError",
    "Swizzle",
    "Symbol",
    "coalesce",
    "complement",
    "composition",
    "filter_zeros",
    "flatten",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_layout",
    "parse_layout",
    "right_inverse",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]
