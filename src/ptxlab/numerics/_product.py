"""A step that is carried out again and again on operands of the same types and sizes: looked up and checked once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ptxlab.formats import FORMATS
from ptxlab.numerics._kernels import multiplier
from ptxlab.numerics._prepare_ir import SIGN
from ptxlab.numerics._prepared import BLOCK, Prepared, check_options, fill
from ptxlab.numerics._steps import find_step, is_wide

__all__ = ["Product", "Workspace", "product_of"]


class Workspace(NamedTuple):
    """Room for the prepared operands of one product; its caller sees to it that one at a time uses it."""

    a: Prepared
    b: Prepared


class Product:
    """See the module; `product_of` makes it."""

    __slots__ = ("_flip_a", "_flip_b", "_make", "_multiply", "_option", "k", "m", "n")

    def __init__(self, kind: str, d: str, a: str, b: str, m: int, n: int, k: int, negate_a: bool, negate_b: bool, saturate: bool) -> None:
        step = find_step("tcgen05", kind, a, b, d, k)
        check_options(step, saturate, negate_a or negate_b, 0)
        wide = is_wide(a)
        self.m, self.n, self.k = m, n, k
        self._make = (a, b, wide)
        self._multiply = multiplier(step, wide)
        self._flip_a, self._flip_b = (SIGN if negate else 0 for negate in (negate_a, negate_b))
        self._option = int(saturate) if step.output == "s32" else 0

    def workspace(self) -> Workspace:
        """Room for the operands."""
        a, b, wide = self._make
        return Workspace(Prepared(a, "a", self.m, self.k, wide), Prepared(b, "b", self.n, self.k, wide))

    def prepare_a(self, codes: NDArray[Any], room: Prepared) -> None:
        """Make A ready: codes [m, k] in the dtype of the type, with any strides."""
        fill(room, codes, self._flip_a)

    def prepare_b(self, codes: NDArray[Any], room: Prepared) -> None:
        """Make B ready: codes [n, k] in the dtype of the type, with any strides."""
        fill(room, codes, self._flip_b)

    def run(self, a: Prepared, b: Prepared, cells: int, stride: int, accumulate: bool, scale_input_d: int) -> None:
        """`mma_prepared` on uint32 cells [n, m] at a host address, with bytes from one column of D to the next."""
        room = -1 if accumulate else 0
        self._multiply(cells, stride, self.m, self.n, self.k, a.address, b.address, room, self._option, scale_input_d)


@lru_cache(maxsize=256)
def product_of(kind: str, d: str, a: str, b: str, m: int, n: int, k: int, negate_a: bool, negate_b: bool, saturate: bool) -> Product | None:
    """The product of dense operands of tcgen05.mma that are not block-scaled; None where operands need more than one preparation.

    Parameters
    ----------
    kind, d : as for `mma`
    a, b : element types
    m, n, k : A is [m, k], B is [n, k]

    Examples
    --------
    >>> import numpy as np
    >>> product = product_of("f16", "f32", "f16", "f16", 64, 8, 16, False, False, False)
    >>> space, cells = product.workspace(), np.zeros((8, 64), np.uint32)
    >>> product.prepare_a(np.full((64, 16), 0x3C00, np.uint16), space.a)
    >>> product.prepare_b(np.full((8, 16), 0x4000, np.uint16), space.b)
    >>> product.run(space.a, space.b, cells.ctypes.data, cells.strides[0], True, 0)
    >>> float(cells.view(np.float32)[0, 0])
    32.0
    """
    if m % BLOCK or is_wide(a) != is_wide(b) or ((negate_a or negate_b) and FORMATS[a].is_integer):
        return None
    return Product(kind, d, a, b, m, n, k, negate_a, negate_b, saturate)
