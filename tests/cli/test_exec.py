"""``ptxlab exec``: what the script sees, what is reported, and the exit status."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep_helpers import one_in

needs_triton = pytest.mark.skipif(
    not (importlib.util.find_spec("triton") and importlib.util.find_spec("torch")), reason="needs triton and torch"
)

SCRIPT = """
import sys
import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

x = torch.ones(60, device=DEVICE)
double[(1,)](x, int(sys.argv[1]), BLOCK=128)
print(f"{triton.runtime.driver.active.get_current_target().arch}: {x.sum().item()}")
"""
STORE_LINE = 1 + SCRIPT[: SCRIPT.index("tl.store")].count("\n")


def run(folder: Path, script: str, *arguments: str, options: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-W", "ignore", "-c", "from ptxlab.cli import main; main()", "exec", *options, "script.py", *arguments]
    variables = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)


@needs_triton
@pytest.mark.compiler
def test_clean(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "60", options=("--target", "sm_90a", "--policy", "lazy"))
    assert (done.returncode, done.stdout) == (0, "90: 120.0\n"), done.stderr
    assert done.stderr.endswith("ptxlab: 1 launch on sm_90a, nothing found\n")


@needs_triton
@pytest.mark.compiler
def test_a_finding_is_shown_at_its_python_line(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "62", options=("--keep", "kept", "--sarif", "found.sarif"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[M402]: read of " in done.stderr
    assert "behind the end of argument x (float32[60])" in done.stderr or "past the end of argument x (float32[60])" in done.stderr
    assert re.search(rf"source: .*script\.py:{STORE_LINE}:", done.stderr)
    assert "tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)" in done.stderr
    assert f"launched at: script.py:{SCRIPT[: SCRIPT.index('double[')].count(chr(10)) + 1}" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("ptxlab: 1 launch on sm_100a, 1 finding\n")
    (result,) = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "M402"
    assert ".entry double(" in (tmp_path / "kept" / "double.ptx").read_text()


TWO_LAUNCHES = SCRIPT + "double[(2,)](x, 0, BLOCK=128)\n"


@needs_triton
@pytest.mark.compiler
def test_the_timeline_of_all_launches(tmp_path: Path) -> None:
    for options, variables in ((("--trace", "t.json"), {}), ((), {"PTXLAB_TRACE": "t.json"})):
        done = run(tmp_path, TWO_LAUNCHES, "60", options=options, **variables)
        assert done.returncode == 0, done.stderr
        events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        launches = [e for e in events if e.get("cat") == "launch"]
        assert [(e["name"], e["args"]["grid"]) for e in launches] == [("double", [1, 1, 1]), ("double", [2, 1, 1])]
        assert launches[1]["ts"] >= launches[0]["ts"] + launches[0]["dur"]
        names = {e["args"]["name"].partition(",")[0] for e in events if e["name"] == "process_name"}
        assert names == {"launches", "double CTA (0", "2 double CTA (0", "2 double CTA (1"}
        assert all(re.match(r"double\.ptx:\d+:\d+", e["args"]["ptx"]) for e in events if e.get("cat") == "run")
        (tmp_path / "t.json").unlink()


def test_a_timeline_that_cannot_be_written(tmp_path: Path) -> None:
    done = run(tmp_path, "print('never')", options=("--trace", "no/t.json"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error[A318]: the trace 'no/t.json' cannot be written: No such file or directory\n"
        "  fix: give the path of a file in a folder that exists and can be written to\n"
    )


@pytest.mark.parametrize(("option", "text"), [("--sarif", "no/x: No such file or directory"), ("--keep", "to file/x: Not a directory")])
def test_outputs_that_cannot_be_written_are_refused_first(tmp_path: Path, option: str, text: str) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path, "print('never')", options=(option, text.removeprefix("to ").partition(":")[0]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"Error: cannot write {text}\n")


def test_outputs_stay_where_they_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = "import os, ptxlab\nos.chdir('elsewhere')\nprint(ptxlab.__version__)"
    done = run(tmp_path, script, options=("--sarif", "s.json", "--keep", "kept", "--trace", "t.json"))
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "kept", "s.json", "script.py", "t.json"}
    assert not list((tmp_path / "kept").iterdir())
    assert json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"] == []


@needs_triton
@pytest.mark.compiler
def test_a_bundle_of_a_launch_with_findings(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "62", options=("--keep", "kept", "--keep-inputs"))
    assert done.returncode == 1
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["double.ptx", "double.ptxlab"]
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "run", "kept/double.ptxlab"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert again.returncode == 1
    assert "error[M402]: read of " in again.stdout


@pytest.mark.parametrize("text", one_in(3, ["yes", "", "2"]))
def test_a_switch_is_one_or_zero(tmp_path: Path, text: str) -> None:
    done = run(tmp_path, "print('never')", PTXLAB_KEEP_INPUTS=text)
    assert (done.returncode, done.stderr) == (2, f"error[A310]: keep_inputs must be True or False, not {text!r}\n  fix: as text: 1 or 0\n")


@needs_triton
@pytest.mark.compiler
def test_json(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "60", options=("--json",), PTXLAB_TARGET="sm_103a")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert "103: 120.0" in done.stderr
    assert found["ok"] is True
    assert found["diagnostics"] == []
    (launch,) = found["launches"]
    assert (launch["kernel"], launch["grid"], launch["stats"]["ctas"]) == ("double", [1, 1, 1], 1)
    assert Path(launch["site"]["file"]).name == "script.py"


@needs_triton
@pytest.mark.compiler
def test_the_environment_variable_alone(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    variables = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_DEFAULT_BACKEND": "ptxlab", "PTXLAB_TARGET": "sm_90a"}
    command = [sys.executable, "-W", "ignore", "script.py"]
    done = subprocess.run([*command, "60"], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "90: 120.0\n"), done.stderr


@needs_triton
@pytest.mark.compiler
def test_a_refused_launch_names_its_line(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT.replace("device=DEVICE)", "device='meta')"), "60")
    line = SCRIPT[: SCRIPT.index("double[")].count("\n") + 1
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error[I302]: argument x: a torch tensor on meta; ptxlab runs on CPU tensors\n"
        f"  launched at: script.py:{line}\n  fix: call .cpu() first\nptxlab: no kernel was launched\n"
    )


CUDA_SCRIPT = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

assert torch.cuda.is_available()
assert torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 3
x = torch.ones(60, device="cuda")
assert x.is_cuda
before = x.cpu()
double[(1,)](x, 60, BLOCK=128)
torch.cuda.synchronize()
assert before.sum() == 60 and x.sum() == 120, "a copy to the host is a copy"
host = torch.ones(4)
for device in (host.cuda(), host.to("cuda:0"), host.to(torch.device("cuda")), host.to(device="cuda", dtype=torch.float64)):
    device.zero_()
assert host.sum() == 4
assert torch.zeros_like(host, device=torch.device("cuda")).sum() == 0
torch.set_default_device("cuda")
with torch.device("cuda"):
    layer = torch.nn.Linear(4, 2).to("cuda")
assert layer(torch.ones(4)).shape == (2,)
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
end.record()
assert start.elapsed_time(end) > 0
"""


