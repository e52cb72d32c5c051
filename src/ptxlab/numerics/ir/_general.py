"""LLVM code for one step that takes every value: exact arithmetic in float64.

Products of two significands of at most 12 bits are exact in float64 at every exponent, so are their alignment (a multiplication by a power
of two and a truncation) and the sum of the aligned terms. Infinities and NaN come out of the ordinary float64 sum, which no finite operand
can overflow.
"""

from __future__ import annotations

from ptxlab.native.builder import Function, Module, Value, vector
from ptxlab.numerics._steps import Step
from ptxlab.numerics.ir.prepare import BIASES, LEAST_FIELD, NAN_SCALE, SIGN, absent_exponent, dead_exponent

__all__ = [
    "DEAD",
    "F16_INFINITY",
    "F32_INFINITY",
    "LANES",
    "MOST_PRODUCTS",
    "accumulator",
    "c_f16",
    "cut_f32",
    "general",
    "power",
    "round_f16",
    "with_specials",
    "without_products",
]

LANES = 16
MOST_PRODUCTS = 64
"""Of one step, with those of elements that a sparse A does not store."""
DEAD = -30000
"""The exponent of a term that is zero."""
F16_INFINITY, F16_NAN = 0x7C00, 0x7FFF
F32_INFINITY, F32_NAN = 0x7F800000, 0x7FFFFFFF
QUIET = 0x7FC00000


def general(module: Module, step: Step, wide: bool) -> None:
    """The function ``general``: LANES cells of one row of the accumulator."""
    parameters = "ptr acc, ptr a, ptr ae, i64 lda, ptr b, ptr be, i64 count, i32 keep, i32 sign, i32 scale, ptr as, i32 bs"
    code = Function(module, "general", "void", parameters, attributes="noinline", internal=True)
    terms = _Terms(code, wide)
    value, exponent = accumulator(code, step, code["acc"].load(vector("i32", LANES)) & code["keep"])
    plain = value.variable()
    shift = None
    if step.scales:
        a, b = code["as"].load(vector("i32", LANES)), code["bs"].splat(LANES)
        plain.set((a.eq(NAN_SCALE) | b.eq(NAN_SCALE)).select(value.constant(float("nan")), value))
        shift = a + b
    products = code.stack(f"[{MOST_PRODUCTS * LANES} x double]", 64)
    sums = code.const(vector(terms.narrow, LANES), 2 * dead_exponent(wide)).variable()
    with code.loop(code["count"]) as k:
        product = terms.product(k)
        plain.set(plain.get() + product)
        products.store(product, k * LANES)
        sums.set(terms.larger(sums.get(), terms.exponent(k)))
    top = terms.exponent_of(sums.get(), shift).max(exponent.max(step.floor))
    up, down = (power(e) for e in (top.constant(step.window) - top, top - step.window))
    total = (value * up).intrinsic("trunc").variable()
    if shift is not None:
        up = power(shift + step.window - top)
    with code.loop(code["count"]) as k:
        total.set(total.get() + (products.load(value.type, k * LANES) * up).intrinsic("trunc"))
    exact = total.get() * down
    finite = round_f16(exact) if step.output == "f16" else cut_f32(exact, dropped=10 if step.output == "e8m13" else 0)
    code["acc"].store(with_specials(step, plain.get(), finite))


class _Terms:
    """The products of a row of A's lanes with one row of B; those of elements that a sparse matrix does not store are zero."""

    def __init__(self, code: Function, wide: bool) -> None:
        self.code, self.wide, self.narrow, self.absent = code, wide, "i16" if wide else "i8", absent_exponent(wide)

    def _exponents(self, k: Value) -> tuple[Value, Value]:
        a = self.code["ae"].load(vector(self.narrow, LANES), k * self.code["lda"])
        return a, self.code["be"].load(self.narrow, k).splat(LANES)

    def product(self, k: Value) -> Value:
        a = self.code["a"].load(vector("float", LANES), k * self.code["lda"])
        b = (self.code["b"].load("i32", k) ^ self.code["sign"]).bits("float")
        product = a.convert("fpext", "double") * b.convert("fpext", "double")
        ae, be = self._exponents(k)
        return (ae.eq(self.absent) | be.eq(self.absent)).select(product.constant(0.0), product)

    def exponent(self, k: Value) -> Value:
        """The sum of the exponents of two elements: far below all others if one of them is zero or absent."""
        a, b = self._exponents(k)
        return a + b

    def larger(self, one: Value, other: Value) -> Value:
        """The larger of two sums of exponents; bytes have a bias and no sign."""
        return one.max(other) if self.wide else one.intrinsic("umax", other)

    def exponent_of(self, sums: Value, shift: Value | None) -> Value:
        """The exponent of the largest products, given the largest sum of two exponents, with the scales; DEAD if all products are zero."""
        if self.wide:
            exponent, least = sums.convert("sext", "i32"), dead_exponent(True) // 2
        else:
            exponent, least = sums.convert("zext", "i32") - sum(BIASES.values()), LEAST_FIELD + 1 - sum(BIASES.values())
        shifted = exponent if shift is None else exponent + shift
        return exponent.lt(least).select(exponent.constant(DEAD), shifted)


