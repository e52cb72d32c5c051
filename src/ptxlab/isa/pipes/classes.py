"""Which part of an SM executes an instruction, by its row: for models of time.

The PTX ISA does not say how an SM executes instructions. The classes are those that micro-benchmarks on an H200 show.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ptxlab.isa.effects import Asynchronous

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op

__all__ = ["Pipe", "pipe_of"]


class Pipe(Enum):
    """What executes an instruction of a warp. The value is its name in reports."""

    NONE = "nothing"
    """The assembler makes no machine instruction of it, in most cases."""
    ADD = "integer add"
    LOGIC = "integer and logic"
    MULTIPLY = "integer multiply"
    FLOAT = "f32"
    HALF = "f16"
    DOUBLE = "f64"
    CONVERT = "conversion"
    CONVERT_INTEGER = "conversion to integers"
    SPECIAL = "special functions"
    DIVIDE = "division"
    BRANCH = "branch"
    EXCHANGE = "exchange between lanes"
    REDUCE = "reduction over lanes"
    MEMORY = "load and store"
    MATRIX = "mma"
    ISSUE = "issue of asynchronous operations, and synchronisation"


_BY_BASE = {
    **dict.fromkeys(("mov", "cvta", "ret", "exit", "not", "isspacep", "pragma"), Pipe.NONE),
    **dict.fromkeys(("add", "sub", "neg", "abs"), Pipe.ADD),
    **dict.fromkeys(("mul", "mad"), Pipe.MULTIPLY),
    "fma": Pipe.FLOAT,
    "cvt": Pipe.CONVERT,
    **dict.fromkeys(("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "popc", "bfind", "clz", "brev"), Pipe.SPECIAL),
    **dict.fromkeys(("div", "rem"), Pipe.DIVIDE),
    **dict.fromkeys(("bra", "brx", "call"), Pipe.BRANCH),
    **dict.fromkeys(("shfl", "vote", "match", "elect", "activemask"), Pipe.EXCHANGE),
    "redux": Pipe.REDUCE,
    **dict.fromkeys(("ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "movmatrix", "prefetch"), Pipe.MEMORY),
    "mma": Pipe.MATRIX,
}
_ARITHMETIC = (Pipe.ADD, Pipe.MULTIPLY, Pipe.FLOAT, Pipe.LOGIC)
_FLOATS = {
    "f32": Pipe.FLOAT,
    "f32x2": Pipe.FLOAT,
    "f64": Pipe.DOUBLE,
    "f16": Pipe.HALF,
    "f16x2": Pipe.HALF,
    "bf16": Pipe.HALF,
    "bf16x2": Pipe.HALF,
}


def pipe_of(op: Op) -> Pipe:
    """The pipe of an instruction; what is in no table is logic if it only computes, else the issue of something else.

    Examples
    --------
    >>> import ptxlab
    >>> text = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { .reg .f32 %f<2>; .reg .b32 %r<2>;"
    >>> kernel = ptxlab.loads(text + " ex2.approx.f32 %f1, %f0; add.f32 %f0, %f0, %f1; and.b32 %r0, %r0, %r1; ret; }").kernel()
    >>> [pipe_of(op).value for op in kernel.launch(block=32, profile=True).profile.counted.ops]
    ['special functions', 'f32', 'integer and logic', 'nothing']
    """
    base = op.row.base
    if isinstance(op.effects, Asynchronous):
        return Pipe.ISSUE
    found = _BY_BASE.get(base)
    if found is None:
        return Pipe.LOGIC if op.row.kind == "pure" else Pipe.BRANCH if op.row.kind == "control" else Pipe.ISSUE
    if found is Pipe.MEMORY and op.q.get("space") in ("param", "const"):
        return Pipe.NONE
    if found is Pipe.DIVIDE and (op.q.get("approx") or op.q.get("full") or op.q.get("mode") in ("approx", "full")):
        return Pipe.SPECIAL
    if found is Pipe.CONVERT:
        kinds = str(op.q.get("to")), str(op.q.get("source"))
        integers = [kind[0] in "usb" for kind in kinds]
        if all(integers):
            return Pipe.NONE if kinds[0][1:] >= kinds[1][1:] else Pipe.LOGIC
        return Pipe.CONVERT_INTEGER if integers[0] else Pipe.CONVERT
    if found in _ARITHMETIC or base in ("min", "max", "set", "setp"):
        types = [_FLOATS[name] for name in map(str, op.q.__dict__.values()) if name in _FLOATS]
        types += [kind for name, kind in _FLOATS.items() if op.q.get(name) is True]
        return types[0] if types else found
    return found
