"""wgmma.mma_async, wgmma.mma_async.sp, wgmma.fence, wgmma.commit_group and wgmma.wait_group.

Sections "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async" and "Asynchronous wgmma Instructions".
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context, operations
from ptxlab.isa.catalogue import Flow, Qualifiers, native, service
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, Unit, WaitGroup, WgmmaFence
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.warpgroup_words import HELD_BYTES, WARPS
from ptxlab.isa.wgmma._plan import Form, Text, form_of, perform
from ptxlab.isa.wgmma._product import WarpgroupProduct
from ptxlab.isa.wgmma._state import Share, Warpgroup, warpgroup_of
from ptxlab.isa.wgmma._syntax import COMMIT_GROUP, FENCE, MMA, WAIT_GROUP, types_of
from ptxlab.isa.wgmma._undefined import begin_undefined, issue_undefined, read_undefined
from ptxlab.native import address_of
from ptxlab.tables import WGMMA_KINDS

_ALL_LANES = 0xFFFF_FFFF
_METADATA = 3
"""The position of the metadata of a sparse instruction."""


def _forms(program: Any) -> dict[int, Form]:
    """The decoded instructions of a program, by index: programs that share instructions have registers in other rows."""
    return {}


def _form(warp: context.WarpContext, text: Text) -> Form:
    """The decoded instruction."""
    forms, index = warp.machine.of_program(_forms), warp.op.index
    found = forms.get(index)
    if found is None:
        found = forms[index] = form_of(warp, text)
    return found


def _begin(warp: context.WarpContext, group: Warpgroup, number: int, given: tuple[bytes, ...], text: Text) -> Share:
    """Begin an instruction with the operands of the first warp that issues it."""
    a = 0 if text.in_registers else warp.uniform(1, 64)
    b = warp.uniform(2, 64)
    form = _form(warp, text)
    operands = form.operands(warp, a, b)
    held = np.empty(HELD_BYTES // 4, np.uint32) if text.in_registers or text.sparse else None
    accumulate = bool(warp.uniform(text.enable, 1))
    share = Share(number, warp.op, form, a, b, accumulate, operands, given, held)
    if warp.machine.program.mirrored:
        share.undefined = begin_undefined(group, share)
    group.begin(share)
    return share


def _taken_over(warp: context.WarpContext, group: Warpgroup, number: int, text: Text) -> Share:
    """Continue an instruction that compiled code has begun."""
    index, a, b, accumulate, held = group.taken_over(number)
    if index != warp.op.index:
        _differs_in_instruction(warp, group, number, warp.machine.program.ops[index])
    form = _form(warp, text)
    operands = form.operands(warp, a, b)
    share = Share(number, warp.op, form, a, b, accumulate, operands, (), held if text.in_registers or text.sparse else None)
    group.shares[number] = share
    return share


def _compare(warp: context.WarpContext, group: Warpgroup, share: Share, text: Text) -> None:
    """A fault unless this warp executes the same instruction with the same operands as the first one."""
    if share.op is not warp.op:
        _differs_in_instruction(warp, group, share.number, share.op)
    descriptors = [(2, "B", share.b)] if share.a_words is not None else [(1, "A", share.a), (2, "B", share.b)]
    for position, what, first in descriptors:
        mine = warp.uniform(position, 64)
        if mine != first:
            _differs(warp, group, share.number, f"the descriptor of {what}", f"{mine:#x}", f"{first:#x}")
    accumulate = bool(warp.uniform(text.enable, 1))
    if share.accumulate != accumulate:
        _differs(warp, group, share.number, "scale-d", str(accumulate).lower(), str(share.accumulate).lower())


def _differs_in_instruction(warp: context.WarpContext, group: Warpgroup, number: int, first: Op) -> NoReturn:
    here, there = (f"{op.opcode} at line {op.line}" for op in (warp.op, first))
    _differs(warp, group, number, "the instruction", here, there)


def _differs(warp: context.WarpContext, group: Warpgroup, number: int, what: str, here: str, there: str) -> NoReturn:
    first = group.arrived(number)[0]
    warp.fault(
        "W902",
        f"{what} is {here} in warp {warp.warp_id}, but {there} in warp {WARPS * group.index + first} of the same warpgroup",
        fix="let the four warps of a warpgroup execute the same wgmma instructions with the same descriptors and predicates",
    )


def _multiply(warp: context.WarpContext, text: Text) -> context.Wait | None:
    op = warp.op
    group = warpgroup_of(warp)
    if warp.mask != _ALL_LANES:
        warp.fault(
            "W903",
            f"wgmma.mma_async is executed by {warp.mask.bit_count()} threads of warp {warp.warp_id}; it needs all 32",
            fix="let no thread of a warpgroup exit before its last wgmma instruction",
        )
    member = warp.warp_id % WARPS
    number = group.issued(member)
    given = (b"" if text.in_registers else warp.row_bytes(1), warp.row_bytes(2), warp.row_bytes(text.enable))
    if number == group.begun:
        share = _begin(warp, group, number, given, text)
    else:
        share = group.shares.get(number) or _taken_over(warp, group, number, text)
        if share.op is not op or share.given != given:
            _compare(warp, group, share, text)
    form = share.form
    if share.a_words is not None and form.a_rows is not None:
        warp.rows.take(form.a_rows, axis=0, out=share.a_words[member])
    if share.metadata_words is not None:
        share.metadata_words[member] = _metadata(warp, form)
    if share.undefined is not None:
        issue_undefined(share, share.undefined, warp, member)
    if group.issue(member, share):
        queue = ("wgmma", id(group))
        act = partial(perform, group, share, warp.cta, warp.machine)
        operation = operations.AsyncOperation(op.opcode, op, warp.cta, act, queue, (warp.cta.ctaid, "warpgroup", group.index))
        if warp.machine.observed:
            operation.accesses = partial(share.operands.accesses, warp.cta)
            operation.undefined = partial(read_undefined, group, share, warp.cta)
            operation.product = partial(group.product, share)
            operation.details = partial(WarpgroupProduct, group, share, warp.cta)
        warp.machine.enqueue(operation)
        if group.state:
            _repeat(warp, group, share, operation)
    if warp.machine.early_results and group.performed <= number:
        group.take_over(warp.machine.take_over_waiters)
        return group.wait_for(number + 1, "wgmma.mma_async waits for the other warps of its warpgroup", retry=False)
    return None


def _repeat(warp: context.WarpContext, group: Warpgroup, share: Share, operation: operations.AsyncOperation) -> None:
    """Let compiled code repeat an instruction."""
    program, repetitions = share.operands.program, share.operands.repetitions
    if program is None or not program.optimised:
        return
    found = repetitions.get(share.accumulate)
    if found is None:
        function, words = program.repetition(share.accumulate, 0)
        more = group.more(share)
        given = *words, share.form.number, address_of(more)
        found = repetitions[share.accumulate] = function, given, (program, share.form, more)
    warp.repeat_share(operation, group.state, *found)


def _undefined_bits(warp: context.WarpContext, text: Text) -> NDArray[np.uint32]:
    """The undefined bits of the registers of D: of elements that add to some, and of the rows of A in registers that have some."""
    halves = warp.q.types.startswith("f16")
    d = warp.undefined(0)
    elements = np.ascontiguousarray(d).view(np.uint16) if halves else d
    open_ = (elements != 0) & bool(warp.uniform(text.enable, 1))
    if text.in_registers:
        # A register of A and one of D, or two of them, hold elements of row t/4, and the next ones of row t/4 + 8.
        a = (warp.undefined(1) != 0).reshape(2, 2, 8, 4).any(axis=(0, 3))
        rows = np.arange(len(d)) // (1 if halves else 2) % 2
        open_ |= np.repeat(a, elements.shape[1] // 8, axis=1)[rows]
    masks = np.where(open_, ~elements.dtype.type(0), elements.dtype.type(0))
    return masks.view(np.uint32)


def _metadata(warp: context.WarpContext, form: Form) -> NDArray[np.uint32]:
    """The register with the metadata of the warp's 16 rows of A; a fault if a code is not legal."""
    assert form.fragment is not None
    words = warp.values(_METADATA).astype(np.uint32)
    codes = words[form.fragment.lane] >> form.fragment.bit & 0xF
    wrong = np.argwhere(~np.isin(codes, form.codes))
    if len(wrong):
        row, chunk = (int(x) for x in wrong[0])
        warp.fault(
            "D707",
            f"the sparsity metadata of row {16 * (warp.warp_id % WARPS) + row}, chunk {chunk} is {int(codes[row, chunk]):#06b}, "
            "which selects nothing",
            fix=f"store one of {', '.join(f'{code:#06b}' for code in form.codes)} for each chunk",
        )
    return words


