"""The operations that lane-wise semantics are written with. The NumPy and the LLVM back end implement them with the same bits.

A value has one element for each lane of a warp. Its element type is one of ``i1 i8 i16 i32 i64 f32 f64``. Integers are signless; signed
operations have names of their own. 16-bit floats are held in ``i16``, packed pairs in ``i32`` or ``i64``. No operation traps: shifts clamp,
division by zero and out-of-range conversions give the stated result. Floating-point operations round to nearest even, keep subnormals and
are never contracted; their NaN payload is unspecified, so the semantics of an instruction canonicalises it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = ["Value", "Vocabulary"]

Value = Any
F = TypeVar("F", bound=Callable[..., Any])


class Vocabulary(Protocol):
    """The operations on values, as the module docstring specifies them."""

    def const(self, value: int | float, type: str) -> Value:
        """A constant; for f32/f64 a Python float, or use ``bits`` for an exact pattern."""

    def bits(self, pattern: int, type: str) -> Value:
        """A float constant (f32, f64) given by its bits."""

    def type(self, a: Value) -> str:
        """The element type of a value."""

    def known(self, a: Value) -> int | None:
        """The integer, if it is the same in all lanes and known when code is generated; else None."""

    # reinterpretation and width
    def bitcast(self, a: Value, type: str) -> Value: ...
    def zext(self, a: Value, type: str) -> Value: ...
    def sext(self, a: Value, type: str) -> Value: ...
    def trunc(self, a: Value, type: str) -> Value: ...

    # integers (add, sub, mul wrap)
    def add(self, a: Value, b: Value) -> Value: ...
    def sub(self, a: Value, b: Value) -> Value: ...
    def mul(self, a: Value, b: Value) -> Value: ...
    def umulhi(self, a: Value, b: Value) -> Value: ...
    def smulhi(self, a: Value, b: Value) -> Value: ...
    def dot(self, start: Value, a: Value, b: Value) -> Value:
        """Of i32: ``start`` plus the product of the low halves and that of the high halves, which have signs."""

    def udiv(self, a: Value, b: Value) -> Value:
        """Quotient; all ones where b is zero."""

    def urem(self, a: Value, b: Value) -> Value:
        """Remainder; a where b is zero."""

    def sdiv(self, a: Value, b: Value) -> Value:
        """Quotient toward zero; -1 where b is zero; wraps for INT_MIN / -1."""

    def srem(self, a: Value, b: Value) -> Value:
        """Remainder of ``sdiv``; a where b is zero; 0 for INT_MIN / -1."""

    def smin(self, a: Value, b: Value) -> Value: ...
    def smax(self, a: Value, b: Value) -> Value: ...
    def umin(self, a: Value, b: Value) -> Value: ...
    def umax(self, a: Value, b: Value) -> Value: ...
    def and_(self, a: Value, b: Value) -> Value: ...
    def or_(self, a: Value, b: Value) -> Value: ...
    def xor(self, a: Value, b: Value) -> Value: ...
    def not_(self, a: Value) -> Value: ...
    def neg(self, a: Value) -> Value: ...
    def shl(self, a: Value, amount: Value) -> Value:
        """Shift left; amounts (unsigned, of a's type) of the width or more give 0."""

    def lshr(self, a: Value, amount: Value) -> Value: ...
    def ashr(self, a: Value, amount: Value) -> Value:
        """Arithmetic shift right; amounts of the width or more give the sign."""

    def signed_as(self, a: Value, b: Value) -> Value:
        """The integer a, of which is known that it has the sign of b wherever it is used; those who follow undefined bits rely on it."""

    def popc(self, a: Value) -> Value: ...
    def clz(self, a: Value) -> Value:
        """Leading zeros, the width for 0; of a's type."""

    def brev(self, a: Value) -> Value: ...

    # comparison -> i1
    def eq(self, a: Value, b: Value) -> Value: ...
    def ne(self, a: Value, b: Value) -> Value: ...
    def ult(self, a: Value, b: Value) -> Value: ...
    def ule(self, a: Value, b: Value) -> Value: ...
    def slt(self, a: Value, b: Value) -> Value: ...
    def sle(self, a: Value, b: Value) -> Value: ...
    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """A where the i1 condition holds, else b; any type."""

    # floats (f32 or f64)
    def fadd(self, a: Value, b: Value) -> Value: ...
    def fsub(self, a: Value, b: Value) -> Value: ...
    def fmul(self, a: Value, b: Value) -> Value: ...
    def fdiv(self, a: Value, b: Value) -> Value: ...
    def reciprocal_toward_zero(self, a: Value) -> Value:
        """1/a of an f32, rounded toward zero, if a and 1/a are normal."""

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Fused: one rounding."""

    def fsqrt(self, a: Value) -> Value: ...
    def fneg(self, a: Value) -> Value: ...
    def fabs(self, a: Value) -> Value: ...
    def feq(self, a: Value, b: Value) -> Value:
        """Ordered comparison: false with a NaN (flt, fle too)."""

    def flt(self, a: Value, b: Value) -> Value: ...
    def fle(self, a: Value, b: Value) -> Value: ...
    def isnan(self, a: Value) -> Value: ...
    def subnormal_or_nan(self, a: Value) -> Value:
        """Whether an f32 is subnormal, which zero is not, or NaN: one instruction of processors that classify floats."""

    def outside_positive_normals(self, a: Value) -> Value:
        """Whether an f32 is anything but a positive normal number; the lanes may come in another order, for ``some`` of `rarely`."""

    def fround(self, a: Value, mode: str) -> Value:
        """To an integral value in the same type: rni (to even), rzi, rmi (down), rpi (up)."""

    # conversion
    def fext(self, a: Value) -> Value:
        """f32 to f64."""

    def fnarrow(self, a: Value) -> Value:
        """f64 to f32, to nearest even."""

    def sitof(self, a: Value, type: str) -> Value:
        """Signed integer to float, to nearest even."""

    def uitof(self, a: Value, type: str) -> Value: ...
    def ftosi(self, a: Value, type: str) -> Value:
        """Toward zero, clamped to the range, NaN gives 0."""

    def ftoui(self, a: Value, type: str) -> Value: ...
    def half_to_f32(self, a: Value) -> Value:
        """i16 holding an f16, to f32 (exact)."""

    def f32_to_half(self, a: Value) -> Value:
        """f32 to an f16 in i16, to nearest even, overflow to infinity."""

    def low_half(self, a: Value) -> Value:
        """The low half of an i32 as an i16, which stands in another lane: the same one for all halves."""

    def high_half(self, a: Value) -> Value:
        """The high half of an i32, in the lane of its low one."""

    def with_halves(self, low: Value, high: Value) -> Value:
        """The i32 with these halves."""

    def with_low_half(self, low: Value) -> Value:
        """An i32 with this low half; the high half has no meaning."""

    def table(self, a: Value, first: int, table: tuple[int, ...]) -> tuple[Value, Value]:
        """Look up a constant table: the low and the high word of the 64-bit entry that the bits of an i32 from ``first`` on select.

        Of these bits so many count as the number of the last entry has.
        """

    def table_halves(self, a: Value, first: int, table: tuple[int, ...]) -> tuple[Value, Value]:
        """The same of a table of 32-bit entries: the halves of the entry."""

    def rarely(
        self, some: Callable[..., Value], rare: Callable[..., Value], function: Callable[..., Value], usual: Value, *args: Value
    ) -> Value:
        """``function(x, *args)`` where ``rare(x, usual, *args)`` holds, else ``usual``.

        Compiled code goes around both functions unless ``some(x, usual, *args)`` holds in a lane, of values or of halves. It must hold in
        one if ``rare`` does.
        """

    def each(self, function: Callable[..., Value], type: str, *packed: Value) -> Value:
        """Evaluate ``function(x, *elements)`` once for both halves of packed integers, as elements of ``type``.

        ``x`` is a vocabulary over twice as many lanes; the result has the width of ``type`` and is packed again.
        """

    def call(self, function: F, *args: Value) -> Any:
        """Evaluate ``function(x, *args)``; a back end may compile it as a separate function. For long bodies (ex2, sin, division)."""
