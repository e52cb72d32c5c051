"""tcgen05.ld, st and wait: section "Tensor Memory and Register Load/Store Instructions"; and tcgen05.fence."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import TensorFence, TensorTransfer, TensorWait
from ptxlab.isa.form import IGNORED, Form, Rule, form
from ptxlab.isa.native_ops import Nothing, TensorAccess
from ptxlab.isa.operands import Op
from ptxlab.isa.tcgen05._syntax import NUMS, ROWS, SINCE, SPLIT, SYNC, TADDR, loaded
from ptxlab.tables import LOAD_REGISTERS

__all__: list[str] = []

_GENERATION = "Tensorcore 5th Generation Instructions"
_SHAPES = ("16x64b", "16x128b", "16x256b", "32x32b", "16x32bx2")


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
def wait(q: Qualifiers, op: Op) -> Nothing:
    """Never waits: loads and stores complete when they are issued."""
    return Nothing()


@native(_FENCES[0], effects=TensorFence(before=True))
@native(_FENCES[1], effects=TensorFence(before=False))
def fence(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect on values, only on the order of operations."""
    return Nothing()
