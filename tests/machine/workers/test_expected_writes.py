"""Workers expect the allocations that the last launch has written."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.workers import processes, worker
from tests.machine.launch_helpers import kernel, store
from tests.machine.workers.worker_helpers import CTAS

EITHER = """
ld.param.u64 rd1, [other];
ld.param.u64 rd2, [third];
ld.global.u32 r1, [at];
ld.global.u32 r2, [rd2];
setp.ne.u32 p, r2, 0;
sub.s64 rd3, at, out;
add.s64 rd3, rd3, rd1;
selp.b64 rd3, rd3, at, p;
add.u32 r1, r1, cta;
{write}
"""
WRITES = {
    "store": "st.global.u32 [rd3], r1;",
    "reduction": "red.global.add.u32 [rd3], r1;",
    "bulk copy": "mov.u32 r4, words; mad.lo.u32 r3, lane, 4, r4; st.shared.u32 [r3], r1; fence.proxy.async; bar.sync 0;"
    "setp.eq.u32 q, lane, 0; @q cp.async.bulk.global.shared::cta.bulk_group [rd3], [r4], 128;"
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
}


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("name", WRITES)
def test_launches_that_write_different_allocations(name: str, check: str, forked: list[int]) -> None:
    """Workers expect the allocations that the last launch has written, and begin again where they write another one."""
    compiled = kernel(
        EITHER.format(write=WRITES[name]), params=", .param .u64 other, .param .u64 third", shared=".shared .align 16 .b32 words[32];"
    )
    for flag, expected in ((0, 2), (0, 2), (1, 4), (1, 2), (0, 4)):
        given: list[tuple[list[np.ndarray], ptxlab.Result]] = []
        forked.clear()
        for workers in (1, 2):
            arrays = [np.arange(CTAS * 32, dtype=np.uint32), np.full(CTAS * 32, 7, np.uint32), np.full(1, flag, np.uint32)]
            given.append((arrays, compiled.launch(grid=CTAS, block=32, args=arrays, workers=workers, check=check)))
        (one, alone), (two, result) = given
        assert all(map(np.array_equal, one, two))
        assert [str(each) for each in alone.diagnostics] == [str(each) for each in result.diagnostics]
        assert result.stats.workers == 2, result.stats.why_alone
        assert len(forked) == expected
        assert np.array_equal(two[0], np.arange(CTAS * 32)) == bool(flag)


EXPECTED = """
ld.param.u64 rd1, [other];
ld.param.u64 rd2, [third];
ld.global.u32 r1, [rd1];
ld.global.u32 r2, [rd2];
st.global.u32 [at], r1;
setp.eq.u32 p, r2, 1;
@p st.global.u32 [16], r1;
setp.eq.u32 p, r2, 2;
@p st.global.u32 [rd1], r1;
"""


def launch_after_expected_writes(forked: list[int], flag: int, read_only: bool = False, check: str = "all") -> ptxlab.Result:
    """A launch of whose workers it is expected that they write the first array only."""
    compiled = kernel(EXPECTED, params=", .param .u64 other, .param .u64 third")
    for given, number in ((0, 2), (0, 2), (flag, 0)):
        forked.clear()
        arrays = [np.zeros(CTAS * 32, np.uint32), np.full(1, 5, np.uint32), np.full(1, given, np.uint32)]
        arrays[1].setflags(write=not read_only)
        result = compiled.launch(grid=CTAS, block=32, args=arrays, workers=2, check=check)
        assert not number or (result.stats.workers, len(forked)) == (2, number), result.stats.why_alone
    return result


@pytest.mark.parametrize(("flag", "read_only", "code"), [(1, False, "M401"), (2, True, "M404")], ids=["wild", "read-only"])
def test_a_finding_is_no_reason_to_begin_again(forked: list[int], flag: int, read_only: bool, code: str) -> None:
    """One worker makes it, as if no writes had been expected; so it does where memory is read-only without that expectation."""
    result = launch_after_expected_writes(forked, flag, read_only)
    assert (len(forked), result.stats.workers, result.stats.why_alone) == (2, 1, "a finding ends the launch")
    assert [each.code for each in result.diagnostics] == [code]


def test_a_race_with_an_unexpected_write_begins_again(forked: list[int]) -> None:
    """Workers that may write all find out that clusters write the same bytes."""
    result = launch_after_expected_writes(forked, 2, check="none")
    assert (len(forked), result.stats.workers) == (4, 1)
    assert result.stats.why_alone.startswith("clusters access what others write in "), result.stats.why_alone


def test_a_worker_that_dies_is_no_reason_to_begin_again(forked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    run, attempts = worker.Worker.run, [0]

    def dying(self: worker.Worker, clusters: range) -> worker.Done:
        if attempts[0] >= 2 and 5 in clusters:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(self, clusters)

    def counted(launch: Any) -> Any:
        attempts[0] += 1
        return make(launch)

    make = processes._Workers
    monkeypatch.setattr(processes, "_Workers", counted)
    monkeypatch.setattr(worker.Worker, "run", dying)
    compiled = kernel(store("cta"))
    for expected in (2, 1):
        forked.clear()
        out = np.zeros(CTAS * 32, np.uint32)
        result = compiled.launch(grid=CTAS, block=32, args=[out], workers=2)
        assert (result.ok, result.stats.workers, len(forked)) == (True, expected, 2), result.stats.why_alone
        assert np.array_equal(out, np.repeat(np.arange(CTAS), 32))
    assert (attempts, result.stats.why_alone) == ([2], "a worker process has died")
