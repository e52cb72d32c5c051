"""Launches with several workers have the results, findings and statistics of one worker; and which launches run in several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import kernel, store
from tests.sweep_helpers import spread

CTAS, THREADS = 12, 64
OTHER = """
    add.u32 r1, cta, 11; rem.u32 r1, r1, 12; mad.lo.u32 r1, r1, size, tid; mad.wide.u32 rd1, r1, 4, out; mad.lo.u32 r2, tid, 4, s;"""
"""rd1 is the address of the element of another CTA, r2 that of the thread's element in shared memory."""
INDEPENDENT = {
    "stores": store("tid"),
    "loads and stores": "ld.global.u32 r1, [at]; add.u32 r1, r1, cta; st.global.u32 [at], r1;",
    "shared memory": """
        mad.lo.u32 r1, tid, 4, s; st.shared.u32 [r1], cta; bar.sync 0; xor.b32 r2, tid, 1; mad.lo.u32 r2, r2, 4, s; ld.shared.u32 r3, [r2];
        st.global.u32 [at], r3;""",
    "reductions of one CTA": "mul.wide.u32 rd1, cta, 256; add.s64 rd1, rd1, out; red.global.add.u32 [rd1], 1;",
    "neighbouring bytes": "mad.lo.u32 r1, cta, size, tid; cvt.u64.u32 rd1, r1; add.s64 rd1, out, rd1; st.global.u8 [rd1], cta;",
    "vectors": """
        and.b32 r1, tid, 7; mad.lo.u32 r1, cta, 8, r1; mad.wide.u32 rd1, r1, 32, out; setp.lt.u32 p, tid, 8;
        @p st.global.v4.u64 [rd1], {out, out, rd1, rd1};""",
    "bulk copy": """
        mad.lo.u32 r1, tid, 4, s; st.shared.u32 [r1], cta; fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 p, tid, 0;
        mad.wide.u32 rd1, cta, 256, out; mov.u32 r2, s;
        @p cp.async.bulk.global.shared::cta.bulk_group [rd1], [r2], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""",
    "cp.async": """
        mad.lo.u32 r1, tid, 4, s; cp.async.ca.shared.global [r1], [at], 4; cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.u32 r2, [r1]; add.u32 r2, r2, 1; st.global.u32 [at], r2;""",
    "cp.async with sizes of sources": """
        mad.lo.u32 r1, tid, 4, s; and.b32 r2, tid, 4; cp.async.ca.shared.global [r1], [at], 4, r2; cp.async.commit_group;
        cp.async.wait_group 0; ld.shared.u32 r2, [r1]; add.u32 r2, r2, 1; st.global.u32 [at], r2;""",
    "cp.async with parts of operands": """
        mad.lo.u32 r1, tid, 4, s; and.b32 r2, tid, 3; cp.async.ca.shared.global [r1], [at], 4, r2; cp.async.commit_group;
        cp.async.wait_group 0; ld.shared.u32 r2, [r1]; add.u32 r2, r2, 1; st.global.u32 [at], r2;""",
    "cp.async of 16 bytes": """
        mad.lo.u32 r1, tid, 4, s; and.b32 r2, tid, 3; setp.eq.u32 p, r2, 0; @p cp.async.cg.shared.global [r1], [at], 16;
        cp.async.wait_all; bar.sync 0; ld.shared.u32 r2, [r1]; add.u32 r2, r2, 1; st.global.u32 [at], r2;""",
    "cp.async that reads nothing of another CTA": OTHER
    + """
        ld.global.u32 r3, [at]; mov.u32 r4, 0; cp.async.ca.shared.global [r2], [rd1], 4, r4; cp.async.wait_all;
        ld.shared.u32 r2, [r2]; add.u32 r3, r3, r2; st.global.u32 [at], r3;""",
    "divergence": "setp.lt.u32 p, tid, 20; @p bra A; st.global.u32 [at], 5; bra B; A: st.global.u32 [at], 6; B:",
}
TOGETHER = {
    "a counter": "atom.global.add.u32 r1, [out], 1; setp.ne.u32 p, tid, 0; @!p st.global.u32 [out+4], r1;",
    "floating-point sums": "cvt.rn.f32.u32 r1, tid; div.rn.f32 r1, r1, 0f40490FDB; red.global.add.f32 [out], r1;",
    "the same element": "st.global.u32 [out], cta;",
    "the element of another CTA": """
        add.u32 r1, cta, 1; rem.u32 r1, r1, 12; mad.lo.u32 r1, r1, size, tid; mad.wide.u32 rd1, r1, 4, out; ld.global.u32 r2, [rd1];
        st.global.u32 [at], r2;""",
    "cp.async of the element of another CTA": OTHER
    + """
        ld.global.u32 r3, [at]; cp.async.ca.shared.global [r2], [rd1], 4; cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.u32 r2, [r2]; add.u32 r3, r3, r2; st.global.u32 [at], r3;""",
    "cp.async of a part of the element of another CTA": OTHER
    + """
        ld.global.u32 r3, [at]; setp.eq.u32 p, tid, 7; selp.u32 r4, 1, 0, p; cp.async.ca.shared.global [r2], [rd1], 4, r4;
        cp.async.wait_all; ld.shared.u32 r2, [r2]; add.u32 r3, r3, r2; st.global.u32 [at], r3;""",
    "cp.async of the element of another CTA by one lane": OTHER
    + """
        ld.global.u32 r3, [at]; setp.eq.u32 p, tid, 7; selp.u32 r4, 4, 0, p; cp.async.ca.shared.global [r2], [rd1], 4, r4;
        cp.async.wait_all; ld.shared.u32 r2, [r2]; add.u32 r3, r3, r2; st.global.u32 [at], r3;""",
    "cp.async of 16 bytes of another CTA": OTHER
    + """
        ld.global.u32 r3, [at]; setp.eq.u32 p, tid, 12; selp.u32 r4, 16, 0, p; and.b32 r5, tid, 3; setp.eq.u32 q, r5, 0;
        @q cp.async.cg.shared.global [r2], [rd1], 16, r4; cp.async.wait_all; bar.sync 0; ld.shared.u32 r2, [r2]; add.u32 r3, r3, r2;
        st.global.u32 [at], r3;""",
    "bulk copy of the elements of another CTA": OTHER
    + """
        .shared .align 8 .b64 bar; setp.ne.u32 p, tid, 0; @p bra STORE; mbarrier.init.shared::cta.b64 [bar], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 state, [bar], 128;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [rd1], 128, [bar];
        W: mbarrier.try_wait.shared::cta.b64 q, [bar], state; @!q bra W; STORE: bar.sync 0; ld.shared.u32 r3, [r2];
        st.global.u32 [at], r3;""",
    "a flag": """
        setp.eq.u32 p, cta, 11; @p bra SET; W: nanosleep.u32 20; ld.acquire.gpu.global.u32 r1, [out]; setp.eq.u32 q, r1, 0;
        @q bra W; bra END;
        SET: st.release.gpu.global.u32 [out], 1; END: setp.ne.u32 p, cta, 0; @p st.global.u32 [at], 3;""",
    "a barrier of the grid": """
        bar.sync 0; setp.ne.u32 p, tid, 0; @p bra END; atom.acq_rel.gpu.global.add.u32 r1, [out], 1;
        W: nanosleep.u32 20; ld.acquire.gpu.global.u32 r1, [out]; setp.lt.u32 q, r1, 12; @q bra W;
        END: bar.sync 0; @p st.global.u32 [at], r1;""",
    "printf": """{ .reg .b64 f; mov.u64 f, text; cvta.global.u64 f, f;
        .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], f; st.param.b64 [b], 0; call (c), vprintf, (a, b); }""",
    "a clock": "mov.u32 r1, %clock; " + store("r1"),
    "the SM": "mov.u32 r1, %smid; " + store("r1"),
    "a fault": "setp.ge.u32 p, cta, 7; @p add.s64 at, at, 1; " + store("tid"),
    "a hang": "setp.eq.u32 p, cta, 7; setp.eq.and.u32 p, tid, 0, p; @p bar.sync 1, 64; " + store("tid"),
    "a race": "mad.lo.u32 r1, tid, 4, s; xor.b32 r2, r1, 128; st.shared.u32 [r1], tid; ld.shared.u32 r3, [r2]; " + store("r3"),
    "an undefined register": "setp.eq.u32 p, cta, 5; @!p mov.u32 r1, 1; " + store("r1"),
    "an endless loop": "setp.eq.u32 p, cta, 9; L: @p add.u32 r1, r1, 1; @p bra L;",
}


