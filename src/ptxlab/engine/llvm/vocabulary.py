"""The vocabulary of lane-wise semantics as LLVM instructions over vectors ``<width x T>``.

Code is meant for opt level 0, where the time to compile grows with the number of instructions and vectors of the native
width are cheapest: constants are splats, a known shift amount costs one instruction, and what LLVM would expand into long
scalar code (64-bit division) stands once in a module, out of line. LLVM's undefined cases never arise: shifts
clamp, division is guarded, conversions saturate.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from ptxlab.engine.llvm._outlined import bits_of, f32_to_half, half_to_f32, sdiv, smulhi, srem, udiv, umulhi, urem
from ptxlab.engine.llvm._tables import high_halves, joined, looked_up, looked_up_halves, low_halves, with_halves, with_low_half
from ptxlab.isa.scalar.shared_functions import NAMES, SHARED
from ptxlab.native import host
from ptxlab.native.builder import Constant, Function, Module, Value

__all__ = ["ELEMENTS", "LlvmVocabulary", "emit_shared"]

T = TypeVar("T")


ELEMENTS = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "i128": "i128", "f32": "float", "f64": "double"}
"""LLVM's names of the element types."""

_ROUND = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_TOWARD_ZERO = 11
"""How an instruction of AVX-512 is to round."""


