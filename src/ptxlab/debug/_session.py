"""A session: the launch that is debugged, what is chosen in it, and where it stops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ptxlab import ptx
from ptxlab.debug._conditions import Expression
from ptxlab.debug._execution import Look
from ptxlab.debug._inspection import Focus
from ptxlab.debug._memory import memory_bytes, tensor_words
from ptxlab.debug._points import Choice, WarpName, refuse
from ptxlab.debug._report import Stop
from ptxlab.debug._stepper import Stepper
from ptxlab.debug._stops import KINDS, Breakpoint, Stops, Watchpoint
from ptxlab.debug.views.views import Views
from ptxlab.engine import separate
from ptxlab.machine.launch.program_facts import facts_of

if TYPE_CHECKING:
    from ptxlab.engine import Program
    from ptxlab.machine.replay.replay import Replay

__all__ = ["Session"]


def _no_steppers(program: Program) -> list[Stepper]:
    """The steppers of a program that no session uses; none at first."""
    return []


class Session(Views):
    """Debugs a launch: `Kernel.prepare` or `ptxlab.read_bundle` give what it needs.

    The kernel executes with the same bits and in the same order as in a plain launch: in compiled code, and instruction by instruction in
    the NumPy back end where something may stop. `check` runs the checks of the launch. Everything is deterministic: a
    `Position` can be saved and reached again. To go back, the launch returns to a snapshot and runs again from there.

    Parameters
    ----------
    replay : the launch
    options : of the launch that are to be others: ``policy="lazy"``

    Examples
    --------
    >>> import numpy as np, ptxlab
    >>> text = '''
    ... .version 9.0
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry k(.param .u64 out) {
    ...   .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ...   mov.u32 %r1, %tid.x;
    ...   add.s32 %r2, %r1, 5;
    ...   ld.param.u64 %rd1, [out];
    ...   st.global.b32 [%rd1], %r2;
    ...   ret;
    ... }'''
    >>> replay = ptxlab.loads(text).kernel().prepare(block=32, args=[np.zeros(1, np.uint32)])
    >>> with Session(replay) as session:
    ...     stop = session.step(2)
    ...     print(stop.line, stop.text.strip(), session.register("%r2").value(3))
    ...     print(session.step_back().text.strip(), session.register("%r2").undefined[3] == 0xFFFFFFFF)
    9 ld.param.u64 %rd1, [out]; 8
    add.s32 %r2, %r1, 5; True
    """

    def __init__(self, replay: Replay, **options: Any) -> None:
        self._replay = replace(replay, options=replay.options.changed(**options))
        chosen = self._replay.options
        variant = replay.kernel.variant(chosen.contract, False, chosen.tracked)
        self._idle = facts_of(*variant).of(_no_steppers)
        self._stepper = self._idle.pop() if self._idle else Stepper(separate(variant[0]))
        self.stops = Stops(ptx.SourceMap(replay.kernel.module.ast))
        self.focus = Focus()
        self._choices: dict[int, Choice] = {}
        self._start()
        self._look_at(self.point)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        if not self._execution.closed:
            self._execution.close()
            self._stepper.end()
            self._idle.append(self._stepper)

    def interrupt(self, wanted: bool = True) -> None:
        """Let the launch stand still at its next point; for another thread, while it moves.

        On its way to an earlier point it comes back to where it stood. ``wanted=False`` takes back what has come after the motion.
        """
        self._execution.interrupt(wanted)

    # -------------------------------------------------------------------------------------------------------------- choices

    def _choose(self, action: str, warp: WarpName | None = None, operation: int = -1) -> Stop:
        step = self.point.step
        if self.result is not None:
            raise refuse("G104", "the launch has ended", fix="go back first")
        kept = {at: choice for at, choice in self._choices.items() if at < step}
        self._choose_all(kept | {step: Choice(step, action, warp, operation)})
        self._hits = []
        self._execution.advance(lambda point: point.again, Look())
        return self._stop("chosen")

    def freeze(self) -> Stop:
        """Keep the chosen warp from running."""
        self._warp()
        return self._choose("freeze", (self.focus.cta, self.focus.warp))

    def thaw(self) -> Stop:
        """Let the chosen warp run again."""
        return self._choose("thaw", (self.focus.cta, self.focus.warp))

    def alone(self) -> Stop:
        """Let only the chosen warp run."""
        self._warp()
        return self._choose("alone", (self.focus.cta, self.focus.warp))

    def thaw_all(self) -> Stop:
        """Let all warps run again."""
        return self._choose("thaw all")

    def perform(self, number: int) -> Stop:
        """Perform an outstanding asynchronous operation now; `operations` lists them. Under the policy ``eager`` there are none."""
        found = {each["number"]: each for each in self.operations()}
        if number not in found:
            listed = ", ".join(map(str, found)) or "none"
            eager = self._replay.options.policy == "eager"
            fix = "under the policy lazy operations stay outstanding" if eager else ""
            raise refuse("G104", f"no operation {number} is outstanding; those that are: {listed}", fix=fix)
        if not found[number]["can perform"]:
            raise refuse("G104", f"operation {number} performs after earlier ones, which have not performed", fix="perform those first")
        return self._choose("perform", operation=number)

    def choose_thread(self, cta: tuple[int, ...] | None = None, warp: int | None = None, lane: int | None = None) -> Focus:
        """Look at another thread; what is not given stays."""
        old = self.focus
        x, y, z = (*(old.cta if cta is None else cta), 0, 0)[:3]
        self.focus = Focus((x, y, z), old.warp if warp is None else warp, old.lane if lane is None else lane)
        found = self._execution.find((self.focus.cta, self.focus.warp))
        if found is None or not 0 <= self.focus.lane < 32 or not found.threads >> self.focus.lane & 1:
            wrong, self.focus = self.focus, old
            raise refuse("G103", f"{wrong} is not resident: it has ended or not started, or there is none", fix="choose one of `warps`")
        return self.focus

    # --------------------------------------------------------------------------------------------- breakpoints and watchpoints

    def break_at(self, kind: str, where: str | int, condition: str | None = None, hits: int = 1) -> Breakpoint:
        """Set a breakpoint.

        Parameters
        ----------
        kind, where : ``"line"`` and a line of the PTX text, ``"source"`` and ``file:line``, ``"function"`` and its name,
            ``"instruction"`` and how an opcode begins, with constant operands if it is to have them, ``"finding"`` and how a code begins
        condition : an expression over registers and special registers, which must be true in an executing lane
        hits : stop when it is hit for this time since the start of the launch, and later
        """
        if kind not in KINDS or hits < 1:
            raise refuse(
                "G102", f"there is no breakpoint at {kind} with {hits} hits", fix=f"it is at one of {', '.join(KINDS)}; hits are from 1"
            )
        expression = None if condition is None else Expression(condition)
        made = Breakpoint(self.stops.number(), kind, str(where), expression, hits)
        if not self.stops.can_reach(made, self._stepper.program.ops):
            raise refuse("G103", f"no instruction belongs to {kind} {where}")
        for name in () if expression is None else expression.registers:
            self.register(name)
        self.stops.breakpoints[made.number] = made
        self.stops.place(self._stepper.program.ops)
        if hits > 1 and self.point.step:
            focus = self.focus
            self._execution.snapshots.forget_from(0)
            self._return_to(self.point.step, anew=True)
            self.focus = focus
        return made

    def watch_memory(self, space: str, address: int | str, size: int = 4) -> Watchpoint:
        """Stop behind what changes bytes of global memory, or of the shared memory of the chosen CTA."""
        if space not in ("global", "shared"):
            raise refuse("G102", f"memory {space} cannot be watched", fix="watch global, shared or tensor memory, or a register")
        start = self._address(space, address)
        memory_bytes(self.launch, space, start, size, self._cta() if space == "shared" else None, None, 0)
        return self._watch(space, (start, size))

    def watch_tensor(self, lane: int, column: int, lanes: int = 1, columns: int = 1) -> Watchpoint:
        """Stop behind what changes cells of the tensor memory of the chosen CTA."""
        tensor_words(self._cta(), lane, column, lanes, columns)
        return self._watch("tensor", (lane, column, lanes, columns))

    def watch_register(self, name: str) -> Watchpoint:
        """Stop behind what changes a register of the chosen thread."""
        self.register(name)
        return self._watch("register", (name, self.focus.lane))

    def _watch(self, memory: str, place: tuple[Any, ...]) -> Watchpoint:
        made = Watchpoint(self.stops.number(), memory, place, self.focus.cta, self.focus.warp)
        self.stops.watch(made, self._execution)
        return made

    def delete(self, number: int) -> None:
        """Remove a breakpoint or a watchpoint."""
        if self.stops.breakpoints.pop(number, None) is None and self.stops.watchpoints.pop(number, None) is None:
            raise refuse("G103", f"there is no breakpoint or watchpoint {number}")
        self.stops.place(self._stepper.program.ops)
