"""Writing LLVM IR: modules, functions, values with operators, structured control flow.

IR is written as text, without an object for each instruction: that is several times faster, and code is compiled while a kernel runs.
Types are LLVM's names: ``i32``, ``float``, ``ptr``, ``<16 x i32>``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

__all__ = ["Constant", "Function", "Module", "Operand", "Otherwise", "Value", "Variable", "element_of", "lanes_of", "vector"]

_BITS = {"half": 16, "float": 32, "double": 64, "ptr": 64}
_OVERLOADS = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


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


def _literal(element: str, number: float) -> str:
    if element == "ptr":
        return "null"
    if element == "i1":
        return "true" if number else "false"
    if element[0] == "i":
        return str(number)
    if element == "float":
        (number,) = struct.unpack("<f", struct.pack("<f", number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


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

    def __add__(self, other: Operand) -> Value:
        return self.operation("fadd" if _is_float(self.type) else "add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.operation("fsub" if _is_float(self.type) else "sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.operation("fmul" if _is_float(self.type) else "mul", other)

    def __and__(self, other: Operand) -> Value:
        return self.operation("and", other)

    def __or__(self, other: Operand) -> Value:
        return self.operation("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self.operation("xor", other)

    def __lshift__(self, other: Operand) -> Value:
        return self.operation("shl", other)

    def __rshift__(self, other: Operand) -> Value:
        return self.operation("lshr", other)

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

    def _call_intrinsic(self, full: str, result: str, operands: list[Value], immediate: str = "") -> Value:
        types = [value.type for value in operands] + ([immediate.split()[0]] if immediate else [])
        self.function.module.declare(f"@{full}", f"declare {result} @{full}({', '.join(types)})")
        listed = [f"{value.type} {value.ref}" for value in operands] + ([immediate] if immediate else [])
        return self.function.emit(f"call {result} @{full}({', '.join(listed)})", result)

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

    def eq(self, other: Operand) -> Value:
        return self.compare("oeq" if _is_float(self.type) else "eq", other)

    def ne(self, other: Operand) -> Value:
        return self.compare("one" if _is_float(self.type) else "ne", other)

    def lt(self, other: Operand) -> Value:
        return self.compare("olt" if _is_float(self.type) else "slt", other)

    def gt(self, other: Operand) -> Value:
        return self.compare("ogt" if _is_float(self.type) else "sgt", other)

    def le(self, other: Operand) -> Value:
        return self.compare("ole" if _is_float(self.type) else "sle", other)

    def ge(self, other: Operand) -> Value:
        return self.compare("oge" if _is_float(self.type) else "sge", other)

    def ult(self, other: Operand) -> Value:
        return self.compare("ult", other)

    def ule(self, other: Operand) -> Value:
        return self.compare("ule", other)

    def ugt(self, other: Operand) -> Value:
        return self.compare("ugt", other)

    def uge(self, other: Operand) -> Value:
        return self.compare("uge", other)

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

    def part(self, first: int, lanes: int) -> Value:
        """Some lanes of a vector."""
        which = ", ".join(f"i32 {first + i}" for i in range(lanes))
        text = f"shufflevector {self.type} {self.ref}, {self.type} poison, <{lanes} x i32> <{which}>"
        return self.function.emit(text, vector(element_of(self.type), lanes))

    def reduce(self, name: str) -> Value:
        """One value of all lanes: ``or``, ``umin`` and the like."""
        return self._call_intrinsic(f"llvm.vector.reduce.{name}.{_overload(self.type)}", element_of(self.type), [self])

    # ------------------------------------------------------------------------------------------------- memory (pointers)

    def at(self, index: Value | int, element: str = "i8") -> Value:
        """The address of an element, by default of a byte, behind this one."""
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
        return self.address.load(self.type, align=_SLOT_ALIGN)

    def set(self, value: Operand) -> None:
        function = self.address.function
        self.address.store(value if isinstance(value, Value) else function.const(self.type, value), align=_SLOT_ALIGN)


_SLOT_ALIGN = 64


class Module:
    """Functions, constants and declarations that are compiled together.

    Examples
    --------
    >>> module = Module()
    >>> triple = Function(module, "triple", "i32", "i32 x")
    >>> triple.ret(triple["x"] * 3)
    >>> print(module.text())
    define i32 @triple(i32 %x) nounwind {
    entry:
      %v1 = mul i32 %x, 3
      ret i32 %v1
    }
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.outlined: dict[object, tuple[str, str | tuple[str, ...]]] = {}
        self._globals: dict[str, str] = {}
        self._arrays: dict[str, str] = {}

    def declare(self, name: str, text: str) -> None:
        """Enter a global definition or declaration once."""
        self._globals.setdefault(name, text)

    def array(self, type: str, values: Iterable[int]) -> str:
        """The name of a private array of constants; equal arrays are shared."""
        listed = [f"{type} {value}" for value in values]
        text = f"[{len(listed)} x {type}] [{', '.join(listed)}]"
        name = self._arrays.get(text)
        if name is None:
            name = self._arrays[text] = f"@k{len(self._arrays)}"
            self.declare(name, f"{name} = private unnamed_addr constant {text}, align 8")
        return name

    def text(self) -> str:
        """The module as LLVM IR."""
        return "\n".join([*self._globals.values(), *(function.text() for function in self.functions), ""])


