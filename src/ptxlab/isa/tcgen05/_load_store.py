"""tcgen05.ld, ld.red, st and wait: section "Tensor Memory and Register Load/Store Instructions"; and tcgen05.fence."""

from __future__ import annotations

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import TensorFence, TensorTransfer, TensorWait
from ptxlab.isa.form import IGNORED, Form, Rule, form
from ptxlab.isa.kinds import WORDS, Register
from ptxlab.isa.native_ops import Nothing, TensorAccess
from ptxlab.isa.operands import Const, Group, Op
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import TCGEN05
from ptxlab.isa.tcgen05._accesses import block
from ptxlab.isa.tcgen05._descriptors import check_range
from ptxlab.isa.tcgen05._state import whole_warp
from ptxlab.isa.tcgen05._syntax import NUMS, ROWS, SINCE, SPLIT, SYNC, TADDR, loaded
from ptxlab.layout import fragment
from ptxlab.tables import LOAD_REGISTERS, TENSOR_MEMORY_COLUMNS

__all__ = ["fitting_shapes"]

_GENERATION = "Tensorcore 5th Generation Instructions"
_SHAPES = ("16x64b", "16x128b", "16x256b", "32x32b", "16x32bx2")


def fitting_shapes(access: TensorAccess, column: int) -> list[tuple[str, int]]:
    """Other shapes with the registers of a load or store that reach no column behind the last one; of each the last column."""
    found = []
    for (shape, repeat), registers in LOAD_REGISTERS.items():
        if shape not in (access.shape, _SHAPES[4]) and registers == LOAD_REGISTERS.get((access.shape, access.repeat)):
            last = column + int(fragment(shape, repeat, access.pack).column.max())
            if last < TENSOR_MEMORY_COLUMNS:
                found.append((f".{shape}.x{repeat}", last))
    return found


def _transfer(operation: str, packing: str, whole: str, halves: str) -> Form:
    """A load or a store. The shape .16x32bx2 has the offset of its second half as an operand."""
    section = f"{_GENERATION}: tcgen05.{operation}"
    rules = []
    for shape in _SHAPES:
        nums = tuple(f"x{n}" for s, n in LOAD_REGISTERS if s == shape)
        if len(nums) < len(NUMS.split("|")):
            rules.append(Rule({"shape": (shape,)}, "num", nums, f".{shape} has .num up to .{nums[-1]}", section))
    return form(
        f"tcgen05.{operation}",
        f".sync.aligned.(shape={'|'.join(_SHAPES)}).(num={NUMS}){{.{packing}={packing}::16b}}.b32",
        (whole, {"shape": _SHAPES[:4]}),
        (halves, {"shape": _SHAPES[4:]}),
        kinds={"r": loaded(operation == "ld"), "[taddr]": TADDR, "immHalfSplitoff": SPLIT},
        section=section,
        rules=tuple(rules),
        requires=SINCE,
        ignored=IGNORED | ROWS,
        repeatable=SYNC,
    )


_LOAD = _transfer("ld", "pack", "r [taddr]", "r [taddr] immHalfSplitoff")
_STORE = _transfer("st", "unpack", "[taddr] r", "[taddr] immHalfSplitoff r")


@native(_LOAD, fidelity="two-models", outputs=1, effects=TensorTransfer(write=False))
def load(q: Qualifiers, op: Op) -> TensorAccess:
    split = 2 if len(op.operands) > 2 else -1
    return TensorAccess(write=False, shape=q.shape, repeat=int(q.num[1:]), pack=q.pack, value=0, address=1, split=split)


@native(_STORE, fidelity="two-models", outputs=0, effects=TensorTransfer(write=True))
def store(q: Qualifiers, op: Op) -> TensorAccess:
    split = 1 if len(op.operands) > 2 else -1
    return TensorAccess(
        write=True, shape=q.shape, repeat=int(q.num[1:]), pack=q.unpack, value=2 if split > 0 else 1, address=0, split=split
    )


_WAITS = [
    form(f"tcgen05.wait::{operation}", ".sync.aligned", section=f"{_GENERATION}: tcgen05.wait", requires=SINCE, repeatable=SYNC)
    for operation in ("ld", "st")
]
_FENCES = [
    form(f"tcgen05.fence::{side}_thread_sync", "", section="TensorCore 5th Generation Instructions: tcgen05.fence", requires=SINCE)
    for side in ("before", "after")
]


