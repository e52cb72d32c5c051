"""Fences, and instructions that control the execution of a thread: griddepcontrol, nanosleep, brkpt, setmaxnreg."""

from __future__ import annotations

from dataclasses import dataclass

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
from ptxlab.isa.kinds import Typed
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import needs
from ptxlab.isa.sync._fence_syntax import FENCE, MEMBAR, MEMBAR_PROXY, PROXY
from ptxlab.isa.targets import at_least

_SYNC = "Parallel Synchronization and Communication Instructions"
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


def _grid_control(q: Qualifiers) -> Effect:
    return GridWait() if q.action == "wait" else GridLaunch()


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
    effects=_grid_control,
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
        "H604", "the kernel executed brkpt", fix="look for the condition that leads here; compilers put brkpt behind failed assertions"
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
    if warp.q.action == "dec":
        if change > 0:
            raise Misuse(
                "B513",
                f"setmaxnreg.dec to {wanted} registers, but the warp has {held}",
                fix="use setmaxnreg.inc, or launch with more registers",
            )
    elif change < 0:
        raise Misuse("B513", f"setmaxnreg.inc to {wanted} registers, but the warp has {held}", fix="use setmaxnreg.dec")
    if change > free:

        def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
            return f"waits for {change} registers", (("free in the CTA's pool", str(state["registers free"])),)

        return Wait(lambda: bool(state["registers free"] >= change), describe, retry=True, on=_Registers(warp.cta, change))
    state["registers free"] = free - change
    warp.state["registers"] = wanted
    warp.machine.progress += 1
    return None
