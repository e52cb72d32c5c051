"""Control flow, the stack, and the functions that the system provides. Importing the package registers its rows in the catalogue.

The stack grows down in local memory; the stack pointer is a register that does not appear in the PTX text.
`inserted` names the instructions that the lowering adds to those of the text.
"""

from __future__ import annotations

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Control, Qualifiers, control, native, pure
from ptxlab.isa.control import inserted
from ptxlab.isa.control._system import NO_FUNCTION, SYSTEM_CALLS
from ptxlab.isa.kinds import Typed
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Const, Op, Unused
from ptxlab.isa.requirements import needs

__all__ = ["NO_FUNCTION", "SYSTEM_CALLS", "inserted"]

_SECTION = "Control Flow Instructions: {base}"

control("bra{.uni}", target="label", outputs=0, section=_SECTION)(Control.BRANCH)
control("brx.idx{.uni}", index="u32", targets="label", outputs=0, section=_SECTION + ".idx")(Control.INDEXED_BRANCH)
control("ret{.uni}", outputs=0, section=_SECTION)(Control.RETURN)
control("exit", outputs=0, section=_SECTION)(Control.EXIT)
control("trap", outputs=0, section="Miscellaneous Instructions: trap")(Control.TRAP)
control("call{.uni}", first="any", second="?any", third="?any", fourth="?any", outputs=0, section=_SECTION)(Control.CALL)


@native("pmevent", event=Typed("any", range(16), constant=True), outputs=0, section="Miscellaneous Instructions: pmevent")
@native("pmevent.mask", event=Typed("any", range(1 << 16), constant=True), outputs=0, section="Miscellaneous Instructions: pmevent")
def pmevent(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect: performance monitor events are not modelled."""
    return Nothing()


_STACK = "Stack Manipulation Instructions: {base}"
_LEAST_ALIGNMENT = 8
_NOWHERE = 0xFFFF_FFF0
"""The result of alloca if the stack overflows: an address outside local memory."""


def _sized(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return x.trunc(a, "i32") if q.type == "u32" else a


@pure(
    "alloca.(type=u32|u64)",
    d="type",
    after="stack",
    size="type",
    align="?any",
    before="stack",
    outputs=2,
    requires=needs("7.3", "sm_52"),
    section=_STACK,
)
def alloca(x: Vocabulary, q: Qualifiers, size: Value, align: Const | Unused, before: Value) -> tuple[Value, Value]:
    """The lowest address of the new memory, which is the new stack pointer."""
    wide = x.zext(size, "i64") if q.type == "u32" else size
    alignment = max(align.value, _LEAST_ALIGNMENT) if isinstance(align, Const) else _LEAST_ALIGNMENT
    after = x.and_(x.sub(before, wide), x.const(-alignment, "i64"))
    after = x.select(x.ult(before, wide), x.const(_NOWHERE, "i64"), after)
    return _sized(x, q, after), after


@pure("stacksave.(type=u32|u64)", d="type", pointer="stack", requires=needs("7.3", "sm_52"), section=_STACK)
def stacksave(x: Vocabulary, q: Qualifiers, pointer: Value) -> Value:
    return _sized(x, q, pointer)


@pure("stackrestore.(type=u32|u64)", pointer="stack", a="type", outputs=1, requires=needs("7.3", "sm_52"), section=_STACK)
def stackrestore(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return x.zext(a, "i64") if q.type == "u32" else a
