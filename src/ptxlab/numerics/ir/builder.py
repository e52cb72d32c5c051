"""A little writer of LLVM IR: values with operators, counted loops, variables.

Numbers become constants, splat over the lanes of the other operand. ``>>`` is the logical shift.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["Body", "Operand", "Value", "Variable", "module"]

_BYTES = {"i8": 1, "i16": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
_SUFFIX = {"float": "f32", "double": "f64"}


def _literal(element: str, number: float) -> str:
    if element.startswith("i"):
        return str(int(number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


class Value:
    """The result of an instruction: a scalar (``lanes`` 0) or a vector."""

    __slots__ = ("body", "element", "lanes", "text")

    def __init__(self, body: Body, element: str, lanes: int, text: str) -> None:
        self.body, self.element, self.lanes, self.text = body, element, lanes, text

    @property
    def type(self) -> str:
        return f"<{self.lanes} x {self.element}>" if self.lanes else self.element

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def number(self, value: float) -> Value:
        """A constant of this type."""
        text = _literal(self.element, value)
        return Value(self.body, self.element, self.lanes, f"splat ({self.element} {text})" if self.lanes else text)

    def _same(self, other: Operand) -> Value:
        if not isinstance(other, Value):
            return self.number(other)
        return other.splat(self.lanes) if self.lanes and not other.lanes else other

    def _binary(self, integer: str, floating: str, other: Operand) -> Value:
        op = integer if self.element.startswith("i") else floating
        return self.body.emit(f"{op} {self}, {self._same(other).text}", self.element, self.lanes)

    def __add__(self, other: Operand) -> Value:
        return self._binary("add", "fadd", other)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("sub", "fsub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("mul", "fmul", other)

    def __and__(self, other: Operand) -> Value:
        return self._binary("and", "", other)

    def __or__(self, other: Operand) -> Value:
        return self._binary("or", "", other)

    def __xor__(self, other: Operand) -> Value:
        return self._binary("xor", "", other)

    def __lshift__(self, other: Operand) -> Value:
        return self._binary("shl", "", other)

    def __rshift__(self, other: Operand) -> Value:
        return self._binary("lshr", "", other)

    def compare(self, integer: str, floating: str, other: Operand) -> Value:
        op = f"icmp {integer}" if self.element.startswith("i") or self.element == "ptr" else f"fcmp {floating}"
        return self.body.emit(f"{op} {self}, {self._same(other).text}", "i1", self.lanes)

    def equals(self, other: Operand) -> Value:
        return self.compare("eq", "oeq", other)

    def below(self, other: Operand) -> Value:
        return self.compare("slt", "olt", other)

    def above(self, other: Operand) -> Value:
        return self.compare("sgt", "ogt", other)

    def choose(self, yes: Value, no: Operand) -> Value:
        """``yes`` where this bit is set, else ``no``."""
        return self.body.emit(f"select {self}, {yes}, {yes._same(no)}", yes.element, yes.lanes)

    def convert(self, op: str, element: str) -> Value:
        """``sext``, ``sitofp``, ``fpext`` and the like."""
        target = Value(self.body, element, self.lanes, "")
        return self.body.emit(f"{op} {self} to {target.type}", element, self.lanes)

    def bits(self, element: str) -> Value:
        return self.convert("bitcast", element)

    def splat(self, lanes: int) -> Value:
        if not lanes:
            return self
        kind = f"<{lanes} x {self.element}>"
        first = self.body.emit(f"insertelement {kind} poison, {self}, i64 0", self.element, lanes)
        return self.body.emit(f"shufflevector {first}, {kind} poison, <{lanes} x i32> zeroinitializer", self.element, lanes)

    def part(self, start: int, lanes: int) -> Value:
        """Some lanes of a vector."""
        which = ", ".join(f"i32 {start + i}" for i in range(lanes))
        return self.body.emit(f"shufflevector {self}, {self.type} poison, <{lanes} x i32> <{which}>", self.element, lanes)

    def intrinsic(self, name: str, *others: Operand) -> Value:
        """Call an LLVM intrinsic that takes and returns this type."""
        operands = [self, *(self._same(other) for other in others)]
        suffix = (f"v{self.lanes}" if self.lanes else "") + _SUFFIX.get(self.element, self.element)
        function = f"@llvm.{name}.{suffix}"
        self.body.declared.add(f"declare {self.type} {function}({', '.join([self.type] * len(operands))})")
        return self.body.emit(f"call {self.type} {function}({', '.join(map(str, operands))})", self.element, self.lanes)

    def max(self, other: Operand) -> Value:
        return self.intrinsic("smax" if self.element.startswith("i") else "maxnum", other)

    def min(self, other: Operand) -> Value:
        return self.intrinsic("smin" if self.element.startswith("i") else "minnum", other)

    def any(self) -> Value:
        """The ``or`` over all lanes."""
        function = f"@llvm.vector.reduce.or.v{self.lanes}{self.element}"
        self.body.declared.add(f"declare {self.element} {function}({self.type})")
        return self.body.emit(f"call {self.element} {function}({self})", self.element, 0)

    def at(self, index: Operand, element: str) -> Value:
        """The address of an element, from this pointer."""
        shown = index if isinstance(index, Value) else Value(self.body, "i64", 0, str(int(index)))
        return self.body.emit(f"getelementptr {element}, {self}, {shown}", "ptr", 0)

    def load(self, element: str, lanes: int = 0, index: Operand = 0) -> Value:
        """Read from ``self[index]``, aligned to one element."""
        target = Value(self.body, element, lanes, "").type
        return self.body.emit(f"load {target}, {self.at(index, element)}, align {_BYTES[element]}", element, lanes)

    def store(self, value: Value, index: Operand = 0) -> None:
        """Write to ``self[index]``."""
        self.body.do(f"store {value}, {self.at(index, value.element)}, align {_BYTES[value.element]}")


Operand = Value | int | float


class Variable:
    """A stack slot; LLVM turns it into registers."""

    __slots__ = ("_initial", "pointer")

    def __init__(self, pointer: Value, initial: Value) -> None:
        self.pointer, self._initial = pointer, initial
        self.set(initial)

    def get(self) -> Value:
        initial = self._initial
        return initial.body.emit(f"load {initial.type}, {self.pointer}", initial.element, initial.lanes)

    def set(self, value: Value) -> None:
        value.body.do(f"store {value}, {self.pointer}")


class Body:
    """A function being written; ``parameters`` reads like ``"ptr acc, i64 n"``."""

    def __init__(self, name: str, parameters: str, attributes: str = "", internal: bool = False) -> None:
        pairs = [item.split() for item in parameters.split(", ")]
        shown = ", ".join(f"{kind} %{label}" for kind, label in pairs)
        linkage = "internal " if internal else ""
        self._head = f"define {linkage}void @{name}({shown}) {attributes}".rstrip()
        self._arguments = {label: Value(self, kind, 0, f"%{label}") for kind, label in pairs}
        self._count = 0
        self._entry: list[str] = []
        self._lines: list[str] = []
        self.declared: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        return self._arguments[name]

    def _label(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def do(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def emit(self, text: str, element: str, lanes: int) -> Value:
        name = f"%{self._label()}"
        self.do(f"{name} = {text}")
        return Value(self, element, lanes, name)

    def constant(self, element: str, lanes: int, value: float) -> Value:
        return Value(self, element, lanes, "").number(value)

    def variable(self, initial: Value) -> Variable:
        name = f"%{self._label()}"
        self._entry.append(f"  {name} = alloca {initial.type}, align 64")
        return Variable(Value(self, "ptr", 0, name), initial)

    def call(self, name: str, *arguments: Value) -> None:
        self.do(f"call void @{name}({', '.join(map(str, arguments))})")

    def _goto(self, label: str) -> None:
        self.do(f"br label %{label}")
        self._lines.append(f"{label}:")

    @contextmanager
    def loop(self, stop: Value, step: int = 1, start: Operand = 0) -> Iterator[Value]:
        """Count from ``start`` below ``stop``; yields the counter."""
        name = self._label()
        counter = Value(self, "i64", 0, f"%{name}")
        self._goto(f"{name}.before")
        self._goto(f"{name}.head")
        self.do(
            f"%{name} = phi i64 [ {start.text if isinstance(start, Value) else start}, %{name}.before ], [ %{name}.next, %{name}.latch ]"
        )
        self.do(f"br {counter.below(stop)}, label %{name}.body, label %{name}.exit")
        self._lines.append(f"{name}.body:")
        yield counter
        self._goto(f"{name}.latch")
        self.do(f"%{name}.next = add {counter}, {step}")
        self.do(f"br label %{name}.head")
        self._lines.append(f"{name}.exit:")

    @contextmanager
    def when(self, condition: Value) -> Iterator[Otherwise]:
        """What is written inside runs where the condition holds; calling the yielded object begins the other case."""
        name = self._label()
        self.do(f"br {condition}, label %{name}.then, label %{name}.else")
        self._lines.append(f"{name}.then:")
        otherwise = Otherwise(self, name)
        yield otherwise
        otherwise.end()

    def label(self, text: str) -> None:
        self._lines.append(f"{text}:")

    def text(self) -> str:
        return "\n".join([f"{self._head} {{", "entry:", *self._entry, *self._lines, "  ret void", "}", ""])


class Otherwise:
    """Begins the other case of a `Body.when`."""

    __slots__ = ("_body", "_name", "_open")

    def __init__(self, body: Body, name: str) -> None:
        self._body, self._name, self._open = body, name, True

    def __call__(self) -> None:
        self._body.do(f"br label %{self._name}.end")
        self._body.label(f"{self._name}.else")
        self._open = False

    def end(self) -> None:
        if self._open:
            self()
        self._body.do(f"br label %{self._name}.end")
        self._body.label(f"{self._name}.end")


def module(bodies: Iterable[Body]) -> str:
    """The text of a module of these functions."""
    bodies = tuple(bodies)
    declared = sorted(set().union(*(body.declared for body in bodies)))
    return "\n".join([*(body.text() for body in bodies), *declared, ""])
