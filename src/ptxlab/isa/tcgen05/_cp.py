"""tcgen05.cp, tcgen05.shift and tcgen05.commit.

Sections "Tensor Memory Data Movement Instructions" and "TensorCore 5th Generation Instructions: tcgen05.shift", "... tcgen05.commit".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.isa import context, operations
from ptxlab.isa.bulk import lanes, masked, thread_of
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.effects import Asynchronous, Completion, CompletionArrival, Pipe, Space, Unit
from ptxlab.isa.form import IGNORED, Rule, form
from ptxlab.isa.kinds import LONGS, SHORTS, Address, Register
from ptxlab.isa.operands import Op
from ptxlab.isa.operations.matrices import MatrixOperand, TensorCopy
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import ARCHITECTURE_SPECIFIC
from ptxlab.isa.tcgen05._accesses import CELL_BYTES, COLUMN_BYTES, block, operand, placed
from ptxlab.isa.tcgen05._descriptors import Gather, check_bounds, check_range, matrix_gather
from ptxlab.isa.tcgen05._state import CtaGroup, cta_group_of, enter, launch, operation_of, repeated_state, tensor_base
from ptxlab.isa.tcgen05._syntax import GROUPS, ROWS, SINCE, TADDR
from ptxlab.layout import CopyDestination, PlacedOperand, copy_destination
from ptxlab.native import BoundedCache, address_of
from ptxlab.numerics import MmaProgram, expand_program, move_program
from ptxlab.tables import COPY_LAYOUTS, TYPE_BITS

__all__ = ["commit_of", "destination_of", "shift_down"]

_SECTION = "Tensorcore 5th Generation Instructions: tcgen05.cp"
_PACKED = ("b6x16_p32", "b4x16_p64")
_SHAPES = dict.fromkeys(shape for shape, _ in COPY_LAYOUTS)


def _rules() -> Iterator[Rule]:
    for shape in _SHAPES:
        multicasts = tuple(multicast or None for of, multicast in COPY_LAYOUTS if of == shape)
        wanted = " or ".join(f".{m}" for m in multicasts if m) or "no multicast"
        yield Rule({"shape": (shape,)}, "multicast", multicasts, f"this shape takes {wanted}", _SECTION)
    yield Rule({"src_fmt": _PACKED}, "dst_fmt", ("b8x16",), "a source format needs .b8x16 before it", _SECTION, executed=True)
    yield Rule({"dst_fmt": ("b8x16",)}, "src_fmt", _PACKED, ".b8x16 needs a source format after it", _SECTION, executed=True)


_COPY = form(
    "tcgen05.cp",
    f"{GROUPS}.(shape={'|'.join(_SHAPES)})"
    f"{{.multicast=warpx2::02_13|warpx2::01_23|warpx4}}{{.dst_fmt=b8x16}}{{.src_fmt={'|'.join(_PACKED)}}}",
    "[taddr] s-desc",
    kinds={"[taddr]": TADDR, "s-desc": Register(LONGS, "a shared memory descriptor in a 64-bit register", True, True)},
    section=_SECTION,
    rules=tuple(_rules()),
    requires=SINCE,
    ignored=(IGNORED | ROWS) - {"b8x16", *_PACKED},
)
_FORMAT = {"b4x16_p64": "e2m1", "b6x16_p32": "e3m2"}
"""Source format -> an element type of its size; types of the same size have the same packing."""
_ANY_LANE = "4x256b"
"""The only shape that may begin at a lane other than 0."""
_WORD_BITS = 32
_WORDS_OF_CHUNK = CHUNK // CELL_BYTES


def _effects(q: Qualifiers) -> Asynchronous:
    pipe = Pipe.COPY_4X256B if q.shape == _ANY_LANE else Pipe.COPY
    return Asynchronous(Unit.TENSOR_CORE, Completion.COMMIT, writes=Space.TENSOR, pipe=pipe, pair=q.cta_group == "cta_group::2")


def destination_of(op: Op) -> CopyDestination:
    """The lanes and columns that a copy writes."""
    return copy_destination(op.q.shape, op.q.multicast or "")


@service(_COPY, fidelity="two-models", outputs=0, effects=_effects)
def copy(warp: context.WarpContext) -> None:
    """Copy a matrix from shared memory; each CTA of a pair its own."""
    shape, destination = warp.q.shape, destination_of(warp.op)
    _, group = enter(warp)
    packed: str | None = warp.q.src_fmt
    if warp.q.dst_fmt != (packed is not None):
        warp.fault(
            "D706", f"{warp.op.opcode} names only one of the destination format .b8x16 and a source format", fix="give both, or none"
        )
    cta_group = cta_group_of(warp.cta, group)
    ctas = cta_group.ctas
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
        made = _copy_of(source, shape, warp.q.multicast or "", packed or "", first, column)
        check_bounds(warp, ctas, source, "the source", made.operand)
        functions = partial(made.perform, cta_group), partial(made.accesses, cta_group), partial(made.move_undefined, ctas)
        operation = operation_of(warp.op, warp, lane, cta_group, *functions, tensor_copy=partial(made.tensor_copy, ctas))
        launch(warp, lane, operation)
        if warp.repeats:
            program = made.program(group)
            warp.repeat(operation, repeated_state(warp, cta_group), cta_group.bases, *program.repetition(False, 0), program)


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """What the same descriptor, qualifiers and address always copy.

    Attributes
    ----------
    source, operand : the rows in shared memory, as they are read, and for observers
    packed : the source format; "" if chunks are copied as they are
    lanes : ``[copy, row]``, the lanes to which a row goes
    column, columns : the columns that are written
    known : the accesses, by the addresses of the memory of the CTAs
    programs : what copies, by the number of CTAs
    """

    source: Gather
    operand: MatrixOperand
    packed: str
    lanes: NDArray[np.int64]
    column: int
    columns: int
    known: BoundedCache[tuple[int, ...], tuple[operations.MemoryAccess, ...]] = field(default_factory=lambda: BoundedCache(64))
    programs: dict[int, MmaProgram] = field(default_factory=dict)

    def accesses(self, cta_group: CtaGroup) -> tuple[operations.MemoryAccess, ...]:
        """The bytes that each CTA reads and writes."""
        found = self.known.get(cta_group.places)
        if found is None:
            found = self.known[cta_group.places] = tuple(
                [placed(access, cta_group.places).within(cta_group.places) for access in self._accesses(cta_group.ctas)]
            )
        return found

    def _accesses(self, ctas: tuple[context.Cta, ...]) -> Iterator[operations.MemoryAccess]:
        for cta in ctas:
            yield operand(cta, self.source, self.operand.data)
            yield from block(cta, self.column, self.columns, self.lanes.T.reshape(-1), True)

    def tensor_copy(self, ctas: tuple[context.Cta, ...]) -> TensorCopy:
        """What is copied, for observers."""
        return TensorCopy(ctas, self.operand, self.lanes.T, self.column, self.packed)

    def perform(self, cta_group: CtaGroup) -> None:
        """Each CTA copies from its own shared memory to its own tensor memory."""
        self.program(len(cta_group.ctas)).run(cta_group.bases, False, 0)

    def move_undefined(self, ctas: tuple[context.Cta, ...], undefined: operations.UndefinedBits) -> None:
        """The same for the undefined bits."""
        memory = [undefined.of(part) for cta in ctas for part in (cta.shared, cta.tensor.words)]
        bases = np.array([0, *map(address_of, memory)], np.int64)
        self.program(len(ctas)).run(address_of(bases), False, 0)

    def program(self, group: int) -> MmaProgram:
        """Compiled code for so many CTAs."""
        found = self.programs.get(group)
        if found is None:
            first, slots, _, _ = self.source.slots
            slots = slots + first // CHUNK
            words = (slots[:, None] * _WORDS_OF_CHUNK + np.arange(_WORDS_OF_CHUNK)).reshape(-1)
            columns = np.arange(self.column, self.column + self.columns) * (COLUMN_BYTES // CELL_BYTES)
            cells = (self.lanes[:, :, None] + columns).reshape(-1)
            sides = [(tensor_base(cta) - 1, tensor_base(cta)) for cta in range(group)]
            if self.packed:
                moves = [((shared, slots), (tensor, cells)) for shared, tensor in sides]
                found = expand_program(TYPE_BITS[_FORMAT[self.packed]], moves)
            else:
                copies = np.tile(words, len(self.lanes))
                found = move_program(CELL_BYTES, [((shared, copies), (tensor, cells)) for shared, tensor in sides])
            self.programs[group] = found
        return found


@lru_cache(maxsize=4096)
def _copy_of(source: Gather, shape: str, multicast: str, packed: str, first: int, column: int) -> _Copy:
    """The copy of what ``source`` selects to the address with lane ``first`` and ``column``."""
    destination = copy_destination(shape, multicast)
    data = 2 * TYPE_BITS[_FORMAT[packed]] if packed else CHUNK
    selected = _as_operand(source.raw, len(destination.lanes), destination.columns, data)
    return _Copy(source, selected, packed, destination.lanes.T + first, column, destination.columns)


@lru_cache(maxsize=1024)
def _as_operand(raw: int, rows: int, columns: int, data: int) -> MatrixOperand:
    """The rows and words that a descriptor selects."""
    descriptor = SharedMemoryDescriptor.decode(raw)
    placed = PlacedOperand.of(descriptor, "k", rows, columns, _WORD_BITS // 8)
    return MatrixOperand.of("source", placed, "k", "b32", _WORD_BITS, 1, descriptor, data=data)


_SHIFT_SECTION = "Tensorcore 5th Generation Instructions: tcgen05.shift"
_SHIFT = form(
    "tcgen05.shift",
    f"{GROUPS}.down",
    "[taddr]",
    kinds={"[taddr]": TADDR},
    section=_SHIFT_SECTION,
    requires=needs("8.6", ARCHITECTURE_SPECIFIC, what="tcgen05.shift"),
)
_SHIFTED_COLUMNS = 8
"""32 bytes of each row are shifted."""
_WARP = 32


def shift_down(words: context.U32, column: int) -> None:
    """Shift 32 bytes of each lane to the next lower lane, within each group of 32 lanes; the last lane of a group keeps its bytes.

    The PTX ISA describes the rows "for a warp". All four groups of 32 lanes are shifted here, because tcgen05.cp.4x256b then writes the
    last lane of each of the four groups.
    """
    rows = words[column : column + _SHIFTED_COLUMNS].reshape(_SHIFTED_COLUMNS, -1, _WARP)
    rows[:, :, :-1] = rows[:, :, 1:]


def _shifted(ctas: tuple[context.Cta, ...], column: int) -> Iterator[operations.MemoryAccess]:
    for cta in ctas:
        yield from block(cta, column, _SHIFTED_COLUMNS, slice(None), True)


def _perform_shift(ctas: tuple[context.Cta, ...], column: int) -> None:
    for cta in ctas:
        shift_down(cta.tensor.words, column)


def _shift_undefined(ctas: tuple[context.Cta, ...], column: int, undefined: operations.UndefinedBits) -> None:
    for cta in ctas:
        shift_down(undefined.of(cta.tensor.words), column)


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
            warp.fault("T611", message, reason=_SHIFT_SECTION, fix="correct the lane, bits 16-31, of the address")
        check_range(warp, ctas, column, _SHIFTED_COLUMNS, "the matrix")
        perform, undefined = partial(_perform_shift, ctas, column), partial(_shift_undefined, ctas, column)
        launch(warp, thread, operation_of(warp.op, warp, thread, cta_group, perform, partial(_shifted, ctas, column), undefined))


_COMMIT = form(
    "tcgen05.commit",
    f"{GROUPS}.(completion_mechanism=mbarrier::arrive::one){{.space=shared::cluster}}{{.multicast=multicast::cluster}}.b64",
    ("[mbar]", {"multicast": (None,)}),
    ("[mbar] ctaMask", {"multicast": ("multicast::cluster",)}),
    kinds={
        "[mbar]": Address({"space": (None,)}),
        "ctaMask": Register(SHORTS, "ctaMask in a 16-bit register", True, True, values=lambda v: 0 <= v <= 65535),
    },
    section="TensorCore 5th Generation Instructions: tcgen05.commit",
    requires=SINCE,
    ignored=IGNORED | {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
)


@service(_COMMIT, outputs=0, effects=CompletionArrival(Completion.COMMIT))
def commit(warp: context.WarpContext) -> None:
    """Arrive on an mbarrier when the thread's earlier tcgen05 operations are complete.

    It is one mbarrier of any CTA in the cluster. With a multicast, it is the one at the same shared offset in each CTA of the mask, and the
    rank bits of the address are ignored.
    """
    _, group = enter(warp)
    for lane in lanes(warp):
        cta, offset = warp.machine.shared_at(warp, warp.lane_value(warp.op.operands[0], 64, lane))
        ctas = masked(warp, 1, lane) if warp.q.multicast else [cta]
        barriers = [c.mbarrier(warp, offset) for c in ctas]
        if warp.issued >> lane & 1:  # a loop before the commit may have had no turn in another CTA
            warp.retract("T633")
            warp.permit_commits(lane, group)
        else:
            _nothing_to_track(warp)
        tracked = warp.machine.unperformed(warp.cta, cta_group_of(warp.cta, group).queue, thread_of(warp, lane))
        warp.machine.enqueue(commit_of(warp.op, warp, lane, barriers, tracked))


def commit_of(
    op: Op, warp: context.WarpContext, lane: int, barriers: Sequence[context.Mbarrier], after: Sequence[operations.AsyncOperation]
) -> operations.AsyncOperation:
    """The operation of a commit that a lane has executed: it arrives on mbarriers when others have performed."""
    return operations.AsyncOperation(op.opcode, op, warp.cta, partial(_arrive, barriers), thread=thread_of(warp, lane), after=tuple(after))


def _nothing_to_track(warp: context.WarpContext) -> None:
    warp.report(
        "T633",
        f"{warp.op.opcode} arrives at once: its thread has issued no tcgen05.mma, cp or shift",
        fix="let the thread that issues the operations execute tcgen05.commit; it does not track those of other threads",
    )


def _arrive(barriers: Sequence[context.Mbarrier]) -> None:
    """Arrive; called when all operations that the commit tracks are complete."""
    for barrier in barriers:
        barrier.arrive(1)
