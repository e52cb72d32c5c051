"""Launches on one device whose kernels control their dependence: what the second may use before griddepcontrol.wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.shared .align 16 .b8 tile[16];
.visible .entry {name}(.param .u64 a, .param .u64 b) .reqntid 64
{{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd1, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    setp.lt.u32 %p1, %r1, 32;
{body}
    ret;
}}
"""
FIRST = "ld.global.u32 %r2, [%rd2]; griddepcontrol.launch_dependents; st.global.u32 [%rd1], %r1;"
WAIT = "griddepcontrol.wait;"
READ = "ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd2+256], %r3;"


def kernel(name: str, body: str) -> Any:
    return ptxlab.loads(KERNEL.format(name=name, body=body), file=f"{name}.ptx").kernel()


def chained(*bodies: str, **options: Any) -> list[list[Any]]:
    """What is found in each of the launches."""
    device = ptxlab.Device("sm_90a")
    a, b = device.array(np.zeros(64, np.uint32)), device.array(np.zeros(128, np.uint32))
    return [list(kernel(f"grid{i}", body).launch(args=[a, b], device=device, **options).diagnostics) for i, body in enumerate(bodies)]


def codes(*bodies: str, **options: Any) -> list[str]:
    first, *others = chained(*bodies, **options)
    assert [d for d in first if d.code != "X123"] == []
    return [d.code for found in others for d in found]


@pytest.mark.parametrize("options", [{}, {"policy": "lazy"}, {"policy": "random", "seed": 3}, {"model": "spec"}])
def test_behind_the_wait_everything_is_there(options: dict[str, Any]) -> None:
    assert codes(FIRST, WAIT + READ, **options) == []
    assert codes(FIRST, f"@%p1 {WAIT} bar.sync 0; {READ}", **options) == []
    assert codes(FIRST, f"{WAIT} {READ} griddepcontrol.launch_dependents;", WAIT + READ, **options) == []


@pytest.mark.parametrize(
    "body",
    [
        READ + WAIT,
        f"@%p1 {WAIT} {READ}",
        f"st.global.u32 [%rd2], %r1; {WAIT}",
        f"red.global.add.u32 [%rd1], 1; {WAIT}",
        "setp.eq.u32 %p2, %r1, 0; @%p2 st.shared.v4.b32 [tile], {%r1, %r1, %r1, %r1}; fence.proxy.async; "
        "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; "
        + WAIT,
    ],
)
def test_before_the_wait_the_other_grid_may_run(body: str) -> None:
    assert codes(FIRST, body) == ["X121"]


def test_the_report() -> None:
    (found,) = chained(FIRST, READ + WAIT)[1]
    assert found.message == (
        "ld.global reads bytes 0x0-0x3 of buffer uint32[64], which st.global of the grid before writes, and no griddepcontrol.wait stands "
        "before it"
    )
    assert found.fix == "insert griddepcontrol.wait before line 15, in the same thread or before a barrier that it passes"
    assert dict(found.details)["earlier"] == "kernel grid0, line 15: st.global.u32"


def test_redundant_threads() -> None:
    """All threads load, one stores: a race with the grid before, none between the threads."""
    body = "ld.param.u64 %rd4, [a]; {0} ld.global.u32 %r3, [%rd4]; {1} add.u32 %r4, %r3, 1; setp.eq.u32 %p2, %r1, 0; "
    body += "@%p2 st.global.u32 [%rd4], %r4;"
    assert codes(FIRST, body.format("", "") + WAIT) == ["X121", "X121"]
    assert codes(FIRST, body.format(WAIT, "")) == []


def test_two_atomics_are_no_race() -> None:
    add = "red.global.add.u32 [%rd1], 1; griddepcontrol.launch_dependents;"
    assert codes(add, add + WAIT) == []


def test_what_only_both_read_is_no_race() -> None:
    assert codes(FIRST, f"ld.global.u32 %r3, [%rd2]; {WAIT} st.global.u32 [%rd2+256], %r3;") == []


def test_without_control_launches_follow_each_other() -> None:
    early = READ + WAIT
    assert codes(FIRST.replace("griddepcontrol.launch_dependents;", ""), early) == []
    assert codes(FIRST, READ) == []
    assert codes(FIRST, READ.replace("ld.global.u32 %r3, [%rd1];", "mov.u32 %r3, 0;"), early) == []


def test_only_the_grid_before_may_still_run() -> None:
    """The second waits for the first; the third has not waited for the second yet, which used other memory."""
    other = f"{WAIT} st.global.u32 [%rd2+256], %r1; griddepcontrol.launch_dependents;"
    assert codes(FIRST, other, "ld.global.u32 %r3, [%rd1]; griddepcontrol.wait; st.global.u32 [%rd2], %r3;") == []
    assert codes(FIRST, other, "ld.global.u32 %r3, [%rd2+256]; griddepcontrol.wait; st.global.u32 [%rd2], %r3;") == ["X121"]


def test_a_launch_without_checks_leaves_nothing() -> None:
    device = ptxlab.Device("sm_90a")
    a, b = device.array(np.zeros(64, np.uint32)), device.array(np.zeros(128, np.uint32))
    for body, check in ((FIRST, "all"), (FIRST, "none"), (READ + WAIT, "all")):
        assert kernel("k", body).launch(args=[a, b], device=device, check=check).diagnostics == ()


def test_another_cluster_passes_it_on() -> None:
    """One CTA waits and sets a flag with release; the other one acquires it."""
    flag = (
        "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p2, %r4, 0; @!%p2 bra OTHER; griddepcontrol.wait; st.release.gpu.global.u32 [%rd2+256], 1; "
        "ret; OTHER: LOOP: ld.acquire.gpu.global.u32 %r5, [%rd2+256]; setp.eq.u32 %p2, %r5, 1; @!%p2 bra LOOP; ld.global.u32 %r3, [%rd1]; "
        "st.global.u32 [%rd2], %r3;"
    )
    assert codes(FIRST.replace("ld.global.u32 %r2, [%rd2];", ""), flag, grid=2) == []
