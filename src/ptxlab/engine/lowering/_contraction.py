"""Fusing multiplications and additions that carry no rounding modifier."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ptxlab.engine.lowering.matching import candidates
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Const, Op, Reg, Resolved
from ptxlab.isa.scalar.contraction import Term, term_of

__all__ = ["contract"]


def contract(program: Program) -> None:
    """Replace additions of a product that nothing else reads by ``fma.rn``; products stay where they are, unused."""
    reads = Counter(
        r for op in program.ops for operand in op.operands[op.row.outputs - op.row.updates :] for r in operand_registers(operand)
    )
    for block in program.blocks:
        products: dict[int, tuple[Op, str]] = {}
        for index in range(block.start, block.stop):
            op = program.ops[index]
            term = term_of(op.opcode) if op.guard is None else None
            if term is not None and term.fused:
                program.ops[index] = _fused(op, products, reads, term)
            written = {r for operand in op.operands[: op.row.outputs] for r in operand_registers(operand)}
            for product, (source, _) in list(products.items()):
                if product in written or any(r in written for o in source.operands[1:] for r in operand_registers(o)):
                    del products[product]
            target = op.operands[0] if op.operands else None
            sources = {r for operand in op.operands[1:] for r in operand_registers(operand)}
            if term is not None and not term.fused and isinstance(target, Reg) and target.index not in sources:
                products[target.index] = op, term.form


def _fused(op: Op, products: dict[int, tuple[Op, str]], reads: Counter[int], term: Term) -> Op:
    target, *sources = op.operands
    for position, source in enumerate(sources):
        if not isinstance(source, Reg) or source.negated or reads[source.index] != 1 or source.index not in products:
            continue
        product, form = products[source.index]
        if form != term.form:
            continue
        _, a, b = product.operands
        c = sources[1 - position]
        if term.subtracts:
            flipped = _negative(c if position == 0 else a)
            if flipped is None:
                continue
            a, c = (a, flipped) if position == 0 else (flipped, c)
        row = candidates(term.fused)[0]
        return replace(op, opcode=term.fused, row=row.row, q=row.q, operands=(target, a, b, c))
    return op


def _negative(operand: Resolved) -> Resolved | None:
    if isinstance(operand, Reg):
        return replace(operand, negated=not operand.negated)
    if isinstance(operand, Const) and operand.float_width:
        return replace(operand, value=operand.value ^ 1 << (operand.float_width - 1))
    return None