def power(exponent: Value) -> Value:
    """Two to the power of i32 values, in float64's normal range."""
    return ((exponent + 1023).convert("zext", "i64") << 52).bits("double")


def accumulator(code: Function, step: Step, cells: Value) -> tuple[Value, Value]:
    """C times 2^-scale, and its exponent or DEAD."""
    if step.output == "f16":
        value, exponent = c_f16(cells)
        magnitude = cells & 0x7FFF
        kind = magnitude.eq(F16_INFINITY).select(cells.constant(F32_INFINITY), QUIET) | ((cells << 16) & SIGN)
        value = magnitude.gt(F16_INFINITY - 1).select(kind.bits("float"), value)
    else:
        magnitude = cells & 0x7FFFFFFF
        exponent = (magnitude >> 23).max(1) - 127
        value = cells.bits("float")
    scale = code["scale"].splat(LANES)
    exponent = magnitude.eq(0).select(cells.constant(DEAD), exponent - scale)
    return value.convert("fpext", "double") * power(scale.constant(0) - scale), exponent


def c_f16(cells: Value) -> tuple[Value, Value]:
    """Float32 values (of finite ones) and exponents of the f16 codes in the low halves of cells."""
    magnitude = cells & 0x7FFF
    field = magnitude >> 10
    subnormal = field.eq(0)
    small = magnitude.convert("uitofp", "float") * 2.0**-24
    value = subnormal.select(small.bits("i32"), (magnitude << 13) + (112 << 23))
    return (value | ((cells << 16) & SIGN)).bits("float"), field.max(1) - 15


def round_f16(exact: Value) -> Value:
    """Bits of float64 values rounded once to f16: nearest, ties to even; zero is positive."""
    # Adding 1.5 * 2^42 times a power of two makes float64 addition round at that power's eleventh significant bit.
    power = (exact.bits("i64") & (0x7FF << 52)).bits("double").max(2.0**-14)
    magic = power * (1.5 * 2.0**42)
    word = ((exact + magic) - magic).convert("fptrunc", "float").bits("i32")
    magnitude = word & 0x7FFFFFFF
    normal = ((magnitude >> 13) - (112 << 10)).min(F16_INFINITY)
    is_small = magnitude.lt(113 << 23)
    # Clearing the other lanes keeps the conversion defined there.
    scaled = is_small.select(magnitude.bits("float") * 2.0**24, 0.0)
    code = is_small.select(scaled.convert("fptosi", "i32"), normal)
    return code.eq(0).select(code, code | ((word >> 16) & 0x8000))


def cut_f32(exact: Value, dropped: int) -> Value:
    """Bits of float64 values cut toward zero to f32 with ``dropped`` fewer fraction bits; zero is positive."""
    cut = (exact.bits("i64") & -(1 << (29 + dropped))).bits("double")
    small = (exact * 2.0 ** (149 - dropped)).intrinsic("trunc") * 2.0 ** (dropped - 149)
    value = exact.intrinsic("fabs").lt(2.0**-126).select(small, cut)
    return (value + 0.0).convert("fptrunc", "float").bits("i32")


def without_products(c: Value) -> Value:
    """The f32 result of a step whose products are all zero: C as it is, except that zero is positive."""
    return (c << 1).eq(0).select(c.constant(0), c)


def with_specials(step: Step, plain: Value, finite: Value) -> Value:
    """The result; canonical NaN or infinity where the plain sum is one."""
    sign = (plain.bits("i64") >> 32).convert("trunc", "i32") & SIGN
    if step.output == "f16":
        infinity, nan = (sign >> 16) | F16_INFINITY, F16_NAN
    else:
        infinity, nan = sign | F32_INFINITY, F32_NAN
    result = plain.intrinsic("fabs").eq(float("inf")).select(infinity, finite)
    return plain.compare("uno", plain).select(sign.constant(nan), result)
