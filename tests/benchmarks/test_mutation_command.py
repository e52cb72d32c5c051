"""The command of the mutation benchmark: its report, its options, and kernels from folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.mutations import __main__ as command
from benchmarks.mutations import judging
from benchmarks.mutations import kernels as sources
from benchmarks.mutations.observers import Recorder, observed_by

from tests.benchmarks.mutation_helpers import COPY, RACE, Copy, right, verdicts


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """The command, with a correct kernel and one that races."""
    sound, racing = Copy(2), Copy(2, COPY.replace("fence.proxy.async.shared::cta;", ""))
    makers = {
        "copy": lambda: sources.Kernel("copy", sound.kernel, {"2 turns": sound}),
        "racing": lambda: sources.Kernel("racing", racing.kernel, {"2 turns": racing}),
    }
    for module in (command, judging):
        monkeypatch.setattr(module, "kernels", lambda folder: (makers, {"CUDA C++": "nvcc was not found"}))
    monkeypatch.setattr("sys.argv", ["mutations", *arguments])
    command.main()


def test_the_report_as_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with observed_by(Recorder):
        run(monkeypatch, "copy", "--every", "4", "--output", str(tmp_path / "found.json"))
    data = json.loads((tmp_path / "found.json").read_text())
    counts = {"mutants": 2, "redundant": 0, "reported": 0, "survived": 2, "proposed": 0}
    assert data["totals"] == {"all": counts, "practice": counts}
    assert data["skipped"] == {"CUDA C++": "nvcc was not found"}
    fence = data["verdicts"][0]
    reasons = fence.pop("reasons")
    assert fence == {
        "kernel": "copy", "model": "practice", "line": 21, "instruction": "fence.proxy.async.shared::cta;", "family": "fence.proxy.async",
        "how": "removed", "state": "survived", "explored": fence["explored"],
    }  # fmt: skip
    assert [*fence["explored"]] == ["2 turns"]
    assert [*reasons[0]] == ["by", "size", "schedule", "what"]


def test_the_summary_names_what_is_skipped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "--every", "9")
    lines = capsys.readouterr().out.splitlines()
    assert "skipped   CUDA C++: nvcc was not found" in lines
    assert any(line.startswith("skipped   racing (practice): 2 turns: X102: cp.async.bulk reads") for line in lines)


def test_a_part_of_the_mutants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = []
    for first in ("0", "1"):
        run(monkeypatch, "copy", "--every", "2", "--first", first, "--output", str(tmp_path / "found.json"))
        lines.append([verdict["line"] for verdict in json.loads((tmp_path / "found.json").read_text())["verdicts"]])
    assert [len(each) for each in lines] == [3, 2]
    assert sorted(lines[0] + lines[1]) == [v.mutant.line for v in verdicts()]


def test_compiled_kernels_come_from_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = Copy(2)
    made = sources.Kernel("copy", case.kernel, {"2 turns": case})
    monkeypatch.setattr(sources, "_COMPILED", {"CUDA C++": lambda: {"copy": lambda: made}})
    monkeypatch.setattr(sources, "fill", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["mutations", "--keep", str(tmp_path)])
    command.main()
    found, skipped = sources.kernels(tmp_path)
    assert not skipped
    assert "gl_mm_fp16" in found
    (launch,) = found["copy"]().launches.values()
    result, after = launch.launch(check=RACE, policy="lazy", seed=0)
    assert result.ok
    assert [memory.view(np.uint32)[: 2 * 128].reshape(2, 128).tolist() for memory in after.values()] == [right(2)]


@pytest.mark.sweep
def test_processes_judge_as_this_process_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for number, more in enumerate(([], ["--executor", "processes:2"])):
        file = tmp_path / f"{number}.json"
        given = ["gl_mm_i8", "mm_bt_int8", "--model", "practice", "--every", "25", "--output", str(file), *more]
        monkeypatch.setattr("sys.argv", ["mutations", *given])
        command.main()
        found.append(json.loads(file.read_text()))
    assert found[0]["verdicts"]
    assert found[0] == found[1]


def test_threads_cannot_judge(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["mutations", "--executor", "threads:2"])
    with pytest.raises(SystemExit):
        command.main()
    assert "which threads would share: name processes" in capsys.readouterr().err
