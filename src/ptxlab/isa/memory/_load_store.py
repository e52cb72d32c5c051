"""ld, ldu, st, and non-bulk cp.async; its groups and its arrival on mbarriers are in ``isa.sync``."""

from __future__ import annotations

from dataclasses import replace

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.effects import WEAK, Access, Asynchronous, Completion, Proxy, Space, Unit, order_of
from ptxlab.isa.form import only
from ptxlab.isa.kinds import Typed
from ptxlab.isa.memory._modifiers import (
    ACCESS_ADDRESS,
    ACCESS_RULES,
    CACHE_HINT,
    EVICTION,
    MODIFIER_NEEDS,
    POLICY,
    PREFETCH,
    SCOPE,
    SPACE,
    space_of,
)
from ptxlab.isa.native_ops import CopyAsync, LaneAccess
from ptxlab.isa.operands import Addr, Const, Op, SymbolAddress, Unused
from ptxlab.isa.requirements import needs

_SECTION = "Data Movement and Conversion Instructions: "
_VECTOR = "{.vec=v2|v4|v8}"
_TYPE = ".(type=b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64)"


_NEEDS = (
    *MODIFIER_NEEDS,
    needs("8.2", "sm_70", when={"mmio": "mmio"}),
    needs("9.3", when={"order": "acquire|release", "mmio": "mmio"}),
    needs("9.1", when={"order": "volatile", "space": "local"}),
    needs("8.8", "sm_100", when={"vec": "v4", "type": "b64|u64|s64|f64"}),
    needs("8.8", "sm_100", when={"vec": "v8"}),
)
_VECTOR_RULES = (only("vec", (None, "v2", "v4")), only("vec", (None, "v2"), type="b64|u64|s64|f64"), only("vec", None, type="b128"))


def _access(q: Qualifiers, op: Op, write: bool, address: int, value: int) -> LaneAccess:
    count = int(q.vec[1:]) if q.vec else 1
    signed = q.type[0] == "s"
    place = op.operands[address]
    space = space_of(q.space)
    if isinstance(place, Addr) and isinstance(place.base, SymbolAddress) and place.base.space == "local":
        space = "local"  # the parameters of calls lie there
    return LaneAccess(write, space, int(q.type[1:]), count, signed, address, value)


def _order(q: Qualifiers) -> Access:
    """``.mmio`` alone is relaxed."""
    return Access(order_of("relaxed" if q.mmio and q.order in (None, "weak") else q.order, q.scope))


@native(
    "ld{.order=weak|volatile|relaxed|acquire}{.mmio}"
    + SCOPE
    + SPACE
    + "{.cop=ca|cg|cs|lu|cv}{.nc}"
    + EVICTION
    + CACHE_HINT
    + PREFETCH
    + "{.unified}"
    + _VECTOR
    + _TYPE,
    d="vec.type",
    a=ACCESS_ADDRESS,
    policy=POLICY,
    ordered=False,
    rules=(
        *ACCESS_RULES,
        only("space", "global", nc="nc"),
        only("order", None, nc="nc"),
        only("cop", (None, "ca", "cg", "cs"), nc="nc"),
    ),
    effects=_order,
    requires=_NEEDS,
    section=_SECTION + "ld",
)
@native(
    "ldu{.space=global|const}" + _VECTOR + _TYPE,
    d="vec.type",
    a=replace(ACCESS_ADDRESS, wide=None),
    ordered=False,
    effects=Access(WEAK),
    rules=(only("space", (None, "global")), *_VECTOR_RULES),
    requires=needs("8.3", "sm_70", when={"type": "b128"}),
    section=_SECTION + "ldu",
)
def load(q: Qualifiers, op: Op) -> LaneAccess:
    return _access(q, op, write=False, address=1, value=0)


@native(
    "st{.order=weak|volatile|relaxed|release}{.mmio}" + SCOPE + SPACE + "{.cop=wb|cg|cs|wt}" + EVICTION + CACHE_HINT + _VECTOR + _TYPE,
    a=ACCESS_ADDRESS,
    b="vec.type",
    policy=POLICY,
    outputs=0,
    ordered=False,
    rules=(*ACCESS_RULES, only("space", (None, "global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::func"))),
    effects=_order,
    requires=_NEEDS,
    section=_SECTION + "st",
)
def store(q: Qualifiers, op: Op) -> LaneAccess:
    return _access(q, op, write=True, address=0, value=1)


_COPY_SECTION = "Data Movement and Conversion Instructions: cp.async"
_COPY_EFFECTS = Asynchronous(Unit.COPY, Completion.COPY_GROUP, Proxy.GENERIC, Space.SHARED)
_COPY_SPACES = ".(space=shared|shared::cta).global" + CACHE_HINT + PREFETCH
_COPY_NEEDS = (
    needs("7.0", "sm_80"),
    needs("7.4", when={"hint": "L2::cache_hint"}),
    needs("7.4", when={"prefetch": "L2::64B|L2::128B|L2::256B"}),
)


def copy(q: Qualifiers, op: Op) -> CopyAsync:
    size, last = op.operands[2:4]
    count = size.value if isinstance(size, Const) else 0
    if op.row.operands[3][0] == "ignore":
        return CopyAsync(count, 0, 1, ignore=3)
    return CopyAsync(count, 0, 1, source_size=-1 if isinstance(last, Unused) else 3)


for _caches, _sizes in (("ca", (4, 8, 16)), ("cg", (16,))):
    for _operand, _more in (({"source_size": "?u32"}, ()), ({"ignore": "pred"}, (needs("7.5"),))):
        native(
            f"cp.async.(cop={_caches}){_COPY_SPACES}",
            d=Typed("addr", space="shared", short=True),
            a=Typed("addr", space="global", short=True),
            size=Typed("any", _sizes, constant=True),
            **_operand,
            policy=POLICY,
            outputs=0,
            effects=_COPY_EFFECTS,
            requires=(*_COPY_NEEDS, *_more),
            section=_COPY_SECTION,
        )(copy)
