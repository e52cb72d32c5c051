"""The adapter: answers the requests of an editor with a session."""

from __future__ import annotations

import base64
import queue
import threading
from collections.abc import Callable
from typing import Any

from ptxlab import ptx
from ptxlab.debug._commands import Console
from ptxlab.debug._points import DebugError, refuse
from ptxlab.debug._report import Stop
from ptxlab.debug._session import Session
from ptxlab.debug.dap.breakpoints import Breakpoints
from ptxlab.debug.dap.places import PTX_SOURCE, Places
from ptxlab.debug.dap.protocol import Connection, Malformed
from ptxlab.debug.dap.variables import Variables
from ptxlab.diagnostics import PtxlabError
from ptxlab.machine.replay.replay import Replay

__all__ = ["Adapter"]

Arguments = dict[str, Any]
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
_MOST_BYTES = 1 << 20


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
        self._ended = False
        self._options: Arguments = {}
        self._first_line = self._first_column = 1
        self._after: list[Callable[[], None]] = []
        """What happens behind the answer to a request."""
        self._frames: list[tuple[int, int]] = []
        """By the number of a frame: its thread, and its level."""
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
            while not self._ended:
                message = self._requests.get()
                if message is None:
                    break
                self._answer(message)
        except OSError:
            pass  # the editor has gone
        finally:
            if self._session is not None:
                self._session.close()

    def _read(self) -> None:
        """Read requests; one that wants the launch to stop interrupts it at once."""
        while True:
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
            if message is None:
                return

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
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
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
        self._places = Places(self._session)
        self._breakpoints = Breakpoints(self._session, self._places)
        self._variables = Variables(self._session)
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
        """End."""
        self._ended = True

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
        self._variables.forget()
        self._frames.clear()
        self._stopped = stop
        session = self.session
        if stop.reason == "ended" and session.result is not None:
            text = session.result.stdout + "".join(f"{finding}\n" for finding in session.result.diagnostics)
            if text:
                self._event("output", category="stdout", output=text)
            if not self._options.get("stopAtEnd"):
                self._tell_end()
                return
        focus = session.focus
        body: dict[str, Any] = {
            "reason": reason or _REASONS.get(stop.reason, "pause"),
            "description": stop.reason,
            "allThreadsStopped": True,
        }
        body["threadId"] = self._places.thread((focus.cta, focus.warp))
        if stop.breakpoints:
            body |= {"reason": self._breakpoints.kind_of(stop.breakpoints[0]), "hitBreakpointIds": list(stop.breakpoints)}
        if stop.changes:
            body["hitBreakpointIds"] = [change.watchpoint for change in stop.changes]
        body["text"] = stop.finding.message if stop.finding is not None else stop.as_text().split("\n")[0]
        self._event("stopped", **body)

    def _tell_end(self) -> None:
        result = self.session.result
        self._event("exited", exitCode=0 if result is None or result.ok else 1)
        self._event("terminated")

    def _look_at_thread(self, arguments: Arguments) -> None:
        if "threadId" in arguments:
            self._focus(int(arguments["threadId"]))

    def _focus(self, thread: int) -> None:
        """Look at a warp: at the lane that is chosen, if it is the chosen warp, else at one that has not exited."""
        session = self.session
        name = self._places.warp(thread)
        if name != (session.focus.cta, session.focus.warp):
            warp = session.warp_named(name)
            live = warp.live or warp.threads
            session.choose_thread(name[0], name[1], (live & -live).bit_length() - 1)

    def _steps(self, arguments: Arguments, line: Callable[[], Stop], instruction: Callable[[], Stop]) -> None:
        self._look_at_thread(arguments)
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

    # --------------------------------------------------------------------------------------------------------- breakpoints

    def set_breakpoints(self, arguments: Arguments) -> dict[str, Any]:
        """At lines."""
        asked = arguments.get("breakpoints", [])
        return {"breakpoints": self._breakpoints_of().at_lines(arguments["source"], asked, 1 - self._first_line)}

    def set_function_breakpoints(self, arguments: Arguments) -> dict[str, Any]:
        """At functions and opcodes."""
        return {"breakpoints": self._breakpoints_of().at_functions(arguments["breakpoints"])}

    def set_instruction_breakpoints(self, arguments: Arguments) -> dict[str, Any]:
        """At instructions of the disassembly."""
        return {"breakpoints": self._breakpoints_of().at_instructions(arguments["breakpoints"])}

    def set_data_breakpoints(self, arguments: Arguments) -> dict[str, Any]:
        """At changes of values."""
        return {"breakpoints": self._breakpoints_of().at_data(arguments["breakpoints"])}

    def set_exception_breakpoints(self, arguments: Arguments) -> dict[str, Any]:
        """At findings: errors and warnings always stop; of checks only if they run, and notes only if that is asked for."""
        filters = [str(each) for each in arguments.get("filters", [])]
        if "checks" in filters and not self._checks and self._stopped is not None:
            self.session.check()
        self._checks = "checks" in filters
        return {"breakpoints": self._breakpoints_of().at_findings([""] if "notes" in filters else [])}

    def data_breakpoint_info(self, arguments: Arguments) -> dict[str, Any]:
        """What a register or an address is called as a place of data."""
        self._frame(arguments)
        try:
            return self._breakpoints_of().data(str(arguments["name"]), bool(arguments.get("asAddress")), int(arguments.get("bytes", 4)))
        except DebugError as error:
            return {"dataId": None, "description": error.diagnostic.message}

    def exception_info(self, arguments: Arguments) -> dict[str, Any]:
        """The finding at which the launch has stopped."""
        finding = None if self._stopped is None else self._stopped.finding
        if finding is None:
            raise refuse("G104", "no finding has been made here")
        return {"exceptionId": finding.code, "description": finding.message, "breakMode": "always", "details": {"stackTrace": str(finding)}}

    def _breakpoints_of(self) -> Breakpoints:
        _ = self.session
        return self._breakpoints

    # -------------------------------------------------------------------------------------------------------------- places

    def threads(self, arguments: Arguments) -> dict[str, Any]:
        """The resident warps."""
        names = [(tuple(each["cta"]), int(each["warp"])) for each in self.session.warps()]
        return {"threads": [{"id": self._places.thread(name), "name": f"CTA {name[0]} warp {name[1]}"} for name in names]}

    def stack_trace(self, arguments: Arguments) -> dict[str, Any]:
        """The frames of a warp, the innermost first."""
        thread = int(arguments["threadId"])
        self._focus(thread)
        session = self.session
        op = session.op()
        found = []
        for level, frame in enumerate(session.stack()):
            self._frames.append((thread, level))
            row: dict[str, Any] = {
                "id": len(self._frames),
                "name": frame.function,
                "line": frame.line,
                "column": 1,
                "source": self._places.ptx(),
            }
            if frame.source is not None:
                row |= {"line": frame.source.line, "column": max(frame.source.column, 1)}
                row["source"] = {"name": frame.source.file.rpartition("/")[2], "path": frame.source.file}
            row["line"] += self._first_line - 1
            row["column"] += self._first_column - 1
            if level == 0 and op is not None:
                row["instructionPointerReference"] = self._places.address(op.index)
            found.append(row)
        start, most = int(arguments.get("startFrame", 0)), int(arguments.get("levels", 0))
        return {"stackFrames": found[start : start + most] if most else found[start:], "totalFrames": len(found)}

    def _frame(self, arguments: Arguments) -> None:
        """Look at the thread of a frame, if one is named."""
        number = arguments.get("frameId")
        if number is not None:
            self._focus(self._frames[self._number_of_frame(int(number))][0])

    def _number_of_frame(self, number: int) -> int:
        if not 1 <= number <= len(self._frames):
            raise KeyError(f"frameId {number}")
        return number - 1

    def scopes(self, arguments: Arguments) -> dict[str, Any]:
        """What a frame shows."""
        thread, _ = self._frames[self._number_of_frame(int(arguments["frameId"]))]
        return {"scopes": self._variables.scopes(lambda: self._focus(thread))}

    def variables(self, arguments: Arguments) -> dict[str, Any]:
        """The rows of a scope or of a variable."""
        _ = self.session
        start, count = int(arguments.get("start", 0)), int(arguments.get("count", 0))
        return {"variables": self._variables.rows(int(arguments["variablesReference"]), start, count)}

    def evaluate(self, arguments: Arguments) -> dict[str, Any]:
        """An expression over registers; in the console a command of ``ptxlab debug``, or an expression."""
        session, text = self.session, str(arguments["expression"])
        self._frame(arguments)
        if arguments.get("context") != "repl":
            return self._variables.evaluated(session.evaluate(text))
        try:
            answer = self._console.execute(text)
        except DebugError as error:
            if error.diagnostic.code != "G101" or not text.startswith(("%", "(", "-", "~")):
                raise
            return self._variables.evaluated(session.evaluate(text))
        if answer is not None and answer.stop is not None:
            stop = answer.stop
            self._after.append(lambda: self._tell(stop))
        return {"result": "" if answer is None else answer.text, "variablesReference": 0}

    # -------------------------------------------------------------------------------------------------- texts and memory

    def source(self, arguments: Arguments) -> dict[str, Any]:
        """The PTX text."""
        reference = (arguments.get("source") or {}).get("sourceReference", arguments.get("sourceReference"))
        if reference != PTX_SOURCE:
            raise refuse("G103", f"there is no source {reference}")
        return {"content": self.session.launch.module.text, "mimeType": "text/x-ptx"}

    def loaded_sources(self, arguments: Arguments) -> dict[str, Any]:
        """The PTX text, and the sources that it names."""
        names = sorted({place.file for op in self.session.launch.program.ops if (place := self.session.sources.at(op.line)) is not None})
        return {"sources": [self._places.ptx(), *({"name": name.rpartition("/")[2], "path": name} for name in names)]}

    def disassemble(self, arguments: Arguments) -> dict[str, Any]:
        """PTX instructions around one, with the lines of their source."""
        session = self.session
        ops, module = session.launch.program.ops, session.launch.module
        first = self._places.index(str(arguments["memoryReference"]), int(arguments.get("offset", 0))) + int(
            arguments.get("instructionOffset", 0)
        )
        found: list[dict[str, Any]] = []
        for index in range(first, first + min(int(arguments["instructionCount"]), 1 << 14)):
            if not 0 <= index < len(ops):
                found.append({"address": self._places.address(index), "instruction": "??", "presentationHint": "invalid"})
                continue
            op = ops[index]
            row: dict[str, Any] = {"address": self._places.address(op.index), "instruction": ptx.line_text(module, op.line).strip()}
            place = session.sources.at(op.line)
            where = {"name": place.file.rpartition("/")[2], "path": place.file} if place is not None else self._places.ptx()
            found.append(row | {"location": where, "line": (op.line if place is None else place.line) + self._first_line - 1})
        return {"instructions": found}

    def read_memory(self, arguments: Arguments) -> dict[str, Any]:
        """Bytes of global or shared memory."""
        space, address = self._places.memory(str(arguments["memoryReference"]), int(arguments.get("offset", 0)))
        count = int(arguments["count"])
        if not 0 <= count <= _MOST_BYTES:
            raise ValueError(f"count {count}")
        readable = self.session.readable(space, address, count)
        found: dict[str, Any] = {"address": hex(address)}
        if readable:
            held = self.session.memory(space, address, readable, "u8").tobytes()
            found["data"] = base64.b64encode(held).decode()
        return found | ({"unreadableBytes": count - readable} if readable < count else {})


_REQUESTS: dict[str, Callable[[Adapter, Arguments], dict[str, Any] | None]] = {
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
    "setBreakpoints": Adapter.set_breakpoints,
    "setFunctionBreakpoints": Adapter.set_function_breakpoints,
    "setInstructionBreakpoints": Adapter.set_instruction_breakpoints,
    "setDataBreakpoints": Adapter.set_data_breakpoints,
    "setExceptionBreakpoints": Adapter.set_exception_breakpoints,
    "dataBreakpointInfo": Adapter.data_breakpoint_info,
    "exceptionInfo": Adapter.exception_info,
    "threads": Adapter.threads,
    "stackTrace": Adapter.stack_trace,
    "scopes": Adapter.scopes,
    "variables": Adapter.variables,
    "evaluate": Adapter.evaluate,
    "source": Adapter.source,
    "loadedSources": Adapter.loaded_sources,
    "disassemble": Adapter.disassemble,
    "readMemory": Adapter.read_memory,
}
