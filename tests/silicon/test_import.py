"""``ptxlab import-records``: agreements, differences, and files that cannot be used."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxlab import silicon
from ptxlab.cli._main import cli
from tests.silicon.kit_helpers import PART, TARGET, contents, write

pytestmark = pytest.mark.sweep

FIRST = next(name for name, _, _ in silicon.cases_of(TARGET, [PART]))


def ptxlab(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)


def changed(results: Path, path: Path, change: Callable[[dict[str, Any], bytearray], object]) -> Path:
    """A file of results with something else in it, whose hash of the outputs is right."""
    record, outputs = contents(results)
    data = bytearray(outputs)
    change(record, data)
    record["outputs_hash"] = hashlib.sha256(data).hexdigest()
    return write(path, record, bytes(data))


def test_no_difference(results: Path) -> None:
    done = ptxlab("import-records", results)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0] == "NVIDIA Nothing, driver 1.2, target sm_100a: 16 cases"
    assert [line.split() for line in lines if line.startswith(("collector", "tcgen05"))] == [
        ["collector", "16", "0"],
        ["tcgen05.mma", "16", "0"],
    ]
    assert lines[-1] == "no differences"
    values = json.loads(ptxlab("import-records", results, "--json").output)
    assert values["parts"] == {"collector": {"agree": 16, "differ": 0}}
    assert values["differences"] == []
    others = [part for part in silicon.parts_of(TARGET) if part != PART]
    assert values["not_recorded"] == others
    assert lines[1] == f"not recorded: {', '.join(others)}"


def test_a_difference(results: Path, tmp_path: Path) -> None:
    def flip(record: dict[str, Any], outputs: bytearray) -> None:
        at = record["cases"][FIRST]["outputs"][0][0]
        outputs[at + 4 * (128 * 3 + 7)] ^= 1

    path = changed(results, tmp_path / "r.zip", flip)
    done = ptxlab("import-records", path)
    assert done.exit_code == 1
    outcome = silicon.read_results(path).outcomes[FIRST]
    theirs = int(np.frombuffer(outcome.outputs[0], np.uint32)[128 * 3 + 7])
    assert f"\n{FIRST}\n  1 of 2048 words differ; the first: tensor memory after, CTA 0, column 3, lane 7: " in done.output
    assert f"the GPU {theirs:08x}, ptxlab {theirs ^ 1:08x}\n" in done.output
    before = int(outcome.case.inputs[2].data[0, 3, 7])
    assert f"    tensor memory before: {before:08x}\n" in done.output
    assert done.output.endswith("\n1 differences\n")
    values = json.loads(ptxlab("import-records", path, "--json").output)
    assert values["parts"] == {"collector": {"agree": 15, "differ": 1}}
    assert [(found["case"], found["words"]) for found in values["differences"]] == [(FIRST, 1)]


def test_a_kernel_that_did_not_run(results: Path, tmp_path: Path) -> None:
    def hang(record: dict[str, Any], _: bytearray) -> None:
        record["cases"][FIRST] |= {"state": "hang \ud800\x1b[31m", "outputs": []}

    done = ptxlab("import-records", changed(results, tmp_path / "r.zip", hang))
    assert done.exit_code == 1
    assert f"\n{FIRST}\n  the GPU: hang [31m; ptxlab: no error\n" in done.output


def test_a_part_that_was_not_run(results: Path, tmp_path: Path) -> None:
    done = ptxlab("import-records", changed(results, tmp_path / "r.zip", lambda record, _: record["cases"].pop(FIRST)))
    assert (done.exit_code, done.output.splitlines()[0]) == (0, "NVIDIA Nothing, driver 1.2, target sm_100a: 15 cases")


def test_a_recording_of_an_earlier_kit() -> None:
    """Parts that were added later are named."""
    found = silicon.read_results(Path(__file__).parents[1] / "hardware" / "kits" / "sm-90a-h200.zip")
    report = silicon.Report(found, tuple(silicon.Comparison(name, outcome) for name, outcome in found.outcomes.items()))
    assert report.not_recorded == ["tma", "cuda"]
    assert "\nnot recorded: tma, cuda\n" in report.text()


def test_evidence(results: Path, tmp_path: Path) -> None:
    """A form is shown if nothing contradicts it: wholly if every choice occurred."""
    done = ptxlab("import-records", results, "--into", tmp_path / "kits")
    assert done.exit_code == 0
    (shown,) = (tmp_path / "kits").glob("*.json")
    assert shown.name == f"sm-100a-nothing-{PART}.json", "the parts that it has"
    assert shown.with_suffix(".zip").read_bytes() == results.read_bytes()
    found = json.loads(shown.read_text())
    assert (found["target"], found["gpu"], found["differences"]) == ("sm_100a", "Nothing", [])
    globs = found["evidence"]["collector"]
    assert globs["tcgen05.wait::ld.sync.aligned"] == "all"
    (alloc,) = (glob for glob in globs if glob.startswith("tcgen05.alloc"))
    assert globs[alloc] == "some", "the name of the space is not left out"
    products = {glob for glob in globs if "kind::f16" in glob and ".ws." not in glob}
    assert products

    def flip(record: dict[str, Any], outputs: bytearray) -> None:
        outputs[record["cases"][FIRST]["outputs"][0][0]] ^= 1

    path = changed(results, tmp_path / "r.zip", flip)
    assert ptxlab("import-records", path, "--into", tmp_path / "kits").exit_code == 1
    found = json.loads(shown.read_text())
    assert found["differences"] == [FIRST]
    assert not products & set(found["evidence"]["collector"])


def member(**fields: object) -> Callable[[dict[str, Any], bytearray], object]:
    return lambda record, _: record.update(fields)


def case(**fields: object) -> Callable[[dict[str, Any], bytearray], object]:
    return lambda record, _: record["cases"][FIRST].update(fields)


BROKEN = {
    "another format": ("K102", member(format=2)),
    "a format that is no number": ("K101", member(format="1")),
    "another kit": ("K102", member(kit=99)),
    "another target": ("K102", member(target="sm_90a")),
    "no target": ("K102", member(target="sm_35\ud800")),
    "another GPU": ("K102", member(about={"gpu": "x", "major": "\ud800", "minor": [1]})),
    "no GPU": ("K101", member(about=None)),
    "no cases": ("K101", member(cases={})),
    "a list of cases": ("K101", member(cases=[])),
    "a case that is none": ("K101", lambda record, _: record["cases"].update({FIRST: 5})),
    "an unknown case": ("K102", lambda record, _: record["cases"].update({"collector: \ud800": {}})),
    "another kernel": ("K102", case(kernel_hash="0")),
    "other inputs": ("K102", case(inputs_hash="0")),
    "no state": ("K101", case(state=None)),
    "too few outputs": ("K101", case(outputs=[])),
    "outputs of a kernel that did not run": ("K101", case(state="hang")),
    "an output outside": ("K101", case(outputs=[[1 << 40, 8192]])),
    "an output before": ("K101", case(outputs=[[-1, 8192]])),
    "an output of another size": ("K101", case(outputs=[[0, 8191]])),
    "an output without a place": ("K101", case(outputs=[[True, 8192]])),
    "outputs cut off": ("K101", lambda _, outputs: outputs.__delitem__(slice(100, None))),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken(what: str, results: Path, tmp_path: Path) -> None:
    code, change = BROKEN[what]
    path = changed(results, tmp_path / "r.zip", change)
    done = ptxlab("import-records", path)
    assert (done.exit_code, done.output.splitlines()[0].partition(":")[0]) == (2, f"error[{code}]"), done.output
    assert json.loads(ptxlab("import-records", path, "--json").output)["diagnostics"][0]["code"] == code


def test_other_outputs_than_the_hash_says(results: Path, tmp_path: Path) -> None:
    record, outputs = contents(results)
    done = ptxlab("import-records", write(tmp_path / "r.zip", record, outputs[:-1]))
    assert (done.exit_code, done.output.splitlines()[0]) == (2, "error[K101]: the outputs do not have the hash that the file says")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"[" * 100_000, b"\xff", b'{"format": ' + b"9" * 5000 + b"}"])
def test_no_json(text: bytes, tmp_path: Path) -> None:
    done = ptxlab("import-records", write(tmp_path / "r.zip", text, b""))
    assert (done.exit_code, done.output[:11]) == (2, "error[K101]")


def test_no_zip(results: Path, tmp_path: Path) -> None:
    raw = results.read_bytes()
    paths = [tmp_path / "no.zip", tmp_path]
    for number, data in enumerate((b"", b"PK", raw[:1000], raw[:-30], raw[50:])):
        paths.append(tmp_path / f"{number}.zip")
        paths[-1].write_bytes(data)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("results.json", "{}")
    for path in (*paths, tmp_path / "other.zip"):
        done = ptxlab("import-records", path)
        assert (done.exit_code, done.output[:11]) == (2, "error[K101]"), path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes(results: Path, tmp_path: Path, data: st.DataObject) -> None:
    """A file in which any bytes are others is refused, or read: headers of zip files hold dates and the like."""
    raw = bytearray(results.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        # The ends of the file, where the headers are, more often than the middle.
        near = data.draw(st.integers(0, 400))
        at = data.draw(st.sampled_from([near, len(raw) - 1 - near, near * len(raw) // 401]))
        raw[at] = data.draw(st.integers(0, 255))
    path = tmp_path / "any.zip"
    path.write_bytes(raw)
    with suppress(silicon.RecordError):
        silicon.read_results(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "sm_80"), "there is no kit for 'sm_80'; the targets are sm_90a, sm_100a, sm_103a, sm_110a, sm_120a, sm_121a"),
        (
            ("--target", "sm_120a", "--parts", "tcgen05"),
            "sm_120a has no part tcgen05; its parts are mma, approximate, tma, cuda, timing, faults",
        ),
        (("--target", "sm_90a", "--output", "/dev/null/x"), "cannot write /dev/null/x"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], said: str) -> None:
    done = ptxlab("record-kit", *arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_record_kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = ptxlab("record-kit", "--target", "sm_120a", "--parts", "mma,timing")
    assert done.exit_code == 0
    assert done.output.endswith("wrote ptxlab-sm_120a; on a computer with the GPU: python3 ptxlab-sm_120a/record.py\n")
    assert json.loads((tmp_path / "ptxlab-sm_120a" / "manifest.json").read_text())["parts"] == ["mma", "timing"]
    assert "compute capability 12.0 (RTX Blackwell)" in (tmp_path / "ptxlab-sm_120a" / "README.md").read_text()
