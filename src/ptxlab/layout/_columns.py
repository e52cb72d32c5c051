"""Columns of B: those that the zero-column mask clears, and those that each CTA of a pair keeps."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout.cute import LayoutError

__all__ = ["Ownership", "ZeroColumns", "pair_ownership", "zero_column_mask"]


class ZeroColumns(Protocol):
    """What the mask depends on; `ptxlab.descriptors.ZeroColumnMask` has it."""

    @property
    def start_counts(self) -> tuple[int, int, int, int]: ...
    @property
    def first_spans(self) -> tuple[int, int, int, int]: ...
    @property
    def non_zero(self) -> bool: ...
    @property
    def zeroed(self) -> int: ...
    @property
    def kept(self) -> int: ...


def zero_column_mask(descriptor: ZeroColumns, m: int, n: int) -> NDArray[np.bool_]:
    """The columns of the product whose column of B counts as zero: section "Zero-Column Mask Descriptor".

    Parameters
    ----------
    m, n : shape of the instruction; M = 128, 64 and 32 have 1, 2 and 4 sub-masks

    Examples
    --------
    >>> from ptxlab.descriptors import ZeroColumnMask
    >>> d = ZeroColumnMask(non_zero=True, skip_span=2, use_span=3)
    >>> "".join("01"[int(bit)] for bit in zero_column_mask(d, 128, 14)[::-1])
    '11100001110000'
    """
    mask = np.zeros(n, bool)
    if not descriptor.non_zero:
        return mask
    if m not in (32, 64, 128):
        raise LayoutError(f"there is no zero-column mask for M = {m}; M is 32, 64 or 128")
    parts = 128 // m
    width = n // parts
    column = np.arange(width, dtype=np.int64)
    for part in range(parts):
        zero_first = bool(descriptor.first_spans[part])
        # A count beyond the first span is not defined; it is taken as the span's last column.
        first = descriptor.zeroed if zero_first else descriptor.kept
        place = (column + min(descriptor.start_counts[part], first - 1)) % (descriptor.zeroed + descriptor.kept)
        mask[part * width : (part + 1) * width] = place < first if zero_first else place >= first
    return mask


class Ownership(NamedTuple):
    """CTA rank in the pair that keeps each row of A, column of B, and row of D."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    d: NDArray[np.int64]


def pair_ownership(m: int, n: int, cta_group: int = 2) -> Ownership:
    """Which CTA of the pair keeps what. Scale factors and metadata of A follow A; scale factors of B are in both CTAs.

    Examples
    --------
    >>> o = pair_ownership(256, 128)
    >>> int(o.a[127]), int(o.a[128]), int(o.b[63]), int(o.b[64])
    (0, 1, 0, 1)
    """
    rows, columns = (np.arange(size, dtype=np.int64) * cta_group // size for size in (m, n))
    return Ownership(rows, columns, rows)