def launch(body: str, workers: int | str, **options: Any) -> tuple[ptxlab.Result, list[Any]]:
    """Launch; everything that does not depend on the number of workers."""
    out = (np.arange(CTAS * THREADS * 8) % 256).astype(np.uint32)
    top = ".extern .func (.param .b32 c) vprintf (.param .b64 a, .param .b64 b); .global .align 1 .b8 text[4] = {72, 105, 10, 0};"
    loaded = kernel(body, shared=".shared .align 128 .b32 s[64];", top=top)
    told: list[tuple[int, int]] = []
    result = loaded.launch(
        grid=CTAS,
        block=THREADS,
        args=[out],
        workers=workers,
        progress=lambda *done: told.append(done),
        max_instructions=3_000_000,
        **options,
    )
    stats = result.stats
    counted = stats.instructions, stats.services, stats.ctas
    assert told == sorted(told)
    if result.completed:
        assert told == [(ended, CTAS) for ended in range(CTAS + 1)]
    return result, [out.tolist(), result.diagnostics, counted, result.completed, result.stdout]


@pytest.mark.parametrize(("name", "policy"), spread(3, INDEPENDENT | TOGETHER, ["eager", "lazy", "random"]))
def test_several_workers_are_as_one(name: str, policy: str) -> None:
    body = (INDEPENDENT | TOGETHER)[name]
    for check in ("all", "none"):
        _, one = launch(body, 1, policy=policy, check=check)
        result, three = launch(body, 3, policy=policy, check=check)
        assert three == one
        if name in INDEPENDENT or check == "all":  # some of the others are independent, but there are findings
            assert result.stats.workers == (3 if name in INDEPENDENT else 1), result.stats.why_alone


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("distance", [0, 1])
def test_tensor_copies(distance: int, policy: str) -> None:
    """Each CTA copies a box twice, its own or that of the next CTA, and then changes its own."""
    body = f"""
        mov.u32 r1, s; mov.u32 r3, bar; setp.ne.u32 p, tid, 0; @p bra STORE; mbarrier.init.shared::cta.b64 [r3], 1;
        add.u32 r2, cta, {distance}; rem.u32 r2, r2, {CTAS}; shl.b32 r2, r2, 6; mov.u32 r4, 0;
        L: mbarrier.arrive.expect_tx.shared::cta.b64 state, [r3], 256;
        cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [r1], [map, {{r2}}], [r3];
        W: mbarrier.try_wait.shared::cta.b64 q, [r3], state; @!q bra W; add.u32 r4, r4, 1; setp.lt.u32 q, r4, 2; @q bra L;
        STORE: bar.sync 0; mad.lo.u32 r1, tid, 4, r1; ld.shared.u32 r2, [r1]; add.u32 r2, r2, 3; st.global.u32 [at], r2;"""
    shared, params = ".shared .align 128 .b32 s[64]; .shared .align 8 .b64 bar;", ", .param .align 64 .b8 map[128]"
    loaded = kernel(body, shared=shared, params=params)
    found = []
    for workers in (1, 2, 2):
        out = np.arange(CTAS * THREADS, dtype=np.uint32)
        args = [out, ptxlab.TensorMap(out, box=(64,))]
        result = loaded.launch(grid=CTAS, block=THREADS, args=args, workers=workers, policy=policy, check="none")
        assert result.completed
        assert result.stats.workers == (1 if distance else workers), result.stats.why_alone
        found.append((out.tolist(), result.stats.instructions, result.stats.services, result.diagnostics))
    assert found[1:] == found[:1] * 2