DEVICE_MODULE_SCRIPT = """
import torch
import triton

module = getattr(torch, triton.runtime.driver.active.get_active_torch_device().type)
assert module.get_device_properties(0).multi_processor_count == 3
stream = module.Stream()
module.set_stream(stream)
with module.stream(stream):
    start, end = (module.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record(module.current_stream())
module.synchronize()
assert start.elapsed_time(end) > 0
assert torch.nn.functional.relu(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
"""


@needs_triton
@pytest.mark.compiler
def test_the_torch_module_of_the_device_that_triton_names(tmp_path: Path) -> None:
    done = run(tmp_path, DEVICE_MODULE_SCRIPT, options=("--sms", "3"))
    assert done.returncode == 0, done.stderr


@needs_triton
@pytest.mark.compiler
@pytest.mark.parametrize("true_device", [True, False])
def test_a_script_that_asks_torch_for_cuda(tmp_path: Path, true_device: bool) -> None:
    done = run(tmp_path, CUDA_SCRIPT, options=("--target", "sm_90a", "--sms", "3"), PTXLAB_TORCH_DEVICE="cuda" if true_device else "cpu")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("ptxlab: 1 launch on sm_90a, nothing found\n")
    if true_device:
        assert "I307" not in done.stderr
        return
    assert done.stderr.startswith(
        "note[I307]: the program asks torch for a CUDA device and gets the memory of the computer; tensors say that they are on cpu\n"
        "  why: PTXLAB_TORCH_DEVICE is cpu\n"
        "  fix: install a C++ compiler, g++ or clang++, and a CPU build of torch\n"
    )
    assert done.stderr.count("I307") == 1


