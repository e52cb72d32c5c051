"""The debugger: a launch that stands still, moves by instructions, lines and events, and goes back.

`Session` is the whole interface: motion, inspection, breakpoints, choices. `Console` executes commands of text with it.
"""

from ptxlab.debug._answers import Answer
from ptxlab.debug._commands import COMMANDS, Command, Console
from ptxlab.debug._conditions import Expression
from ptxlab.debug._findings import CheckFinding
from ptxlab.debug._inspection import Focus, Frame
from ptxlab.debug._points import Choice, DebugError, Event, Position
from ptxlab.debug._registers import RegisterValues
from ptxlab.debug._report import Stop, WatchHit
from ptxlab.debug._session import Session
from ptxlab.debug._stops import BREAKPOINT, Breakpoint, Watchpoint, calls_breakpoint

__all__ = [
    "BREAKPOINT",
    "COMMANDS",
    "Answer",
    "Breakpoint",
    "CheckFinding",
    "Choice",
    "Command",
    "Console",
    "DebugError",
    "Event",
    "Expression",
    "Focus",
    "Frame",
    "Position",
    "RegisterValues",
    "Session",
    "Stop",
    "WatchHit",
    "Watchpoint",
    "calls_breakpoint",
]