def test_the_first_launch_and_the_next_one() -> None:
    """The first one runs a cluster before there are workers, so that they need not compile."""
    loaded = kernel(store("tid"))
    for _ in range(2):
        out = np.zeros(CTAS * THREADS, np.uint32)
        result = loaded.launch(grid=CTAS, block=THREADS, args=[out], workers=2)
        assert (result.stats.workers, result.stats.ctas) == (2, CTAS)
        assert np.array_equal(out, np.arange(CTAS * THREADS) % THREADS)


def test_random_order_of_clusters_that_one_worker_runs() -> None:
    """Clusters 0 to 7 add to the same elements in pairs: that they are near each other does not hide it."""
    loaded = kernel("""
        .reg .f32 f; setp.lt.u32 p, cta, 8; shr.u32 r1, cta, 1; selp.u32 r1, r1, cta, p; mul.wide.u32 rd1, r1, 4; add.u64 rd1, rd1, out;
        cvt.rn.f32.u32 f, cta; add.f32 f, f, 0f3DCCCCCD; mul.f32 f, f, 0f4B000001;
        red.global.add.f32 [rd1], f; red.global.add.f32 [rd1], f;""")
    differ = set()
    for seed in range(6):
        outs = np.zeros((2, 64), np.uint32)
        for workers, out in enumerate(outs, 1):
            result = loaded.launch(grid=64, block=32, args=[out], workers=workers, policy="random", seed=seed, check="none")
            assert result.stats.workers == 1
        assert np.array_equal(*outs)
        differ.add(outs[0].tobytes())
    assert result.stats.why_alone.startswith("clusters access what others write")
    assert len(differ) > 1


