"""The instructions of the 5th generation tensor core."""

from ptxlab.isa.tcgen05 import _cp, _load_store, _mma, constants  # noqa: F401  (declare the rows)
from ptxlab.isa.tcgen05._alloc import allocators, leaks
from ptxlab.isa.tcgen05._load_store import fitting_shapes
from ptxlab.isa.tcgen05._state import freed

__all__ = ["allocators", "constants", "fitting_shapes", "freed", "leaks"]
