"""tcgen05.shift.down: section "Tensorcore 5th Generation Instructions: tcgen05.shift"."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ptxlab.isa import context
from ptxlab.isa.bulk import lanes
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import Asynchronous, Completion, Pipe, Space, Unit
from ptxlab.isa.form import form
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import ARCHITECTURE_SPECIFIC
from ptxlab.isa.tcgen05._accesses import block
from ptxlab.isa.tcgen05._descriptors import check_range
from ptxlab.isa.tcgen05._state import cta_group_of, enter, launch
from ptxlab.isa.tcgen05._syntax import GROUPS, TADDR

__all__ = ["shift_down"]

_SECTION = "Tensorcore 5th Generation Instructions: tcgen05.shift"
_SHIFT = form(
    "tcgen05.shift",
    f"{GROUPS}.down",
    "[taddr]",
    kinds={"[taddr]": TADDR},
    section=_SECTION,
    requires=needs("8.6", ARCHITECTURE_SPECIFIC, what="tcgen05.shift"),
)
_COLUMNS = 8
"""32 bytes of each row are shifted."""
_WARP = 32


def shift_down(words: context.U32, column: int) -> None:
    """Shift 32 bytes of each lane to the next lower lane, within each group of 32 lanes; the last lane of a group keeps its bytes.

    The PTX ISA describes the rows "for a warp". All four groups of 32 lanes are shifted here, because tcgen05.cp.4x256b then writes the
    last lane of each of the four groups.
    """
    rows = words[column : column + _COLUMNS].reshape(_COLUMNS, -1, _WARP)
    rows[:, :, :-1] = rows[:, :, 1:]


def _accesses(ctas: tuple[context.Cta, ...], column: int) -> Iterator[context.MemoryAccess]:
    for cta in ctas:
        yield from block(cta, column, _COLUMNS, slice(None), True)


def _shift(ctas: tuple[context.Cta, ...], column: int) -> None:
    for cta in ctas:
        shift_down(cta.tensor.words, column)


@service(
    _SHIFT,
    fidelity="deduced",
    outputs=0,
    effects=lambda q: Asynchronous(
        Unit.TENSOR_CORE, Completion.COMMIT, writes=Space.TENSOR, pipe=Pipe.SHIFT, pair=q.cta_group == "cta_group::2"
    ),
)
def shift(warp: context.WarpContext) -> None:
    """Shift a matrix of 32-byte rows in tensor memory; of both CTAs for .cta_group::2."""
    _, group = enter(warp)
    cta_group = cta_group_of(warp.cta, group)
    ctas = cta_group.ctas
    for thread in lanes(warp):
        address = warp.lane_value(warp.op.operands[0], 32, thread)
        first, column = address >> 16, address & 0xFFFF
        if first % _WARP or first >= 128:
            message = f"tcgen05.shift begins at lane {first}; it must be 0, 32, 64 or 96"
            warp.fault("T611", message, reason=_SECTION, fix="correct the lane, bits 16-31, of the address")
        check_range(warp, ctas, column, _COLUMNS, "the matrix")
        launch(warp, thread, cta_group, partial(_shift, ctas, column), partial(_accesses, ctas, column))
