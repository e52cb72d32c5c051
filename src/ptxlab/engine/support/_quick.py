"""Support functions that are compiled without optimisation at first, and optimised when they have been called often.

The quick code counts its calls, and says when they are many. The next run of compiled code then returns at once, Python compiles the
optimised function, and the quick one calls it from then on: code that is bound to the quick one stays good.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ptxlab import native
from ptxlab.native.builder import Function, Module, Value

__all__ = ["OFTEN", "SYMBOLS", "QuickFunction", "add_counting", "emit_is_called_often", "optimise_all", "optimise_often"]

CALLS = 1 << 15
"""Calls of a quick function before it is optimised, which takes about as long as they have lost."""
_often = ctypes.c_int64()
OFTEN = memoryview(_often).cast("B").cast("q")
"""One word, not 0 if a quick function has been called often: call `optimise_often`."""
SYMBOLS = {"often": ctypes.addressof(_often)}
"""What code of `emit_is_called_often` is loaded with."""
_ALL: list[QuickFunction] = []


def add_counting(module: Module, name: str) -> None:
    """Rename the function ``name`` of a module, and define one that counts its calls under the name."""
    (body,) = (function for function in module.functions if function.name == name)
    body.name = f"{name}_body"
    c = Function(module, name, body.result, ", ".join(map(str, body.parameters)))
    module.declare("@calls", "@calls = external global [2 x i64]")
    words = Value(c, "ptr", "@calls")
    optimised = words.load("ptr")
    with c.when(optimised.ne(0)):
        _return(c, optimised)
    left = words.load("i64", 1) - 1
    words.store(left, 1)
    with c.when(left.eq(0)):
        _often_word(c).store(c.const("i64", 1))
    _return(c, body.name)


def emit_is_called_often(c: Function) -> Value:
    """In compiled code: whether `OFTEN` is not 0."""
    return _often_word(c).load("i64").ne(0)


def _often_word(c: Function) -> Value:
    c.module.declare("@often", "@often = external global i64")
    return Value(c, "ptr", "@often")


def _return(c: Function, target: str | Value) -> None:
    """Return what another function gives for the same arguments."""
    result = c.call(target, c.result, *c.parameters)
    c.ret(None if c.result == "void" else result)


class QuickFunction:
    """A loaded quick function.

    Parameters
    ----------
    load : makes the library, given the symbols of `add_counting`
    optimised : compiles the optimised function; its address
    inner : the name of one that it calls in a loop: it is to be optimised when that one is
    """

    def __init__(
        self, name: str, load: Callable[[dict[str, int]], native.Library], optimised: Callable[[str], int], inner: str = ""
    ) -> None:
        self._name, self._optimised, self._inner = name, optimised, inner
        self._words = (ctypes.c_int64 * 2)(0, CALLS)
        _ALL.append(self)
        symbols = {"calls": ctypes.addressof(self._words), **SYMBOLS}
        self.address = load(symbols).address(name)

    @property
    def is_called_often(self) -> bool:
        """Whether it has been called so often that it is to be optimised."""
        return any(other._words[1] <= 0 for other in _ALL if other._name in (self._name, self._inner))

    def optimise(self) -> None:
        """Call the optimised function from now on."""
        if not self._words[0]:
            self._words[0] = self._optimised(self._name)


def optimise_all() -> None:
    """Compile the optimised functions of all quick ones that this process has loaded."""
    for function in list(_ALL):
        function.optimise()


def optimise_often() -> None:
    """Compile the optimised functions of the quick ones that have been called often."""
    for function in list(_ALL):
        if function.is_called_often:
            function.optimise()
    OFTEN[0] = 0
