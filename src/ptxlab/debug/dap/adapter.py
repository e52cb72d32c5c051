"""The adapter: answers the requests of an editor with a session."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ptxlab.debug._commands import Console
from ptxlab.debug._points import DebugError, refuse
from ptxlab.debug._report import Stop
from ptxlab.debug._session import Session
from ptxlab.debug.dap import breakpoints, frames, texts
from ptxlab.debug.dap.breakpoints import Breakpoints
from ptxlab.debug.dap.frames import Frames
from ptxlab.debug.dap.places import Arguments, Places
from ptxlab.debug.dap.protocol import Connection, Malformed
from ptxlab.debug.dap.texts import Texts
from ptxlab.diagnostics import PtxlabError
from ptxlab.machine.replay.replay import Replay

__all__ = ["Adapter"]

Handler = Callable[["Adapter", Arguments], dict[str, Any] | None]
_CAPABILITIES = (
    "supportsConfigurationDoneRequest",
    "supportsFunctionBreakpoints",
    "supportsConditionalBreakpoints",
    "supportsHitConditionalBreakpoints",
    "supportsEvaluateForHovers",
    "supportsStepBack",
    "supportsSteppingGranularity",
    "supportsInstructionBreakpoints",
    "supportsDataBreakpoints",
    "supportsDataBreakpointBytes",
    "supportsReadMemoryRequest",
    "supportsDisassembleRequest",
    "supportsExceptionInfoRequest",
    "supportsTerminateRequest",
    "supportsLoadedSourcesRequest",
)
_FILTERS = [
    {"filter": "checks", "label": "Findings of all checks", "description": "Run the checks first, and stop where they find something"},
    {"filter": "notes", "label": "Notes", "description": "Stop at notes, too"},
]
_REASONS = {"step": "step", "watchpoint": "data breakpoint", "finding": "exception", "interrupted": "pause", "start": "entry"}


class Adapter:
    """Serves one editor.

    Parameters
    ----------
    connection : to the editor
    load : makes the launch that the arguments of ``launch`` describe
    """

    def __init__(self, connection: Connection, load: Callable[[Arguments], Replay]) -> None:
        self._connection, self._load = connection, load
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._session: Session | None = None
        self._options: Arguments = {}
        self._first_line = self._first_column = 1
        self._after: list[Callable[[], None]] = []
        """What happens behind the answer to a request."""
        self._stopped: Stop | None = None
        self._checks = False
        self._moves_on = False
        """Whether the launch moves, or will when the answer is sent."""
        self._interrupting = threading.Lock()

    def serve(self) -> None:
        """Answer requests until the editor disconnects."""
        reader = threading.Thread(target=self._read, name="ptxlab.debug.dap", daemon=True)
        reader.start()
        try:
            while (message := self._requests.get()) is not None:
                self._answer(message)
        except OSError:
            pass  # the editor has gone
        finally:
            if self._session is not None:
                self._session.close()

    def _read(self) -> None:
        """Read requests up to ``disconnect``; one that wants the launch to stop interrupts it at once."""
        message: dict[str, Any] | None = {}
        while message is not None:
            try:
                message = self._connection.receive()
            except Malformed as malformed:
                self._requests.put({"malformed": str(malformed)})
                continue
            except (OSError, ValueError):
                message = None
            with self._interrupting:
                if (message is None or message.get("command") in ("pause", "disconnect", "terminate")) and self._moves_on:
                    self.session.interrupt()
            self._requests.put(message)
            if message is not None and message.get("command") == "disconnect":
                message = None
                self._requests.put(message)

    # ------------------------------------------------------------------------------------------------------------- answers

    def _answer(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"type": "response", "request_seq": message.get("seq", 0), "command": str(message.get("command", ""))}
        self._after.clear()
        try:
            answer |= {"success": True, "body": self._do(message)}
        except PtxlabError as error:
            fix = error.diagnostics[0].fix
            text = "\n".join(d.message for d in error.diagnostics) + (f" ({fix})" if fix else "")
            answer |= {"success": False, "message": text, "body": {"error": {"id": 1, "format": text.replace("{", "(").replace("}", ")")}}}
        except Exception as error:
            text = f"the request has wrong arguments: {type(error).__name__}: {error}"
            answer |= {"success": False, "message": text, "body": {"error": {"id": 2, "format": text.replace("{", "(").replace("}", ")")}}}
        self._connection.send(answer)
        for each in list(self._after) if answer["success"] else ():
            each()

    def _do(self, message: dict[str, Any]) -> dict[str, Any]:
        if "malformed" in message:
            raise ValueError(message["malformed"])
        command = message.get("command")
        handle = _REQUESTS.get(command) if isinstance(command, str) and message.get("type") == "request" else None
        if handle is None:
            raise ValueError(f"there is no request {command!r}")
        arguments = message.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise TypeError("arguments is no object")
        return handle(self, arguments) or {}

    def _event(self, name: str, **body: Any) -> None:
        self._connection.send({"type": "event", "event": name, "body": body})

    @property
    def session(self) -> Session:
        """The session; refused before a launch."""
        if self._session is None:
            raise refuse("G104", "nothing is debugged yet", fix="send launch first")
        return self._session

    @property
    def breakpoints(self) -> Breakpoints:
        """The breakpoints of the session."""
        _ = self.session
        return self._parts[0]

    @property
    def frames(self) -> Frames:
        """The threads of the session, and their frames."""
        _ = self.session
        return self._parts[1]

    @property
    def texts(self) -> Texts:
        """The texts and the memory of the session."""
        _ = self.session
        return self._parts[2]

    # --------------------------------------------------------------------------------------------------- begin and end

    def initialize(self, arguments: Arguments) -> dict[str, Any]:
        """Say what the adapter can do."""
        self._first_line = 1 if arguments.get("linesStartAt1", True) else 0
        self._first_column = 1 if arguments.get("columnsStartAt1", True) else 0
        return dict.fromkeys(_CAPABILITIES, True) | {"exceptionBreakpointFilters": _FILTERS}

    def launch(self, arguments: Arguments) -> None:
        """Begin: ``program`` is a launch file or a bundle, if the command line has not named one; other arguments are options of a launch.

        ``stopOnEntry`` stands at the first point; ``stopAtEnd`` lets the launch stand at its end, from where one may go back.
        """
        if self._session is not None:
            raise refuse("G104", "something is debugged already", fix="disconnect first")
        self._options = arguments
        self._session = Session(self._load(arguments))
        self._console = Console(self._session)
        places = Places(self._session, self._first_line, self._first_column)
        self._parts = Breakpoints(self._session, places), Frames(self._session, places), Texts(self._session, places)
        self._after.append(lambda: self._event("initialized"))

    def configuration_done(self, arguments: Arguments) -> None:
        """All breakpoints are set."""
        if self._checks:
            self.session.check()
        if self._options.get("stopOnEntry"):
            self._after.append(lambda: self._tell(self.session.where(), "entry"))
        else:
            self._move(self.session.run)

    def disconnect(self, arguments: Arguments) -> None:
        """Nothing more to do: no request is read after this one."""

    def terminate(self, arguments: Arguments) -> None:
        """End the launch; the editor disconnects then."""
        self._after.append(lambda: self._event("terminated"))

    # -------------------------------------------------------------------------------------------------------------- motion

    def _move(self, move: Callable[[], Stop]) -> None:
        """Move behind the answer, and tell where the launch has stopped; ``pause`` ends the motion."""
        session = self.session
        if session.result is not None and move == session.run:
            self._after.append(self._tell_end)
            return

        def moved() -> None:
            try:
                stop = move()
            except PtxlabError as error:
                self._event("output", category="stderr", output=f"{error.diagnostics[0].message}\n")
                stop = session.where()
            with self._interrupting:
                self._moves_on = False
                session.interrupt(False)
            self._tell(stop)

        self._moves_on = True
        self._after.append(moved)

    def _tell(self, stop: Stop, reason: str | None = None) -> None:
        self.frames.forget()
        self._stopped = stop
        session = self.session
        if stop.reason == "ended" and session.result is not None:
            text = session.result.stdout + "".join(f"{finding}\n" for finding in session.result.diagnostics)
            if text:
                self._event("output", category="stdout", output=text)
            if not self._options.get("stopAtEnd"):
                self._tell_end()
                return
        body: dict[str, Any] = {
            "reason": reason or _REASONS.get(stop.reason, "pause"),
            "description": stop.reason,
            "allThreadsStopped": True,
            "threadId": self.frames.chosen,
        }
        if stop.breakpoints:
            body |= {"reason": self.breakpoints.kind_of(stop.breakpoints[0]), "hitBreakpointIds": list(stop.breakpoints)}
        if stop.changes:
            body["hitBreakpointIds"] = [change.watchpoint for change in stop.changes]
        body["text"] = stop.finding.message if stop.finding is not None else stop.as_text().split("\n")[0]
        self._event("stopped", **body)

    def _tell_end(self) -> None:
        result = self.session.result
        self._event("exited", exitCode=0 if result is None or result.ok else 1)
        self._event("terminated")

    def _steps(self, arguments: Arguments, line: Callable[[], Stop], instruction: Callable[[], Stop]) -> None:
        self.frames.focus(arguments)
        self._move(instruction if arguments.get("granularity") == "instruction" else line)

    def continue_(self, arguments: Arguments) -> dict[str, Any]:
        """Go on."""
        self._move(self.session.run)
        return {"allThreadsContinued": True}

    def reverse_continue(self, arguments: Arguments) -> None:
        """Go back to the last stop."""
        self._move(self.session.run_back)

    def next(self, arguments: Arguments) -> None:
        """The next line, or instruction, over calls."""
        self._steps(arguments, self.session.next_line, self.session.next)

    def step_in(self, arguments: Arguments) -> None:
        """The next line, or instruction."""
        self._steps(arguments, self.session.step_line, self.session.step)

    def step_out(self, arguments: Arguments) -> None:
        """Out of a function."""
        self._steps(arguments, self.session.out, self.session.out)

    def step_back(self, arguments: Arguments) -> None:
        """The line, or the instruction, before."""
        self._steps(arguments, self.session.step_line_back, self.session.step_back)

    def pause(self, arguments: Arguments) -> None:
        """Nothing more to do: the launch has been interrupted, if it was moving."""

    # ------------------------------------------------------------------------------------------------ findings and commands

    def set_exception_breakpoints(self, arguments: Arguments) -> dict[str, Any]:
        """At findings: errors and warnings always stop; of checks only if they run, and notes only if that is asked for."""
        filters = [str(each) for each in arguments.get("filters", [])]
        if "checks" in filters and not self._checks and self._stopped is not None:
            self.session.check()
        self._checks = "checks" in filters
        return self.breakpoints.at_findings([""] if "notes" in filters else [])

    def exception_info(self, arguments: Arguments) -> dict[str, Any]:
        """The finding at which the launch has stopped."""
        finding = None if self._stopped is None else self._stopped.finding
        if finding is None:
            raise refuse("G104", "no finding has been made here")
        return {"exceptionId": finding.code, "description": finding.message, "breakMode": "always", "details": {"stackTrace": str(finding)}}

    def evaluate(self, arguments: Arguments) -> dict[str, Any]:
        """An expression over registers; in the console a command of ``ptxlab debug``, or an expression."""
        text = str(arguments["expression"])
        self.frames.focus(arguments)
        if arguments.get("context") != "repl":
            return self.frames.evaluated(text)
        try:
            answer = self._console.execute(text)
        except DebugError as error:
            if error.diagnostic.code != "G101" or not text.startswith(("%", "(", "-", "~")):
                raise
            return self.frames.evaluated(text)
        if answer is not None and answer.stop is not None:
            stop = answer.stop
            self._after.append(lambda: self._tell(stop))
        return {"result": "" if answer is None else answer.text, "variablesReference": 0}


P = TypeVar("P", Frames, Texts, Breakpoints)


def _asks(part: Callable[[Adapter], P], requests: Mapping[str, Callable[[P, Arguments], dict[str, Any]]]) -> dict[str, Handler]:
    """Requests that a part of the adapter answers, once something is debugged; it looks at the thread or the frame that they name."""

    def handler(ask: Callable[[P, Arguments], dict[str, Any]]) -> Handler:
        def answer(adapter: Adapter, arguments: Arguments) -> dict[str, Any]:
            adapter.frames.focus(arguments)
            return ask(part(adapter), arguments)

        return answer

    return {name: handler(ask) for name, ask in requests.items()}


_REQUESTS: dict[str, Handler] = {
    "initialize": Adapter.initialize,
    "launch": Adapter.launch,
    "attach": Adapter.launch,
    "configurationDone": Adapter.configuration_done,
    "disconnect": Adapter.disconnect,
    "terminate": Adapter.terminate,
    "continue": Adapter.continue_,
    "reverseContinue": Adapter.reverse_continue,
    "next": Adapter.next,
    "stepIn": Adapter.step_in,
    "stepOut": Adapter.step_out,
    "stepBack": Adapter.step_back,
    "pause": Adapter.pause,
    "setExceptionBreakpoints": Adapter.set_exception_breakpoints,
    "exceptionInfo": Adapter.exception_info,
    "evaluate": Adapter.evaluate,
    **_asks(lambda adapter: adapter.breakpoints, breakpoints.REQUESTS),
    **_asks(lambda adapter: adapter.frames, frames.REQUESTS),
    **_asks(lambda adapter: adapter.texts, texts.REQUESTS),
}
