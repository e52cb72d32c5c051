"""The commands of the debugger: a line of text does one thing with a session and gives an answer, as text and as plain values."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxlab import ptx
from ptxlab.debug._answers import Answer, stopped, table
from ptxlab.debug._points import DebugError, Position, refuse
from ptxlab.debug._report import Stop
from ptxlab.debug._session import Session
from ptxlab.debug._stops import Watchpoint
from ptxlab.debug.views.operands import matrix_text
from ptxlab.diagnostics import diagnose

__all__ = ["COMMANDS", "Command", "Console"]

_NEIGHBOURS = 4
"""Lines that `list` shows before and after the one at which the thread stands."""
_HELP_COLUMN = 44
_VALUE = "global|shared ADDRESS [BYTES] | tensor LANE COLUMN [LANES COLUMNS] | register NAME"


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, what may follow, what it does in one sentence, and the function."""

    name: str
    form: str
    help: str
    do: Callable[[Session, list[str]], Answer]


# --------------------------------------------------------------------------------------------------------------- arguments


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise refuse("G101", f"{text!r} is no whole number", fix="write it as 12 or 0x0c") from None


def _place(text: str) -> int | str:
    """An address, or the name of a variable."""
    return _number(text) if text[:1].isdigit() else text


def _count(words: list[str]) -> int:
    """How often, once if it is not said."""
    count = _number(words[0]) if words else 1
    if count < 1 or len(words) > 1:
        raise refuse("G101", f"{' '.join(words)!r} does not say how often", fix="give a number from 1")
    return count


def _which(words: list[str]) -> int:
    """The number of a breakpoint or an operation."""
    if len(words) != 1:
        raise refuse("G101", f"one number is expected, not {' '.join(words)!r}")
    return _number(words[0])


def _moves(move: Callable[[Session], Stop]) -> Callable[[Session, list[str]], Answer]:
    return lambda session, words: stopped(move(session))


def _moves_by(move: Callable[[Session, int], Stop]) -> Callable[[Session, list[str]], Answer]:
    return lambda session, words: stopped(move(session, _count(words)))


# --------------------------------------------------------------------------------------------------------------- functions


def _break(session: Session, words: list[str]) -> Answer:
    kind, where, *rest = [*words, "", ""][: max(len(words), 2)]
    hits = 1
    if rest[-2:-1] == ["hits"]:
        hits = _number(rest[-1])
        rest = rest[:-2]
    while kind == "instruction" and rest and rest[0].isdecimal():  # constant operands
        where = f"{where} {rest.pop(0)}"
    if rest and rest[0] != "if":
        raise refuse("G101", f"after the place follows if or hits, not {rest[0]!r}")
    made = session.break_at(kind, where, " ".join(rest[1:]) or None, hits)
    return Answer(f"breakpoint {made.number}", None, {"number": made.number})


def _watched(session: Session, words: list[str]) -> Watchpoint:
    memory, *rest = words or [""]
    if memory == "register" and len(rest) == 1:
        return session.watch_register(rest[0])
    if memory == "tensor" and 2 <= len(rest) <= 4:
        return session.watch_tensor(*map(_number, rest))
    if memory not in ("register", "tensor") and 1 <= len(rest) <= 2:
        return session.watch_memory(memory, _place(rest[0]), *map(_number, rest[1:]))
    raise refuse("G101", f"no value is named by {' '.join(words)!r}", fix="see: help watch")


def _watch(session: Session, words: list[str]) -> Answer:
    made = _watched(session, words)
    return Answer(f"watchpoint {made.number}", None, {"number": made.number})


def _breakpoints(session: Session, words: list[str]) -> Answer:
    stops = session.stops
    rows: list[dict[str, Any]] = []
    for number, each in stops.breakpoints.items():
        condition = {} if each.condition is None else {"if": each.condition.text}
        rows.append({"number": number, each.kind: each.where, **condition, "hits": each.hits, "hit": stops.counts.get(number, 0)})
    for number, watch in stops.watchpoints.items():
        rows.append({"number": number, "watch": watch.memory, "place": list(watch.place), "cta": watch.cta, "warp": watch.warp})
    return table(rows)


def _delete(session: Session, words: list[str]) -> Answer:
    session.delete(_which(words))
    return Answer("", None, None)