@pytest.mark.parametrize(("package", "extra"), one_in(3, [("triton", "triton"), ("torch", "torch"), ("cutlass", "cute")]))
def test_a_missing_package_is_named_in_one_line(tmp_path: Path, package: str, extra: str) -> None:
    done = run(tmp_path, f"import sys\nsys.modules[{package!r}] = None\nimport {package}\n")
    assert done.returncode == 2
    assert done.stderr == f"error[I301]: script.py needs the package {package}: pip install 'ptxlab[{extra}]'\n"


def test_a_missing_module_of_an_installed_package_is_an_error_of_the_program(tmp_path: Path) -> None:
    done = run(tmp_path, "raise ModuleNotFoundError(\"No module named 'triton.ops'\", name='triton.ops')\n")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert "I301" not in done.stderr


@pytest.mark.parametrize(
    ("script", "status", "text"),
    one_in(
        2,
        [
            ("import sys; sys.exit(3)", 3, ""),
            ("raise SystemExit('no such file')", 1, "no such file\n"),
            ("import sys; print(sys.argv, __name__, __file__)", 0, ""),
            ("def f():\n    return 1 / 0\n\nf()\n", 1, "ZeroDivisionError: division by zero\n"),
            ("import no_such_package_at_all\n", 1, "No module named 'no_such_package_at_all'\n"),
        ],
    ),
)
def test_what_a_script_ends_with(tmp_path: Path, script: str, status: int, text: str) -> None:
    done = run(tmp_path, script, "--flag", "--json", "x")
    assert done.returncode == status
    assert text in done.stderr
    assert "ptxlab/cli" not in done.stderr
    if "argv" in script:
        assert done.stdout == "['script.py', '--flag', '--json', 'x'] __main__ script.py\n"


ONLY_SCRIPT = """
import torch
import triton
import triton.language as tl

@triton.jit
def number(out):
    at = tl.program_id(0) + 4 * tl.program_id(1)
    tl.store(out + at, at + 1)

out = torch.zeros(8, dtype=torch.int32)
number[(4, 2)](out)
print(out.tolist())
"""


@needs_triton
@pytest.mark.compiler
def test_only_some_ctas(tmp_path: Path) -> None:
    done = run(tmp_path, ONLY_SCRIPT, options=("--only", "1,0,0;2,1,0"))
    assert (done.returncode, done.stdout) == (0, "[0, 2, 0, 0, 0, 0, 7, 0]\n"), done.stderr
    done = run(tmp_path, ONLY_SCRIPT, options=("--only", "3", "--json"))
    assert json.loads(done.stdout)["launches"][0]["stats"]["ctas"] == 1
    assert "[0, 0, 0, 4, 0, 0, 0, 0]" in done.stderr
    done = run(tmp_path, ONLY_SCRIPT, options=("--only", "4,0,0"))
    assert done.returncode == 1
    assert "error[A310]: only names CTA (4, 0, 0), but the grid is (4, 2, 1)" in done.stderr


WRONG_CTA = """\
error[A310]: only takes CTA coordinates (x, y, z), not 'here'
  fix: as text, with semicolons between CTAs: 0,0,0;1,0,0
"""


def test_wrong_use(tmp_path: Path) -> None:
    done = run(tmp_path, "pass", options=("--only", "here"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == WRONG_CTA
    assert run(tmp_path, "pass", options=("--check", "weather")).returncode == 2
