"""The mutation benchmark: what it mutates, what runs against a kernel, and the verdicts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.mutations import kernels as sources
from benchmarks.mutations.adversary import ADVERSARIES, against
from benchmarks.mutations.expected import EXPECTED, Expected
from benchmarks.mutations.judge import SCHEDULES, Unsound, judge
from benchmarks.mutations.kept import keep, kept
from benchmarks.mutations.launches import captured
from benchmarks.mutations.mutants import mutants
from benchmarks.mutations.observers import Recorder, observed_by, reached

import ptxlab
from tests.benchmarks.mutation_helpers import COPY, RACE, Copy, right, verdicts

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
