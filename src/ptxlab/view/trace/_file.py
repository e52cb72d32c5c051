"""The trace file: processes, their tracks and events, in the JSON form of the Chrome trace-event format.

All events are complete events (``X``) or instants (``i``), so no begin event needs an end event. Events that overlap are on different
tracks. The file is valid after every launch; the next launch appends to it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from ptxlab.diagnostics import Diagnostic, diagnose
from ptxlab.machine.launch.options import refuse, whole_number
from ptxlab.machine.observe.observer import Tracing

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.view.trace._recorder import Recorder

__all__ = ["Process", "Rows", "Trace", "Track"]

MOST_EVENTS = 200_000
"""Perfetto shows as many without trouble; some 60 MB."""
CLOCK = "1 us is 1 warp-instruction executed by ptxlab, one warp after the other; this is not time"
_HEAD = '{"displayTimeUnit": "ms", "traceEvents": [\n'
_GAP = 10
"""Between launches."""
_LAUNCHES = 1
"""The process that shows the launches."""


class Trace(Tracing):
    """A file for the timelines of launches, one after the other.

    Its clock is the number of warp-instructions that ptxlab has executed: it shows in which order things happened in this run, and who
    waited for what. It is not time: warps run one after the other, and no instruction takes longer than another.

    Parameters
    ----------
    path : the file, which is written anew
    most_events : how many events it takes; further ones are counted and left out, which a note (A319) and the file's end say

    Raises
    ------
    LaunchError
        A318 if the file cannot be written

    Examples
    --------
    >>> trace = ptxlab.Trace("launches.json")                                           # doctest: +SKIP
    >>> for kernel in module:                                                           # doctest: +SKIP
    ...     module[kernel].launch(grid=4, args=[a], trace=trace)
    """

    def __init__(self, path: str | os.PathLike[str], most_events: int = MOST_EVENTS) -> None:
        self.path = os.fspath(path)
        self._place = os.path.abspath(self.path)
        self.most_events = whole_number("most_events", most_events, 1, 1 << 40)
        self.events = 0
        self.left_out = 0
        self.launches = 0
        self.offset = 0
        """Where the clock of a launch stands when it begins."""
        self._processes = _LAUNCHES
        self._position = 0
        self._file: IO[bytes] | None = None
        self._failure: str | None = None
        titles = (_name(_LAUNCHES, 1, "process_name", name="launches"), _name(_LAUNCHES, 1, "thread_name", name=CLOCK))
        self._open("wb", _HEAD + ",\n".join(map(json.dumps, titles)))
        self._close()
        if self._failure is not None:
            raise refuse("A318", self._failure, fix="give the path of a file in a folder that exists and can be written to")

    def observe(self, launch: Launch) -> Recorder:
        """Begin with a launch: the observer that writes it down."""
        from ptxlab.view.trace._recorder import Recorder

        self.launches += 1
        self._failure = None
        self._open("r+b", "")
        return Recorder(self, launch)

    def process(self, name: str) -> Process:
        """A group of tracks."""
        self._processes += 1
        self.emit(_name(self._processes, 1, "process_name", name=name))
        self.emit(_name(self._processes, 1, "process_sort_index", sort_index=self._processes))
        return Process(self, self._processes)

    def finish(self, name: str, until: int, args: dict[str, Any], left_out: int) -> tuple[Diagnostic, ...]:
        """The launch has ended at a time of its clock: what is to be said about the file."""
        self._write({"ph": "X", "pid": _LAUNCHES, "tid": 1, "ts": self.offset, "dur": until, "cat": "launch", "name": name, "args": args})
        self.offset += until + _GAP
        self._close()
        if self._failure is not None:
            return (diagnose("A318", self._failure, fix="the launch itself was not disturbed; trace it again to another file"),)
        if left_out == self.left_out:
            return ()
        message = f"{self.path} holds {self.events} events; {self.left_out - left_out} more of kernel {name} were left out"
        return (diagnose("A319", message, fix="trace fewer CTAs (only=), or give ptxlab.Trace a larger most_events"),)

    def emit(self, event: dict[str, Any]) -> None:
        """Write an event, unless there are too many."""
        if self.events >= self.most_events:
            self.left_out += 1
        else:
            self.events += 1
            self._write(event)

    # ---------------------------------------------------------------------------------------------------------- the file

    def _write(self, event: dict[str, Any]) -> None:
        self._put(",\n" + json.dumps(event))

    def _put(self, text: str) -> None:
        if self._file is not None:
            try:
                self._file.write(text.encode())
            except OSError as error:
                self._fail(error)

    def _open(self, mode: str, text: str) -> None:
        try:
            if os.path.exists(self._place) and not os.path.isfile(self._place):
                raise OSError(0, "it is no file")
            self._file = open(self._place, mode)  # noqa: SIM115  (closed when the launch has ended)
            self._file.seek(self._position)
        except (OSError, ValueError) as error:
            self._fail(error)
        self._put(text)

    def _close(self) -> None:
        """Write the end of the file; the next launch will overwrite it."""
        if self._file is None:
            return
        about = {"clock": CLOCK, "launches": self.launches, "events": self.events, "most events": self.most_events}
        try:
            self._position = self._file.tell()
            self._put("\n], " + json.dumps({"otherData": about | {"events left out": self.left_out}})[1:] + "\n")
            if self._file is not None:
                self._file.truncate()
                self._file.close()
        except OSError as error:
            self._fail(error)
        self._file = None

    def _fail(self, error: OSError | ValueError) -> None:
        self._failure = f"the trace {self.path!r} cannot be written: {getattr(error, 'strerror', None) or error}"
        self._file = None


def _name(process: int, track: int, what: str, **args: Any) -> dict[str, Any]:
    """The name of a process or track, or its place in the order."""
    return {"ph": "M", "pid": process, "tid": track, "name": what, "args": args}


@dataclass(slots=True)
class Process:
    """A group of tracks under a name."""

    trace: Trace
    number: int
    tracks: int = 0

    def track(self, name: str, order: int) -> Track:
        """A new track."""
        self.tracks += 1
        self.trace.emit(_name(self.number, self.tracks, "thread_name", name=name))
        self.trace.emit(_name(self.number, self.tracks, "thread_sort_index", sort_index=order))
        return Track(self.trace, self.number, self.tracks)


@dataclass(slots=True, eq=False)
class Track:
    """A line of the picture. What is shown on it must not overlap."""

    trace: Trace
    process: int
    number: int

    def slice(self, kind: str, name: str, since: int, until: int, args: dict[str, Any]) -> None:
        """Something that lasts."""
        self.trace.emit(self._event("X", kind, name, since, args) | {"dur": until - since})

    def instant(self, kind: str, name: str, at: int, args: dict[str, Any]) -> None:
        """Something that happens."""
        self.trace.emit(self._event("i", kind, name, at, args) | {"s": "t"})

    def _event(self, phase: str, kind: str, name: str, at: int, args: dict[str, Any]) -> dict[str, Any]:
        at += self.trace.offset
        return {"ph": phase, "pid": self.process, "tid": self.number, "ts": at, "cat": kind, "name": name, "args": args}


@dataclass(slots=True)
class Rows:
    """Tracks of one title: what overlaps takes different ones, the first that is free."""

    process: Process
    title: str
    order: int
    tracks: list[Track] = field(default_factory=list)
    busy: list[bool] = field(default_factory=list)

    def take(self) -> Track:
        """A free track."""
        if all(self.busy):
            count = len(self.tracks)
            name = f"{self.title} ({count + 1})" if count else self.title
            self.tracks.append(self.process.track(name, self.order + count))
            self.busy.append(False)
        row = self.busy.index(False)
        self.busy[row] = True
        return self.tracks[row]

    def free(self, track: Track) -> None:
        """Give a track back."""
        self.busy[self.tracks.index(track)] = False