@native(_WAITS[0], effects=TensorWait(write=False))
@native(_WAITS[1], effects=TensorWait(write=True))
@native(_FENCES[0], effects=TensorFence(before=True))
@native(_FENCES[1], effects=TensorFence(before=False))
def nothing(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect on values, only on the order of operations: loads and stores complete when they are issued."""
    return Nothing()


_SECTION = "Tensorcore 5th Generation Instructions: tcgen05.ld"
_ONLY_FLOAT = "is only for .f32"
_REDUCTION = form(
    "tcgen05.ld.red",
    f".sync.aligned.(shape=32x32b|16x32bx2).(num={NUMS}).(redOp=min|max){{.abs}}{{.NaN}}.(type=u32|s32|f32)",
    ("r redval [taddr]", {"shape": ("32x32b",)}),
    ("r redval [taddr] immHalfSplitoff", {"shape": ("16x32bx2",)}),
    kinds={
        "r": loaded(True),
        "redval": Register((*WORDS, "f32"), "a 32-bit register for the reduced value", braces=(*WORDS, "f32")),
        "[taddr]": TADDR,
        "immHalfSplitoff": SPLIT,
    },
    section=_SECTION,
    rules=(
        Rule({}, "num", tuple(NUMS.split("|")[1:]), ".red needs at least .x2", _SECTION),
        Rule({"abs": ("abs",)}, "type", ("f32",), f".abs {_ONLY_FLOAT}", _SECTION),
        Rule({"NaN": ("NaN",)}, "type", ("f32",), f".NaN {_ONLY_FLOAT}", _SECTION),
    ),
    requires=needs("8.8", TCGEN05 - {"sm_100a", "sm_100f"}, what=".red"),
    ignored=IGNORED | ROWS,
    repeatable=SYNC | {"NaN"},
)
_NAN, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x80000000)


def _ordered(words: context.U32) -> context.U32:
    """Map the bits of f32 to unsigned integers with the same order; -0 is below +0."""
    return np.where(words & _SIGN, ~words, words | _SIGN)


def _reduce_floats(words: context.U32, largest: bool, magnitude: bool, nan: bool) -> context.U32:
    if magnitude:
        words = words & ~_SIGN
    is_nan = words & ~_SIGN > np.uint32(0x7F800000)
    neutral = np.uint32(0 if largest else 0xFFFFFFFF)
    keys = np.where(is_nan, neutral, _ordered(words))
    best = keys.max(axis=0) if largest else keys.min(axis=0)
    found = np.where(best & _SIGN, best & ~_SIGN, ~best)
    return np.where(is_nan.any(axis=0) if nan else is_nan.all(axis=0), _NAN, found)


def _reduce(words: context.U32, warp: context.WarpContext) -> context.U32:
    largest = warp.q.redOp == "max"
    if warp.q.type == "f32":
        return _reduce_floats(words, largest, warp.q.abs, warp.q.NaN)
    typed = words.view(np.int32 if warp.q.type == "s32" else np.uint32)
    found: context.U32 = (typed.max(axis=0) if largest else typed.min(axis=0)).view(np.uint32)
    return found


@service(_REDUCTION, only={"shape": "32x32b"}, outputs=2, effects=TensorTransfer(write=False))
@service(_REDUCTION, only={"shape": "16x32bx2"}, fidelity="deduced", outputs=2, effects=TensorTransfer(write=False))
def load_and_reduce(warp: context.WarpContext) -> None:
    """Load all 32 lanes of the warp, or 16 lanes of two ranges of columns; each thread reduces its own values."""
    split = warp.q.shape == "16x32bx2"
    whole_warp(warp)
    vector = warp.op.operands[0]
    assert isinstance(vector, Group)
    address = warp.uniform_address(2) & 0xFFFFFFFF
    count = len(vector.items)
    first = _first_lane(warp, address, split)
    column = address & 0xFFFF
    offset = warp.op.operands[3] if split else None
    half = offset.value & 0xFFFFFFFF if isinstance(offset, Const) else 0
    starts = (column, column + half) if split else (column,)
    for start in starts:
        check_range(warp, (warp.cta,), start, count, "the source")
    cells = fragment("16x32bx2" if split else "32x32b", count, split=half)
    words = warp.cta.tensor.words[column + cells.column.T, first + cells.lane.T]
    if warp.machine.observed:
        rows = slice(first, first + (16 if split else 32))
        warp.access(*(access for start in starts for access in block(warp.cta, start, count, rows, False)))
    for item, row in zip(vector.items, words, strict=True):
        warp.write(item, row)
    warp.write(1, _reduce(words, warp))


def _first_lane(warp: context.WarpContext, address: int, split: bool) -> int:
    """The first lane that the warp reads: of its own 32, or of the upper 16. In ``practice`` lane 0 is the first one of the warp."""
    lane, quadrant = address >> 16, warp.warp_id % 4
    accepted = (quadrant,) if warp.machine.model == "spec" else (0, quadrant)
    if lane // 32 not in accepted or lane % 32 not in ((0, 16) if split else (0,)):
        warp.fault(
            "T623",
            f"the address {address:#x} names lane {lane}; warp {warp.warp_id} reaches lanes {32 * quadrant} to {32 * quadrant + 31}",
            fix=f"add {32 * quadrant} << 16 to the address that tcgen05.alloc wrote",
        )
    return 32 * quadrant + lane % 32
