"""Launches: faults, residency, module variables, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.address_space import GLOBAL_BASE
from ptxlab.machine import LaunchError
from tests.machine.launch_helpers import kernel, run, store

SHARED = ".shared .align 16 .b32 buffer[64]; .shared .align 8 .b64 bars[4];"


# --------------------------------------------------------------------------------------------------------------- faults

FAULTS: list[tuple[str, str, str]] = [
    (
        "st.global.u32 [at+4], tid;",
        "M402",
        "write of 4 bytes at {end:#x}, 0 bytes past the end of argument 0 (result) [{base:#x}, {end:#x}), 128 bytes",
    ),
    ("mov.u64 rd1, 16; ld.global.u32 r1, [rd1]; st.global.u32 [at], r1;", "M401", "read of 4 bytes at 0x10: a null pointer with an offset"),
    ("st.global.u32 [at+2], tid;", "M405", "the address {odd:#x} is not a multiple of the size of the access, 4 bytes"),
]


@pytest.mark.parametrize(("body", "code", "message"), FAULTS)
def test_faults_name_place_and_memory(body: str, code: str, message: str) -> None:
    out, result = run(body)
    base = GLOBAL_BASE
    found = result.diagnostics[0]
    assert (found.code, found.message) == (code, message.format(base=base, end=base + 128, odd=base + 2))
    assert ("warp", "0") in found.details
    assert found.excerpt.strip() == body or found.excerpt
    assert set(out.tolist()) == {0xDEAD}
    assert not result.ok
    with pytest.raises(ptxlab.KernelError, match=code):
        result.raise_for_errors()


def test_use_after_free() -> None:
    device = ptxlab.Device("sm_100a")
    buffer = device.array(np.zeros(8, np.uint32), name="weights")
    address = buffer.address
    buffer.free()
    _, result = run(
        "ld.param.u64 rd1, [p0]; ld.global.u32 r1, [rd1]; st.global.u32 [at], r1;",
        params=", .param .u64 p0",
        args=(address,),
        device=device,
    )
    assert result.diagnostics[0].code == "M403"
    assert "in memory that was freed: weights [" in result.diagnostics[0].message


def test_findings_do_not_keep_results_from_being_written() -> None:
    body = """
    mbarrier.init.shared.b64 [bars], 1;
    mbarrier.init.shared.b64 [bars], 1;
    """ + store("tid")
    out, result = run("setp.ne.u32 p, tid, 0; @p exit;" + body, shared=SHARED)
    assert [d.code for d in result.diagnostics] == ["B516"]
    assert result.completed
    assert out[0] == 0
    _, result = run("setp.ne.u32 p, tid, 0; @p exit;" + body, shared=SHARED, check={"memory"})
    assert result.diagnostics == ()


# ----------------------------------------------------------------------------------------------------------- the launch


def test_grid_block_and_cluster_registers() -> None:
    body = """
    mov.u32 r1, %ctaid.y;
    mov.u32 r2, %ctaid.x;
    mov.u32 r3, %cluster_ctarank;
    mov.u32 r4, %clusterid.x;
    mov.u32 r5, %tid.y;
    mad.lo.u32 r6, r1, 10, r2;
    mad.lo.u32 r6, r3, 100, r6;
    mad.lo.u32 r6, r4, 1000, r6;
    mad.lo.u32 r6, r5, 10000, r6;
    mov.u32 r7, %nctaid.x;
    mad.lo.u32 r7, r1, r7, r2;
    mul.lo.u32 r7, r7, 64;
    mad.lo.u32 r7, r5, 32, r7;
    add.u32 r7, r7, tid;
    mul.wide.u32 rd1, r7, 4;
    add.s64 rd1, rd1, out;
    st.global.u32 [rd1], r6;
    """
    out = np.zeros((2, 4, 2, 32), np.uint32)
    result = kernel(body).launch(grid=(4, 2), block=(32, 2), cluster=(2, 1, 1), args=[out])
    assert result.diagnostics == ()
    for y in range(2):
        for x in range(4):
            for t in range(2):
                assert set(out[y, x, t].tolist()) == {y * 10 + x + (x % 2) * 100 + (x // 2) * 1000 + t * 10000}


def test_only_runs_the_clusters_that_hold_the_ctas() -> None:
    out, result = run(store("tid"), 32, 8, cluster=2, only=[(3, 0, 0), 6])
    assert result.stats.ctas == 4
    assert [cta for cta in range(8) if out.reshape(8, 32)[cta, 0] == 0] == [2, 3, 6, 7]


def test_progress_counts_ctas() -> None:
    seen: list[tuple[int, int]] = []
    run(store("tid"), 32, 3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_module_variables_live_with_the_device() -> None:
    top = """
