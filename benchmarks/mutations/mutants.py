"""Mutations of a lowered program: one instruction does nothing, or does it wrongly.

The compiled code stays as it is; only what the machine and the checks are told about the instruction changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ptxlab.engine.program import Program
from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.operands import Op
from ptxlab.isa.sync import _mbarrier as mbarrier
from ptxlab.isa.sync._mbarrier import mbarrier_at, targets

Handler = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutant:
    """One change: ``family`` is what a repair would put back; ``of`` makes it in a program of these instructions."""

    index: int
    line: int
    family: str
    how: str
    of: Callable[[Program], Program] = field(compare=False, repr=False)


def _nothing(t: Any) -> None:
    return None


def _pass(t: Any) -> None:
    t.write(0, 1, 1)


class _Flipped:
    """An execution of a wait by parity, whose operand is the other parity."""

    def __init__(self, t: Any) -> None:
        self._t = t

    def __getattr__(self, name: str) -> Any:
        return getattr(self._t, name)

    def common(self, operand: int, bits: int) -> int | None:
        value: int | None = self._t.common(operand, bits)
        return None if value is None else value ^ 1

    def values(self, operand: int, bits: int) -> Any:
        return self._t.values(operand, bits) ^ 1


def _other_parity(t: Any) -> Any:
    return mbarrier._try_wait(_Flipped(t), parity=True)  # type: ignore[arg-type]


def _bytes(original: Handler, more: int) -> Handler:
    def handler(t: Any) -> Any:
        for address, _ in targets(t, 1):
            mbarrier_at(t, address).expect_tx(more)
        return original(t)

    return handler


FAMILIES: tuple[tuple[str, str], ...] = (
    ("bar.sync", "barrier"),
    ("barrier.sync", "barrier"),
    ("bar.arrive", "barrier"),
    ("barrier.cluster.arrive", "barrier.cluster"),
    ("barrier.cluster.wait", "barrier.cluster"),
    ("mbarrier.arrive", "mbarrier.arrive"),
    ("mbarrier.try_wait", "mbarrier.wait"),
    ("mbarrier.test_wait", "mbarrier.wait"),
    ("tcgen05.commit", "tcgen05.commit"),
    ("tcgen05.wait::ld", "tcgen05.wait::ld"),
    ("tcgen05.wait::st", "tcgen05.wait::st"),
    ("tcgen05.dealloc", "tcgen05.dealloc"),
    ("fence.proxy.async", "fence.proxy.async"),
    ("fence.proxy.tensormap", "fence.proxy.tensormap"),
    ("fence.mbarrier_init", "fence.mbarrier_init"),
    ("wgmma.fence", "wgmma.fence"),
    ("cp.async.bulk.wait_group", "cp.async.bulk.wait_group"),
    ("cp.async.bulk.commit_group", "cp.async.bulk.commit_group"),
    ("cp.async.wait", "cp.async.wait"),
    ("cp.async.commit_group", "cp.async.commit_group"),
    ("wgmma.wait_group", "wgmma.wait_group"),
    ("wgmma.commit_group", "wgmma.commit_group"),
)
LETTER: tuple[tuple[str, str], ...] = (("tcgen05.fence", "tcgen05.fence"),)
"""What only ``model="spec"`` asks for."""
_REMOVED = "removed"
_PAIR, _SINGLE = "cta_group::2", "cta_group::1"


Change = Callable[[Op], tuple[Handler, str, Qualifiers]]
"""What an instruction becomes: handler, opcode and qualifiers."""


def _changed(index: int, change: Change, program: Program) -> Program:
    ops = list(program.ops)
    op = ops[index]
    handler, opcode, q = change(op)
    row = replace(op.row, semantics=handler) if op.row.kind == "service" else op.row
    if opcode == _REMOVED:
        row = replace(row, effects=LOCAL if row.kind == "service" else None)
    ops[index] = Op(index, opcode, row, q, op.operands, op.guard, op.line, op.column, op.targets)
    return replace(program, ops=ops)


def _mutant(op: Op, family: str, how: str, change: Change) -> Mutant:
    return Mutant(op.index, op.line, family, how, partial(_changed, op.index, change))


def mutants(program: Program, model: str) -> Iterator[Mutant]:
    """All mutants of a program, in the order of its text."""
    for op in sorted(program.ops, key=lambda o: (o.line, o.index)):
        yield from _removals(op, FAMILIES if model == "practice" else LETTER)
        if model == "practice":
            yield from _changes(op)


def _removals(op: Op, families: tuple[tuple[str, str], ...]) -> Iterator[Mutant]:
    family = next((f for prefix, f in families if op.opcode.startswith(prefix)), None)
    if family is not None:
        waits = op.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait"))
        yield _mutant(op, family, "removed", lambda op: (_pass if waits else _nothing, _REMOVED, op.q))


def _changes(op: Op) -> Iterator[Mutant]:
    if op.opcode.startswith("mbarrier.try_wait.parity"):
        yield _mutant(op, "mbarrier.wait", "other parity", lambda op: (_other_parity, op.opcode, op.q))
    if "expect_tx" in op.opcode:
        for how, more in (("16 bytes too many", 16), ("16 bytes too few", -16)):
            yield _mutant(op, "bytes", how, partial(_expecting, more))
    if _PAIR in op.opcode:
        yield _mutant(op, "cta_group", _SINGLE, _alone)


def _expecting(more: int, op: Op) -> tuple[Handler, str, Qualifiers]:
    return _bytes(op.row.semantics, more), op.opcode, op.q


def _alone(op: Op) -> tuple[Handler, str, Qualifiers]:
    return op.row.semantics, op.opcode.replace(_PAIR, _SINGLE), Qualifiers({**vars(op.q), "cta_group": _SINGLE})
