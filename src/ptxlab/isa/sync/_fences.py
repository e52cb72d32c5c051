"""Fences, and instructions that control the execution of a thread: griddepcontrol, nanosleep, brkpt, setmaxnreg."""

from __future__ import annotations

from ptxlab._records import dataclass
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.context import Cta, Misuse, Supplied, Wait, WarpContext
from ptxlab.isa.effects import (
    LOCAL,
    Effect,
    Fence,
    GridLaunch,
    GridWait,
    MbarrierInitFence,
    ProxyFence,
    RegisterPool,
    Space,
    Supply,
    TensorMapFence,
    order_of,
)
from ptxlab.isa.form import IGNORED, Form, Rule, form
from ptxlab.isa.kinds import LONGS, MAP_BYTES, SHORTS, WORDS, Address, Immediate, Typed
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import needs
from ptxlab.isa.targets import at_least

_SECTION = "Parallel Synchronization and Communication Instructions: membar, fence"
_70, _90 = at_least(70), at_least(90)
_RESTRICTED = tuple(f"sync_restrict::shared::{part}" for part in ("cta", "cluster", "cluster::read"))
_RESTRICT = "|".join(_RESTRICTED)
_READ = _RESTRICTED[2]
_SPACES = ("global", "shared::cta", "shared::cluster")
_SCOPES = ("cta", "cluster", "gpu", "sys")

_ANYWHERE = Address(
    {},
    "a generic address in brackets",
    generic_spaces=("shared", "global", "local", "const", "param"),
    generic_types=(*SHORTS, *WORDS, *LONGS),
    plain=("f32", "f64", "pred"),
    constant=True,
)


def _plain() -> Form:
    restricted = {"restrict": _RESTRICTED[:2]}
    initial = {"mbarrier_init": ("mbarrier_init",)}
    releasing, acquiring = ({"mbarrier_init": (None,), "restrict": (restrict,)} for restrict in _RESTRICTED[:2])
    return form(
        "fence",
        f"{{.mbarrier_init}}{{.sem=sc|acq_rel|acquire|release}}{{.restrict={'|'.join(_RESTRICTED[:2])}}}.(scope=cta|cluster|gpu|sys)",
        section=_SECTION,
        rules=(
            Rule(initial, "sem", ("release",), ".mbarrier_init goes with .release.cluster only", _SECTION),
            Rule({**initial, "sem": ("release",)}, "scope", ("cluster",), ".mbarrier_init goes with .release.cluster only", _SECTION),
            Rule(initial, "restrict", (None,), ".sync_restrict means nothing on fence.mbarrier_init", _SECTION, ignored=True),
            Rule(acquiring, "sem", ("acquire",), ".sync_restrict::shared::cluster goes with .acquire", _SECTION),
            Rule(releasing, "sem", ("release",), ".sync_restrict::shared::cta goes with .release", _SECTION),
            Rule(restricted, "scope", ("cluster",), ".sync_restrict needs the scope .cluster", _SECTION),
        ),
        requires=(
            needs("6.0", _70, what="fence"),
            needs("7.8", _90, what="the scope .cluster", when={"scope": ("cluster",)}),
            needs("8.6", _90, what="fence.acquire and fence.release", when={"sem": ("acquire", "release"), "mbarrier_init": (None,)}),
            needs("8.0", _90, what="fence.mbarrier_init", when=initial),
        ),
        ignored=IGNORED | {"async"},
    )


