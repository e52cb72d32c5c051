"""The asynchronous warpgroup matrix instructions."""

from ptxlab.isa.wgmma import (
    _mma,  # noqa: F401  (declare the rows)
    constants,
)

__all__ = ["constants"]
