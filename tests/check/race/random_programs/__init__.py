"""Random programs of one warp, by instruction family; some bits of their registers have no value.

Each family is a function that adds a statement to a `Writer`. Every thread loads its registers from the argument ``given`` and stores them
to ``result`` at the end. Undefined are the bits of ``given`` that the caller names, and registers that nothing writes.
"""

from __future__ import annotations

from .asynchronous import ASYNCHRONOUS
from .memory import MEMORY
from .scalar import SCALAR
from .tensor import TENSOR
from .writer import BYTES, Family, Writer

__all__ = ["BYTES", "FAMILIES", "Family", "Writer"]

FAMILIES: dict[str, Family] = {**SCALAR, **MEMORY, **ASYNCHRONOUS, **TENSOR}
