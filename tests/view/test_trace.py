"""Timelines: the form of the file, waits that are known, asynchronous operations, several launches, limits, and files that cannot be."""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.end_to_end.triton.case_helpers import kernel as real_kernel
from tests.end_to_end.triton.cases import CASES
from tests.machine.launch_helpers import kernel, run, store

Event = dict[str, Any]
LAUNCHES = 1


class Timeline:
    """A trace, checked against the format: names for everything, whole numbers, nothing that overlaps on a track."""

    def __init__(self, path: Path) -> None:
        whole = json.loads(path.read_text())
        assert set(whole) == {"traceEvents", "displayTimeUnit", "otherData"}
        self.about = whole["otherData"]
        self.events: list[Event] = whole["traceEvents"]
        self.names: dict[tuple[str, int, int], str] = {}
        for e in self.events:
            assert e["ph"] in ("M", "X", "i")
            assert all(type(e[key]) is int and e[key] > 0 for key in ("pid", "tid"))
            if e["ph"] == "M":
                assert e["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
                if "name" in e["args"]:
                    key = (e["name"], e["pid"], e["tid"] if e["name"] == "thread_name" else 0)
                    assert key not in self.names
                    self.names[key] = e["args"]["name"]
            else:
                assert type(e["ts"]) is int
                assert e["ts"] >= 0
                assert type(e["name"]) is str
        self.slices = [e for e in self.events if e["ph"] == "X"]
        self._check_tracks()

    def _check_tracks(self) -> None:
        tracks = defaultdict(list)
        for e in self.slices:
            assert type(e["dur"]) is int
            assert e["dur"] >= 0
            tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
        for (pid, tid), spans in tracks.items():
            assert ("process_name", pid, 0) in self.names
            assert ("thread_name", pid, tid) in self.names
            ordered = sorted(spans)
            assert all(end <= start for (_, end), (start, _) in pairwise(ordered)), "slices of a track overlap"
        for e in self.events:
            if e["ph"] == "i":
                assert e["s"] == "t"
                assert any(a <= e["ts"] <= b for a, b in tracks[e["pid"], e["tid"]]), "an instant in no slice"

    def process(self, event: Event) -> str:
        return self.names["process_name", event["pid"], 0]

    def track(self, event: Event) -> str:
        return self.names["thread_name", event["pid"], event["tid"]]

    def of(self, kind: str) -> list[Event]:
        return [e for e in self.slices if e["cat"] == kind]


def end(event: Event) -> int:
    return int(event["ts"] + event["dur"])


MEETING = """
    setp.eq.u32 p, warp, 1;
    mov.u32 r0, 0;
    @!p bra MEET;
    AGAIN: add.u32 r0, r0, 1;
    setp.lt.u32 q, r0, 500;
    @q bra AGAIN;
    MEET: bar.sync 3;
"""


def test_a_wait_that_is_known(tmp_path: Path) -> None:
    """Warp 1 counts to 500; warp 0 waits for it at the barrier."""
    _, result = run(MEETING + store("r0"), 64, trace=tmp_path / "t.json")
    trace = Timeline(tmp_path / "t.json")
    (wait,) = trace.of("wait")
    (phase,) = trace.of("barrier")
    (launch,) = trace.of("launch")
    assert (trace.process(wait), trace.track(wait), wait["name"]) == ("k CTA (0, 0, 0), cluster 0, SM 0", "warp 0", "bar.sync")
    assert (wait["args"]["text"], wait["args"]["waits"], wait["args"]["lanes"]) == ("MEET: bar.sync 3;", "waits at barrier 3", "0-31")
    assert (trace.track(phase), phase["name"], phase["args"]) == ("barrier 3", "phase 0", {"phase": 0})
    runs = {name: [e for e in trace.of("run") if trace.track(e) == name] for name in ("warp 0", "warp 1")}
    assert len(runs["warp 0"]) == 2
    assert len(runs["warp 1"]) == 1
    assert 1500 < wait["dur"] < 1530, "three instructions for each count"
    assert phase["ts"] == min(wait["ts"], phase["ts"])
    assert end(phase) == end(wait) <= runs["warp 0"][1]["ts"]
    assert wait["ts"] == end(runs["warp 0"][0])
    assert sum(e["dur"] for e in trace.of("run")) == result.stats.instructions == launch["dur"]
    assert launch["name"] == "k"
    assert launch["args"]["block"] == [64, 1, 1]
    assert trace.about["events left out"] == 0


@pytest.mark.compiler
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("name", "size", "units"), [
    ("gl_mm_fp16", "256x256x128", {"TMA": "cp.async.bulk.tensor", "tcgen05": "tcgen05."}),
    ("mm_ptr_fp16", "128x128x192", {"cp.async": "cp.async", "tcgen05": "tcgen05."}),
    ("sm90_mm_ptr_fp16", "128x128x192", {"cp.async": "cp.async", "wgmma": "wgmma.mma_async"}),
])  # fmt: skip
def test_asynchronous_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, name: str, size: str, units: dict[str, str]
) -> None:
    units = dict(units)
    cases = CASES
    if name.startswith("sm90_"):
        cases = importlib.import_module("tests.end_to_end.triton_sm90.cases").CASES
    case = cases[name](size)
    if policy == "eager":
        units.pop("cp.async", None)  # the copies are compiled code then
    result = real_kernel(name).launch(
        **case.geometry(), args=[*case.args, *case.scratch()], policy=policy, seed=3, trace=tmp_path / "t.json"
    )
    result.raise_for_errors()
    trace = Timeline(tmp_path / "t.json")
    operations = trace.of("asynchronous")
    assert {trace.track(e).split(" ")[0] for e in operations} == set(units)
    for unit, opcode in units.items():
        own = [e for e in operations if trace.track(e).startswith(unit)]
        assert own
        assert all(e["name"].startswith(opcode) for e in own)
        assert all(e["args"]["source"].split(":")[0].endswith("_kernels.py") for e in own)
        if policy == "eager":
            assert {e["dur"] for e in own} == {0}
        elif policy == "lazy":
            assert max(e["dur"] for e in own) > 0
    for opcode, calls in result.stats.services.items():
        if opcode.startswith(("tcgen05.mma", "cp.async.bulk.tensor")):
            assert sum(e["name"] == opcode for e in operations) == calls
        if opcode.startswith("wgmma.mma_async"):
            assert sum(e["name"] == opcode for e in operations) == calls // 4, "one for the four warps"
    assert trace.of("barrier")
    assert sum(e["dur"] for e in trace.of("run")) == result.stats.instructions
    assert not [e for e in trace.slices if "ended" in e["args"]]


