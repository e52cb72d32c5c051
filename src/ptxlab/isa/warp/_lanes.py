"""shfl, vote, match, redux, elect, activemask, bar.warp.sync."""

from __future__ import annotations

from ptxlab.isa.catalogue import Qualifiers, native
from ptxlab.isa.kinds import Typed
from ptxlab.isa.native_ops import Collective
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import needs

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
    flags = [name for name in ("abs", "NaN") if q.__dict__.get(name)]
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
