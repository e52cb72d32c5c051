"""What stands still: threads, their stacks and scopes, and values of expressions."""

from __future__ import annotations

from typing import Any

from ptxlab.debug._session import Session
from ptxlab.debug.dap.places import Arguments, Places
from ptxlab.debug.dap.variables import Variables

__all__ = ["REQUESTS", "Frames"]


class Frames:
    """Answers requests about threads and their frames, and looks at those that a request names.

    Parameters
    ----------
    session : the launch
    places : its names in the protocol
    """

    def __init__(self, session: Session, places: Places) -> None:
        self._session, self._places = session, places
        self._variables = Variables(session)
        self._threads: list[int] = []
        """By the number of a frame, from 1: its thread."""

    def forget(self) -> None:
        """The launch moves: numbers of frames and variables begin anew."""
        self._threads.clear()
        self._variables.forget()

    def focus(self, arguments: Arguments) -> None:
        """Look at the thread, or at that of the frame, that a request names, if it names one."""
        if "threadId" in arguments:
            self._focus(int(arguments["threadId"]))
        elif arguments.get("frameId") is not None:
            self._focus(self._thread(int(arguments["frameId"])))

    def _focus(self, thread: int) -> None:
        """Look at a warp: at the lane that is chosen, if it is the chosen warp, else at one that has not exited."""
        session = self._session
        name = self._places.warp(thread)
        if name != (session.focus.cta, session.focus.warp):
            warp = session.warp_named(name)
            live = warp.live or warp.threads
            session.choose_thread(name[0], name[1], (live & -live).bit_length() - 1)

    def _thread(self, frame: int) -> int:
        if not 1 <= frame <= len(self._threads):
            raise KeyError(f"frameId {frame}")
        return self._threads[frame - 1]

    @property
    def chosen(self) -> int:
        """The chosen thread."""
        return self._places.thread((self._session.focus.cta, self._session.focus.warp))

    def threads(self, arguments: Arguments) -> dict[str, Any]:
        """The resident warps; at the end, where there are none, the chosen one: without a thread an editor lets nobody go back."""
        names = [(tuple(each["cta"]), int(each["warp"])) for each in self._session.warps()]
        found = [{"id": self._places.thread(name), "name": f"CTA {name[0]} warp {name[1]}"} for name in names]
        return {"threads": found or [{"id": self.chosen, "name": "the launch has ended"}]}

    def stack_trace(self, arguments: Arguments) -> dict[str, Any]:
        """The frames of a warp, the innermost first; of one that has ended there are none."""
        thread = int(arguments["threadId"])
        session, places = self._session, self._places
        op = session.op()
        found = []
        for level, frame in enumerate(session.stack()):
            self._threads.append(thread)
            row: dict[str, Any] = {"id": len(self._threads), "name": frame.function, **places.of(frame.line, frame.source)}
            if level == 0 and op is not None:
                row["instructionPointerReference"] = places.address(op.index)
            found.append(row)
        start, most = int(arguments.get("startFrame", 0)), int(arguments.get("levels", 0))
        return {"stackFrames": found[start : start + most] if most else found[start:], "totalFrames": len(found)}

    def scopes(self, arguments: Arguments) -> dict[str, Any]:
        """What a frame shows."""
        thread = self._thread(int(arguments["frameId"]))
        return {"scopes": self._variables.scopes(lambda: self._focus(thread))}

    def variables(self, arguments: Arguments) -> dict[str, Any]:
        """The rows of a scope or of a variable."""
        start, count = int(arguments.get("start", 0)), int(arguments.get("count", 0))
        return {"variables": self._variables.rows(int(arguments["variablesReference"]), start, count)}

    def evaluated(self, text: str) -> dict[str, Any]:
        """The value of an expression over registers in the chosen thread."""
        return self._variables.evaluated(self._session.evaluate(text))


REQUESTS = {"threads": Frames.threads, "stackTrace": Frames.stack_trace, "scopes": Frames.scopes, "variables": Frames.variables}