.global .align 4 .u32 counter = 5;
.const .align 4 .b32 table[4] = {10, 20, 30};
.global .align 8 .u64 pointer = table;
"""
    body = """
    mov.u64 rd1, counter;
    ld.global.u32 r1, [rd1];
    add.u32 r2, r1, 1;
    setp.eq.u32 p, tid, 0;
    @p st.global.u32 [rd1], r2;
    ld.const.u32 r3, [table+4];
    ld.global.u64 rd2, [pointer];
    ld.global.u32 r4, [rd2+8];
    add.u32 r1, r1, r3;
    add.u32 r1, r1, r4;
    """ + store("r1")
    counting = kernel(body, top=top)
    device = ptxlab.Device("sm_100a")
    seen = []
    for target in (device, device, None):
        out = np.zeros(32, np.uint32)
        assert counting.launch(block=32, args=[out], device=target).diagnostics == ()
        seen.append(int(out[0]))
    assert seen == [55, 56, 55]


def test_const_variables_cannot_be_written() -> None:
    _, result = run("mov.u64 rd1, table; st.global.u32 [rd1], tid;" + store("tid"), top=".const .align 4 .b32 table[4] = {10, 20, 30};")
    assert result.diagnostics[0].code == "M404"
    assert ".const variable table" in result.diagnostics[0].message


def test_more_ctas_than_fit_run_in_turn() -> None:
    device = ptxlab.Device("sm_100a", sms=2, ctas_per_sm=1)
    out, result = run(store("cta"), 32, 50, device=device, policy="random", seed=5)
    assert result.diagnostics == ()
    assert out.reshape(50, 32)[:, 0].tolist() == list(range(50))


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"check": "races"}, "A310", "there is no check named 'races'"),
    ({"check": {"memory", "rase"}}, "A310", "there is no check named 'rase'"),
    ({"policy": "eagre"}, "A310", "policy must be one of 'eager', 'lazy', 'random', not 'eagre'"),
    ({"model": "letter"}, "A310", "model must be one of 'practice', 'spec', not 'letter'"),
    ({"grid": 0}, "A308", "grid must be a positive int or one to three of them, not 0"),
    ({"grid": 3, "cluster": 2}, "A308", "grid (3, 1, 1) is not a multiple of cluster (2, 1, 1)"),
    ({"block": 2048}, "A308", "block (2048, 1, 1) has 2048 threads; a CTA can have 1024"),
    ({"grid": (2, 10**20)}, "A308", "grid is (2, 100000000000000000000, 1); in y it can be 65535"),
    ({"block": (1, 1, 65)}, "A308", "block is (1, 1, 65); in z it can be 64"),
    ({"block": None}, "A308", "kernel k has no .reqntid: say how many threads a CTA has"),
    ({"shared_bytes": 300_000}, "A309", "k needs 300000 bytes of shared memory per CTA (0 static, 300000 dynamic); a CTA can have 232448"),
    ({"shared_bytes": "x"}, "A310", "shared_bytes must be an int from 0 to 1073741824, not 'x'"),
    ({"only": [(9, 0, 0)]}, "A310", "only names CTA (9, 0, 0), but the grid is (1, 1, 1)"),
    ({"device": ptxlab.Device("sm_90a")}, "A312", "the module is for sm_100a, the device is sm_90a"),
    ({"cluster": 8, "grid": 8, "device": ptxlab.Device(sms=4)}, "A308", "a cluster of 8 CTAs does not fit on a device with 4 SMs"),
    ({"trace": 3}, "A310", "trace must be a path or a ptxlab.Trace, not 3"),
]


@pytest.mark.parametrize(("options", "code", "message"), REFUSED)
def test_refused_launches(options: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        kernel(store("tid")).launch(**{"block": 32, "args": [np.zeros(4096, np.uint32)], **options})
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == (code, message)


def test_modules() -> None:
    module = ptxlab.loads(".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry a() { ret; }\n.visible .entry b() { ret; }\n")
    assert (module.target, module.version, list(module)) == ("sm_100a", (9, 0), ["a", "b"])
    assert module["b"].name == "b"
    with pytest.raises(LaunchError, match="<ptx> has no kernel named 'c'; its kernels: a, b"):
        module["c"]
    with pytest.raises(LaunchError, match="<ptx> has 2 kernels, not one: a, b"):
        module.kernel()
    assert module["a"].launch(block=32).ok
    with pytest.raises(LaunchError, match=r"cannot read /no/such/file\.ptx: No such file or directory"):
        ptxlab.load("/no/such/file.ptx")
