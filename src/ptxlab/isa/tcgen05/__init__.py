"""The instructions of the 5th generation tensor core."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.isa.tcgen05 import _cp, _load_store, _mma  # noqa: F401  (declare the rows)
from ptxlab.isa.tcgen05._alloc import allocators, leaks
from ptxlab.isa.tcgen05._cp import commit_of
from ptxlab.isa.tcgen05._load_store import fitting_shapes
from ptxlab.isa.tcgen05._state import freed

if TYPE_CHECKING:
    from ptxlab.isa.tcgen05 import constants
else:
    __getattr__ = deferred(__name__, {"constants": ("constants",)})

__all__ = ["allocators", "commit_of", "constants", "fitting_shapes", "freed", "leaks"]
