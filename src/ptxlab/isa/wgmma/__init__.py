"""The asynchronous warpgroup matrix instructions."""

from ptxlab.isa.wgmma import (
    _mma,  # noqa: F401  (declare the rows)
    constants,
)
from ptxlab.isa.wgmma._state import warpgroup_of

__all__ = ["constants", "warpgroup_of"]
