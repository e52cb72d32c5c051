"""What checks find, as points of the debugger: the instruction and the earlier access, which the finding names in words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ptxlab.debug import DebugError, Position, Session

from .debug_kernels import COPIES, EXCHANGE, copies, prepared

WAIT = COPIES[COPIES.index("WAIT:\n") : COPIES.index("  mov.u32 %r2, tile;")]
UNAWAITED = COPIES.replace(WAIT, "WAIT:\n")
"""The threads read what the copies bring (line 22) without a wait: a race, and a copy that is in flight when the CTA exits."""


def unawaited(policy: str) -> Session:
    return Session(prepared(UNAWAITED, 32, np.full(32, 1, np.uint32), np.full(32, 2, np.uint32), out=32, policy=policy))


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_a_finding_is_made_where_its_line_executes(policy: str) -> None:
    with unawaited(policy) as session:
        found = session.check()
        assert [each.finding.code for each in found] == [d.code for d in session._replay.run(check="all")[0].diagnostics]
        assert {"X103", "X116"} <= {each.finding.code for each in found}
        for each in found:
            session.go_to(Position(each.step, policy))
            stop = session.where()
            assert stop.finding is not None
            assert each.finding.place is not None
            assert stop.line == (each.finding.place.line if each.finding.code != "X116" else 25)


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_stops_and_the_earlier_access(policy: str) -> None:
    with Session(copies(policy=policy)) as session:
        with pytest.raises(DebugError):
            session.earlier_access()
        (found,) = session.check()
        stop = session.run()
        assert (stop.reason, stop.finding, stop.position.step, stop.line) == ("finding", found.finding, found.step, 18)
        stop = session.earlier_access()
        assert (stop.reason, stop.line) == ("earlier access", 17)
        assert (stop.operation == 0) == (policy == "eager")
        assert session.run().position.step == found.step
        assert session.run().reason == "ended"
        assert session.run_back().position.step == found.step


def test_a_breakpoint_at_a_code() -> None:
    with Session(prepared(EXCHANGE, 64)) as session:
        notes = [each for each in session.check() if each.finding.code.startswith("X114")]
        number = session.break_at("finding", "X114").number
        stop = session.run()
        assert notes
        assert stop.breakpoints == (number,)
        assert stop.position.step == notes[0].step
        assert stop.line == 9


def test_findings_hold_for_the_plain_order() -> None:
    with Session(copies(policy="lazy")) as session:
        assert session.check()
        session.to_asynchronous()
        session.freeze()
        assert not session.stops.found
        with pytest.raises(DebugError):
            session.check()


SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def twice(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, 2 * tl.load(x + i))

x = torch.arange(128, dtype=torch.float32, device="cuda")
y = torch.empty_like(x)
twice[(1,)](x, y, 128)
breakpoint()
twice[(1,)](x, y, 128)
twice[(1,)](x, y, 128)
print("sum", y.sum().item())
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "findings" / "missing_wait.py"


def executed(tmp_path: Path, script: Path, commands: str, *options: str) -> str:
    """What the debugger prints for a script under ``exec``, with the script's own output."""
    pytest.importorskip("triton")
    (tmp_path / "commands").write_text(commands)
    program = "from ptxlab.cli import main; main()"
    command = [sys.executable, "-c", program, "exec", *options, "--debug-commands", str(tmp_path / "commands"), str(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.compiler
def test_breakpoint_in_a_script_opens_the_debugger_at_the_next_launch(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    shown = executed(tmp_path, tmp_path / "script.py", "break instruction st.global\ncontinue\nback\n")
    assert shown.count("position, point 0\n") == 1
    assert "breakpoint 1, point" in shown
    assert f"source: {tmp_path / 'script.py'}:7" in shown
    assert shown.endswith("sum 16256.0\n")


KERNELS = """
import torch, triton, triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@triton.jit
def incremented(v):
    breakpoint()
    return v + 1

@triton.jit
def odd(y):
    i = tl.arange(0, 32)
    if tl.program_id(0) == 1:
        tl.store(y + i, incremented(i))

@gluon.jit
def even(y):
    if gl.program_id(0) == 2:
        breakpoint()
    i = gl.arange(0, 32, layout=gl.BlockedLayout([1], [32], [1], [0]))
    gl.store(y + 32 + i, i)

y = torch.zeros(64, dtype=torch.int32, device="cuda")
for launch in range(2):
    odd[(3,)](y, num_warps=1)
even[(2,)](y, num_warps=1)
even[(3,)](y, num_warps=1)
print("sum", y.sum().item())
"""


@pytest.mark.compiler
def test_breakpoint_in_a_kernel_opens_the_debugger_where_the_kernel_reaches_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KERNELS)
    shown = executed(tmp_path, tmp_path / "script.py", "registers\ncontinue\n")
    found = re.findall(
        r"^breakpoint 1, point \d+\n  CTA (\(.*?\)) warp 0 .*\n.*pmevent 15.*\n  source: .*script.py:(\d+):\d+$", shown, re.MULTILINE
    )
    assert found == [("(1, 0, 0)", "8"), ("(1, 0, 0)", "8"), ("(2, 0, 0)", "20")]
    assert shown.count("ended, point") == 3
    assert shown.endswith("sum 1024\n")


@pytest.mark.compiler
def test_debug_on_finding_in_a_script(tmp_path: Path) -> None:
    shown = executed(tmp_path, EXAMPLE, "earlier\nmemory shared 0x400 4 f32\nexpect %tid.x == 0\n", "--debug-on-finding")
    (later, earlier) = re.findall(r"^(?:finding|earlier access), point \d+\n(?:  .*\n)*?  source: .*:(\d+):", shown, re.MULTILINE)
    assert (later, earlier) == ("26", "22")
    assert "nan nan nan nan" in shown