def _thread(session: Session, words: list[str]) -> Answer:
    given: dict[str, Any] = {}
    for name, text in zip(words[::2], words[1::2], strict=False):
        if name not in ("cta", "warp", "lane"):
            raise refuse("G101", f"a thread has a cta, a warp and a lane, no {name!r}", fix="thread cta 0,0,0 warp 1 lane 5")
        given[name] = tuple(map(_number, text.split(","))) if name == "cta" else _number(text)
    focus = session.choose_thread(**given)
    return Answer(str(focus), None, {"cta": focus.cta, "warp": focus.warp, "lane": focus.lane})


def _registers(session: Session, words: list[str]) -> Answer:
    found = [session.register(name) for name in words] if words else session.registers()
    lane = session.focus.lane
    lines = []
    for each in found:
        undefined = each.undefined[lane]
        shown = "no value" if undefined == (1 << each.bits) - 1 else str(each.value(lane))
        partly = f", bits {undefined:#x} undefined" if undefined and shown != "no value" else ""
        raw = f" ({each.raw[lane]:#x})" if shown != "no value" and each.bits > 1 else ""
        lines.append(f"{each.name} .{each.type} {shown}{raw}{partly}")
    return Answer("\n".join(lines), None, [each.as_dict() for each in found])


def _special(session: Session, words: list[str]) -> Answer:
    lane = session.focus.lane
    found = {name: values for name, values in session.special().items() if not words or name in words}
    return Answer("\n".join(f"{name} {values[lane]}" for name, values in found.items()), None, found)


def _print(session: Session, words: list[str]) -> Answer:
    value = session.evaluate(" ".join(words))
    return Answer(str(value), None, value)


def _expect(session: Session, words: list[str]) -> Answer:
    text = " ".join(words)
    if not session.evaluate(text):
        raise DebugError(diagnose("G105", f"{text} is not true in {session.focus}"))
    return Answer("", None, True)


def _memory(session: Session, words: list[str]) -> Answer:
    if not 2 <= len(words) <= 4:
        message = "memory is followed by a state space, an address, and perhaps a number and a type"
        raise refuse("G101", message, fix="memory shared 0x400 16 f32")
    count = _number(words[2]) if len(words) > 2 else 1
    found = session.memory(words[0], _place(words[1]), count, words[3] if len(words) > 3 else "b32")
    return Answer(" ".join(map(str, found.tolist())), None, found.tolist())


def _tensor(session: Session, words: list[str]) -> Answer:
    kind = words.pop() if len(words) > 2 and not words[-1][:1].isdigit() else "b32"
    if not 2 <= len(words) <= 4:
        raise refuse("G101", "tensor is followed by a lane, a column, and perhaps numbers of both and a type", fix="tensor 0 0 4 8 f32")
    lane, column, lanes, columns = (*map(_number, words), 1, 1)[:4] if len(words) != 3 else (*map(_number, words), 1)
    found = session.tensor(lane, column, lanes, columns, kind)
    return Answer("\n".join(" ".join(map(str, row)) for row in found.tolist()), None, found.tolist())


def _stack(session: Session, words: list[str]) -> Answer:
    frames = session.stack()
    lines = [f"{frame.function} at line {frame.line}" + (f" ({frame.source})" if frame.source else "") for frame in frames]
    return Answer("\n".join(lines) or "the thread has ended", None, [frame.as_dict() for frame in frames])


def _list(session: Session, words: list[str]) -> Answer:
    op = session.op()
    around = _number(words[0]) if words else op.line if op is not None else 1
    module = session.launch.module
    last = module.text.count("\n") + 1
    rows = [(n, ptx.line_text(module, n)) for n in range(max(around - _NEIGHBOURS, 1), min(around + _NEIGHBOURS, last) + 1)]
    mark = 0 if op is None else op.line
    return Answer("\n".join(f"{'>' if n == mark else ' '}{n:5} {text}" for n, text in rows), None, dict(rows))


def _variables(session: Session, words: list[str]) -> Answer:
    found = session.variables()
    lines = [f"{each['type']} {each['name']} = {'no value' if each['value'] is None else each['value']}" for each in found]
    return Answer("\n".join(lines) or "the PTX names no source variables here", None, found)


def _check(session: Session, words: list[str]) -> Answer:
    found = session.check()
    lines = [f"point {each.step if each.step >= 0 else 'unknown'}\n{each.finding}" for each in found]
    return Answer("\n".join(lines) or "no findings", None, [{"step": each.step, "finding": each.finding.as_dict()} for each in found])


def _operands(session: Session, words: list[str]) -> Answer:
    view = session.operands(_which(words) if words else None)
    return Answer(view.as_text(), None, view.as_dict())


