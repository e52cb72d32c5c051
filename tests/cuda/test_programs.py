"""C++ programs as processes of their own: compiled by nvcc as users do, run by ``ptxlab exec``."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ptxlab.cuda.remote.executables import call_site, carried_runtime, is_executable, link_libraries
from ptxlab.interop import nvcc
from tests.interop.nvcc_helpers import require_nvcc

pytestmark = pytest.mark.compiler

SOURCES = Path(__file__).parent / "programs"
EXEC = (sys.executable, "-c", "from ptxlab.cli import main; main()", "exec")
Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile a program of the folder, once."""
    require_nvcc()
    folder = tmp_path_factory.mktemp("programs")
    link_libraries(folder)

    def compiled(name: str, *options: str) -> Path:
        program = folder / "-".join((name, *(option.strip("-") for option in options)))
        if not program.exists():
            kind = () if "-cudart" in options else ("-cudart", "shared")
            target = ("-gencode", "arch=compute_100a,code=compute_100a", f"-L{folder}")
            command = (nvcc.find_nvcc(), "-std=c++17", "-g", "-lineinfo", *kind, *options, *target, "-o", program, SOURCES / f"{name}.cu")
            subprocess.run(command, check=True, capture_output=True)
        return program

    return compiled


def run(program: Path, *options: str, arguments: Sequence[str] = (), **more: str) -> subprocess.CompletedProcess[str]:
    command = [*EXEC, *options, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | more, check=False)


@pytest.mark.parametrize("name", ["arrays", "streams", "threads", "forked", "graphs", "pools", "cooperative", "virtual_memory"])
def test_a_program_that_checks_itself(build: Build, name: str) -> None:
    done = run(build(name))
    assert (done.returncode, done.stdout) == (0, f"{name}: passed\n"), done.stderr
    assert re.fullmatch(r"ptxlab: \d+ launch(es)? on sm_100a, nothing found\n", done.stderr)


def test_what_kernels_print_comes_in_order(build: Build) -> None:
    done = run(build("symbols"), "--sms", "16")
    assert done.stdout.splitlines() == [
        "kernel: scale 2 sum 43",
        "kernel: scale 3 sum 33",
        "symbols: passed on compute capability 10.0 with 16 multiprocessors",
    ], done.stderr


def test_findings_name_the_line_of_the_launch(build: Build) -> None:
    """Errors of the runtime library, and findings of the driver and of a kernel, with places in the C++ source."""
    program = build("errors")
    done = run(program, "--json")
    assert done.returncode == 1
    assert "errors: passed" in done.stderr, "the output of the program goes to standard error"
    report = json.loads(done.stdout)
    assert [found["code"] for found in report["diagnostics"]] == ["I505", "I505", "I504", "I503", "M401"]
    lines = (SOURCES / "errors.cu").read_text().splitlines()
    called = [found["details"].get("called at") or found["details"]["launched at"] for found in report["diagnostics"]]
    numbers = [int(place.rpartition(":")[2]) for place in called]
    expected = ("nothing<<<1, 2048>>>", "nothing<<<0, 32>>>", "cudaFree(on_host)", "cudaCreateTextureObject", "store<<<1, 1>>>")
    assert [text in lines[number - 1] for text, number in zip(expected, numbers, strict=True)] == [True] * 5
    assert report["launches"][-1]["site"] == {"file": str(SOURCES / "errors.cu"), "line": numbers[-1]}


