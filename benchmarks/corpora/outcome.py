"""Runs one program in a process of its own, and says how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import calls
from .programs import Program

__all__ = ["KINDS", "Outcome", "outcome", "run"]

KINDS = {
    "passed": "exit status 0, nothing found",
    "finding": "ptxlab reports a finding in a kernel, or in how the program uses memory and streams",
    "refused": "ptxlab refuses what the program asks for",
    "failed": "the program ends with an exception or another exit status of its own",
    "time": "ended after the time limit",
    "signal": "ended by a signal",
    "not built": "nvcc refuses it",
    "left out": "not run",
}
"""How a program can end."""

_REFUSALS = ("A", "I", "S")
"""Areas of codes with which ptxlab refuses a launch, a use of a framework, or a text."""

_OF_THE_PROGRAM = ("I504", "I508", "I509")
"""Findings in these areas: memory freed twice, what nothing orders, memory that is changed while work uses it."""

_DECORATION = re.compile(r"\x1b\[[0-9;]*m|^E +")
"""Colours, and the mark of pytest before lines of an error."""

_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt|Failure)\b|error\[")

_COMMAND = "from ptxlab.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: a key of `KINDS`, the time, the launches, and the first diagnostic or the last line of its error."""

    program: Program
    kind: str
    seconds: float = 0.0
    launches: int = 0
    message: str = ""

    @property
    def judgement(self) -> str:
        """What `Program.judged` says of this end."""
        code = self.message.partition(":")[0] if self.kind == "finding" else self.kind
        return self.program.judged.get(code, "")


def run(
    program: Program, root: Path, python: str = sys.executable, most_seconds: int | None = None, executable: Path | None = None
) -> Outcome:
    """Run a program in its folder, for its seconds or ``most_seconds``; ``executable`` is what was built of it."""
    if program.left_out:
        return Outcome(program, "left out", message=program.left_out)
    path = root / program.path
    command = [python, "-W", "ignore", "-c", _COMMAND, "exec", "--json", "--target", program.target, *program.ptxlab]
    limit = program.seconds if most_seconds is None else min(program.seconds, most_seconds)
    started = time.monotonic()
    process = subprocess.Popen(
        [*command, *_script(program, path, python, executable)],
        cwd=path.parent,
        env=os.environ | program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Outcome(program, "time", time.monotonic() - started, message=f"over {limit} s")
    kind, launches, message = outcome(process.returncode, printed, errors)
    return Outcome(program, kind, time.monotonic() - started, launches, message.replace(f"{root}{os.sep}", ""))


def _script(program: Program, path: Path, python: str, executable: Path | None) -> list[str]:
    """What is executed, and its arguments."""
    if program.tests:
        return [str(Path(python).with_name("pytest")), path.name, "-q", "-p", "no:cacheprovider", *program.tests]
    if program.calls:
        return [calls.__file__, str(path), *program.calls]
    return [str(executable or path), *program.options]


def outcome(status: int, printed: str, errors: str) -> tuple[str, int, str]:
    """How a process ended: kind, launches, message."""
    report = _report(printed)
    launches = len(report.get("launches", ()))
    found = [d for d in report.get("diagnostics", ()) if d["severity"] == "error" or (_is_finding(d) and d["severity"] == "warning")]
    if status < 0:
        return "signal", launches, signal.Signals(-status).name
    if found:
        kernels = [d for d in found if _is_finding(d)]
        first = (kernels or found)[0]
        return "finding" if kernels else "refused", launches, f"{first['code']}: {first['message']}"
    if status:
        return "failed", launches, _error(errors) or f"exit status {status}"
    return "passed", launches, ""


def _is_finding(diagnostic: dict[str, Any]) -> bool:
    code: str = diagnostic["code"]
    return code[0] not in _REFUSALS or code in _OF_THE_PROGRAM


def _error(errors: str) -> str:
    """The last line that names an exception, else the last line."""
    lines = [plain for line in errors.splitlines() if (plain := _DECORATION.sub("", line).strip())]
    named = [line for line in lines if _EXCEPTION.match(line)]
    message = (named or lines or [""])[-1]
    return f"{message} {lines[-1]}" if message.endswith(":") and message != lines[-1] else message


def _report(printed: str) -> dict[str, Any]:
    """The report that ``ptxlab exec --json`` prints last; empty if there is none."""
    start = printed.find("{")
    while start >= 0:
        try:
            found = json.loads(printed[start:])
        except ValueError:
            start = printed.find("\n{", start + 1)
        else:
            return found if isinstance(found, dict) else {}
    return {}