for _kind, _row in WGMMA_KINDS.items():
    for _d in _row.d:
        for _sparse in (False, True) if _row.sparse_k else (False,):
            for _place in ("shared", "registers"):
                service(
                    MMA[_sparse],
                    only={"types": types_of(_kind, _d), "A": _place},
                    fidelity="spec" if _kind == "b1" else "hardware",
                    outputs=1,
                    updates=1,
                    accumulates="scale-d",
                    matrices=("a",) if _place == "registers" else (),
                    flow=Flow(("a",), partial(_undefined_bits, text=Text(_place == "registers", _sparse)), through_memory=True),
                    effects=Asynchronous(Unit.WARPGROUP, Completion.WGMMA_GROUP, metadata=_METADATA if _sparse else -1),
                )(partial(_multiply, text=Text(_place == "registers", _sparse)))


@native(FENCE, effects=WgmmaFence())
def fence(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect on values: wgmma.mma_async reads its registers at issue or later."""
    return Nothing()


@service(COMMIT_GROUP, effects=CommitGroup(Completion.WGMMA_GROUP))
def commit_group(warp: context.WarpContext) -> None:
    """Commit the warp's uncommitted instructions to a new group, which may be empty."""
    warpgroup_of(warp).commit(warp.warp_id % WARPS)


@service(WAIT_GROUP, effects=WaitGroup(Completion.WGMMA_GROUP))
def wait_group(warp: context.WarpContext) -> context.Wait | None:
    """Wait until at most ``count`` of the newest groups are pending; then write D of the completed groups to its registers."""
    group = warpgroup_of(warp)
    member, operand = warp.warp_id % WARPS, warp.op.operands[0]
    if not isinstance(operand, Const):
        warp.fault("W904", "the number of groups of wgmma.wait_group must be an immediate")
    end = group.end_of(member, operand.value)
    if group.performed < end:
        group.take_over(warp.machine.take_over_waiters)
        return group.wait_for_groups(end, warp.op)
    if end:
        group.wait(member, operand.value)
    return None