def _tiles(session: Session, words: list[str]) -> Answer:
    found = session.tiles(_which(words) if words else None)
    return Answer("\n".join(each.as_text() for each in found), None, [each.as_dict() for each in found])


def _matrix(session: Session, words: list[str]) -> Answer:
    descriptor, rows, k, element, *more = [*words, *[""] * 4][: max(len(words), 4)]
    if not element or not set(more) <= {"k", "mn", "wgmma", "padded"}:
        raise refuse("G101", "matrix is followed by a descriptor, rows, k and an element type", fix="matrix 0x4000404000010000 128 16 f16")
    sizes = _number(descriptor), _number(rows), _number(k)
    found = session.matrix(*sizes, element, major="mn" if "mn" in more else "k", wgmma="wgmma" in more, padded="padded" in more)
    return Answer(matrix_text(found), None, found.tolist())


def _written(session: Session, words: list[str]) -> Answer:
    return stopped(session.written(lambda: _watched(session, words)))


def _lanes(session: Session, words: list[str]) -> Answer:
    if not 1 <= len(words) <= 2:
        raise refuse("G101", "lanes is followed by a register, and perhaps a type", fix="lanes %r1 f16")
    found = session.register(words[0])
    values = [None if undefined == (1 << found.bits) - 1 else found.value(n, *words[1:]) for n, undefined in enumerate(found.undefined)]
    marks = [
        f"  bits {undefined:#x} undefined" if undefined and value is not None else ""
        for undefined, value in zip(found.undefined, values, strict=True)
    ]
    lines = [
        f"{lane:2} {'no value' if value is None else value}{mark}" for lane, (value, mark) in enumerate(zip(values, marks, strict=True))
    ]
    return Answer("\n".join(lines), None, values)


def _save(session: Session, words: list[str]) -> Answer:
    position = session.position.as_dict()
    if words:
        try:
            Path(words[0]).write_text(json.dumps(position), encoding="utf-8")
        except OSError as error:
            raise refuse("G104", f"cannot write {words[0]}: {error.strerror}") from None
    return Answer(json.dumps(position), None, position)


