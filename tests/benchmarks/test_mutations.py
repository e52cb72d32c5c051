"""The mutation benchmark: what it mutates, what runs against a kernel, and what its report says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.mutations import __main__ as command
from benchmarks.mutations import judging
from benchmarks.mutations import kernels as sources
from benchmarks.mutations.adversary import ADVERSARIES, against
from benchmarks.mutations.expected import EXPECTED, Expected
from benchmarks.mutations.inputs import KEPT, arrays_of
from benchmarks.mutations.judge import SCHEDULES, Unsound, Verdict, judge
from benchmarks.mutations.kept import keep, kept
from benchmarks.mutations.launches import captured
from benchmarks.mutations.mutants import mutants
from benchmarks.mutations.observers import Recorder, observed_by, reached

import ptxlab
from ptxlab.interop import nvcc

COPY = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 out, .param .u32 turns)
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 128 .b8 tile[512];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
shl.b32 %r3, %r1, 2;
add.u32 %r3, %r2, %r3;
ld.param.u64 %rd1, [out];
ld.param.u32 %r5, [turns];
cvta.to.global.u64 %rd1, %rd1;
setp.ne.u32 %p1, %r1, 127;
mov.u32 %r4, 1;
NEXT:
mad.lo.u32 %r6, %r1, 5, %r4;
st.shared.u32 [%r3], %r6;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra BEHIND;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 512;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
BEHIND:
bar.sync 0;
add.u64 %rd1, %rd1, 512;
add.u32 %r4, %r4, 1;
setp.le.u32 %p2, %r4, %r5;
@%p2 bra NEXT;
setp.gt.u32 %p3, %r5, 1000;
@%p3 bar.sync 1;
ret;
}
"""
TENSOR = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry pass(.param .u64 out)
{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 4 .b32 slot;
mov.u32 %r1, %tid.x;
setp.lt.u32 %p0, %r1, 32;
setp.ge.u32 %p1, %r1, 128;
mov.u32 %r2, slot;
@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
bar.sync 0;
ld.shared.u32 %r3, [slot];
add.u32 %r4, %r1, 7;
@%p0 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r4};
@%p0 tcgen05.wait::st.sync.aligned;
bar.sync 0;
@%p1 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r3];
@%p1 tcgen05.wait::ld.sync.aligned;
bar.sync 0;
mov.u32 %r6, 999;
@%p0 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r6};
@%p0 tcgen05.wait::st.sync.aligned;
bar.sync 0;
ld.param.u64 %rd1, [out];
cvta.to.global.u64 %rd1, %rd1;
and.b32 %r7, %r1, 31;
mul.wide.u32 %rd2, %r7, 4;
add.u64 %rd1, %rd1, %rd2;
@%p1 st.global.u32 [%rd1], %r5;
@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
@%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ret;
}
"""
"""Warp 0 passes values to warp 4, which may access the same lanes."""
PHASES = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry twice()
{
.reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
.shared .align 8 .b64 bars[2];
mov.u32 %r1, %tid.x;
mov.u32 %r2, bars;
setp.eq.u32 %p0, %r1, 0;
@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p0 mbarrier.init.shared::cta.b64 [%r2+8], 1;
bar.sync 0;
@%p0 bra FIRST;
setp.ne.u32 %p1, %r1, 32;
@%p1 bra DONE;
OTHER:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], 0;
@!%p2 bra OTHER;
mbarrier.arrive.shared::cta.b64 %rd1, [%r2];
bra DONE;
FIRST:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1;
@!%p2 bra FIRST;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2+8];
mov.u32 %r3, 0;
SECOND:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1;
@!%p2 bra SECOND;
DONE:
ret;
}
"""
"""The second wait passes unless warp 1, which the commit lets go, has completed the phase by then."""
RACE = ("race", "memory")


class Copy:
    """Turn by turn all threads fill a tile, of which one thread makes a copy."""

    def __init__(self, turns: int, text: str = COPY) -> None:
        self.kernel = ptxlab.loads(text).kernel()
        self.out = np.zeros((turns, 128), np.uint32)
        self.turns = turns

    def launch(self, **options: Any) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
        self.out[:] = 0
        result = self.kernel.launch(grid=1, block=128, args=[self.out, self.turns], **options)
        return result, {"out": self.out.copy()}


def right(turns: int) -> list[list[int]]:
    return (5 * np.arange(128) + np.arange(1, turns + 1)[:, None]).tolist()  # type: ignore[no-any-return]