@pytest.mark.compiler
def test_who_waits_for_a_copy(tmp_path: Path) -> None:
    """Under ``lazy`` a copy performs when nothing else can go on: the wait on its mbarrier ends with it."""
    case = CASES["gl_mm_fp16"]("256x256x128")
    real_kernel("gl_mm_fp16").launch(**case.geometry(), args=[*case.args, *case.scratch()], policy="lazy", trace=tmp_path / "t.json")
    trace = Timeline(tmp_path / "t.json")
    waits = [e for e in trace.of("wait") if e["name"].startswith("mbarrier.try_wait")]
    assert waits
    for wait in waits:
        assert "phase" in wait["args"]["waits"]
        same = [e for e in trace.of("barrier") if e["pid"] == wait["pid"] and end(e) == end(wait) and trace.track(e).startswith("mbarrier")]
        assert same, "a phase completes when the wait ends"
        done = [e for e in trace.of("asynchronous") if e["pid"] == wait["pid"] and end(e) == end(wait)]
        assert done, "an operation completes when the wait ends"


def test_a_hang_shows_what_is_waited_for(tmp_path: Path) -> None:
    shared = ".shared .align 8 .b64 full;"
    body = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [full], 1;
    bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared.b64 q, [full], 0;
    @!q bra WAIT;
    """
    _, result = run(body, 32, shared=shared, trace=tmp_path / "t.json")
    assert [d.code for d in result.diagnostics] == ["H601"]
    trace = Timeline(tmp_path / "t.json")
    last = trace.of("wait")[-1]
    assert last["args"]["ended"] == "with the launch"
    assert last["name"].startswith("mbarrier.try_wait")
    (launch,) = trace.of("launch")
    assert launch["args"]["CTAs that ended"] == 0


def test_splits_stand_on_tracks_of_their_own(tmp_path: Path) -> None:
    body = """
    setp.lt.u32 p, lane, 16;
    mov.u32 r0, 1;
    @p bra LOW;
    bar.warp.sync 0xffffffff;
    bra JOIN;
    LOW: mov.u32 r0, 2;
    bar.warp.sync 0xffffffff;
    JOIN:
    """
    out, result = run(body + store("r0"), 32, trace=tmp_path / "t.json")
    assert result.ok
    assert out.tolist() == [2] * 16 + [1] * 16
    trace = Timeline(tmp_path / "t.json")
    assert {trace.track(e) for e in trace.of("run")} == {"warp 0", "warp 0 (2)"}
    waits = [e for e in trace.of("wait") if e["name"] == "bar.warp.sync"]
    assert waits
    assert {e["args"]["waits"] for e in waits} == {"waits for the other lanes of the warp"}


def test_clusters(tmp_path: Path) -> None:
    body = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    _, result = run(body, 32, 4, directives=".reqnctapercluster 2", trace=tmp_path / "t.json")
    assert result.ok
    trace = Timeline(tmp_path / "t.json")
    assert {trace.process(e) for e in trace.of("run")} == {f"k CTA ({i}, 0, 0), cluster {i // 2}, SM {i % 2}" for i in range(4)}
    assert {(trace.process(e)[:15], trace.track(e)) for e in trace.of("barrier")} == {
        ("k CTA (0, 0, 0)", "barrier.cluster"), ("k CTA (2, 0, 0)", "barrier.cluster")
    }  # fmt: skip


def test_together_with_the_race_check_and_without(tmp_path: Path) -> None:
    """The timeline is the same, and so are the findings; alone, it needs no recorded code."""
    shared = ".shared .align 4 .b8 buffer[128];"
    body = """
    mov.u32 r0, buffer;
    mad.lo.u32 r0, lane, 4, r0;
    setp.eq.u32 p, warp, 0;
    @p st.shared.u32 [r0], tid;
    @!p ld.shared.u32 r1, [r0];
    """
    found, events = {}, {}
    for check in ("race", "none"):
        launched = kernel(body + store("r1"), shared=shared)
        out = np.zeros(64, np.uint32)
        result = launched.launch(block=64, args=[out], check=check, trace=tmp_path / f"{check}.json")
        plain = kernel(body + store("r1"), shared=shared).launch(block=64, args=[out], check=check)
        assert [d.code for d in result.diagnostics] == [d.code for d in plain.diagnostics]
        found[check] = [d.code for d in result.diagnostics]
        events[check] = Timeline(tmp_path / f"{check}.json").events
        assert {recorded for _, recorded, *_ in launched._variants} == {check == "race"}
    assert found["race"] != found["none"] == []
    assert events["race"] == events["none"]


def test_several_launches_in_one_file(tmp_path: Path) -> None:
    trace = ptxlab.Trace(tmp_path / "t.json")
    assert Timeline(tmp_path / "t.json").of("run") == []
    longest = kernel(MEETING)
    spans = []
    for count in (1, 2, 3):
        longest.launch(block=64, args=[np.zeros(64, np.uint32)], trace=trace)
        made = Timeline(tmp_path / "t.json")
        assert made.about["launches"] == count == len(made.of("launch"))
        spans = [(e["ts"], end(e)) for e in made.of("launch")]
    assert all(first[1] < second[0] for first, second in pairwise(spans))
    assert {made.process(e).partition(" CTA")[0] for e in made.of("run")} == {"k", "2 k", "3 k"}
    for e in made.of("run"):
        index = int(made.process(e)[0]) - 1 if made.process(e)[0].isdigit() else 0
        assert spans[index][0] <= e["ts"] <= end(e) <= spans[index][1]


def test_a_program_that_goes_to_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = ptxlab.Trace("t.json")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = kernel(store("tid")).launch(block=32, args=[np.zeros(32, np.uint32)], trace=trace)
    assert result.diagnostics == ()
    assert len(Timeline(tmp_path / "t.json").of("launch")) == 1


def test_the_limit(tmp_path: Path) -> None:
    trace = ptxlab.Trace(tmp_path / "t.json", most_events=20)
    out = np.zeros(64 * 50, np.uint32)
    result = kernel(MEETING + store("r0")).launch(grid=50, block=64, args=[out], trace=trace)
    assert result.ok
    about = Timeline(tmp_path / "t.json").about
    (note,) = result.diagnostics
    assert (note.code, note.severity) == ("A319", "note")
    assert note.message == f"{tmp_path}/t.json holds 20 events; {about['events left out']} more of kernel k were left out"
    assert note.fix == "trace fewer CTAs (only=), or give ptxlab.Trace a larger most_events"
    assert about["events"] == about["most events"] == 20
    assert about["events left out"] > 50 * 10
    assert [launch["name"] for launch in Timeline(tmp_path / "t.json").of("launch")] == ["k"]


def refusal(path: Any) -> str:
    with pytest.raises(ptxlab.LaunchError) as caught:
        kernel(store("tid")).launch(block=32, args=[np.zeros(32, np.uint32)], trace=path)
    return str(caught.value)


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    fix = "  fix: give the path of a file in a folder that exists and can be written to"
    os.mkfifo(tmp_path / "fifo")
    for path, why in (
        (tmp_path / "no" / "t.json", "No such file or directory"),
        (tmp_path, "it is no file"),
        (tmp_path / "fifo", "it is no file"),
        (tmp_path / ("x" * 300), "File name too long"),
        ("", "it is no file"),
    ):
        assert refusal(path) == f"error[A318]: the trace {str(path)!r} cannot be written: {why}\n{fix}"
    assert refusal("a\0b").startswith("error[A318]: the trace 'a\\x00b' cannot be written: ")
    assert refusal(b"t.json") == "error[A310]: trace must be a path or a ptxlab.Trace, not b't.json'"


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The launch goes on; its result says that the trace is not what it should be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = np.zeros(64 * 400, np.uint32)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        result = kernel(MEETING + store("r0")).launch(grid=400, block=64, args=[out], trace=tmp_path / "t.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.completed
    assert out.any()
    (found,) = result.diagnostics
    assert (found.code, found.message) == ("A318", f"the trace '{tmp_path}/t.json' cannot be written: File too large")


def test_an_interrupted_launch_leaves_a_whole_file(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    out = np.zeros(64 * 8, np.uint32)
    with pytest.raises(KeyboardInterrupt):
        kernel(MEETING + store("r0")).launch(grid=8, block=64, args=[out], trace=tmp_path / "t.json", progress=interrupt)
    trace = Timeline(tmp_path / "t.json")
    assert trace.of("launch")[0]["args"]["CTAs that ended"] == 3


def test_nothing_is_imported_without_a_trace() -> None:
    program = """
import sys, numpy as np, ptxlab
text = ".version 9.0\\n.target sm_100a\\n.address_size 64\\n.visible .entry k() { ret; }"
assert ptxlab.loads(text).kernel().launch(block=1).ok
assert not [name for name in sys.modules if name.startswith("ptxlab.view")]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
