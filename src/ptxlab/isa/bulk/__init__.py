"""Bulk copies: cp.async.bulk, the tensor copies (TMA), and tensor maps in memory."""

from ptxlab.isa.bulk import _launch_control, _linear, _stores, _tensor, _tensormap, constants  # noqa: F401  (declare the rows)
from ptxlab.isa.bulk._endpoints import lanes, masked, thread_of
from ptxlab.isa.bulk._tiled import Box

__all__ = ["Box", "constants", "lanes", "masked", "thread_of"]