def test_a_launch_is_taken_from_a_test_and_repeated() -> None:
    case = Copy(3)
    took = captured(ptxlab.Kernel, case.launch)
    assert not case.out.any()
    assert took.kernel is case.kernel
    for _ in range(2):
        result, found = took.launch(check=RACE, policy="lazy")
        assert result.ok
        assert found["0"].tolist() == right(3)
        assert not case.out.any()
    with pytest.raises(ValueError, match="launches nothing"):
        captured(ptxlab.Kernel, lambda: None)


def test_what_a_launch_executes() -> None:
    case = Copy(1)
    program = case.kernel.variant(False, True)[0]
    got = reached(lambda: case.launch(check=RACE))
    assert [m.family for m in mutants(program, "practice") if m.index not in got] == ["barrier"]


@pytest.mark.parametrize(("name", "seed"), ADVERSARIES)
def test_no_adversary_changes_a_correct_kernel(name: str, seed: int) -> None:
    with against(name):
        result, found = Copy(3).launch(check=RACE, policy="random", seed=seed)
    assert result.ok
    assert found["out"].tolist() == right(3)


@pytest.mark.parametrize(
    "lost",
    [
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;\n@%p1",
        "BEHIND:\nbar.sync 0;",
        "cp.async.bulk.wait_group 0;",
    ],
)
def test_adversaries_change_one_that_is_not(lost: str) -> None:
    kept = {"bar.sync 0;\n@%p1": "@%p1", "BEHIND:\nbar.sync 0;": "BEHIND:"}.get(lost, "")
    case = Copy(3, COPY.replace(lost, kept))
    results = []
    for name, seed in ADVERSARIES:
        with against(name):
            results.append(case.launch(check=RACE, policy="random", seed=seed)[1]["out"].tolist())
    assert any(found != right(3) for found in results)


@pytest.mark.parametrize("lost", ["", "fence.proxy.async.shared::cta;"])
def test_what_cp_async_writes_is_hidden_too(lost: str) -> None:
    """The values that threads store in `COPY`, copied from global memory."""
    text = COPY.replace(lost, "", 1).replace(".param .u64 out,", ".param .u64 out, .param .u64 from,").replace("%rd<4>", "%rd<8>")
    text = text.replace("NEXT:", "ld.param.u64 %rd2, [from];\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd2, %rd2, %rd3;\nNEXT:")
    copy = "cp.async.ca.shared.global [%r3], [%rd2], 4;\ncp.async.wait_all;\nadd.u64 %rd2, %rd2, 512;"
    kernel = ptxlab.loads(text.replace("st.shared.u32 [%r3], %r6;", copy)).kernel()
    found = []
    for name, seed in ADVERSARIES:
        out = np.zeros((3, 128), np.uint32)
        with against(name):
            args = [out, np.array(right(3), np.uint32), 3]
            assert kernel.launch(grid=1, block=128, args=args, check=RACE, policy="random", seed=seed).ok
        found.append(out.tolist())
    assert all((rows == right(3)) == (not lost) for rows in found)


@pytest.mark.parametrize("lost", ["", "@%p0 tcgen05.wait::st.sync.aligned;", "@%p1 tcgen05.wait::ld.sync.aligned;"])
def test_transfers_of_tensor_memory_are_late(lost: str) -> None:
    kernel = ptxlab.loads(TENSOR.replace(lost, "", 1)).kernel()
    right = True
    for name, seed in ADVERSARIES:
        out = np.zeros(32, np.uint32)
        with against(name):
            result = kernel.launch(grid=1, block=160, args=[out], check=RACE, policy="random", seed=seed)
        assert result.ok
        right &= out.tolist() == list(range(7, 39))
    assert right == (not lost)


def test_a_wait_that_comes_too_late_hangs() -> None:
    kernel = ptxlab.loads(PHASES).kernel()
    found = []
    for name, seed in ADVERSARIES:
        with against(name):
            found.append(kernel.launch(grid=1, block=64, check=RACE, policy="random", seed=seed))
    assert {d.code for result in found for d in result.diagnostics if d.severity == "error"} == {"H601"}
    assert any(result.completed for result in found)


def verdicts() -> list[Verdict]:
    small, large = Copy(1), Copy(3)
    large.kernel = small.kernel
    return list(judge("copy", small.kernel, {"1 turn": small, "3 turns": large}))