def test_what_nothing_orders_is_found(build: Build) -> None:
    """Streams without an order, and memory that changes while a copy uses it, with the places of both calls."""
    done = run(build("unordered"), "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert [found["code"] for found in report["diagnostics"]] == ["I508", "I509"]
    lines = (SOURCES / "unordered.cu").read_text().splitlines()
    called = [place for found in report["diagnostics"] for name, place in found["details"].items() if name.endswith("called at")]
    numbers = [int(place.removeprefix(f"{SOURCES / 'unordered.cu'}:")) for place in called]
    assert [lines[number - 1].rpartition("// ")[2] for number in numbers] == ["the fill", "the launch", "the copy", "the wait"]


def test_memory_that_nothing_has_written_is_found(build: Build) -> None:
    """A copy to the host and a kernel that depends on it, with the places that have allocated the memory."""
    done = run(build("unwritten"), "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert [(found["code"], found["severity"]) for found in report["diagnostics"]] == [("M412", "warning"), ("M412", "error")]
    lines = (SOURCES / "unwritten.cu").read_text().splitlines()
    details = [found["details"] for found in report["diagnostics"]]
    places = [details[0]["called at"], details[0]["allocated at"], details[1]["launched at"]]
    called = [lines[int(place.rpartition(":")[2]) - 1] for place in places]
    assert [line.rpartition("// ")[2] for line in called] == ["the copy", "partly written", "the launch"]
    assert [launch["ok"] for launch in report["launches"]] == [True, True, True, False]


def test_memory_that_a_program_does_not_free(build: Build) -> None:
    done = run(build("unordered"), "--json", "--leaks")
    notes = [found for found in json.loads(done.stdout)["diagnostics"] if found["code"] == "I512"]
    lines = (SOURCES / "unordered.cu").read_text().splitlines()
    called = [lines[int(found["details"]["allocated at"].rpartition(":")[2]) - 1] for found in notes]
    assert sorted(line.strip() for line in called) == [
        "CUDA(cudaMalloc(&device, 1024));",
        "CUDA(cudaMalloc(&other, 1024));",
        "CUDA(cudaMallocHost(&host, 1024));",
    ]


def test_a_place_without_line_information(build: Build) -> None:
    program = build("errors", "-Xlinker", "--strip-debug")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (main,) = re.findall(r"^([0-9a-f]+) T main$", symbols, re.MULTILINE)
    site = call_site([(str(program), int(main, 16) + 5)])
    assert site is not None
    assert str(site) == f"main in {program.name}:0"


def test_a_program_with_nvidias_runtime_is_told_what_to_do(build: Build) -> None:
    if not list(nvcc.find_nvcc().parents[1].glob("lib*/libcudart_static.a")):
        pytest.skip("needs libcudart_static")
    program = build("errors", "-cudart", "static")
    done = run(program)
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        f"error[I511]: {program} carries NVIDIA's runtime library (libcudart_static), which works with NVIDIA's driver only" in done.stderr
    )
    assert "fix: link the program with the shared library: nvcc -cudart shared" in done.stderr
    assert carried_runtime(build("errors")) is None


def test_what_is_a_program(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('no program')")
    assert not is_executable(script)
    assert is_executable(Path(sys.executable).resolve())


def test_nothing_is_left_behind(build: Build, tmp_path: Path) -> None:
    assert run(build("threads"), TMPDIR=str(tmp_path)).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_program_whose_server_is_killed(build: Build) -> None:
    """Its next launch fails, it says why, and it goes on to its end."""
    waiting = subprocess.Popen(
        [*EXEC, str(build("waiting"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        assert waiting.stdout.readline() == "ready 5\n"
        waiting.send_signal(signal.SIGKILL)
        waiting.stdin.write("\n")
        waiting.stdin.flush()
        told = waiting.stdout.readline()
        errors = waiting.stderr.read()
    assert told == "launch cudaErrorOperatingSystem, synchronize cudaSuccess\n"
    assert errors.count("ptxlab: the process that runs the kernels has ended") == 1


def test_a_program_outside_of_ptxlab_exec(build: Build) -> None:
    program = build("forked")
    environment = {name: value for name, value in os.environ.items() if name != "PTXLAB_SERVER"} | {"LD_LIBRARY_PATH": str(program.parent)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 2
    assert "gave 100 cudaErrorNoDevice" in done.stderr


def test_the_exit_status_is_the_programs(build: Build, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    source, program = tmp_path / "ends.c", tmp_path / "ends"
    source.write_text("#include <stdlib.h>\nint main(int n, char **v) { if (n > 2) abort(); return atoi(v[1]); }\n")
    subprocess.run(["cc", "-o", program, source], check=True)
    assert run(program, arguments=("42",)).returncode == 42
    assert run(program, arguments=("42", "now")).returncode == 128 + signal.SIGABRT
