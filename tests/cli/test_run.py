"""``ptxlab run`` and ``ptxlab warmup`` as a shell sees them: exit status, text, JSON, files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from ptxlab.cli import main

HEADER = ".version 8.7\n.target sm_100a\n.address_size 64\n"
DOUBLE = (
    HEADER
    + """.visible .entry double(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r3, [%rd4];
    add.u32 %r3, %r3, %r3;
    st.global.u32 [%rd5], %r3;
DONE:
    ret;
}
"""
)
LAUNCH = """
ptx = "double.ptx"
block = 64
[[args]]
name = "A"
array = {shape = [SIZE], dtype = "uint32", fill = "arange"}
[[args]]
name = "B"
array = {shape = [SIZE], dtype = "uint32"}
[[args]]
value = 64
dtype = "u32"
[[expect]]
name = "B"
npy = "expected.npy"
exact = true
"""


def ptxlab(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in this process, which has imported its modules and loaded its compiled code already."""
    status = 0
    with contextlib.chdir(folder), redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        try:
            main([*map(str, arguments)], prog_name="ptxlab")
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())


def new_process(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    (tmp_path / "double.ptx").write_text(DOUBLE)
    np.save(tmp_path / "expected.npy", 2 * np.arange(64, dtype=np.uint32))
    (tmp_path / "launch.toml").write_text(LAUNCH.replace("SIZE", "64"))
    return tmp_path


def test_clean_run(launch: Path) -> None:
    done = new_process("run", "launch.toml", "--save", "out", folder=launch)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("finished: 1 CTAs, 26 warp-instructions, 0 machine services, ")
    assert (np.load(launch / "out" / "B.npy") == 2 * np.arange(64)).all()


def test_progress_goes_to_standard_error(launch: Path) -> None:
    (launch / "launch.toml").write_text(LAUNCH.replace("SIZE", "128").replace("block", "grid = 3\nblock").split("[[expect]]")[0])
    plain = ptxlab("run", "launch.toml", "--json", folder=launch)
    shown = new_process("run", "launch.toml", "--json", "--progress", folder=launch)
    assert plain.stderr == ""
    (line,) = shown.stderr.split("\n")[:-1]
    assert line.startswith("double ")
    assert " 3/3 CTAs 0:00:" in line
    assert json.loads(shown.stdout)["stats"]["ctas"] == json.loads(plain.stdout)["stats"]["ctas"] == 3


def test_progress_bar_of_a_terminal_moves_and_goes_away(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = new_process("run", "launch.toml", "--progress", folder=launch)
    assert done.returncode == 0
    assert "double" in done.stderr
    assert done.stderr.endswith("\x1b[2K"), "the line is erased"
    assert "0/?" in done.stderr or "1/1" in done.stderr


def test_json(launch: Path) -> None:
    done = ptxlab("run", "launch.toml", "--json", "--policy", "random", "--seed", "3", folder=launch)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["diagnostics"]) == (0, True, [])
    assert found["stats"]["instructions"] == 26


def test_what_the_kernel_prints(launch: Path) -> None:
    text = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n.global .align 1 .b8 text[4] = {104, 105, 10, 0};\n"
    call = """mov.u64 %rd1, text; setp.ne.u32 %p1, %r2, 0;
    { .param .b32 back; @!%p1 call.uni (back), vprintf, (%rd1, 0); }
DONE:"""
    (launch / "double.ptx").write_text(DOUBLE.replace(HEADER, HEADER + text).replace("DONE:", call))
    done = ptxlab("run", "launch.toml", folder=launch)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "hi")
    assert json.loads(ptxlab("run", "launch.toml", "--json", folder=launch).stdout)["stdout"] == "hi\n"


def test_unexpected_output(launch: Path) -> None:
    wrong = 2 * np.arange(64, dtype=np.uint32)
    wrong[[7, 9]] = 1
    np.save(launch / "expected.npy", wrong)
    done = ptxlab("run", "launch.toml", folder=launch)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "error[F105]: B[7] is 14, expected 1 (bit for bit); 2 of 64 elements differ"
    assert done.stdout.splitlines()[-1].startswith("1 finding: 1 CTAs, ")


def test_the_timeline(launch: Path) -> None:
    assert ptxlab("run", "launch.toml", "--trace", "t.json", "--bundle", "b.ptxlab", folder=launch).returncode == 0
    first = json.loads((launch / "t.json").read_text())["traceEvents"]
    assert [e["dur"] for e in first if e.get("cat") == "launch"] == [26]
    assert ptxlab("run", "b.ptxlab", "--trace", "again.json", folder=launch).returncode == 0
    assert json.loads((launch / "again.json").read_text())["traceEvents"] == first
    done = ptxlab("run", "launch.toml", "--trace", "no/t.json", folder=launch)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        2, "error[A318]: the trace 'no/t.json' cannot be written: No such file or directory"
    )  # fmt: skip


def test_a_bundle_keeps_what_is_expected(launch: Path) -> None:
    """A bundle says of its outputs what the launch file does, without it and its files."""
    wrong = 2 * np.arange(64, dtype=np.uint32)
    wrong[7] = 1
    text = LAUNCH.replace("SIZE", "64") + '[[expect]]\nname = "A"\nequals = "A"\n[[expect]]\nname = "B"\nnpy = "near.npy"\natol = 1.5\n'
    (launch / "launch.toml").write_text(text)
    np.save(launch / "near.npy", 2.0 * np.arange(64) + 1)
    for expected, status in ((2 * np.arange(64, dtype=np.uint32), 0), (wrong, 1)):
        np.save(launch / "expected.npy", expected)
        first = ptxlab("run", "launch.toml", "--bundle", "b.ptxlab", "--json", folder=launch)
        again = ptxlab("run", "b.ptxlab", "--json", "--policy", "lazy", "--bundle", "c.ptxlab", folder=launch)
        third = ptxlab("run", "c.ptxlab", "--json", folder=launch)
        assert (first.returncode, again.returncode, third.returncode) == (status,) * 3
        found = [json.loads(done.stdout)["diagnostics"] for done in (first, again, third)]
        assert found[0] == found[1] == found[2]
        assert [d["message"] for d in found[0]] == ["B[7] is 14, expected 1 (bit for bit); 1 of 64 elements differ"] * status
    assert ptxlab("check", "b.ptxlab", "--seeds", "1", folder=launch).returncode == 1


