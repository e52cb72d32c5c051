"""Exchanges between the lanes of a warp, and the loads and stores of matrices that its lanes share.

shfl, vote, match, redux, elect, activemask, bar.warp.sync; ldmatrix, stmatrix and movmatrix: sections "Warp-level matrix load instruction:
ldmatrix", "... stmatrix" and "... movmatrix".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.catalogue import Fidelity, Flow, Qualifiers, native, service
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.kinds import Typed
from ptxlab.isa.memory import space_of
from ptxlab.isa.native_ops import Collective, MatrixAccess
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import Needs, needs
from ptxlab.isa.targets import at_least

_MOVES = "Data Movement and Conversion Instructions: "
_SYNC = "Parallel Synchronization and Communication Instructions: "


@native(
    "shfl.sync.(mode=up|down|bfly|idx).b32",
    d="b32|pred",
    a="b32",
    b="b32",
    c="b32",
    member="u32",
    section=_MOVES + "shfl.sync",
    ordered=False,
    fidelity="hardware",
)
def shfl(q: Qualifiers, op: Op) -> Collective:
    return Collective("shfl", q.mode, "b32", 4)


@native(
    "vote.sync.(mode=all|any|uni).pred",
    d="pred",
    a="pred",
    member="u32",
    section=_SYNC + "vote.sync",
    ordered=False,
    fidelity="hardware",
)
@native("vote.sync.(mode=ballot).b32", d="b32", a="pred", member="u32", section=_SYNC + "vote.sync", ordered=False, fidelity="hardware")
def vote(q: Qualifiers, op: Op) -> Collective:
    return Collective("vote", q.mode, "pred", 2)


@native(
    "match.(which=any).sync.(type=b32|b64)",
    d="u32",
    a="type",
    member="u32",
    section=_SYNC + "match.sync",
    ordered=False,
    fidelity="hardware",
)
@native(
    "match.(which=all).sync.(type=b32|b64)",
    d="u32|pred",
    a="type",
    member="u32",
    section=_SYNC + "match.sync",
    ordered=False,
    fidelity="hardware",
)
def match(q: Qualifiers, op: Op) -> Collective:
    return Collective("match", q.which, q.type, 2)


@native(
    "redux.sync.(op=add|min|max).(type=u32|s32)",
    "redux.sync.(op=and|or|xor).(type=b32)",
    d="type",
    a="type",
    member="u32",
    requires=needs("7.0", "sm_80"),
    section=_SYNC + "redux.sync",
    ordered=False,
    fidelity="hardware",
)
@native(
    "redux.sync.(op=min|max){.abs}{.NaN}.(type=f32)",
    d="type",
    a="type",
    member="u32",
    requires=needs("8.6", "sm_100f"),
    section=_SYNC + "redux.sync",
)
def redux(q: Qualifiers, op: Op) -> Collective:
    flags = [name for name in ("abs", "NaN") if q.get(name)]
    return Collective("redux", ".".join([q.op, *flags]), q.type, 2)


@native("activemask.b32", d="b32", section=_SYNC + "activemask", fidelity="hardware")
def activemask(q: Qualifiers, op: Op) -> Collective:
    return Collective("activemask", "", "b32", -1)


@native(
    "elect.sync",
    d=Typed("u32|pred", both=True),
    member="u32",
    section=_SYNC + "elect.sync",
    ordered=False,
    fidelity="hardware",
    requires=needs("8.0", "sm_90", what="elect"),
)
def elect(q: Qualifiers, op: Op) -> Collective:
    return Collective("elect", "", "b32", 1, anywhere=True)


@native("bar.warp.sync", member="u32", outputs=0, section=_SYNC + "bar.warp.sync", fidelity="hardware")
def warp_sync(q: Qualifiers, op: Op) -> Collective:
    return Collective("warpsync", "", "b32", 0, anywhere=True)


_SECTION = "Warp Level Matrix Load and Store Instructions: "
_SPACE = "{.space=shared|shared::cta}"
_ONE_EACH = {"x1": "v1", "x2": "v2", "x4": "v4"}
_TWO_EACH = {"x1": "v2", "x2": "v4"}
"""Repetition -> registers of each thread."""
_WIDENED = {"b6x16_p32": "b6", "b4x16_p64": "b4"}
_BLACKWELL = needs("8.6", at_least(100, "af"))


def _access(q: Qualifiers, op: Op, write: bool, element: str, transposed: bool | None) -> MatrixAccess:
    """The access of a row. If the row does not fix the transposition or element type, the modifiers determine them."""
    wide = q.trans if transposed is None else transposed
    address, value = (0, 1) if write else (1, 0)
    return MatrixAccess(write, int(q.vec[1:]), wide, element or _WIDENED[q.source], address, value, space_of(q.space))


def _declare(
    name: str,
    form: str,
    element: str,
    transposed: bool | None,
    registers: Mapping[str, str],
    fidelity: Fidelity = "hardware",
    requires: Needs = _BLACKWELL,
) -> None:
    """``form``: the modifiers, with ``(count)`` for the repetition."""
    write = name == "stmatrix"
    pattern = f"{name}.sync.aligned" + form.replace("(count)", f"(count={'|'.join(registers)})")
    operands = {"a": "addr", "b": "vec.b32"} if write else {"d": "vec.b32", "a": "addr"}
    native(
        pattern,
        requires=(requires, needs("7.8", when={"space": "shared::cta"})),
        section=_SECTION + name,
        fidelity=fidelity,
        outputs=int(not write),
        ordered=False,
        derived={"vec": ("count", registers)},
        **operands,
    )(partial(_access, write=write, element=element, transposed=transposed))


for _name, _needs in (("ldmatrix", needs("6.5", "sm_75")), ("stmatrix", needs("7.8", "sm_90"))):
    _declare(_name, f".m8n8.(count){{.trans}}{_SPACE}.b16", "b16", None, _ONE_EACH, requires=_needs)
_declare("ldmatrix", f".m16n16.(count).trans{_SPACE}.b8", "b8", True, _TWO_EACH, "two-models")
_declare("ldmatrix", f".m16n16.(count).trans{_SPACE}.b8x16.(source=b6x16_p32|b4x16_p64)", "", True, _TWO_EACH, "two-models")
_declare("ldmatrix", f".m8n16.(count){_SPACE}.b8x16.(source=b6x16_p32|b4x16_p64)", "", False, _ONE_EACH, "two-models")
_declare("ldmatrix", f".m8n16.(count){_SPACE}.s8.s4", "s4", False, _ONE_EACH, requires=needs("9.4", at_least(75, "af")))
_declare("stmatrix", f".m16n8.(count).trans{_SPACE}.b8", "b8", True, _ONE_EACH, "two-models")


def _transposed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Thread t holds row t/4, columns 2(t%4) and 2(t%4) + 1, before and after."""
    matrix = np.ascontiguousarray(words).view(np.uint16).reshape(8, 8)
    return np.ascontiguousarray(matrix.T).reshape(-1).view(np.uint32)


@service(
    "movmatrix.sync.aligned.m8n8.trans.b16",
    requires=needs("7.8", "sm_75"),
    section="Warp-level matrix transpose instruction: movmatrix",
    fidelity="hardware",
    outputs=1,
    effects=LOCAL,
    flow=Flow(("a",), lambda warp: _transposed(warp.undefined(1))[None]),
    d="b32",
    a="b32",
)
def movmatrix(warp: context.WarpContext) -> None:
    """Transpose a matrix that the warp holds."""
    warp.write(0, _transposed(warp.values(1)))