class Function:
    """A function that is being written.

    Parameters
    ----------
    module : what it becomes a part of
    name, result : as LLVM names them
    parameters : as in a definition, without ``%``: ``"ptr frame, i32 mask"``
    attributes : in addition to ``nounwind``
    internal : whether only this module calls it

    Attributes
    ----------
    parameters : as values; one of them is ``function["name"]``
    block : the basic block that instructions go to
    """

    def __init__(self, module: Module, name: str, result: str, parameters: str, *, attributes: str = "", internal: bool = False) -> None:
        self.module, self.name, self.result = module, name, result
        pairs = [item.split(" %" if "%" in item else " ") for item in parameters.split(", ")]
        self._named = {label: Value(self, type, f"%{label}") for type, label in pairs}
        self.parameters = tuple(self._named.values())
        self._linkage = "internal " if internal else ""
        self._attributes = f"nounwind {attributes}".rstrip()
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._ended = False
        self.block = "entry"
        module.functions.append(self)

    def __getitem__(self, name: str) -> Value:
        return self._named[name]

    def text(self) -> str:
        """The definition; a function without result that does not return in its last block does so there."""
        listed = ", ".join(map(str, self.parameters))
        head = f"define {self._linkage}{self.result} @{self.name}({listed}) {self._attributes} {{"
        last = [] if self._ended or self.result != "void" else ["  ret void"]
        return "\n".join([head, "entry:", *self._slots, *self._lines, *last, "}"])

    # ---------------------------------------------------------------------------------------------------- instructions

    def emit(self, text: str, type: str) -> Value:
        """The result of an instruction given as text."""
        self._count = number = self._count + 1
        ref = f"%v{number}"
        self._lines.append(f"  {ref} = {text}")
        return Value(self, type, ref)

    def do(self, text: str) -> None:
        """An instruction without result, given as text."""
        self._lines.append("  " + text)

    def const(self, type: str, number: float) -> Value:
        """A constant; integers wrap, floats are rounded to the type; a pointer is null."""
        element = element_of(type)
        if element[0] == "i":
            number = int(number) & ((1 << int(element[1:])) - 1)
        text = _literal(element, number)
        return Constant(self, type, f"splat ({element} {text})" if type[0] == "<" else text, number)

    def lanes(self, element: str, count: int) -> Value:
        """The vector 0, 1, 2 and so on."""
        return Value(self, vector(element, count), f"<{', '.join(f'{element} {lane}' for lane in range(count))}>")

    def constants(self, type: str, values: Iterable[int]) -> Value:
        """The address of an array of constants."""
        return Value(self, "ptr", self.module.array(type, values))

    def call(self, target: str | Value, type: str, *arguments: Value) -> Value:
        """Call a function by name, or through a pointer."""
        name = target.ref if isinstance(target, Value) else f"@{target}"
        text = f"call {type} {name}({', '.join(map(str, arguments))})"
        if type != "void":
            return self.emit(text, type)
        self.do(text)
        return Value(self, type, "")

    def stack(self, type: str, align: int = 8) -> Value:
        """The address of memory that lasts until the function returns."""
        self._count += 1
        ref = f"%a{self._count}"
        self._slots.append(f"  {ref} = alloca {type}, align {align}")
        return Value(self, "ptr", ref)

    def variable(self, type: str, initial: Operand | None = None) -> Variable:
        """A variable of a type."""
        made = Variable(self.stack(type, _SLOT_ALIGN), type)
        if initial is not None:
            made.set(initial)
        return made

    # ---------------------------------------------------------------------------------------------------- control flow

    def label(self, name: str = "b") -> str:
        """A name for a basic block."""
        self._count += 1
        return f"{name}{self._count}"

    def begin(self, label: str) -> None:
        """Begin a basic block."""
        self._lines.append(f"{label}:")
        self.block, self._ended = label, False

    def _end(self, text: str) -> None:
        self.do(text)
        self._ended = True

    def jump(self, label: str) -> None:
        """End the block: go to another one."""
        self._end(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """End the block: go to one of two others."""
        self._end(f"br i1 {condition.ref}, label %{yes}, label %{no}")

    def switch(self, value: Value, cases: Mapping[int, str], otherwise: str) -> None:
        """End the block: go to the block of a number."""
        listed = " ".join(f"{value.type} {number}, label %{label}" for number, label in cases.items())
        self._end(f"switch {value.type} {value.ref}, label %{otherwise} [ {listed} ]")

    def ret(self, value: Value | int | None = None) -> None:
        """End the block: return."""
        if value is None:
            self._end("ret void")
        else:
            self._end(f"ret {value if isinstance(value, Value) else self.const(self.result, value)}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[Otherwise]:
        """Code for the case that a condition holds; a call of what is yielded begins the code for the other case."""
        yes, after = self.label("then"), self.label("after")
        self.branch(condition, yes, after)
        otherwise = Otherwise(self, condition, yes, after)
        self.begin(yes)
        yield otherwise
        otherwise.join(after)

    @contextmanager
    def loop(self, stop: Value | int, step: int = 1, start: Value | int = 0, *, entered: bool = False) -> Iterator[Value]:
        """Count an i64 from ``start`` below ``stop``; ``entered``: it is known that there is a first time."""
        before, head, body, after = self.block, self.label("loop"), self.label("body"), self.label("done")
        self.jump(head)
        self.begin(head)
        counter = Value(self, "i64", f"%{head}.counter")
        phi = len(self._lines)
        self._lines.append("")
        if not entered:
            self.branch(counter.lt(stop), body, after)
            self.begin(body)
        yield counter
        following = counter + step
        first = start.ref if isinstance(start, Value) else start
        self._lines[phi] = f"  {counter.ref} = phi i64 [ {first}, %{before} ], [ {following.ref}, %{self.block} ]"
        if entered:
            self.branch(following.lt(stop), head, after)
        else:
            self.jump(head)
        self.begin(after)

    @contextmanager
    def loop_while(self, condition: Callable[[], Value]) -> Iterator[None]:
        """Code that is repeated as long as a condition holds, which is evaluated before each time."""
        head, body, after = self.label("while"), self.label("body"), self.label("done")
        self.jump(head)
        self.begin(head)
        self.branch(condition(), body, after)
        self.begin(body)
        yield
        self.jump(head)
        self.begin(after)

    @contextmanager
    def each_bit(self, mask: Value) -> Iterator[Value]:
        """A loop over the bits that are set, lowest first; yields their positions as i64."""
        rest = mask.variable()
        with self.loop_while(lambda: rest.get().ne(0)):
            left = rest.get()
            rest.set(left & (left - 1))
            yield left.lowest_bit().to("i64")


class Otherwise:
    """Begins the code for the other case of `Function.when`."""

    __slots__ = ("_after", "_branch", "_condition", "_function", "_yes")

    def __init__(self, function: Function, condition: Value, yes: str, after: str) -> None:
        self._function, self._condition, self._yes, self._after = function, condition, yes, after
        self._branch = len(function._lines) - 1

    def __call__(self) -> None:
        no = self._function.label("else")
        self._function._lines[self._branch] = f"  br i1 {self._condition.ref}, label %{self._yes}, label %{no}"
        self.join(no)

    def join(self, label: str) -> None:
        """End the current block with a jump to the common continuation, unless it returns, and begin a new block."""
        if not self._function._ended:
            self._function.jump(self._after)
        self._function.begin(label)