def test_fault(launch: Path) -> None:
    (launch / "launch.toml").write_text(LAUNCH.replace("SIZE", "32").replace('npy = "expected.npy"', 'equals = "B"'))
    done = ptxlab("run", "launch.toml", "--json", folder=launch)
    (found,) = json.loads(done.stdout)["diagnostics"]
    assert done.returncode == 1
    assert (found["code"], found["place"]["line"]) == ("M402", 12)
    assert found["message"].endswith("0 bytes past the end of argument 0 (in) [0x801000000000, 0x801000000080), 128 bytes")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "none.toml"), "error[F101]: cannot read the launch file: No such file or directory\n  --> none.toml:1:1"),
        (("run", "launch.toml", "--check", "racy"), "error[A310]: there is no check named 'racy'"),
        (("warmup", "none.ptx"), "error[A313]: cannot read none.ptx: No such file or directory"),
    ],
)
def test_wrong_use(launch: Path, arguments: tuple[str, ...], text: str) -> None:
    done = ptxlab(*arguments, folder=launch)
    assert done.returncode == 2
    assert text in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_wrong_option_is_wrong_use(launch: Path) -> None:
    done = ptxlab("run", "launch.toml", "--policy", "later", folder=launch)
    assert done.returncode == 2
    assert "error[A310]: policy must be one of 'eager', 'lazy', 'random', not 'later'" in done.stdout


@pytest.mark.sweep
def test_warmup_fills_the_cache(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = launch / "cache"
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(cache))
    done = new_process("warmup", "double.ptx", "--json", folder=launch)
    assert done.returncode == 0
    assert {"double.ptx: double, check=all", "double.ptx: double, check=none"} <= set(json.loads(done.stdout))
    kept = set(cache.rglob("*.o"))
    assert new_process("run", "launch.toml", folder=launch).returncode == 0
    assert {path.name for path in cache.rglob("*.o")} - {path.name for path in kept} == set()


def cpu_seconds(pid: int) -> float:
    """The time that a process has computed; infinite where the system does not tell."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("inf")
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.sweep
@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent as a POSIX signal")
def test_interrupt_ends_within_a_second(launch: Path) -> None:
    loop = DOUBLE.replace("DONE:", "LOOP: add.u32 %r3, %r3, 1; bra LOOP;\nDONE:")
    (launch / "double.ptx").write_text(loop)
    (launch / "launch.toml").write_text("max_instructions = 1000000000000\n" + LAUNCH.replace("SIZE", "64"))
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "run", "launch.toml", "--save", "out"]
    # A shell that runs the tests in the background lets its children ignore the signal.
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    process = subprocess.Popen(command, cwd=launch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    time.sleep(3)
    while cpu_seconds(process.pid) < 3:  # on a busy machine Python may not have come to the kernel yet
        time.sleep(0.5)
    assert process.poll() is None
    before, computed, started = os.times(), cpu_seconds(process.pid), time.perf_counter()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    wall, after = time.perf_counter() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system - computed
    assert min(wall, used if computed < float("inf") else wall) < 1  # other work on this computer is not the command's
    assert (process.returncode, errors) == (130, "interrupted: no array was written back\n")
    assert not (launch / "out").exists()


def test_check(launch: Path) -> None:
    done = ptxlab("check", "launch.toml", "--seeds", "1", folder=launch)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 findings under 3 schedules\n", "")


def test_check_names_the_schedules_that_show_a_finding(launch: Path) -> None:
    body = """
    .shared .align 16 .b8 room[16];
    .reg .b32 %q; .reg .b64 %a;
    ld.param.u64 %a, [in];
    st.shared.u32 [room], 5;
    cp.async.ca.shared.global [room], [%a], 4;
    cp.async.commit_group;
    ld.shared.u32 %q, [room];
    cp.async.wait_group 0;
    ld.param.u64 %a, [out];
    st.global.u32 [%a], %q;
"""
    (launch / "double.ptx").write_text(DOUBLE.replace("    ld.param.u64 %rd1", body + "    ret;\n    ld.param.u64 %rd1", 1))
    (launch / "launch.toml").write_text(LAUNCH.split("[[expect]]")[0].replace("SIZE", "64").replace("block = 64", "block = 1"))
    done = ptxlab("check", "launch.toml", "--seeds", "0", "--json", folder=launch)
    found = json.loads(done.stdout)
    codes = {d["code"]: d for d in found["diagnostics"]}
    assert done.returncode == 1
    assert not found["ok"]
    assert set(codes) == {"X111", "F106"}
    assert codes["X111"]["details"]["found under"] == "eager, lazy"
    assert codes["F106"]["message"] == "B[0] is 0 under the schedule eager and 5 under lazy"
    sarif = json.loads(ptxlab("check", "launch.toml", "--seeds", "0", "--sarif", folder=launch).stdout)
    assert {r["ruleId"] for r in sarif["runs"][0]["results"]} == {"X111", "F106"}


def test_check_refuses_a_missing_file(tmp_path: Path) -> None:
    done = ptxlab("check", "none.toml", folder=tmp_path)
    assert done.returncode == 2
    assert "F101" in done.stdout
