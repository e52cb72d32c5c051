"""Points at which a launch can stand still, what is chosen there, and how a request is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ptxlab.diagnostics import PtxlabError, diagnose

if TYPE_CHECKING:
    from ptxlab.diagnostics import Diagnostic
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Author", "Change", "Choice", "DebugError", "Event", "Interrupted", "Point", "Position", "WarpName", "refuse", "warp_name"]

WarpName = tuple[tuple[int, int, int], int]
"""The coordinates of a CTA, and the number of a warp in it."""


def warp_name(warp: Warp) -> WarpName:
    """The name of a warp."""
    return warp.cta.ctaid, warp.warp_id


class Event(Enum):
    """What happens next at a point."""

    INSTRUCTION = "instruction"
    """converged lanes of a warp execute an instruction"""
    PERFORMING = "performing"
    """an asynchronous operation performs"""
    FINDING = "finding"
    """the launch goes on after a finding, or ends because of it"""
    BLOCKED = "blocked"
    """nothing: only frozen warps could go on"""
    ENDED = "ended"
    """nothing: the launch has ended"""


class Author(NamedTuple):
    """What has executed: an instruction of a warp, or an asynchronous operation; neither for the machine itself (a CTA that starts)."""

    warp: Warp | None = None
    op: Op | None = None
    mask: int = 0
    operation: AsyncOperation | None = None
    number: int = -1


class Change(NamedTuple):
    """A watched value has changed: the number of the watchpoint, the values before and after, and what has executed in between."""

    watchpoint: int
    before: Any
    after: Any
    author: Author


class Point(NamedTuple):
    """A moment at which a launch can stand still.

    ``mask`` are the lanes that execute the instruction, ``converged`` those that stand at it. ``again``: the same moment as the point
    before, after a choice.
    """

    step: int
    event: Event
    warp: Warp | None = None
    op: Op | None = None
    mask: int = 0
    converged: int = 0
    operation: AsyncOperation | None = None
    finding: Diagnostic | None = None
    changes: tuple[Change, ...] = ()
    again: bool = False
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chooses at a point: freeze or thaw a warp, run it alone, thaw all, perform an operation.

    Attributes
    ----------
    step : the number of the point
    action : ``"freeze"``, ``"thaw"``, ``"alone"``, ``"thaw all"`` or ``"perform"``
    warp : of the first three
    operation : number of issue, of ``"perform"``
    """

    step: int
    action: str
    warp: WarpName | None = None
    operation: int = -1

    def as_list(self) -> list[Any]:
        """Plain values for JSON."""
        subject: Any = self.operation if self.warp is None else [list(self.warp[0]), self.warp[1]]
        return [self.step, self.action, subject]

    @classmethod
    def of(cls, values: Any) -> Choice:
        """The reverse of `as_list`."""
        step, action, subject = values
        if isinstance(subject, int):
            return cls(int(step), str(action), None, subject)
        (x, y, z), warp = subject
        return cls(int(step), str(action), ((int(x), int(y), int(z)), int(warp)))


@dataclass(frozen=True, slots=True)
class Position:
    """A point of a launch, by its schedule and its number: the same position is the same state of the machine.

    Attributes
    ----------
    step : the number of the point
    policy, seed : of the launch
    choices : those made at earlier points

    Examples
    --------
    >>> Position.of(Position(12, "lazy", 0, (Choice(3, "perform", operation=1),)).as_dict()).choices
    (Choice(step=3, action='perform', warp=None, operation=1),)
    """

    step: int
    policy: str = "eager"
    seed: int = 0
    choices: tuple[Choice, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"step": self.step, "policy": self.policy, "seed": self.seed, "choices": [c.as_list() for c in self.choices]}

    @classmethod
    def of(cls, values: Any) -> Position:
        """The reverse of `as_dict`; a ValueError, TypeError or KeyError if the values are none."""
        choices = tuple(map(Choice.of, values["choices"]))
        return cls(int(values["step"]), str(values["policy"]), int(values["seed"]), choices)


class DebugError(PtxlabError):
    """A request that the debugger refuses; the session stays as it is."""


class Interrupted(DebugError):
    """A motion to an earlier point was interrupted on its way."""

    def __init__(self) -> None:
        super().__init__(diagnose("G104", "the motion was interrupted; the launch stands where it stood"))


def refuse(code: str, message: str, fix: str = "") -> DebugError:
    """Make the error of a refused request."""
    return DebugError(diagnose(code, message, fix=fix))
