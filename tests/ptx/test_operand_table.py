"""The table of operands that all parses share."""

from __future__ import annotations

from ptxlab.ptx import Module, Operand, parse
from ptxlab.ptx._operands import _MOST_OPERANDS, operand_table

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def test_modules_share_equal_operands_and_the_table_stays_small() -> None:
    def added(names: range) -> Module:
        return parse(HEADER + ".entry k() {" + "".join(f"add.s32 %r{i}, %r{i}, 1;" for i in names) + "}")

    def operand(module: Module) -> Operand:
        return module.functions["k"].body.statements[0].operands[0]

    few = range(3)
    assert operand(added(few)) is operand(added(few))
    many = 2 * _MOST_OPERANDS
    before = operand(added(range(many)))
    after = operand(added(few))
    assert before == after
    assert before is not after
    assert len(operand_table()) < 10
