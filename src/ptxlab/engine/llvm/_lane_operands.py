"""The values of an instruction's operands, as compiled code reads them in the lanes that execute it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ptxlab._records import dataclass
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.isa.operands import Const, Op, Resolved, Unused
from ptxlab.native.builder import Value

__all__ = ["LaneOperands"]


@dataclass(slots=True)
class LaneOperands:
    """Those of one instruction, for the lanes of a mask.

    Attributes
    ----------
    lane : the one whose values are read; at first the lowest one
    """

    caller: Caller
    frame: Value
    op: Op
    mask: Value
    lane: Value = field(init=False)

    def __post_init__(self) -> None:
        self.lane = self.mask.lowest_bit().to("i64")

    def values(self, registers: tuple[int, ...]) -> list[Value]:
        """The values of registers in the lane."""
        values = []
        for index in registers:
            register = self.caller.program.registers[index]
            row = self.frame.at(register.offset)
            bit = register.bits == 1
            value = row.load("i32") >> self.lane.to("i32") & 1 if bit else row.load(f"i{register.bits}", self.lane)
            values.append(value.to("i64"))
        return values

    def is_same_in_all(self, registers: Iterable[int]) -> Value:
        """Whether each of the registers has the same value in all lanes."""
        same = self.caller.code.const("i1", 1)
        for index in registers:
            register = self.caller.program.registers[index]
            row = self.frame.at(register.offset)
            if register.bits == 1:
                bits = row.load("i32") & self.mask
                same = same & (bits.eq(0) | bits.eq(self.mask))
            else:
                same = same & self._is_same(row, f"i{register.bits}")
        return same

    def _are_zeros(self, offsets: list[int]) -> Value:
        """Whether these rows of 32 bits for each lane are zeros."""
        code = self.caller.code
        table, found = code.constants("i64", offsets), code.variable("<32 x i32>", 0)
        with code.loop(len(offsets)) as index:
            found.set(found.get() | self.frame.at(table.load("i64", index)).load("<32 x i32>", align=64))
        return found.get().reduce("or").eq(0)

    def _address(self, operand: Resolved) -> Value:
        """An address in the lane."""
        source, row, added = self.caller.address(self.frame, operand)
        return added if source == "u" else self._first(row, f"i{source}").to("i64") + added

    def _number(self, operand: Resolved, bits: int) -> Value:
        """A number in the lane; 1 if the operand is absent."""
        if isinstance(operand, Const | Unused):
            return self.caller.code.const("i64", operand.value & (1 << bits) - 1 if isinstance(operand, Const) else 1)
        return self._first(self.caller.row(self.frame, operand, bits), f"i{bits}").to("i64")

    def _is_one_address(self, operand: Resolved) -> Value | None:
        """Whether all lanes have the same address; None if that is certain."""
        source, row, _ = self.caller.address(self.frame, operand)
        return None if source == "u" else self._is_same(row, f"i{source}")

    def _is_one_number(self, operand: Resolved, bits: int) -> Value | None:
        """Whether all lanes have the same number; None if that is certain."""
        return None if isinstance(operand, Const | Unused) else self._is_same(self.caller.row(self.frame, operand, bits), f"i{bits}")

    def _first(self, row: Value, element: str) -> Value:
        """What the lane has in a row."""
        return row.load(element, self.lane)

    def _is_same(self, row: Value, element: str) -> Value:
        """Whether all lanes have the same in a row."""
        same = row.load(f"<32 x {element}>", align=64).eq(self._first(row, element).splat(32)).cast("i32")
        return (same & self.mask).eq(self.mask)
