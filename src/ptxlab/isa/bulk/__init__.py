"""Bulk copies: cp.async.bulk, the tensor copies (TMA), and tensor maps in memory."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.isa.bulk import _launch_control, _linear, _rows, _stores, _tensor, _tensormap  # noqa: F401  (declare the rows)
from ptxlab.isa.bulk._endpoints import lanes, masked, thread_of
from ptxlab.isa.bulk._tiled import Box

if TYPE_CHECKING:
    from ptxlab.isa.bulk import constants
else:
    __getattr__ = deferred(__name__, {"constants": ("constants",)})

__all__ = ["Box", "constants", "lanes", "masked", "thread_of"]
