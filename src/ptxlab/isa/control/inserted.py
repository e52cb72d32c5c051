"""Opcodes of the instructions that the lowering inserts: for calls, for the stack, and at the end of a function."""

from __future__ import annotations

__all__ = ["BRANCH", "EXIT", "differ", "load_argument", "move", "store_argument"]

EXIT = "exit"
BRANCH = "bra"


def move(bits: int) -> str:
    """A copy of a register of so many bits."""
    return "mov.pred" if bits == 1 else "cvt.u8.u8" if bits == 8 else f"mov.b{bits}"


def differ(bits: int) -> str:
    """Whether two registers differ."""
    return f"setp.ne.b{bits}"


def load_argument(bits: int) -> str:
    """The value of a parameter of a function, or of its result."""
    return f"ld.param.b{bits}"


def store_argument(bits: int) -> str:
    """Gives a parameter of a function, or its result, a value."""
    return f"st.param.b{bits}"