class LlvmVocabulary:
    """Emit into ``code``; a value is an LLVM vector of ``width`` elements (predicates ``<width x i1>``)."""

    def __init__(self, code: Function, width: int) -> None:
        self.code = code
        self.width = width
        self.vectors = {name: f"<{width} x {element}>" for name, element in ELEMENTS.items()}
        self._names = {vector: name for name, vector in self.vectors.items()}
        self._patterns: dict[tuple[int, str], Value] = {}

    # -------------------------------------------------------------------------- constants, types

    def const(self, value: int | float, type: str) -> Value:
        return self.code.const(self.vectors[type], value)

    def bits(self, pattern: int, type: str) -> Value:
        found = self._patterns.get((pattern, type))
        if found is None:
            found = self._patterns[pattern, type] = self._of_bits(pattern, type)
        return found

    def _of_bits(self, pattern: int, type: str) -> Value:
        if type == "f64":
            return Value(self.code, self.vectors["f64"], f"splat (double 0x{pattern:016x})")
        if pattern & 0x7FFFFFFF > 0x7F800000:  # LLVM writes floats as doubles, which cannot hold a signalling NaN
            return Value(self.code, self.vectors["f32"], f"bitcast ({self.const(pattern, 'i32')} to {self.vectors['f32']})")
        (number,) = struct.unpack("<f", struct.pack("<I", pattern))
        return self.const(number, "f32")

    def type(self, a: Value) -> str:
        return self._names[a.type]

    def known(self, a: Value) -> int | None:
        return a.number if isinstance(a, Constant) and isinstance(a.number, int) else None

    # ------------------------------------------------------------------------------------- width

    def bitcast(self, a: Value, type: str) -> Value:
        return a.cast(self.vectors[type])

    def zext(self, a: Value, type: str) -> Value:
        if isinstance(a, Constant):
            return self.const(a.number, type)
        return a.convert("zext", self.vectors[type])

    def sext(self, a: Value, type: str) -> Value:
        return a.convert("sext", self.vectors[type])

    def trunc(self, a: Value, type: str) -> Value:
        if isinstance(a, Constant):
            return self.const(a.number, type)
        return a.convert("trunc", self.vectors[type])

    # ---------------------------------------------------------------------------------- integers

    add, sub, mul = staticmethod(Value.__add__), staticmethod(Value.__sub__), staticmethod(Value.__mul__)
    and_, xor, not_ = staticmethod(Value.__and__), staticmethod(Value.__xor__), staticmethod(Value.__invert__)

    def or_(self, a: Value, b: Value) -> Value:
        return a | b

    smin, smax = staticmethod(Value.min), staticmethod(Value.max)

    def umin(self, a: Value, b: Value) -> Value:
        return a.intrinsic("umin", b)

    def umax(self, a: Value, b: Value) -> Value:
        return a.intrinsic("umax", b)

    def signed_as(self, a: Value, b: Value) -> Value:
        return a

    def umulhi(self, a: Value, b: Value) -> Value:
        return self.call(umulhi, a, b) if self.type(a) == "i64" else umulhi(self, a, b)

    def smulhi(self, a: Value, b: Value) -> Value:
        return self.call(smulhi, a, b) if self.type(a) == "i64" else smulhi(self, a, b)

    def dot(self, start: Value, a: Value, b: Value) -> Value:
        if 32 * self.width <= host().vector_bits:
            return start.add_pair_dot(a, b)
        return joined(*(half.dot(*each) for half, *each in self._in_halves(start, a, b)))

    def _in_halves(self, *values: Value) -> list[tuple[Any, ...]]:
        """The vocabulary of half as many lanes with the low halves of vectors, and with the high ones."""
        lanes = self.width // 2
        return [(LlvmVocabulary(self.code, lanes), *(each.part(first, lanes) for each in values)) for first in (0, lanes)]

    def udiv(self, a: Value, b: Value) -> Value:
        return self.call(udiv, a, b)

    def urem(self, a: Value, b: Value) -> Value:
        return self.call(urem, a, b)

    def sdiv(self, a: Value, b: Value) -> Value:
        return self.call(sdiv, a, b)

    def srem(self, a: Value, b: Value) -> Value:
        return self.call(srem, a, b)

    def neg(self, a: Value) -> Value:
        return self.const(0, self.type(a)) - a

    def shl(self, a: Value, amount: Value) -> Value:
        return self._shift("shl", a, amount)

    def lshr(self, a: Value, amount: Value) -> Value:
        return self._shift("lshr", a, amount)

    def _shift(self, operation: str, a: Value, amount: Value) -> Value:
        type = self.type(a)
        width = bits_of(type)
        if isinstance(amount, Constant):
            return a.operation(operation, amount) if amount.number < width else self.const(0, type)
        inside = self.ult(amount, self.const(width, type))
        return self.select(inside, a.operation(operation, amount), self.const(0, type))

    def ashr(self, a: Value, amount: Value) -> Value:
        type = self.type(a)
        last = bits_of(type) - 1
        if isinstance(amount, Constant):
            return a.operation("ashr", self.const(min(amount.number, last), type))
        most = self.const(last, type)
        return a.operation("ashr", self.select(self.ult(amount, most), amount, most))

    def popc(self, a: Value) -> Value:
        return a.intrinsic("ctpop")

    def clz(self, a: Value) -> Value:
        return a.intrinsic("ctlz", immediate="i1 false")

    def brev(self, a: Value) -> Value:
        return a.intrinsic("bitreverse")

    # -------------------------------------------------------------------------------- comparison

    eq, ne, slt, sle = staticmethod(Value.eq), staticmethod(Value.ne), staticmethod(Value.lt), staticmethod(Value.le)
    ult, ule = staticmethod(Value.ult), staticmethod(Value.ule)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return condition.select(a, b)

    # ------------------------------------------------------------------------------------ floats

    fadd, fsub, fmul = add, sub, mul
    feq, flt, fle = eq, slt, sle

    def fdiv(self, a: Value, b: Value) -> Value:
        return a.operation("fdiv", b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return a.intrinsic("fma", b, c)

    def fsqrt(self, a: Value) -> Value:
        return a.intrinsic("sqrt")

    def fneg(self, a: Value) -> Value:
        return self.code.emit(f"fneg {a.type} {a.ref}", a.type)

    def fabs(self, a: Value) -> Value:
        return a.intrinsic("fabs")

    def isnan(self, a: Value) -> Value:
        return a.compare("uno", a)

    def reciprocal_toward_zero(self, a: Value) -> Value:
        one = self.const(1.0, "f32")
        if host().vector_bits == 512 and self.width > 16:
            return joined(*(half.reciprocal_toward_zero(each) for half, each in self._in_halves(a)))
        if host().vector_bits == 512 and self.width == 16:
            return one.target_intrinsic("x86.avx512.div.ps.512", a.type, f"i32 {_TOWARD_ZERO}", a)
        rounded = self.fdiv(one, a)
        rest = self.fma(rounded, self.fneg(a), one)
        # One less if it has been rounded away from zero: then the rest is negative.
        return self.bitcast(self.add(self.bitcast(rounded, "i32"), self.ashr(self.bitcast(rest, "i32"), self.const(31, "i32"))), "f32")

    def subnormal_or_nan(self, a: Value) -> Value:
        return self._is_of(0x93, 0xA1, a)

    def outside_positive_normals(self, a: Value) -> Value:
        if host().vector_bits == 512:
            return self._is_of(0x2FF, 0xFF, a)
        least, infinity = 0x0080, 0x7F80  # the high halves of the least normal number and of infinity
        return self.ule(self.const(infinity - least, "i16"), self.sub(self.high_half(self.bitcast(a, "i32")), self.const(least, "i16")))

    def _is_of(self, classes: int, classes_of_avx512: int, a: Value) -> Value:
        """Whether an f32 is of one of the classes, as bits for LLVM and for the instruction of AVX-512."""
        lanes = host().vector_bits // 32
        if lanes == 16 and self.width > lanes:
            return joined(*(half._is_of(classes, classes_of_avx512, each) for half, each in self._in_halves(a)))
        one_instruction = lanes == self.width == 16
        name = "llvm.x86.avx512.fpclass.ps.512" if one_instruction else f"llvm.is.fpclass.v{self.width}f32"
        type = self.vectors["i1"]
        self.code.module.declare(f"@{name}", f"declare {type} @{name}({a.type}, i32 immarg)")
        return self.code.emit(f"call {type} @{name}({a}, i32 {classes_of_avx512 if one_instruction else classes})", type)

    def fround(self, a: Value, mode: str) -> Value:
        return a.intrinsic(_ROUND[mode])

    # -------------------------------------------------------------------------------- conversion

    def fext(self, a: Value) -> Value:
        return a.convert("fpext", self.vectors["f64"])

    def fnarrow(self, a: Value) -> Value:
        return a.convert("fptrunc", self.vectors["f32"])

    def sitof(self, a: Value, type: str) -> Value:
        return a.convert("sitofp", self.vectors[type])

    def uitof(self, a: Value, type: str) -> Value:
        return a.convert("uitofp", self.vectors[type])

    def ftosi(self, a: Value, type: str) -> Value:
        # LLVM takes the saturating conversion of a vector apart into scalars.
        size = 1 << bits_of(type) - 1
        low, high = self.const(-float(size), self.type(a)), self.const(float(size), self.type(a))
        raised = self.select(self.flt(a, low), low, a)
        inside = self.select(self.flt(raised, high), raised, self.const(0.0, self.type(a)))
        return self.select(self.fle(high, a), self.const(size - 1, type), inside.convert("fptosi", self.vectors[type]))

    def ftoui(self, a: Value, type: str) -> Value:
        return a.intrinsic("fptoui.sat", result=ELEMENTS[type])

    def half_to_f32(self, a: Value) -> Value:
        if not host().has_half:
            return self.call(half_to_f32, a)
        return a.cast(f"<{self.width} x half>").convert("fpext", self.vectors["f32"])

    def f32_to_half(self, a: Value) -> Value:
        if not host().has_half:
            return self.call(f32_to_half, a)
        return a.convert("fptrunc", f"<{self.width} x half>").cast(self.vectors["i16"])

    low_half, high_half = staticmethod(low_halves), staticmethod(high_halves)
    with_halves, with_low_half = staticmethod(with_halves), staticmethod(with_low_half)
    table, table_halves = staticmethod(looked_up), staticmethod(looked_up_halves)

    def rarely(
        self, some: Callable[..., Value], rare: Callable[..., Value], function: Callable[..., Value], usual: Value, *args: Value
    ) -> Value:
        code, before = self.code, self.code.block
        with code.when(some(self, usual, *args).cast(f"i{self.width}").ne(0)):
            chosen = self.select(rare(self, usual, *args), self._outlined(function, args, "noinline cold"), usual)
            inside = code.block
        return code.emit(f"phi {usual.type} [ {usual.ref}, %{before} ], [ {chosen.ref}, %{inside} ]", usual.type)

    def each(self, function: Callable[..., Value], type: str, *packed: Value) -> Value:
        x = LlvmVocabulary(self.code, 2 * self.width)
        result: Value = function(x, *(a.cast(x.vectors[type]) for a in packed))
        return result.cast(packed[0].type)

    # ------------------------------------------------------------------------------- out of line

    def call(self, function: Callable[..., T], *args: Value) -> T:
        """Evaluate ``function(x, *args)``, compiled once in a module for each list of argument types, or by itself."""
        return self._outlined(function, args, "noinline")

    def _outlined(self, function: Callable[..., T], args: tuple[Value, ...], attributes: str) -> T:
        module = self.code.module
        key = (self.width, function, *(a.type for a in args))
        if key not in module.outlined:
            if module.helpers is not None and function in NAMES:
                module.outlined[key] = self._declare(NAMES[function], module.helpers)
            else:
                name = f"x{len(module.outlined)}.{function.__name__.strip('_<>')}.v{self.width}"
                module.outlined[key] = self._define(name, function, args, attributes)
        defined, types = module.outlined[key]
        made: Any = self.code.call(defined, types if isinstance(types, str) else f"{{{', '.join(types)}}}", *args)
        if not isinstance(types, str):
            made = tuple(self.code.emit(f"extractvalue {made}, {i}", type) for i, type in enumerate(types))
        found: T = made
        return found

    def _declare(self, shared: str, helpers: dict[str, None]) -> tuple[str, str]:
        name, function = f"lanes_{shared}_{self.width}", SHARED[shared]
        helpers[name] = None
        type = self.vectors[function.type]
        self.code.module.declare(f"@{name}", f"declare {type} @{name}({', '.join([type] * function.operands)})")
        return name, type

    def _define(self, name: str, body: Callable[..., Any], args: tuple[Value, ...], attributes: str) -> tuple[str, str | tuple[str, ...]]:
        parameters = ", ".join(f"{a.type} %p{i}" for i, a in enumerate(args))
        inner = Function(self.code.module, name, "", parameters, attributes=f"{attributes} {WIDE}", internal=True)
        value = body(LlvmVocabulary(inner, self.width), *inner.parameters)
        types: str | tuple[str, ...]
        if isinstance(value, tuple):
            types = tuple(v.type for v in value)
            inner.result = f"{{{', '.join(types)}}}"
            made = "poison"
            for i, v in enumerate(value):
                made = inner.emit(f"insertvalue {inner.result} {made}, {v.type} {v.ref}, {i}", inner.result).ref
            inner.do(f"ret {inner.result} {made}")
        else:
            types = inner.result = value.type
            inner.ret(value)
        return name, types


WIDE = '"min-legal-vector-width"="512" "prefer-vector-width"="512"'
"""Attributes that let vectors of 512 bits stay whole where the processor has them."""


def emit_shared(module: Module, name: str, shared: str, width: int) -> None:
    """A function of `ptxlab.isa.scalar.shared_functions` on vectors of so many lanes, under the name that `LlvmVocabulary.call` calls."""
    function = SHARED[shared]
    type = f"<{width} x {ELEMENTS[function.type]}>"
    code = Function(module, name, type, ", ".join(f"{type} %p{i}" for i in range(function.operands)), attributes=WIDE)
    code.ret(function.body(LlvmVocabulary(code, width), *code.parameters))
