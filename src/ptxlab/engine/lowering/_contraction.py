"""Fusing multiplications and additions that carry no rounding modifier.

The assembler may do so: section "Floating Point Instructions: mul".
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from ptxlab.engine.lowering.matching import candidates
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Const, Op, Reg, Resolved

__all__ = ["contract"]

_PLAIN = re.compile(r"(add|sub|mul)(\.ftz)?(\.sat)?\.(f32|f64|f32x2|f16|f16x2|bf16|bf16x2)")


def contract(program: Program) -> None:
    """Replace additions of a product that nothing else reads by ``fma.rn``; products stay where they are, unused."""
    reads = Counter(
        r for op in program.ops for operand in op.operands[op.row.outputs - op.row.updates :] for r in operand_registers(operand)
    )
    for block in program.blocks:
        products: dict[int, tuple[Op, str]] = {}
        for index in range(block.start, block.stop):
            op = program.ops[index]
            parts = _PLAIN.fullmatch(op.opcode)
            if parts is not None and parts[1] != "mul" and op.guard is None:
                program.ops[index] = _fused(op, products, reads, parts[1], f"{parts[2] or ''}.{parts[4]}", parts[3] or "")
            written = {r for operand in op.operands[: op.row.outputs] for r in operand_registers(operand)}
            for product, (source, _) in list(products.items()):
                if product in written or any(r in written for o in source.operands[1:] for r in operand_registers(o)):
                    del products[product]
            target = op.operands[0] if op.operands else None
            alone = parts is not None and parts[1] == "mul" and not parts[3] and op.guard is None
            if (
                parts is not None
                and alone
                and isinstance(target, Reg)
                and not any(target.index in operand_registers(o) for o in op.operands[1:])
            ):
                products[target.index] = op, f"{parts[2] or ''}.{parts[4]}"


def _fused(op: Op, products: dict[int, tuple[Op, str]], reads: Counter[int], name: str, form: str, saturate: str) -> Op:
    target, *sources = op.operands
    for position, source in enumerate(sources):
        if not isinstance(source, Reg) or source.negated or reads[source.index] != 1 or source.index not in products:
            continue
        product, found = products[source.index]
        _, a, b = product.operands
        c = sources[1 - position]
        if found != form or (name == "sub" and form.removeprefix(".ftz") not in (".f32", ".f64")):
            continue
        if name == "sub":
            flipped = _negative(c if position == 0 else a)
            if flipped is None:
                continue
            a, c = (a, flipped) if position == 0 else (flipped, c)
        opcode = f"fma.rn{form.removesuffix(form[form.rindex('.') :])}{saturate}{form[form.rindex('.') :]}"
        for candidate in candidates(opcode):
            return replace(op, opcode=opcode, row=candidate.row, q=candidate.q, operands=(target, a, b, c))
    return op


def _negative(operand: Resolved) -> Resolved | None:
    if isinstance(operand, Reg):
        return replace(operand, negated=not operand.negated)
    if isinstance(operand, Const) and operand.float_width:
        return replace(operand, value=operand.value ^ 1 << (operand.float_width - 1))
    return None