def _load(session: Session, words: list[str]) -> Answer:
    name = words[0] if words else ""
    try:
        position = Position.of(json.loads(Path(name).read_text(encoding="utf-8")))
    except OSError as error:
        raise refuse("G104", f"cannot read {name}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError):
        raise refuse("G104", f"{name} holds no position", fix="write it with: save FILE") from None
    return stopped(session.go_to(position))


def _help_line(command: Command) -> str:
    head = f"{command.name} {command.form}".strip()
    return f"{head:{_HELP_COLUMN}}{command.help}" if len(head) < _HELP_COLUMN else f"{head}\n{'':{_HELP_COLUMN}}{command.help}"


def _help(session: Session, words: list[str]) -> Answer:
    shown = [command for command in COMMANDS.values() if not words or command.name in words]
    text = "\n".join(map(_help_line, shown))
    return Answer(text, None, {c.name: {"form": c.form, "help": c.help} for c in shown})


_LISTED = (
    Command("where", "", "Say where the launch stands.", _moves(Session.where)),
    Command("step", "[N]", "Execute N instructions of the chosen thread.", _moves_by(Session.step)),
    Command("next", "[N]", "The same; a call counts as one.", _moves_by(Session.next)),
    Command("line", "[N]", "Execute up to another line of the source, or of the PTX without one.", _moves_by(Session.step_line)),
    Command("next-line", "[N]", "The same; lines of called functions do not count.", _moves_by(Session.next_line)),
    Command("out", "", "Execute until the thread has left its function.", _moves(Session.out)),
    Command("any", "[N]", "Go on by N instructions of whatever warp is next, or asynchronous operations.", _moves_by(Session.step_any)),
    Command("barrier", "", "Execute up to an instruction that arrives at a barrier or waits.", _moves(Session.to_barrier)),
    Command("async", "", "Go on until an asynchronous operation is issued, committed or performs.", _moves(Session.to_asynchronous)),
    Command("continue", "", "Go on to a breakpoint, a watchpoint, an error, or the end.", _moves(Session.run)),
    Command("back", "[N]", "Undo N instructions of the chosen thread.", _moves_by(Session.step_back)),
    Command("any-back", "[N]", "Undo N instructions of whatever warps, or asynchronous operations.", _moves_by(Session.step_any_back)),
    Command("line-back", "", "Go back to where the thread began its line, or the line before.", _moves(Session.step_line_back)),
    Command("continue-back", "", "Go back to a breakpoint, a watchpoint, an error, or the start.", _moves(Session.run_back)),
    Command("break", "KIND WHERE [if EXPRESSION] [hits N]", "KIND is line, source, function, instruction or finding.", _break),
    Command("watch", _VALUE, "Stop at changes.", _watch),
    Command("breakpoints", "", "List breakpoints and watchpoints.", _breakpoints),
    Command("delete", "N", "Remove a breakpoint or watchpoint.", _delete),
    Command("check", "", "Run the checks of the launch; continue stops where they find something.", _check),
    Command("earlier", "", "Go back to the earlier of the two accesses that a finding is about.", _moves(Session.earlier_access)),
    Command("thread", "[cta X,Y,Z] [warp N] [lane N]", "Choose a thread, or say which is chosen.", _thread),
    Command("warps", "", "List the resident warps, and where their lanes stand.", lambda session, words: table(session.warps())),
    Command("stack", "", "Show the functions that the thread is in.", _stack),
    Command("list", "[LINE]", "Show the PTX around a line.", _list),
    Command("registers", "[NAME ...]", "Show registers of the thread; JSON has all lanes.", _registers),
    Command("special", "[NAME ...]", "Show special registers of the thread; JSON has all lanes.", _special),
    Command("print", "EXPRESSION", "Compute with registers of the thread.", _print),
    Command("variables", "", "Show the source variables of the thread, if the PTX has debug information.", _variables),
    Command("expect", "EXPRESSION", "Fail if the expression is not true.", _expect),
    Command("memory", "global|shared|local|param ADDRESS [COUNT [TYPE]]", "Show memory; variables have names.", _memory),
    Command("tensor", "LANE COLUMN [LANES COLUMNS] [TYPE]", "Show tensor memory, a line for each lane.", _tensor),
    Command("barriers", "", "Show the barriers of the CTA, and who waits.", lambda session, words: table(session.barriers())),
    Command("lanes", "NAME [TYPE]", "Show a register in all lanes, as a type; several values that it holds as a list.", _lanes),
    Command("operands", "[N]", "Show the matrices of the instruction here, or of an outstanding operation.", _operands),
    Command("tiles", "[N]", "Show the boxes that the copy here places in shared memory, or an outstanding one.", _tiles),
    Command(
        "matrix", "DESCRIPTOR ROWS K TYPE [mn] [wgmma] [padded]", "Show the matrix that a shared-memory descriptor describes.", _matrix
    ),
    Command("written", _VALUE, "Go back to behind what has last changed a value.", _written),
    Command("diff", "N", "Show what differs here from point N.", lambda session, words: table(session.differences(_which(words)))),
    Command("operations", "", "List outstanding asynchronous operations.", lambda session, words: table(session.operations())),
    Command("perform", "N", "Perform an outstanding operation now.", lambda session, words: stopped(session.perform(_which(words)))),
    Command("freeze", "", "Keep the chosen warp from running.", _moves(Session.freeze)),
    Command("thaw", "", "Let the chosen warp run again.", _moves(Session.thaw)),
    Command("alone", "", "Let only the chosen warp run.", _moves(Session.alone)),
    Command("thaw-all", "", "Let all warps run again.", _moves(Session.thaw_all)),
    Command("save", "[FILE]", "Write the position to a file, or show it.", _save),
    Command("load", "FILE", "Go to a position that was saved.", _load),
    Command("help", "[COMMAND]", "List the commands.", _help),
)
COMMANDS = {command.name: command for command in _LISTED}
"""The commands by name."""


class Console:
    """Executes commands.

    Parameters
    ----------
    session : with which they do what they say
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def execute(self, line: str) -> Answer | None:
        """Execute a line; None for one that is empty or a comment (``#``).

        Raises
        ------
        DebugError
            if the command is not known (G101), or cannot be done
        """
        text = line.strip()
        if not text or text.startswith("#"):
            return None
        try:
            name, *words = shlex.split(text)
        except ValueError as error:
            raise refuse("G101", f"{text!r} cannot be read: {error}") from None
        command = COMMANDS.get(name)
        if command is None:
            raise refuse("G101", f"there is no command {name!r}", fix="help lists the commands")
        if not command.form and words:
            raise refuse("G101", f"{name} takes nothing, not {' '.join(words)!r}")
        return command.do(self.session, words)
