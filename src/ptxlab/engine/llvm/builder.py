"""Writing LLVM IR as text: values, functions, structured control flow.

Text is built directly, without objects for instructions: that is several times faster, and regions are compiled while a kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Code", "Unit", "Value", "splat_type"]


class Value:
    """A typed reference in the text of a function; integers beside it in an operation take its type."""

    __slots__ = ("code", "ref", "type")

    def __init__(self, code: Code, type: str, ref: str) -> None:
        self.code = code
        self.type = type
        self.ref = ref

    def __add__(self, other: Value | int) -> Value:
        return self.code.binary("add", self, other)

    def __sub__(self, other: Value | int) -> Value:
        return self.code.binary("sub", self, other)

    def __mul__(self, other: Value | int) -> Value:
        return self.code.binary("mul", self, other)

    def __and__(self, other: Value | int) -> Value:
        return self.code.binary("and", self, other)

    def __or__(self, other: Value | int) -> Value:
        return self.code.binary("or", self, other)

    def __xor__(self, other: Value | int) -> Value:
        return self.code.binary("xor", self, other)

    def __lshift__(self, other: Value | int) -> Value:
        return self.code.binary("shl", self, other)

    def __rshift__(self, other: Value | int) -> Value:
        """Logical shift."""
        return self.code.binary("lshr", self, other)

    def __invert__(self) -> Value:
        return self.code.binary("xor", self, -1)

    def compare(self, predicate: str, other: Value | int) -> Value:
        """An integer comparison: eq ne ult ule ugt uge slt sle sgt sge."""
        return self.code.compare(predicate, self, other)

    def eq(self, other: Value | int) -> Value:
        """Equal."""
        return self.code.compare("eq", self, other)

    def ne(self, other: Value | int) -> Value:
        """Not equal."""
        return self.code.compare("ne", self, other)

    def ult(self, other: Value | int) -> Value:
        """Less, unsigned."""
        return self.code.compare("ult", self, other)

    def to(self, type: str) -> Value:
        """Zero-extended or truncated to another integer type (of the same count)."""
        return self.code.resize(self, type)

    def sext(self, type: str) -> Value:
        """Sign-extended."""
        return self.code.convert("sext", self, type)

    def cast(self, type: str) -> Value:
        """The same bits as another type."""
        return self if type == self.type else self.code.convert("bitcast", self, type)

    def __repr__(self) -> str:
        return f"{self.type} {self.ref}"


def splat_type(type: str) -> tuple[int, str]:
    """Count and element of a type; count 0 for a scalar.

    >>> splat_type("<16 x i32>"), splat_type("ptr")
    ((16, 'i32'), (0, 'ptr'))
    """
    if type[0] != "<":
        return 0, type
    count, _, element = type[1:-1].partition(" x ")
    return int(count), element


def _element_bits(type: str) -> int:
    element = splat_type(type)[1]
    return int(element[1:]) if element[0] == "i" else {"half": 16, "float": 32, "double": 64}.get(element, 64)


class Unit:
    """One LLVM module: functions, constants and declarations."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[str, str] = {}
        self.outlined: dict[object, tuple[str, str | tuple[str, ...]]] = {}
        self._arrays: dict[str, str] = {}

    def declare(self, name: str, text: str) -> None:
        """Enter a global definition or declaration once."""
        self.names.setdefault(name, text)

    def constant(self, type: str, values: list[int]) -> str:
        """The name of a private array of constants; equal ones are shared."""
        text = f"[{len(values)} x {type}] [{', '.join(f'{type} {v}' for v in values)}]"
        name = self._arrays.get(text)
        if name is None:
            name = self._arrays[text] = f"@k{len(self._arrays)}"
            self.names[name] = f"{name} = private unnamed_addr constant {text}, align 8"
        return name

    def text(self) -> str:
        """The module."""
        return "\n".join([*self.names.values(), *self.functions, ""])


