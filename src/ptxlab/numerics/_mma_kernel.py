"""A step that is carried out again and again on operands of the same types and sizes: looked up and checked once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS
from ptxlab.native import address_of
from ptxlab.numerics._mma_program import CELL_UNIT, AccumulatorRef, MmaProgram, OperandGather, gather, multiply, prepare, scatter
from ptxlab.numerics._prepared import BLOCK, Prepared, check_options
from ptxlab.numerics._steps import find_step, is_wide
from ptxlab.numerics.ir.kernels import multiplier_address, preparer_address
from ptxlab.numerics.ir.prepare import SIGN

__all__ = ["MmaKernel", "mma_kernel"]


class MmaKernel:
    """See the module; `mma_kernel` makes it."""

    __slots__ = ("_flips", "_formats", "_multiply", "_option", "_ready", "_rooms", "k", "m", "n")

    def __init__(self, kind: str, d: str, a: str, b: str, m: int, n: int, k: int, negate_a: bool, negate_b: bool, saturate: bool) -> None:
        step = find_step("tcgen05", kind, a, b, d, k)
        check_options(step, saturate, negate_a or negate_b, 0)
        self.m, self.n, self.k = m, n, k
        self._formats = {"a": a, "b": b}
        self._multiply = multiplier_address(step, is_wide(a))
        self._flips = {"a": SIGN if negate_a else 0, "b": SIGN if negate_b else 0}
        self._option = int(saturate) if step.output == "s32" else 0
        self._ready: dict[tuple[str, int], Prepared] = {}
        self._rooms: dict[int, NDArray[np.uint8]] = {}

    def _scratch(self, size: int) -> NDArray[np.uint8]:
        """Room for so many bytes that a step hands to the next one, the same in all chains: one runs at a time."""
        return self._rooms.setdefault(size, np.empty(size, np.uint8))

    def _prepared(self, role: str, number: int) -> Prepared:
        """Room for a prepared operand, the same in all chains."""
        found = self._ready.get((role, number))
        if found is None:
            fmt = self._formats[role]
            found = Prepared(fmt, role, self.m if role == "a" else self.n, self.k, is_wide(fmt))
            self._ready[role, number] = found
        return found

    def _operand(self, role: str, number: int, source: OperandGather) -> Iterator[tuple[int, ...]]:
        scratch, ready = self._scratch(source.order.size * source.unit), self._prepared(role, number)
        yield gather(source, source.unit, scratch)
        yield prepare(preparer_address(self._formats[role], ready.wide, role), role, source, scratch, ready, self._flips[role])

    def program(
        self, a: Sequence[OperandGather], b: Sequence[OperandGather], units: Sequence[tuple[int, int, AccumulatorRef]]
    ) -> MmaProgram:
        """What each unit adds to its cells: the product of one of the operands A and one of B, by their numbers.

        A is [m, k], B is [n, k], in codes of the dtypes of their types; the cells are those of `mma_prepared`.
        """
        rows: list[tuple[int, ...]] = []
        for role, sources in (("a", a), ("b", b)):
            for number, source in enumerate(sources):
                rows += self._operand(role, number, source)
        for first, second, cells in units:
            operands = self._prepared("a", first), self._prepared("b", second)
            if cells.order is None:
                rows.append(multiply(self._multiply, cells.base, cells.offset, cells.stride, *operands, self._option))
                continue
            together = self._scratch(4 * self.n * self.m)
            rows.append(gather(cells, CELL_UNIT, together))
            rows.append(multiply(self._multiply, 0, address_of(together), 4 * self.m, *operands, self._option))
            rows.append(scatter(cells, CELL_UNIT, together))
        orders = [*(source.order for source in (*a, *b)), *(cells.order for *_, cells in units)]
        return MmaProgram(rows, self, *orders)


@lru_cache(maxsize=256)
def mma_kernel(
    kind: str, d: str, a: str, b: str, m: int, n: int, k: int, negate_a: bool, negate_b: bool, saturate: bool
) -> MmaKernel | None:
    """The product of dense operands of tcgen05.mma that are not block-scaled; None where operands need more than one preparation.

    Parameters
    ----------
    kind, d : as for `mma`
    a, b : element types
    m, n, k : A is [m, k], B is [n, k]

    Examples
    --------
    >>> import numpy as np
    >>> from ptxlab.native import address_of
    >>> product = product_of("f16", "f32", "f16", "f16", 64, 8, 16, False, False, False)
    >>> a, b, d = np.full((64, 16), 0x3C00, np.uint16), np.full((8, 16), 0x4000, np.uint16), np.zeros((8, 64), np.uint32)
    >>> sources = [Source(base, 0, np.arange(2 * len(x)), 16, 32, 2) for base, x in ((1, a), (2, b))]
    >>> bases = np.array([0, *map(address_of, (a, b, d))])
    >>> product.chain(sources[:1], sources[1:], [(0, 0, Cells(3, 0, 256))]).run(address_of(bases), True, 0)
    >>> float(d.view(np.float32)[0, 0])
    32.0
    """
    if m % BLOCK or is_wide(a) != is_wide(b) or ((negate_a or negate_b) and FORMATS[a].is_integer):
        return None
    return MmaKernel(kind, d, a, b, m, n, k, negate_a, negate_b, saturate)
