"""tcgen05.cp: section "Tensor Memory Data Movement Instructions"."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ptxlab.formats import pack, unpack
from ptxlab.isa import context
from ptxlab.isa.bulk import lanes
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Asynchronous, Completion, Pipe, Space, Unit
from ptxlab.isa.tcgen05._accesses import block, operand
from ptxlab.isa.tcgen05._descriptors import Gather, check_bounds, check_range, matrix_gather
from ptxlab.isa.tcgen05._state import cta_group_of, enter, launch
from ptxlab.layout import CopyDestination, copy_destination
from ptxlab.tables import COPY_LAYOUTS

__all__: list[str] = []

_SECTION = "Tensor Memory Data Movement Instructions"
_FORMATS = "{.unpacked=b8x16}{.packed=b6x16_p32|b4x16_p64}"
_FORMAT = {"b4x16_p64": "e2m1", "b6x16_p32": "e3m2"}
"""Source format -> a type of its size; all six-bit types are stored alike."""
_ANY_LANE = "4x256b"
"""The shape that may begin at any of the 32 lanes of a warp."""


def _copy(warp: context.WarpContext, shape: str, destination: CopyDestination) -> None:
    _, group = enter(warp)
    packed: str | None = warp.q.packed
    if warp.q.unpacked != (packed is not None):
        warp.fault(
            "D706", f"{warp.op.opcode} names only one of the destination format .b8x16 and a source format", fix="give both, or none"
        )
    team = cta_group_of(warp.cta, group)
    ctas = team.ctas
    for lane in lanes(warp):
        address = warp.lane_value(warp.op.operands[0], 32, lane)
        first, column = address >> 16, address & 0xFFFF
        if first and not (shape == _ANY_LANE and first < 32):
            allowed = "0 to 31" if shape == _ANY_LANE else "0"
            message = f"tcgen05.cp.{shape} writes from lane {first}; it must be {allowed}"
            warp.fault("T611", message, fix="correct the lane, bits 16-31, of the address")
        check_range(warp, ctas, column, destination.columns, "the destination")
        raw = warp.lane_value(warp.op.operands[1], 64, lane)
        source = matrix_gather(warp, raw, "the source", len(destination.lanes), destination.columns, 32, 32)
        check_bounds(warp, ctas, source, "the source")
        perform = partial(_perform, ctas, source, packed, destination, first, column)
        launch(warp, lane, team, perform, partial(_touches, ctas, source, destination, first, column))


def _touches(
    ctas: tuple[context.Cta, ...], source: Gather, destination: CopyDestination, first: int, column: int
) -> Iterator[context.MemoryAccess]:
    for cta in ctas:
        yield operand(cta, source)
        yield from block(cta, column, destination.columns, destination.lanes.reshape(-1) + first, True)


def _perform(
    ctas: tuple[context.Cta, ...], source: Gather, packed: str | None, destination: CopyDestination, first: int, column: int
) -> None:
    """Each CTA copies from its own shared memory to its own tensor memory."""
    for cta in ctas:
        words = source.read(cta.shared)
        if packed is not None:
            fmt = _FORMAT[packed]
            slots = np.ascontiguousarray(words).view(np.uint8)
            words = pack(unpack(slots, fmt, "padded"), fmt, "bytes").view(np.uint32)
        target = cta.tensor.words[column : column + destination.columns]
        for copy in range(destination.lanes.shape[1]):
            target[:, destination.lanes[:, copy] + first] = words.T


def _effects(q: Qualifiers, pipe: Pipe) -> Asynchronous:
    return Asynchronous(Unit.TENSOR_CORE, Completion.COMMIT, writes=Space.TENSOR, pipe=pipe, pair=q.group == "cta_group::2")


def _declare(shape: str, multicast: str) -> None:
    spread = f".{multicast}" if multicast else ""
    destination = copy_destination(shape, multicast)

    def copy(warp: context.WarpContext) -> None:
        _copy(warp, shape, destination)

    service(
        f"tcgen05.cp.(group=cta_group::1|cta_group::2).{shape}{spread}{_FORMATS}",
        section=_SECTION,
        fidelity="two-models",
        outputs=0,
        ordered=False,
        effects=partial(_effects, pipe=Pipe.COPY_4X256B if shape == _ANY_LANE else Pipe.COPY),
        address="addr",
        source="b64",
    )(copy)


for _shape, _multicast in COPY_LAYOUTS:
    _declare(_shape, _multicast)
