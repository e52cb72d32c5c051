"""Loads, stores, atomics, addresses, non-bulk copies, cache control. Importing the package enters them into the catalogue."""

from ptxlab.isa.memory import _address, _atomic, _cache, _load_store
from ptxlab.isa.memory._address import names_rank
from ptxlab.isa.memory._modifiers import space_of

__all__ = ["_address", "_atomic", "_cache", "_load_store", "names_rank", "space_of"]
