"""The script of a kit, with ptxlab in place of the driver: what it prints, writes, and does about kernels that hang or crash."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from pathlib import Path

import pytest

from ptxlab import silicon
from tests.silicon.kit_helpers import PART, TARGET, contents, run_script, write

SCRIPT = Path(silicon.__file__).with_name("_record.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    silicon.write_kit(TARGET, tmp_path / "kit", [PART])
    return tmp_path / "kit"


def test_it_needs_the_standard_library_only() -> None:
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    names = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "__future__"}


def test_a_run(results: Path) -> None:
    record, outputs = contents(results)
    cases = {name for name, _, _ in silicon.cases_of(TARGET, [PART])}
    assert set(record["cases"]) == cases
    assert {case["state"] for case in record["cases"].values()} == {"ok"}
    assert record["about"]["gpu"] == "NVIDIA Nothing"
    assert len(outputs) == sum(size for case in record["cases"].values() for _, size in case["outputs"])


def test_nothing_else_is_written(results: Path) -> None:
    names = {path.name for path in results.parent.iterdir()}
    assert names == {"README.md", "inputs.bin", "kernels", "manifest.json", "record.py", results.name}


@pytest.mark.sweep
def test_what_hangs_and_what_crashes(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    # A few kernels; each has the time that a busy computer takes to start Python and compile.
    kernels = sorted({case["kernel"] for case in manifest["cases"].values()})[:4]
    manifest["cases"] = {name: case for name, case in manifest["cases"].items() if case["kernel"] in kernels}
    path.write_text(json.dumps(manifest | {"seconds_of_a_launch": 10}))
    done = run_script(folder, FAKE_HANG=kernels[1], FAKE_CRASH=kernels[2])
    assert done.returncode == 0, done.stderr
    assert f"{PART}: {len(manifest['cases']) - 2} of {len(manifest['cases'])} kernels ran, 2 ended otherwise" in done.stdout
    record, _ = contents(folder / f"results-{TARGET}.zip")
    states = {manifest["cases"][name]["kernel"]: case["state"] for name, case in record["cases"].items()}
    assert [states[kernel] for kernel in kernels] == ["ok", "hang", "the process ended: second line", "ok"]


def test_messages_of_a_process(folder: Path) -> None:
    """They are not printed; the last line of a process that ends by itself is noted."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    name, case = next(iter(manifest["cases"].items()))
    path.write_text(json.dumps(manifest | {"cases": {name: case}}))
    done = run_script(folder, FAKE_CRASH=case["kernel"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "line" not in done.stdout
    record, _ = contents(folder / f"results-{TARGET}.zip")
    assert record["cases"][name]["state"] == "the process ended: second line"


def test_no_time_is_left(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 0}))
    done = run_script(folder)
    assert done.returncode == 0, done.stderr
    record, outputs = contents(folder / f"results-{TARGET}.zip")
    assert {case["state"] for case in record["cases"].values()} == {"skipped: no time was left"}
    assert outputs == b""


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ((), {"FAKE_CAPABILITY": "9.0"}, "this folder is for GPUs of compute capability 10.0 (sm_100a); NVIDIA Nothing has 9.0"),
        ((), {"FAKE_NONE": "1"}, "no GPU can be used: CUDA_ERROR_NO_DEVICE"),
        (("--parts", "mma"), {}, "no such part: mma; the parts are collector"),
    ],
)
def test_what_cannot_run(folder: Path, arguments: tuple[str, ...], environment: dict[str, str], said: str) -> None:
    done = run_script(folder, *arguments, **environment)
    assert done.returncode
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_folder(folder: Path) -> None:
    (folder / "inputs.bin").write_bytes(b"")
    done = run_script(folder)
    assert (done.returncode, done.stderr) == (1, "inputs.bin is missing or damaged: unpack the folder again\n")


@pytest.mark.compiler
@pytest.mark.parametrize(("part", "what", "outputs"), [("cuda", "wgmma_gemm", 1), ("tma", "im2col", 2), ("tma", "multicast::cluster", 2)])
def test_tensor_maps(part: str, what: str, outputs: int, tmp_path: Path) -> None:
    """The driver encodes them, for the tensor of the launch and for an address that is always the same."""
    folder, target = tmp_path / "kit", "sm_90a"
    silicon.write_kit(target, folder, [part])
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    assert part != "cuda" or {"kernels/ptx.cuh", "kernels/wgmma_gemm.cu"} <= set(manifest["files"])
    name, case = next((name, case) for name, case in manifest["cases"].items() if what in name)
    path.write_text(json.dumps(manifest | {"cases": {name: case}}))
    done = run_script(folder, FAKE_TARGET=target, FAKE_CAPABILITY="9.0")
    assert done.returncode == 0, done.stderr
    file = folder / f"results-{target}.zip"
    (compared,) = silicon.compare(silicon.read_results(file)).comparisons
    assert (compared.name, compared.difference, len(compared.outcome.outputs)) == (name, "", outputs + len(case["maps"]))
    record, data = contents(file)
    at, size = record["cases"][name]["outputs"][outputs]
    changed = bytearray(data)
    changed[at + 40] ^= 1
    record["outputs_hash"] = hashlib.sha256(changed).hexdigest()
    (compared,) = silicon.compare(silicon.read_results(write(tmp_path / "r.zip", record, bytes(changed)))).comparisons
    assert (size, compared.difference.partition(": the GPU")[0]) == (128, "1 of 128 words differ; the first: tensor map 0, byte 40")


@pytest.mark.compiler
def test_a_tensor_map_that_the_driver_refuses(tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    silicon.write_kit("sm_90a", folder, ["cuda"])
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    names = [name for name, case in manifest["cases"].items() if case["maps"]][:2]
    cases = {name: manifest["cases"][name] for name in names}
    cases[names[0]]["maps"][1][1]["swizzle"] = 9
    path.write_text(json.dumps(manifest | {"cases": cases}))
    done = run_script(folder, FAKE_TARGET="sm_90a", FAKE_CAPABILITY="9.0")
    assert done.returncode == 0, done.stderr
    states = [case["state"] for case in contents(folder / "results-sm_90a.zip")[0]["cases"].values()]
    assert states == ["refused: a tensor map: CUDA_ERROR_INVALID_VALUE", "ok"]
