"""cvta, isspacep, mapa, getctarank: arithmetic on addresses, whose windows stand in ``isa.address_space``."""

from __future__ import annotations

import numpy as np

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.address_space import GLOBAL_BASE, LOCAL_WINDOW, PARAM_WINDOW, SHARED_RANK_SHIFT, SHARED_WINDOW
from ptxlab.isa.catalogue import Qualifiers, pure, service
from ptxlab.isa.context import WarpContext
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.kinds import Typed
from ptxlab.isa.memory._modifiers import SPACE_NEEDS
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import needs

_SECTION = "Data Movement and Conversion Instructions: "
_SPACES = "const|global|local|shared|shared::cta|shared::cluster|param|param::entry"
_WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}
_INT = {"u32": "i32", "u64": "i64"}


@pure(f"cvta.(space={_SPACES}).(type=u32|u64)", d="type", a=Typed("type", symbols=True), requires=SPACE_NEEDS, section=_SECTION + "cvta")
def to_generic(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """The generic address; global and const addresses are generic ones already."""
    window = _WINDOWS.get(q.space)
    return a if window is None or q.type == "u32" else x.or_(a, x.const(window, "i64"))


@pure(f"cvta.(mode=to).(space={_SPACES}).(type=u32|u64)", d="type", a="type", requires=SPACE_NEEDS, section=_SECTION + "cvta")
def from_generic(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    if q.space not in _WINDOWS or q.type == "u32":
        return a
    return x.and_(a, x.const(0xFFFFFFFF, "i64"))


@pure(
    "isspacep.(space=const|global|local|shared::cluster|param|param::entry)",
    p="pred",
    a="u64",
    outputs=1,
    requires=SPACE_NEEDS,
    section=_SECTION + "isspacep",
    fidelity="deduced",
)
def isspacep(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """Whether a generic address lies in the window."""
    window = _WINDOWS.get(q.space)
    if window is None:
        windows = GLOBAL_BASE - SHARED_WINDOW
        return x.ule(x.const(windows, "i64"), x.sub(a, x.const(SHARED_WINDOW, "i64")))
    return x.eq(x.lshr(a, x.const(32, "i64")), x.const(window >> 32, "i64"))


@service(
    "isspacep.(space=shared|shared::cta)",
    p="pred",
    a="u64",
    outputs=1,
    effects=LOCAL,
    requires=SPACE_NEEDS,
    section=_SECTION + "isspacep",
    fidelity="hardware",
)
def is_own_shared(warp: WarpContext) -> None:
    """Whether a generic address lies in the shared memory of this CTA; that of another CTA of the cluster does not."""
    own = SHARED_WINDOW >> SHARED_RANK_SHIFT | warp.cta.rank
    warp.write(0, warp.values(1, 64) >> np.uint64(SHARED_RANK_SHIFT) == own, 1)


@pure(
    "mapa{.shared::cluster=shared::cluster}.(type=u32|u64)",
    d="type",
    a=Typed("type", symbols=True),
    b="u32",
    section=_SECTION + "mapa",
    fidelity="hardware",
    requires=needs("7.8", "sm_90", what="mapa"),
)
def mapa(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    """The same offset in the shared memory of the CTA of rank b; from a generic address a generic one."""
    integer = _INT[q.type]
    rank = x.shl(x.zext(b, "i64") if integer == "i64" else b, x.const(SHARED_RANK_SHIFT, integer))
    return x.or_(x.and_(a, x.const(~(0xFF << SHARED_RANK_SHIFT), integer)), rank)


def names_rank(op: Op) -> bool:
    """Whether an instruction makes an address in the shared memory of a CTA of the cluster that it names."""
    return op.row.semantics is mapa


@pure(
    "getctarank{.shared::cluster=shared::cluster}.(type=u32|u64)",
    d="u32",
    a=Typed("type", symbols=True),
    requires=needs("7.8", "sm_90", what="getctarank"),
    section=_SECTION + "getctarank",
    fidelity="hardware",
)
def getctarank(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    word = x.trunc(a, "i32") if q.type == "u64" else a
    return x.lshr(word, x.const(SHARED_RANK_SHIFT, "i32"))