class Code:
    """The body of one function."""

    def __init__(
        self, unit: Unit, name: str, result: str, params: list[tuple[str, str]], *, attributes: str = "", linkage: str = ""
    ) -> None:
        self.unit = unit
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.count = 0
        self.result = result
        self.name = name
        self.linkage = linkage
        self.attributes = attributes
        self.params = tuple(Value(self, type, f"%{name}") for type, name in params)
        self.block = "entry"

    def finish(self) -> None:
        """Put the function into its unit."""
        listed = ", ".join(f"{p.type} {p.ref}" for p in self.params)
        head = f"define {self.linkage} {self.result} @{self.name}({listed}) {self.attributes} {{"
        body = "\n".join([head, "entry:", *self.entry, "  br label %start", "start:", *self.lines, "}"])
        self.unit.functions.append(body)

    # ---------------------------------------------------------------------------------------------------------- values

    def raw(self, text: str, type: str) -> Value:
        """The result of an instruction given as text."""
        self.count = n = self.count + 1
        ref = f"%v{n}"
        self.lines.append(f"  {ref} = {text}")
        return Value(self, type, ref)

    def do(self, text: str) -> None:
        """An instruction without result."""
        self.lines.append("  " + text)

    def const(self, type: str, value: int) -> Value:
        """An integer constant, in every lane of a vector type."""
        count, element = splat_type(type)
        if element == "ptr":
            return Value(self, type, "null" if not value else f"inttoptr (i64 {value} to ptr)")
        bits = int(element[1:])
        value &= (1 << bits) - 1
        text = ("true" if value else "false") if bits == 1 else str(value)
        return Value(self, type, f"splat ({element} {text})" if count else text)

    def of(self, value: Value | int, type: str) -> Value:
        """The value itself, or an integer as a constant of the type."""
        return value if isinstance(value, Value) else self.const(type, value)

    def binary(self, operation: str, a: Value, b: Value | int) -> Value:
        """An operation on two values of one type."""
        return self.raw(f"{operation} {a.type} {a.ref}, {self.of(b, a.type).ref}", a.type)

    def compare(self, predicate: str, a: Value, b: Value | int) -> Value:
        """An integer comparison."""
        count, _ = splat_type(a.type)
        return self.raw(f"icmp {predicate} {a.type} {a.ref}, {self.of(b, a.type).ref}", f"<{count} x i1>" if count else "i1")

    def select(self, condition: Value, a: Value | int, b: Value | int) -> Value:
        """``a`` where the condition holds, else ``b``; one of them is a value."""
        type = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else ""
        a, b = self.of(a, type), self.of(b, type)
        return self.raw(f"select {condition.type} {condition.ref}, {type} {a.ref}, {type} {b.ref}", type)

    def convert(self, operation: str, a: Value, type: str) -> Value:
        """A conversion instruction."""
        return self.raw(f"{operation} {a.type} {a.ref} to {type}", type)

    def resize(self, a: Value, type: str) -> Value:
        """Zero-extend or truncate."""
        have, want = _element_bits(a.type), _element_bits(type)
        if have == want:
            return a
        return self.convert("zext" if have < want else "trunc", a, type)

    def splat(self, a: Value, count: int) -> Value:
        """A vector with the value in all lanes."""
        type = f"<{count} x {a.type}>"
        one = self.raw(f"insertelement {type} poison, {a.type} {a.ref}, i32 0", type)
        return self.raw(f"shufflevector {type} {one.ref}, {type} poison, <{count} x i32> zeroinitializer", type)

    def intrinsic(self, name: str, type: str, *args: Value, extra: str = "") -> Value:
        """Call an LLVM intrinsic; ``extra`` holds further immediate arguments."""
        listed = ", ".join([f"{a.type} {a.ref}" for a in args] + ([extra] if extra else []))
        types = ", ".join([a.type for a in args] + ([extra.split()[0]] if extra else []))
        self.unit.declare(f"@llvm.{name}", f"declare {type} @llvm.{name}({types})")
        return self.raw(f"call {type} @llvm.{name}({listed})", type)

    def call(self, name: str, type: str, *args: Value) -> Value | None:
        """Call a function of this unit, or one declared on the way."""
        listed = ", ".join(f"{a.type} {a.ref}" for a in args)
        if type == "void":
            self.do(f"call void @{name}({listed})")
            return None
        return self.raw(f"call {type} @{name}({listed})", type)

    # ---------------------------------------------------------------------------------------------------------- memory

    def at(self, base: Value, offset: Value | int) -> Value:
        """A pointer so many bytes behind another."""
        if isinstance(offset, int):
            return base if not offset else self.raw(f"getelementptr i8, ptr {base.ref}, i64 {offset}", "ptr")
        return self.raw(f"getelementptr i8, ptr {base.ref}, {offset.type} {offset.ref}", "ptr")

    def load(self, type: str, pointer: Value, align: int = 1) -> Value:
        """Read memory."""
        return self.raw(f"load {type}, ptr {pointer.ref}, align {align}", type)

    def store(self, value: Value, pointer: Value, align: int = 1) -> None:
        """Write memory."""
        self.do(f"store {value.type} {value.ref}, ptr {pointer.ref}, align {align}")

    def prefetch(self, pointer: Value) -> None:
        """Have a cache line fetched that is needed soon; any address will do."""
        self.unit.declare("@llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer.ref}, i32 1, i32 3, i32 1)")

    def word(self, context: Value, index: int) -> Value:
        """Read a word of the context."""
        return self.load("i64", self.at(context, 8 * index), 8)

    def pointer(self, context: Value, index: int) -> Value:
        """Read a word of the context that is an address."""
        return self.load("ptr", self.at(context, 8 * index), 8)

    def set_word(self, context: Value, index: int, value: Value | int) -> None:
        """Write a word of the context."""
        made = self.of(value, "i64")
        self.store(made if made.type == "i64" else self.resize(made, "i64"), self.at(context, 8 * index), 8)

    def variable(self, type: str, initial: Value | int | None = None, align: int = 8) -> Value:
        """A place on the stack, as a pointer."""
        self.count += 1
        ref = f"%a{self.count}"
        self.entry.append(f"  {ref} = alloca {type}, align {align}")
        place = Value(self, "ptr", ref)
        if initial is not None:
            self.store(self.of(initial, type), place, align)
        return place

    # ---------------------------------------------------------------------------------------------------------- control

    def label(self, name: str = "b") -> str:
        """A fresh block name."""
        self.count += 1
        return f"{name}{self.count}"

    def place(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Branch."""
        self.do(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """Branch on a condition."""
        self.do(f"br i1 {condition.ref}, label %{yes}, label %{no}")

    def ret(self, value: Value | int | None = None) -> None:
        """Return."""
        if value is None:
            self.do("ret void")
        else:
            made = self.of(value, self.result)
            self.do(f"ret {made.type} {made.ref}")

    @contextmanager
    def if_(self, condition: Value, *, returns: bool = False) -> Iterator[None]:
        """Code for the case that the condition holds; ``returns`` if that code ends in a return."""
        yes, after = self.label("then"), self.label("after")
        self.branch(condition, yes, after)
        self.place(yes)
        yield
        if not returns:
            self.jump(after)
        self.place(after)

    @contextmanager
    def repeat(self, count: Value | int, type: str = "i64") -> Iterator[Value]:
        """A loop over 0 .. count-1 (the count may be 0)."""
        place = self.variable(type, 0)
        head, body, after = self.label("loop"), self.label("body"), self.label("done")
        self.jump(head)
        self.place(head)
        i = self.load(type, place, 8)
        self.branch(i.ult(count), body, after)
        self.place(body)
        yield i
        self.store(i + 1, place, 8)
        self.jump(head)
        self.place(after)

    @contextmanager
    def each_lane(self, mask: Value) -> Iterator[Value]:
        """A loop over the set bits of a 32-bit mask, lowest first; yields the lane as i64."""
        rest = self.variable("i32", mask)
        head, body, after = self.label("lanes"), self.label("lane"), self.label("done")
        self.jump(head)
        self.place(head)
        left = self.load("i32", rest, 8)
        self.branch(left.ne(0), body, after)
        self.place(body)
        lane = self.lowest(left).to("i64")
        self.store(left & (left - 1), rest, 8)
        yield lane
        self.jump(head)
        self.place(after)

    def lowest(self, mask: Value) -> Value:
        """Position of the lowest set bit (the width if there is none)."""
        return self.intrinsic(f"cttz.{mask.type}", mask.type, mask, extra="i1 false")
