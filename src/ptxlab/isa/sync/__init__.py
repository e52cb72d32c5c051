"""Synchronisation: barriers, mbarriers, fences, completion of non-bulk copies, thread control."""

from ptxlab.isa.sync import _barriers, _cp_async, _fences  # noqa: F401  (declare the rows)
from ptxlab.isa.sync._barriers import cluster_wait_of
from ptxlab.isa.sync._mbarrier import mbarrier_at, missing_mbarrier, phase_wait

__all__ = ["cluster_wait_of", "mbarrier_at", "missing_mbarrier", "phase_wait"]
