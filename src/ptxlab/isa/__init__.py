"""The instructions: for each family its syntax, accesses and semantics, and what they need of engine and machine as contracts."""

from __future__ import annotations

from functools import cache

from ptxlab.isa._unsupported import is_known
from ptxlab.isa.catalogue import CATALOGUE

__all__ = ["CATALOGUE", "is_known", "load_all"]


@cache
def load_all() -> None:
    """Enter all instruction families into `CATALOGUE`."""
    from ptxlab.isa import bulk, control, memory, mma, scalar, sync, tcgen05, warp, wgmma  # noqa: F401
