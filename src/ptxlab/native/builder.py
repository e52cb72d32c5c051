"""Writing LLVM IR: modules, functions, values with operators, structured control flow.

IR is written as text, without an object for each instruction: that is several times faster, and code is compiled while a kernel runs.
Types are LLVM's names: ``i32``, ``float``, ``ptr``, ``<16 x i32>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from ptxlab.native._values import SLOT_ALIGN, Constant, Operand, Value, Variable, element_of, has_byte_pairs, lanes_of, literal, vector

__all__ = [
    "Constant",
    "Function",
    "Module",
    "Operand",
    "Otherwise",
    "Value",
    "Variable",
    "element_of",
    "has_byte_pairs",
    "lanes_of",
    "vector",
]

_FLOATS = {"i32": "float", "i64": "double"}
"""Floats of the size of integers."""


class Module:
    """Functions, constants and declarations that are compiled together.

    Attributes
    ----------
    helpers : the names of functions of other modules that this one calls; None if it is to call none

    Examples
    --------
    >>> module = Module()
    >>> triple = Function(module, "triple", "i32", "i32 x")
    >>> triple.ret(triple["x"] * 3)
    >>> print(module.text())
    define i32 @triple(i32 %x) nounwind {
    entry:
      %0 = mul i32 %x, 3
      ret i32 %0
    }
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.helpers: dict[str, None] | None = None
        self.outlined: dict[object, tuple[str, str | tuple[str, ...]]] = {}
        self._globals: dict[str, str] = {}
        self._arrays: dict[str, str] = {}

    def define(self, prototype: str, *, internal: bool = False) -> tuple[Function, tuple[Value, ...]]:
        """Begin a function of which a prototype is given, such as ``i32 name(ptr frame, i32 mask)``; returned with its parameters."""
        head, _, parameters = prototype.removesuffix(")").partition("(")
        result, _, name = head.rpartition(" ")
        function = Function(self, name, result, parameters, internal=internal)
        return function, function.parameters

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
            self.declare(name, f"{name} = private unnamed_addr constant {text}, align 64")
        return name

    def text(self) -> str:
        """The module as LLVM IR."""
        return "\n".join([*self._globals.values(), *(function.text() for function in self.functions), ""])

    def finish(self) -> str:
        """The same text; the module forgets its functions, and these their instructions and parameters.

        They form reference cycles, which only the garbage collector would free.
        """
        text = self.text()
        for function in self.functions:
            function.forget()
        self.functions.clear()
        return text


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
        self._results = self._names = self._begun = 0
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

    def forget(self) -> None:
        """Drop all instructions and parameters."""
        self._lines.clear()
        self._slots.clear()
        self._named.clear()
        self.parameters = ()

    # ---------------------------------------------------------------------------------------------------- instructions

    def emit(self, text: str, type: str) -> Value:
        """The result of an instruction given as text."""
        ref = f"%{self._results}"  # LLVM reads numbers in two thirds of the time of names; they must follow each other
        self._results += 1
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
        text = literal(element, number)
        return Constant(self, type, f"splat ({element} {text})" if type[0] == "<" else text, number)

    def lanes(self, element: str, count: int) -> Value:
        """The vector 0, 1, 2 and so on."""
        return Value(self, vector(element, count), f"<{', '.join(f'{element} {lane}' for lane in range(count))}>")

    def constants(self, type: str, values: Iterable[int]) -> Value:
        """The address of an array of constants."""
        return Value(self, "ptr", self.module.array(type, values))

    def opaque(self, value: Value) -> Value:
        """The same value, of which LLVM knows nothing: what stands in memory at an address is loaded from there, and not made anew.

        The value is a scalar, or a vector of i32 or i64.
        """
        if value.type[0] == "<":
            return value.bits(_FLOATS[element_of(value.type)]).intrinsic("arithmetic.fence").cast(value.type)
        return self.emit(f'call {value.type} asm "", "=r,0"({value})', value.type)

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
        self._names += 1
        ref = f"%a{self._names}"
        self._slots.append(f"  {ref} = alloca {type}, align {align}")
        return Value(self, "ptr", ref)

    def variable(self, type: str, initial: Operand | None = None) -> Variable:
        """A variable of a type."""
        made = Variable(self.stack(type, SLOT_ALIGN), type)
        if initial is not None:
            made.set(initial)
        return made

    # ---------------------------------------------------------------------------------------------------- control flow

    def label(self, name: str = "b") -> str:
        """A name for a basic block."""
        self._names += 1
        return f"{name}{self._names}"

    def begin(self, label: str) -> None:
        """Begin a basic block."""
        self._lines.append(f"{label}:")
        self.block, self._ended, self._begun = label, False, len(self._lines)

    def divide(self, most: int) -> None:
        """Go on in a new basic block if the current one has ``most`` instructions or more."""
        if len(self._lines) - self._begun >= most:
            following = self.label()
            self.jump(following)
            self.begin(following)

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
