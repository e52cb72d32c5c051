"""Syntax that several tcgen05 instructions have in common."""

from __future__ import annotations

from ptxlab.isa.kinds import Immediate, TensorAddress, Vector
from ptxlab.isa.requirements import Values, needs
from ptxlab.isa.targets import TCGEN05
from ptxlab.tables import LOAD_REGISTERS

__all__ = ["GROUPS", "NUMS", "ROWS", "SINCE", "SPLIT", "SYNC", "TADDR", "loaded"]

GROUPS = ".(cta_group=cta_group::1|cta_group::2)"
NUMS = "x1|x2|x4|x8|x16|x32|x64|x128"
SINCE = needs("8.6", TCGEN05, what="tcgen05")
TADDR = TensorAddress()
SPLIT = Immediate("immHalfSplitoff, an integer constant")
SYNC = frozenset({"sync"})
"""Modifiers that the assembler accepts twice."""
ROWS = frozenset({"row", "col"})
"""Modifiers that the assembler ignores on most of these instructions."""


def _registers(values: Values) -> int | None:
    return LOAD_REGISTERS.get((str(values["shape"]), int(str(values["num"])[1:])))


def loaded(written: bool) -> Vector:
    """The registers of a load (``written``) or a store: as many as ``.shape`` and ``.num`` specify."""
    return Vector(_registers, written, distinct=written, constants=not written)
