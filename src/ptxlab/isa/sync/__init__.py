"""Synchronisation: barriers, mbarriers, fences, completion of non-bulk copies, thread control."""

from ptxlab.isa.sync import _barriers, _copies, _mbarrier, _order
from ptxlab.isa.sync._places import mbarrier_at, missing_mbarrier

__all__ = ["mbarrier_at", "missing_mbarrier"]

_ROWS = (_barriers, _copies, _mbarrier, _order)
