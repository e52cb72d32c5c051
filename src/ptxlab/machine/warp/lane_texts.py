"""Lanes, and groups of converged lanes, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ptxlab.diagnostics import ranges

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import ConvergedLanes

__all__ = ["lane_text", "who_text"]


def lane_text(mask: int) -> str:
    """Lanes of a mask as ranges: ``0-15, 31``."""
    return ", ".join(ranges(i for i in range(32) if mask >> i & 1))


def who_text(groups: Iterable[ConvergedLanes]) -> str:
    """Name all of these groups of converged lanes, as ranges: ``CTAs (0-3, 0, 0) warps 0-1 lanes 0-31``."""
    warps: dict[tuple[tuple[int, int, int], int], list[int]] = {}
    for group in groups:
        warps.setdefault((group.warp.cta.ctaid, group.mask), []).append(group.warp.warp_id)
    columns: dict[tuple[int, int, str, int], list[int]] = {}
    for ((x, y, z), mask), numbers in warps.items():
        columns.setdefault((z, y, ", ".join(ranges(sorted(numbers))), mask), []).append(x)
    return "; ".join(
        f"CTA{'s' * ('-' in run)} ({run}, {y}, {z}) warp{'s' * (not which.isdecimal())} {which} lanes {lane_text(mask)}"
        for (z, y, which, mask), xs in columns.items()
        for run in ranges(sorted(xs))
    )