def test_every_mutant_is_reported_with_its_repair() -> None:
    found = verdicts()
    assert [(v.mutant.family, v.state, v.proposed) for v in found] == [
        (family, "reported", True)
        for family in ("fence.proxy.async", "barrier", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group", "barrier")
    ]
    assert [v.text for v in found][:2] == ["fence.proxy.async.shared::cta;", "bar.sync 0;"]
    assert {size for size, _ in found[-1].explored} == {"1 turn", "3 turns"}


def test_mutants_of_a_launch_that_was_kept_in_a_file_are_judged_alike(tmp_path: Path) -> None:
    keep(tmp_path, "copy", {"1 turn": Copy(1), "3 turns": Copy(3)})
    (read,) = kept(tmp_path).values()
    launches = read()
    kernel = launches["1 turn"].kernel
    assert list(judge("copy", kernel, launches)) == verdicts()
    with observed_by(Recorder):
        assert [(v.state, v.explored) for v in judge("copy", kernel, launches)] == [(v.state, v.explored) for v in verdicts()]


def test_what_nothing_reports_survives_with_the_reason() -> None:
    """With a sanitizer that sees nothing."""
    with observed_by(Recorder):
        found = verdicts()
    assert {v.state for v in found} == {"survived"}
    fence = found[0]
    assert fence.codes == ()
    assert {(r.by, r.size) for r in fence.reasons} >= {(by, "3 turns") for by in ("exact shadow", "restless", "reluctant")}
    assert "X102: cp.async.bulk reads shared memory" in fence.reasons[0].what
    assert "elements of the results differ" in fence.reasons[-1].what


def test_what_changes_nothing_is_redundant_on_evidence() -> None:
    twice = COPY.replace("BEHIND:\nbar.sync 0;", "BEHIND:\nbar.sync 0;\nbar.sync 0;")
    case = Copy(2, twice)
    *_, first, second = judge("copy", case.kernel, {"2 turns": case})
    assert [first.state, second.state] == ["redundant"] * 2
    assert first.reasons == ()
    schedules = [f"{policy} {seed}" if policy == "random" else policy for policy, seed in SCHEDULES]
    schedules += ["exact shadow", *(f"{name} {seed}" for name, seed in ADVERSARIES)]
    assert first.explored == tuple(("2 turns", who) for who in schedules)


def test_a_kernel_that_is_not_clean_is_no_subject() -> None:
    case = Copy(3, COPY.replace("fence.proxy.async.shared::cta;", ""))
    with pytest.raises(Unsound, match=r"^3 turns: X102: cp\.async\.bulk reads shared memory"):
        list(judge("copy", case.kernel, {"3 turns": case}))


MARKED = COPY.replace("tile[512];", "tile[512];\n.shared .b32 mark;").replace(
    "mov.u32 %r2, tile;", "mov.u32 %r2, tile;\nst.shared.u32 [mark], %r1;"
)
"""All threads write their number to one word, which nothing reads."""
MARK = Expected(frozenset({("X101", 12)}), "warps write to one word")


def test_the_expected_findings_of_a_kernel_are_no_findings_of_its_mutants() -> None:
    twice = MARKED.replace("BEHIND:\nbar.sync 0;", "BEHIND:\nbar.sync 0;\nbar.sync 0;")
    case = Copy(2, twice)
    with pytest.raises(Unsound, match=r"^2 turns: X101: st\.shared"):
        list(judge("copy", case.kernel, {"2 turns": case}))
    found = list(judge("copy", case.kernel, {"2 turns": case}, expected=MARK))
    plain = Copy(2, twice.replace("st.shared.u32 [mark], %r1;", "mov.u32 %r2, %r2;"))
    right = list(judge("copy", plain.kernel, {"2 turns": plain}))
    assert [(v.state, v.codes, v.proposed, v.explored) for v in found] == [(v.state, v.codes, v.proposed, v.explored) for v in right]
    assert {v.state for v in found} == {"reported", "redundant"}


def test_a_kernel_without_an_expected_finding_is_no_subject() -> None:
    case = Copy(2, MARKED)
    stale = Expected(MARK.findings | {("X102", 14)}, "")
    with pytest.raises(Unsound, match=r"^X102 at line 14 is expected and not found$"):
        list(judge("copy", case.kernel, {"2 turns": case}, expected=stale))


class Quiet(Copy):
    """Nothing is found but X101 at line 12, whose repair names something else in mutants."""

    def __init__(self, repair: str, in_mutants: str) -> None:
        super().__init__(2)
        self.sound = self.kernel.variant(False, True)[0]
        self.repair, self.in_mutants = repair, in_mutants

    def launch(self, **options: Any) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
        result, found = super().launch(**options)
        fix = self.repair if self.kernel.variant(False, True)[0] is self.sound else self.in_mutants
        finding = ptxlab.Diagnostic("X101", "error", "a race", fix=fix, place=ptxlab.diagnostics.Place("", 12))
        note = ptxlab.Diagnostic("M410", "note", "an order")
        return SimpleNamespace(diagnostics=(finding, note), completed=result.completed, stats=result.stats), found


@pytest.mark.parametrize(
    ("repair", "in_mutants", "reported"),
    [
        ("insert nothing", "insert nothing", set()),
        ("insert nothing", "insert fence.proxy.async", {"fence.proxy.async"}),
        ("insert fence.proxy.async", "insert fence.proxy.async", set()),
    ],
)
def test_an_expected_finding_counts_if_it_alone_names_the_removed_instruction(repair: str, in_mutants: str, reported: set[str]) -> None:
    case = Quiet(repair, in_mutants)
    found = list(judge("copy", case.kernel, {"2 turns": case}, expected=MARK))
    assert {v.mutant.family for v in found if v.state == "reported"} == reported


def test_expected_findings_are_stated_with_their_reasons() -> None:
    makers, _ = sources.kernels()
    known = set(makers) | {"cute_scaled_mxf8", "cute_scaled_nvf4"}
    for (name, model), expected in EXPECTED.items():
        assert name in known
        assert model in ("practice", "spec")
        assert expected.findings
        assert len(expected.reason.split()) > 10


@pytest.mark.compiler
def test_the_expected_findings_of_a_compiled_kernel() -> None:
    made = sources.kernels()[0]["gl_mm_2cta_fp16"]()
    with pytest.raises(Unsound, match=r"mbarrier\.inval ends"):
        list(judge(made.name, made.kernel, made.launches, "spec"))
    found = list(judge(made.name, made.kernel, made.launches, "spec", lambda number, _: number < 1, EXPECTED[made.name, "spec"]))
    assert [v.state for v in found] == ["redundant"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """The command, with kernels of this file."""
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


def test_kernels_whose_compiler_is_absent_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise nvcc.NvccError(ptxlab.Diagnostic(code="I201", message="nvcc was not found", severity="error"))

    monkeypatch.setattr(nvcc, "find_nvcc", absent)
    found, skipped = sources.kernels()
    assert skipped["CUDA C++"] == "nvcc was not found"
    assert "gl_mm_fp16" in found
    assert not [name for name in found if name.startswith("cuda_")]


@pytest.mark.compiler
def test_kernels_of_every_source() -> None:
    found, skipped = sources.kernels()
    assert {"Triton and Gluon", "CuTe DSL", "CUDA C++"} >= set(skipped)
    for name, source in (
        ("gl_mm_i8", "Triton and Gluon"),
        ("sm90_softmax_fp32", "Triton and Gluon"),
        ("cute_hopper_mn", "CuTe DSL"),
        ("cuda_copy", "CUDA C++"),
    ):
        if source not in skipped:
            made = found[name]()
            assert all(launch.launch(check=RACE)[0].ok for launch in made.launches.values())


@pytest.mark.compiler
@pytest.mark.parametrize("source", ["Triton and Gluon", "CuTe DSL", "CUDA C++"])
def test_arrays_hold_many_values(source: str) -> None:
    """Unordered writes of the same bits change nothing: inputs and the memory of results are random."""
    try:
        makers = ({"Triton and Gluon": sources._from_files} | sources._COMPILED)[source]()
    except ptxlab.PtxlabError as error:
        pytest.skip(error.diagnostic.message)
    found, _ = sources.kernels()
    kept = set()
    for name in makers:
        for launch in found[name]().launches.values():
            for number, array in arrays_of(launch).items():
                if (name, number) in KEPT:
                    kept.add((name, number))
                    continue
                values = np.unique(np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}"))
                assert len(values) >= min(64, (array.size + 1) // 2), (name, number)
    assert kept == {key for key in KEPT if key[0] in makers}


@pytest.mark.sweep
def test_inputs_are_the_same_each_time() -> None:
    makers, _ = sources.kernels()
    for name in ("mm_split_k_fp16", "gl_mm_fp16"):
        one, other = ([arrays_of(launch) for launch in makers[name]().launches.values()] for _ in range(2))
        for arrays, again in zip(one, other, strict=True):
            assert all(arrays[number].tobytes() == again[number].tobytes() for number in arrays)


def test_sums_of_a_split_product_are_exact() -> None:
    """In whatever order programs add their parts, the bits of the result are the same."""
    case = sources.kernels()[0]["mm_split_k_fp16"]().launches["128x64x512"]
    a, b, c = (arrays_of(case)[number].astype(np.float64) for number in range(3))
    _, found = case.launch(check="none", policy="random", seed=5)
    assert np.array_equal(found["c"], c + a @ b.T)