def _directed() -> Form:
    """A unidirectional proxy fence, or a bidirectional one."""
    kinds = ("async", "alias", "tensormap::generic", "async::generic")
    tensormap, generic = {"proxy": ("tensormap::generic",)}, {"proxy": ("async::generic",)}
    undirected, alias = {"proxy": ("async",)}, {"proxy": ("alias",)}
    ordered = {**alias, "sem": ("acquire", "release")}
    acquire = {**generic, "sem": ("acquire",)}
    release = {**generic, "sem": ("release",)}
    one_way = {"proxy": ("tensormap::generic", "async::generic")}
    return form(
        "fence.proxy",
        f".(proxy={'|'.join(kinds)}){{.space={'|'.join((*_SPACES, 'shared'))}}}"
        f"{{.sem=acq_rel|acquire|release}}{{.restrict={_RESTRICT}}}{{.scope=cta|cluster|gpu|sys}}",
        ("", {"proxy": ("async", "alias", "async::generic")}),
        ("", {**tensormap, "sem": (None, "release", "acq_rel")}),
        ("[addr] size", {**tensormap, "sem": (None, "acquire")}),
        (
            "[addr] constant",
            {**one_way, "sem": ("acq_rel",), "restrict": (None,), "space": (None,)},
            {},
            "only a fence that acquires a tensor map has an address; the assembler takes one here too",
        ),
        kinds={"[addr]": _ANYWHERE, "size": MAP_BYTES, "constant": Immediate("an integer constant")},
        section=_SECTION,
        rules=(
            Rule(undirected, "space", (None, *_SPACES), ".shared is not a space of .async", _SECTION),
            Rule(alias, "space", (None,), "a state space goes with .async only", _SECTION),
            Rule({**tensormap, "sem": ("acquire",)}, "space", (None,), "a state space goes with .async only", _SECTION),
            Rule(one_way, "space", (None,), "a state space means nothing on a fence of one direction", _SECTION, ignored=True),
            Rule({**tensormap, "sem": ("acquire",)}, "restrict", (None,), ".sync_restrict goes with .async::generic", _SECTION),
            Rule(undirected, "sem", (None,), "a fence of both directions has no order", _SECTION),
            Rule(alias, "sem", (None, "acquire", "release"), "a fence of both directions has no order", _SECTION),
            Rule(ordered, "scope", ("sys",), "an order on .alias needs the scope .sys", _SECTION),
            Rule({"proxy": ("async", "alias"), "sem": (None,)}, "scope", (None,), "a fence of both directions has no scope", _SECTION),
            Rule(one_way, "sem", ("acq_rel", "acquire", "release"), "a fence of one direction needs .acquire or .release", _SECTION),
            Rule(one_way, "scope", _SCOPES, "a fence of one direction needs a scope", _SECTION),
            Rule(acquire, "scope", ("cluster",), ".async::generic.acquire needs the scope .cluster", _SECTION),
            Rule(release, "scope", ("cta", "cluster"), ".async::generic.release needs the scope .cluster", _SECTION),
            Rule(
                {**release, "restrict": _RESTRICTED[:1]},
                "scope",
                ("cluster",),
                ".async::generic.release needs the scope .cluster",
                _SECTION,
            ),
            Rule(acquire, "restrict", _RESTRICTED[1:2], ".async::generic.acquire needs .sync_restrict::shared::cluster", _SECTION),
            Rule(release, "restrict", (_RESTRICTED[0], _READ), ".async::generic.release needs .sync_restrict::shared::cta", _SECTION),
        ),
        requires=(
            needs("7.5", _70, what="fence.proxy.alias", when={"proxy": ("alias",)}),
            needs("8.0", _90, what="fence.proxy.async", when={"proxy": ("async",)}),
            needs("8.3", _90, what="fence.proxy.tensormap::generic", when=tensormap),
            needs(what=".acq_rel on fence.proxy.tensormap::generic", when={**tensormap, "sem": ("acq_rel",)}, specified=False),
            needs("8.6", _90, what="fence.proxy.async::generic", when=generic),
            needs(what=".acq_rel on fence.proxy.async::generic", when={**generic, "sem": ("acq_rel",)}, specified=False),
            needs(what="the scope .cta on fence.proxy.async::generic", when={**release, "scope": ("cta",)}, specified=False),
            needs("9.4", _90, what="an order on fence.proxy.alias", when=ordered),
            needs(
                "8.6",
                _90,
                what=".sync_restrict on this fence",
                when={"proxy": ("async", "alias", "tensormap::generic"), "restrict": _RESTRICTED},
                specified=False,
            ),
            needs("9.4", _90, what=f".{_READ}", when={"restrict": (_READ,)}),
        ),
    )


FENCE, PROXY = _plain(), _directed()
# a unidirectional proxy fence between the generic and the fabric proxy
form(
    "fence.proxy",
    ".(proxy=generic::fabric|fabric::generic|fabric::fabric).alias.(sem=acquire|release|acq_rel)"
    f"{{.restrict={_RESTRICT}}}.(scope=cta|cluster|gpu|sys)",
    section=_SECTION,
    rules=(
        Rule({"sem": ("acquire", "release")}, "scope", ("sys",), "a fence of the fabric proxy needs the scope .sys", _SECTION),
        Rule({}, "restrict", (None,), ".sync_restrict means nothing on a fence of the fabric proxy", _SECTION, ignored=True),
    ),
    requires=(
        needs("9.3", at_least(100), what="a fence of the fabric proxy"),
        needs(what=".acq_rel on a fence of the fabric proxy", when={"sem": ("acq_rel",)}, specified=False),
        needs("9.4", _90, what=f".{_READ}", when={"restrict": (_READ,)}),
    ),
    ignored=IGNORED | {*_SPACES, "shared"},
)
MEMBAR = form("membar", ".(level=cta|gl|sys)", section=_SECTION)
MEMBAR_PROXY = form(
    "membar.proxy",
    f".(proxy=alias|async){{.space={'|'.join(_SPACES)}}}",
    section=_SECTION,
    rules=(Rule({}, "space", (None,), "membar.proxy has no state space", _SECTION, executed=True),),
    requires=(
        needs("7.5", _70, what="membar.proxy.alias", when={"proxy": "alias"}),
        needs("8.0", _90, what="membar.proxy.async", when={"proxy": "async"}),
    ),
)