def test_only_some_clusters() -> None:
    out = np.zeros(CTAS * THREADS, np.uint32)
    only = [(3,), (5,), (8,), (11,)]
    result = kernel(store("cta")).launch(grid=CTAS, block=THREADS, args=[out], workers=2, only=only)
    assert (result.stats.workers, result.stats.ctas) == (2, 4)
    assert np.array_equal(out, np.repeat([cta if (cta,) in only else 0 for cta in range(CTAS)], THREADS))


def test_more_workers_than_clusters() -> None:
    out = np.zeros(3 * 32, np.uint32)
    loaded = kernel(store("cta"))
    found = [loaded.launch(grid=3, block=32, args=[out], workers=8).stats.workers for _ in range(2)]
    assert found == [2, 3]  # the first launch runs one cluster before
    assert loaded.launch(grid=1, block=32, args=[out], workers=8).stats.why_alone == "there is one cluster"


def test_memory_of_a_device() -> None:
    """Bytes that a kernel writes are defined afterwards, whoever has run it; other bytes are not."""
    for workers in (1, 2):
        device = ptxlab.Device("sm_100a")
        buffer = device.empty(2 * CTAS * THREADS, np.uint32)
        result = kernel(store("tid")).launch(grid=CTAS, block=THREADS, args=[buffer], device=device, workers=workers)
        assert (result.ok, result.stats.workers) == (True, workers)
        size = 4 * CTAS * THREADS
        assert list(device.memory.undefined(buffer.address, size)) == []
        assert len(list(device.memory.undefined(buffer.address + size, size))) == 1


def test_what_runs_with_one_worker(tmp_path: Path) -> None:
    out = np.zeros(CTAS * THREADS, np.uint32)
    for options in ({"profile": True}, {"trace": tmp_path / "trace.json"}, {"undefined": "random"}):
        result = kernel(store("tid")).launch(grid=CTAS, block=THREADS, args=[out], workers=2, **options)
        assert result.stats.workers == 1
        assert result.stats.why_alone
    assert kernel(store("tid")).launch(grid=CTAS, block=THREADS, args=[out]).stats.why_alone == ""


def test_results_of_a_parallel_launch_can_be_explained() -> None:
    out = np.zeros(CTAS * THREADS, np.uint32)
    result = kernel(store("tid")).launch(grid=CTAS, block=THREADS, args=[out], workers=2, keep_inputs=True)
    assert result.stats.workers == 2
    (writer,) = result.provenance(out, 7 * THREADS + 5).writers
    assert (writer.cta, writer.warp, writer.lanes) == ((7, 0, 0), 0, (5,))


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "two", 100_000, None])
def test_refused(workers: Any) -> None:
    with pytest.raises(ptxlab.LaunchError) as caught:
        kernel(store("tid")).launch(grid=2, block=32, args=[np.zeros(64, np.uint32)], workers=workers)
    assert caught.value.diagnostics[0].code == "A310"


def test_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxlab.machine.launch.options.processors", lambda: 3)
    out = np.zeros(CTAS * THREADS, np.uint32)
    assert kernel(store("tid")).launch(grid=CTAS, block=THREADS, args=[out], workers="auto").stats.workers == 3
