"""Which order each memory and asynchronous instruction needs, written by hand from the PTX ISA."""

from __future__ import annotations

from tests.check.race.order_table import barriers, copies, generic, tensor_copies, tensor_memory, tensor_products
from tests.check.race.order_table.pair import Pair

__all__ = ["NO_ACCESS", "TABLE", "Pair"]

TABLE: tuple[Pair, ...] = generic.TABLE + barriers.TABLE + copies.TABLE + tensor_copies.TABLE + tensor_memory.TABLE + tensor_products.TABLE
NO_ACCESS: dict[str, str] = {}
