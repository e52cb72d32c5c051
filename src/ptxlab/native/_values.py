"""Values of LLVM IR: results, parameters and constants with operators, and variables."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ptxlab.native._host import host

if TYPE_CHECKING:
    from ptxlab.native.builder import Function

__all__ = [
    "SLOT_ALIGN",
    "Constant",
    "Operand",
    "Value",
    "Variable",
    "element_of",
    "has_byte_pairs",
    "lanes_of",
    "literal",
    "vector",
]

_PAIR_DOT = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
"""The instructions for `Value.pair_dot`, by the number of lanes."""
_BYTE_PAIRS = {4: "ssse3.pmadd.ub.sw.128", 8: "avx2.pmadd.ub.sw", 16: "avx512.pmaddubs.w.512"}
"""The instructions for `Value.byte_pairs`, by the number of lanes."""
_BITS = {"half": 16, "float": 32, "double": 64, "ptr": 64}
_OVERLOADS = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


def has_byte_pairs(lanes: int) -> bool:
    """Whether this processor has an instruction for `Value.byte_pairs` of vectors of so many 32-bit lanes."""
    return host().has_pair_byte_dot and lanes in _BYTE_PAIRS and 32 * lanes <= host().vector_bits


def vector(element: str, lanes: int) -> str:
    """The type of a vector.

    >>> vector("i32", 16)
    '<16 x i32>'
    """
    return f"<{lanes} x {element}>"


@cache
def lanes_of(type: str) -> int:
    """The lanes of a vector type; 0 for a scalar."""
    return int(type[1:].partition(" x ")[0]) if type[0] == "<" else 0


@cache
def element_of(type: str) -> str:
    """The type of the lanes of a vector, or the scalar type itself."""
    return type[1:-1].partition(" x ")[2] if type[0] == "<" else type


@cache
def _bits(type: str) -> int:
    element = element_of(type)
    return _BITS.get(element) or int(element[1:])


@cache
def _is_float(type: str) -> bool:
    return element_of(type) in ("half", "float", "double")


@cache
def _lanewise(type: str, like: str) -> str:
    """A type, or the vector of it that has as many lanes as another one."""
    lanes = lanes_of(like)
    return vector(type, lanes) if lanes and type[0] != "<" else type


@cache
def _overload(type: str) -> str:
    """A type as the name of an overloaded intrinsic spells it."""
    element, lanes = element_of(type), lanes_of(type)
    return f"v{lanes}" * bool(lanes) + _OVERLOADS.get(element, element)


def literal(element: str, number: float) -> str:
    """A number as LLVM writes it."""
    if element == "ptr":
        return "null"
    if element == "i1":
        return "true" if number else "false"
    if element[0] == "i":
        return str(number)
    if element == "float":
        (number,) = struct.unpack("<f", struct.pack("<f", number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _binary(integers: str, floats: str = "") -> Callable[[Value, Operand], Value]:
    def write(self: Value, other: Operand) -> Value:
        return self.operation(floats if floats and _is_float(self.type) else integers, other)

    return write


def _comparison(integers: str, floats: str = "") -> Callable[[Value, Operand], Value]:
    def write(self: Value, other: Operand) -> Value:
        return self.compare(floats if floats and _is_float(self.type) else integers, other)

    return write


class Value:
    """A result, parameter or constant of a function.

    A number beside it in an operation is a constant of its type; a scalar beside a vector stands in all lanes. ``>>`` is the logical
    shift; ``+``, ``-`` and ``*`` are of integers or floats as the type says. Comparisons of integers are signed unless they begin with
    ``u``, those of floats are false for a NaN.

    Attributes
    ----------
    function : what it belongs to
    type, ref : how instructions name it
    """

    __slots__ = ("function", "ref", "type")

    def __init__(self, function: Function, type: str, ref: str) -> None:
        self.function, self.type, self.ref = function, type, ref

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"

    def constant(self, number: float) -> Value:
        """A constant of this type."""
        return self.function.const(self.type, number)

    # ------------------------------------------------------------------------------------------------------- arithmetic

    def operation(self, name: str, other: Operand) -> Value:
        """An instruction on two values of this type, such as ``udiv``."""
        return self.function.emit(f"{name} {self.type} {self.ref}, {self._beside(other).ref}", self.type)

    def _beside(self, other: Operand) -> Value:
        if not isinstance(other, Value):
            return self.constant(other)
        return other.splat(lanes_of(self.type)) if self.type[0] == "<" and other.type[0] != "<" else other

    __add__ = _binary("add", "fadd")
    __sub__ = _binary("sub", "fsub")
    __mul__ = _binary("mul", "fmul")
    __and__ = _binary("and")
    __or__ = _binary("or")
    __xor__ = _binary("xor")
    __lshift__ = _binary("shl")
    __rshift__ = _binary("lshr")

    def __invert__(self) -> Value:
        return self.operation("xor", -1)

    def intrinsic(self, name: str, *others: Operand, result: str = "", immediate: str = "") -> Value:
        """Call an LLVM intrinsic that is overloaded on this type, and on that of its result if another one is given.

        Parameters
        ----------
        name : without ``llvm.`` and types
        others : further operands of this type
        result : the type of the result, if it is another one
        immediate : a last operand that is a constant, with its type
        """
        overloads = f".{_overload(self.type)}"
        if result:
            result = _lanewise(result, self.type)
            overloads = f".{_overload(result)}{overloads}"
        return self._call_intrinsic(f"llvm.{name}{overloads}", result or self.type, [self, *map(self._beside, others)], immediate)

    def target_intrinsic(self, name: str, result: str, immediate: str = "", *others: Value) -> Value:
        """Call an intrinsic of the processor on this and other values; ``name`` is without ``llvm.``, the rest as for `intrinsic`."""
        return self._call_intrinsic(f"llvm.{name}", result, [self, *others], immediate)

    def _call_intrinsic(self, full: str, result: str, operands: list[Value], immediate: str = "") -> Value:
        types = [value.type for value in operands] + ([immediate.split()[0]] if immediate else [])
        self.function.module.declare(f"@{full}", f"declare {result} @{full}({', '.join(types)})")
        listed = [f"{value.type} {value.ref}" for value in operands] + ([immediate] if immediate else [])
        return self.function.emit(f"call {result} @{full}({', '.join(listed)})", result)

    def pair_dot(self, other: Value) -> Value:
        """The sum of the products of the signed 16-bit halves of each i32 lane with those of the other value."""
        lanes = lanes_of(self.type)
        name = _PAIR_DOT.get(lanes)
        if name is not None and host().has_dot and 32 * lanes <= host().vector_bits:
            pairs = vector("i16", 2 * lanes)
            return self._call_intrinsic(f"llvm.{name}", self.type, [self.cast(pairs), other.cast(pairs)])
        low = (self << 16).operation("ashr", 16) * (other << 16).operation("ashr", 16)
        return low + self.operation("ashr", 16) * other.operation("ashr", 16)

    def add_pair_dot(self, a: Value, b: Value) -> Value:
        """Add `pair_dot` of two values."""
        lanes = lanes_of(self.type)
        if host().has_added_dots and 32 * lanes <= host().vector_bits:
            return self._call_intrinsic(f"llvm.x86.avx512.vpdpwssd.{32 * lanes}", self.type, [self, a, b])
        return self + a.pair_dot(b)

    def add_byte_dot(self, unsigned: Value, signed: Value) -> Value:
        """Add the products of the four bytes of each i32 lane, unsigned ones of one value and signed ones of another.

        The sum of two neighbouring products must fit 16 bits.
        """
        lanes = lanes_of(self.type)
        if host().has_added_dots and lanes in _BYTE_PAIRS and 32 * lanes <= host().vector_bits:
            name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
            some = vector("i8", 4 * lanes)
            return self._call_intrinsic(name, self.type, [self, unsigned.cast(some), signed.cast(some)])
        if has_byte_pairs(lanes):
            pairs = unsigned.byte_pairs(signed)
            return self + pairs.cast(self.type).pair_dot(unsigned.constant(0x00010001))
        total = self
        for place in (0, 8, 16, 24):
            total = total + ((unsigned >> place) & 255) * (signed << (24 - place)).operation("ashr", 24)
        return total

    def byte_pairs(self, signed: Value) -> Value:
        """The sums of the products of neighbouring bytes of each i32 lane, unsigned ones with signed ones: two i16 for each lane.

        Only where `has_byte_pairs`. Each sum must fit 16 bits.
        """
        lanes = lanes_of(self.type)
        some = vector("i8", 4 * lanes)
        return self._call_intrinsic(f"llvm.x86.{_BYTE_PAIRS[lanes]}", vector("i16", 2 * lanes), [self.cast(some), signed.cast(some)])

    def max(self, other: Operand) -> Value:
        """The larger of two signed integers or floats."""
        return self.intrinsic("maxnum" if _is_float(self.type) else "smax", other)

    def min(self, other: Operand) -> Value:
        """The smaller of two signed integers or floats."""
        return self.intrinsic("minnum" if _is_float(self.type) else "smin", other)

    def lowest_bit(self) -> Value:
        """The position of the lowest bit that is set; the width if none is."""
        return self.intrinsic("cttz", immediate="i1 false")

    # ------------------------------------------------------------------------------------------------------ comparisons

    def compare(self, predicate: str, other: Operand) -> Value:
        """A comparison by LLVM's name: ``uge``, ``sle``, ``uno`` and the like."""
        kind = "fcmp" if _is_float(self.type) else "icmp"
        text = f"{kind} {predicate} {self.type} {self.ref}, {self._beside(other).ref}"
        return self.function.emit(text, _lanewise("i1", self.type))

    eq, ne = _comparison("eq", "oeq"), _comparison("ne", "one")
    lt, le = _comparison("slt", "olt"), _comparison("sle", "ole")
    gt, ge = _comparison("sgt", "ogt"), _comparison("sge", "oge")
    ult, ule = _comparison("ult"), _comparison("ule")
    ugt, uge = _comparison("ugt"), _comparison("uge")

    def select(self, yes: Operand, no: Operand) -> Value:
        """``yes`` where this bit is set, else ``no``; at least one of them is a value."""
        if isinstance(yes, Value):
            no = yes._beside(no)
        else:
            assert isinstance(no, Value)
            yes = no.constant(yes)
        return self.function.emit(f"select {self.type} {self.ref}, {yes.type} {yes.ref}, {no.type} {no.ref}", yes.type)

    # ------------------------------------------------------------------------------------------------------ conversions

    def convert(self, name: str, type: str) -> Value:
        """A conversion instruction, such as ``sitofp``; ``type`` is that of the result or of its lanes."""
        type = _lanewise(type, self.type)
        return self.function.emit(f"{name} {self.type} {self.ref} to {type}", type)

    def to(self, type: str) -> Value:
        """Zero-extended or truncated to another integer type, or lanes of it."""
        have, want = _bits(self.type), _bits(type)
        return self if have == want else self.convert("zext" if have < want else "trunc", type)

    def sext(self, type: str) -> Value:
        """Sign-extended."""
        return self.convert("sext", type)

    def bits(self, element: str) -> Value:
        """The bits of each lane as another type of the same width."""
        return self.cast(_lanewise(element, self.type))

    def cast(self, type: str) -> Value:
        """All bits as another type: lanes may become others, and a vector of bits an integer."""
        return self if type == self.type else self.function.emit(f"bitcast {self.type} {self.ref} to {type}", type)

    # ---------------------------------------------------------------------------------------------------------- vectors

    def splat(self, lanes: int) -> Value:
        """A vector with this value in all lanes."""
        type = vector(self.type, lanes)
        one = self.function.emit(f"insertelement {type} poison, {self.type} {self.ref}, i32 0", type)
        return self.function.emit(f"shufflevector {type} {one.ref}, {type} poison, <{lanes} x i32> zeroinitializer", type)

    def chosen(self, which: Iterable[int], other: Value | None = None) -> Value:
        """The lanes with these numbers, as a vector; those of ``other`` are numbered after those of this vector."""
        indices = [f"i32 {lane}" for lane in which]
        second = f"{self.type} poison" if other is None else f"{other}"
        text = f"shufflevector {self}, {second}, <{len(indices)} x i32> <{', '.join(indices)}>"
        return self.function.emit(text, vector(element_of(self.type), len(indices)))

    def part(self, first: int, lanes: int) -> Value:
        """Some neighbouring lanes of a vector."""
        return self.chosen(range(first, first + lanes))

    def interleave(self, other: Value) -> tuple[Value, Value]:
        """The lanes of this vector and of another one in turns, as two vectors."""
        lanes = lanes_of(self.type)
        both = [lane + side for lane in range(lanes) for side in (0, lanes)]
        return self.chosen(both[:lanes], other), self.chosen(both[lanes:], other)

    def reduce(self, name: str) -> Value:
        """One value of all lanes: ``or``, ``umin`` and the like."""
        return self._call_intrinsic(f"llvm.vector.reduce.{name}.{_overload(self.type)}", element_of(self.type), [self])

    # ------------------------------------------------------------------------------------------------- memory (pointers)

    def at(self, index: Value | int, element: str = "i8") -> Value:
        """The address of an element, by default of a byte, after this one."""
        if isinstance(index, Value):
            return self.function.emit(f"getelementptr {element}, ptr {self.ref}, {index.type} {index.ref}", "ptr")
        return self.function.emit(f"getelementptr {element}, ptr {self.ref}, i64 {index}", "ptr") if index else self

    def load(self, type: str, index: Value | int = 0, *, align: int = 0) -> Value:
        """Read a value of a type; ``index`` counts elements, the alignment is that of an element unless it is given."""
        pointer = self.at(index, element_of(type))
        return self.function.emit(f"load {type}, ptr {pointer.ref}, align {align or _bits(type) + 7 >> 3}", type)

    def store(self, value: Value, index: Value | int = 0, *, align: int = 0) -> None:
        """Write a value; ``index`` and alignment as for `load`."""
        pointer = self.at(index, element_of(value.type))
        self.function.do(f"store {value.type} {value.ref}, ptr {pointer.ref}, align {align or _bits(value.type) + 7 >> 3}")

    def word(self, index: int) -> Value:
        """Read an entry of a table of 64-bit words."""
        return self.load("i64", index)

    def pointer(self, index: int) -> Value:
        """Read an entry of a table of 64-bit words that is an address."""
        return self.load("ptr", index)

    def set_word(self, index: int, value: Value | int) -> None:
        """Write an entry of a table of 64-bit words."""
        self.store(value.to("i64") if isinstance(value, Value) else self.function.const("i64", value), index)

    def set_words(self, words: Mapping[int, Value | int]) -> None:
        """Write several entries of a table of 64-bit words."""
        for index, value in words.items():
            self.set_word(index, value)

    def exchange(self, value: Value) -> Value:
        """Write a value to an address that several threads use, and return what was there; what follows is executed after it."""
        return self.function.emit(f"atomicrmw xchg ptr {self.ref}, {value} acquire", value.type)

    def release(self) -> None:
        """Write 0 to the 64-bit word at an address that several threads use, after all that was executed before."""
        self.function.do(f"store atomic i64 0, ptr {self.ref} release, align 8")

    def prefetch(self) -> None:
        """Have the cache line at this address fetched, which is soon written; any address will do."""
        self.function.module.declare("@llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.function.do(f"call void @llvm.prefetch.p0(ptr {self.ref}, i32 1, i32 3, i32 1)")

    def variable(self) -> Variable:
        """A variable that begins with this value."""
        return self.function.variable(self.type, self)


class Constant(Value):
    """A number, in all lanes of a vector; integers are not negative."""

    __slots__ = ("number",)

    def __init__(self, function: Function, type: str, ref: str, number: float) -> None:
        super().__init__(function, type, ref)
        self.number = number


Operand = Value | int | float


class Variable:
    """A value that changes: a stack slot, which optimisation turns into registers."""

    __slots__ = ("address", "type")

    def __init__(self, address: Value, type: str) -> None:
        self.address, self.type = address, type

    def get(self) -> Value:
        return self.address.load(self.type, align=SLOT_ALIGN)

    def set(self, value: Operand) -> None:
        function = self.address.function
        self.address.store(value if isinstance(value, Value) else function.const(self.type, value), align=SLOT_ALIGN)


SLOT_ALIGN = 64