_MISC = "Miscellaneous Instructions"
_BOUNDS = ("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
_REGISTERS_STEP, _REGISTERS_LEAST, _REGISTERS_MOST = 8, 24, 256


_BOTH = Space.SHARED | Space.GLOBAL


def _thread_fence(q: Qualifiers) -> Effect:
    return MbarrierInitFence() if q.mbarrier_init else Fence(order_of(q.sem or "acq_rel", q.scope))


def _proxy_fence(q: Qualifiers) -> Effect:
    match q.proxy:
        case "async":
            return ProxyFence(_BOTH if q.space is None else Space.GLOBAL if q.space == "global" else Space.SHARED)
        case "async::generic":
            return ProxyFence(_BOTH, acquires=q.sem == "acquire", releases=q.sem == "release")
        case "tensormap::generic":
            return TensorMapFence(acquires=q.sem == "acquire")
    return ProxyFence(Space.NONE)


@native(FENCE, outputs=0, effects=_thread_fence)
@native(MEMBAR, outputs=0, effects=lambda q: Fence(order_of("sc", q.level)))
@native(MEMBAR_PROXY, outputs=0, effects=_proxy_fence)
@native(PROXY, only={"proxy": "alias|async", "sem": None, "restrict": None}, outputs=0, effects=_proxy_fence)
@native(PROXY, only={"proxy": "tensormap::generic", "sem": "acquire|release", "restrict": None}, outputs=0, effects=_proxy_fence)
@native(
    PROXY,
    only={"proxy": "async::generic", "sem": "acquire|release", "restrict": _BOUNDS, "scope": "cluster"},
    outputs=0,
    effects=_proxy_fence,
)
@native(
    "griddepcontrol.(action=launch_dependents|wait)",
    section="Parallel Synchronization and Communication Instructions: griddepcontrol",
    requires=needs("7.8", "sm_90", what="griddepcontrol"),
    outputs=0,
    effects=lambda q: GridWait() if q.action == "wait" else GridLaunch(),
)
def nothing(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect on values: memory operations perform in order, and launches run one after the other."""
    return Nothing()


@service("nanosleep.u32", section=f"{_MISC}: nanosleep", outputs=0, effects=LOCAL, time="u32")
def nanosleep(warp: WarpContext) -> None:
    """Yield to other warps."""
    warp.spin()


@service("brkpt", section=f"{_MISC}: brkpt", effects=LOCAL)
def brkpt(warp: WarpContext) -> None:
    """End the launch with a fault, because no debugger is attached."""
    warp.fault(
        "H604", "the kernel executed brkpt", fix="look for the condition that leads here; compilers put brkpt after failed assertions"
    )


@dataclass(frozen=True, slots=True)
class _Registers(Supplied):
    """The registers that a setmaxnreg.inc waits for."""

    cta: Cta
    change: int

    @property
    def awaits(self) -> Supply:
        """The effect that ends the wait."""
        return Supply.REGISTERS

    def supplied_by(self, cta: Cta, _warp: int) -> bool:
        """Return whether a warp can return registers to the pool."""
        return cta is self.cta

    def advice(self) -> str:
        """Return the fix for the report of a hang."""
        free = self.cta.state["registers free"]
        return f"let other warps of the CTA execute setmaxnreg.dec: {self.change - free} more registers are needed"


@service(
    "setmaxnreg.(action=inc|dec).sync.aligned.u32",
    section=f"{_MISC}: setmaxnreg",
    requires=needs("8.0", at_least(90, "af"), what="setmaxnreg"),
    outputs=0,
    effects=lambda q: RegisterPool(gives=q.action == "dec"),
    count=Typed("u32", range(_REGISTERS_LEAST, _REGISTERS_MOST + 1, _REGISTERS_STEP), constant=True),
)
def setmaxnreg(warp: WarpContext) -> Wait | None:
    """Take registers from the CTA's pool, or return them. If the size of the pool is not known, ``inc`` never waits."""
    wanted = warp.uniform(0)
    if wanted % _REGISTERS_STEP or not _REGISTERS_LEAST <= wanted <= _REGISTERS_MOST:
        raise Misuse(
            "B513",
            f"setmaxnreg to {wanted} registers; it must be a multiple of {_REGISTERS_STEP} from {_REGISTERS_LEAST} to {_REGISTERS_MOST}",
        )
    each = warp.machine.registers
    if each is None:
        warp.report(
            "B518",
            "the kernel uses setmaxnreg, but its registers per thread are not known: setmaxnreg.inc never waits here",
            once=True,
            fix="launch with registers=, as the assembler reports them",
        )
        return None
    state = warp.cta.state
    held: int = warp.state.setdefault("registers", each)
    free: int = state.setdefault("registers free", 0)
    change = (wanted - held) * 32
    fault = RegisterPool(gives=warp.q.action == "dec").fault(wanted, held)
    if fault is not None:
        raise Misuse("B513", fault[0], fix=fault[1])
    if change > free:

        def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
            return f"waits for {change} registers", (("free in the CTA's pool", str(state["registers free"])),)

        return Wait(lambda: bool(state["registers free"] >= change), describe, retry=True, on=_Registers(warp.cta, change))
    state["registers free"] = free - change
    warp.state["registers"] = wanted
    warp.machine.progress += 1
    return None
