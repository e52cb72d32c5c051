"""Services that compiled code completes itself: the same results, statistics and findings as by their handlers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxlab.machine.schedule.barriers import MbarrierState
from tests.machine.launch_helpers import kernel, run

MBARRIERS = ".shared .align 8 .b64 mb[2];"
BEGIN = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 1;
    @p mbarrier.init.shared.b64 [mb+8], 64;
    bar.sync 0;
    @p mbarrier.arrive.shared.b64 _, [mb];
    mbarrier.arrive.shared.b64 state, [mb+8];
    bar.sync 0;
"""
WAITS = """
    mbarrier.try_wait.parity.shared.b64 q, [mb], 0; selp.u32 r1, 1, 0, q;
    mov.b64 state, 64; mbarrier.test_wait.shared.b64 q, [mb+8], state; selp.u32 r2, 2, 0, q; add.u32 r1, r1, r2;
    mbarrier.test_wait.parity.shared.b64 q, [mb], 1; selp.u32 r2, 4, 0, q; add.u32 r1, r1, r2;
    and.b32 r3, lane, 1;
    mbarrier.test_wait.parity.shared.b64 q, [mb], r3; selp.u32 r2, 8, 0, q; add.u32 r1, r1, r2;
    st.global.u32 [at], r1;
"""


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_complete_phases_need_no_handler(policy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lanes that wait for different phases do, and so does every wait beside an observer of instructions."""
    calls: list[MbarrierState] = []
    observed = MbarrierState.observed

    def count(barrier: MbarrierState) -> None:
        calls.append(barrier)
        observed(barrier)

    monkeypatch.setattr(MbarrierState, "observed", count)
    found = []
    for options in ({"check": "none"}, {"check": "all"}, {"check": "none", "trace": tmp_path / "t.json"}):
        calls.clear()
        out, result = run(BEGIN + WAITS, 64, shared=MBARRIERS, policy=policy, **options)
        assert result.ok
        assert out.tolist() == [11, 3] * 32
        found.append((result.stats.instructions, result.stats.services, len(calls)))
    of_lanes, of_warps = 2 * 16, 2 * 2
    assert [calls for _, _, calls in found] == [of_lanes, of_lanes, of_lanes + of_warps]
    assert found[0][:2] == found[1][:2] == found[2][:2]


@pytest.mark.parametrize("check", ["none", "all"])
def test_a_complete_phase_of_an_object_that_was_overwritten(check: str) -> None:
    _, result = run(BEGIN + "st.shared.u32 [mb+4], r1; bar.sync 0;" + WAITS, 64, shared=MBARRIERS, check=check)
    assert [d.code for d in result.diagnostics if d.code[0] == "B"] == ["B515"]


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize(("address", "code"), [("mb+4", "B501"), ("mb+16777216", "M407"), ("mb+-1024", "B503")])
def test_addresses_without_an_mbarrier(check: str, address: str, code: str) -> None:
    body = f"mbarrier.try_wait.parity.shared.b64 q, [{address}], 0;"
    _, result = run(BEGIN + body, 64, shared=MBARRIERS, check=check)
    assert [d.code for d in result.diagnostics] == [code]


@pytest.mark.parametrize("waits", [True, False])
def test_a_wait_that_compiled_code_completes_orders_what_follows(waits: bool, tmp_path: Path) -> None:
    """Warp 0 stores and arrives, warp 1 waits and loads."""
    wait = "mbarrier.try_wait.parity.shared.b64 q, [mb], 0;" if waits else ""
    body = f"""
        setp.eq.u32 p, tid, 0;
        @p mbarrier.init.shared.b64 [mb], 32;
        bar.sync 0;
        setp.ge.u32 p, tid, 32;
        @p bra LOADS;
        mul.lo.u32 r1, tid, 4; mov.u32 r2, data; add.u32 r2, r2, r1; st.shared.u32 [r2], tid;
        mbarrier.arrive.shared.b64 _, [mb];
        bra END;
    LOADS:
        {wait}
        mul.lo.u32 r1, lane, 4; mov.u32 r2, data; add.u32 r2, r2, r1; ld.shared.u32 r3, [r2]; st.global.u32 [at], r3;
    END:
    """
    loaded = kernel(body, shared=f"{MBARRIERS} .shared .align 4 .b32 data[32];")
    codes = []
    for trace in (None, tmp_path / "t.json"):
        result = loaded.launch(grid=1, block=64, args=[np.zeros(64, np.uint32)], check="race", trace=trace)
        codes.append([d.code for d in result.diagnostics])
    assert codes[0] == codes[1]
    assert bool(codes[0]) != waits


GROUPS = """
    mul.lo.u32 r1, tid, 4; mov.u32 r2, data; add.u32 r2, r2, r1;
    ld.param.u64 rd1, [source]; cvt.u64.u32 rd2, r1; add.u64 rd1, rd1, rd2;
    cp.async.ca.shared.global [r2], [rd1], 4; cp.async.commit_group;
    cp.async.ca.shared.global [r2+128], [rd1+128], 4; cp.async.commit_group;
    cp.async.wait_group {pending};
    ld.shared.u32 r3, [r2+128]; st.global.u32 [at], r3;
    cp.async.ca.shared.global [r2+256], [rd1], 4; cp.async.wait_all;
    ld.shared.u32 r4, [r2+256]; add.u32 r3, r3, r4; st.global.u32 [at], r3;
"""


@pytest.mark.parametrize("pending", [0, 1])
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_groups_of_copies(pending: int, policy: str, tmp_path: Path) -> None:
    """A wait that leaves the second group pending lets its load race, whether compiled code or the handler has counted the groups."""
    source = np.arange(64, dtype=np.uint32)
    loaded = kernel(GROUPS.format(pending=pending), shared=".shared .align 4 .b32 data[96];", params=", .param .u64 source")
    found = []
    for trace in (None, tmp_path / "t.json"):
        out = np.zeros(32, np.uint32)
        result = loaded.launch(grid=1, block=32, args=[out, source], policy=policy, check="race", trace=trace)
        found.append((sorted(d.code for d in result.diagnostics), result.stats.services, out.tolist()))
        assert bool(result.diagnostics) == bool(pending)
    assert found[0] == found[1]
    assert found[0][1]["cp.async.commit_group"] == 2
