"""Waits of tensor memory and fences of wgmma that a part of a warp executes: they are for whole warps."""

from __future__ import annotations

from typing import Any

import pytest

from .small_kernels import FILL, SCHEDULES, WGMMA, found, launch

KERNEL = """
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
bar.sync 0;
ld.shared.b32 %r9, [slot];
setp.lt.u32 %p2, %r1, 7;
setp.lt.u32 %p3, %r1, 32;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {{%r1}};
{store}
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r10}}, [%r9];
{load}
bar.sync 0;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
"""
STORED, LOADED = "tcgen05.wait::st.sync.aligned;", "tcgen05.wait::ld.sync.aligned;"
BRANCH = "@!%p2 bra OVER;\n{0}\nOVER:"
LATE = """
mov.u32 %r11, 0;
@%p2 mov.u32 %r11, 2000;
AGAIN: add.u32 %r11, %r11, 1;
setp.lt.u32 %p4, %r11, 2000;
@%p4 bra AGAIN;
{0}
"""
"""Some lanes leave the loop at once, the others long after."""


def run(store: str, load: str, **options: Any) -> Any:
    return launch(KERNEL.format(store=store, load=load), block=32, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", [STORED, LOADED])
def test_a_guard(wait: str, schedule: dict[str, Any]) -> None:
    waits = [wait, LOADED] if wait is STORED else [STORED, wait]
    wrong = run(*(f"@%p2 {each}" if each is wait else each for each in waits), **schedule)
    assert found(wrong) == [("B517", f"@%p2 {wait}")]
    assert wrong.diagnostics[0].message == (
        f"{wait[:-1]} is executed by lanes 0-6, but its predicate is false in lanes 7-31; it must be the same in the whole warp"
    )
    assert wrong.diagnostics[0].fix == "use a predicate that is the same in all threads of the warp, for instance from the warp's number"
    assert found(run(*(f"@%p3 {each}" for each in waits), **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", [STORED, LOADED])
def test_a_branch(wait: str, schedule: dict[str, Any]) -> None:
    waits = [wait, LOADED] if wait is STORED else [STORED, wait]
    wrong = run(*(BRANCH.format(each) if each is wait else each for each in waits), **schedule)
    assert found(wrong) == [("H605", wait)]
    assert wrong.diagnostics[0].message.startswith(f"{wait[:-1]} is executed by lanes 0-6 only")
    assert found(run(*waits, **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_loop_in_which_a_part_waits(schedule: dict[str, Any]) -> None:
    """The second time tells, before the CTA ends."""
    loop = "mov.u32 %r11, 0;\nAGAIN:\n{0}\nadd.u32 %r11, %r11, 1;\nsetp.lt.u32 %p4, %r11, 3;\n@%p4 bra AGAIN;"
    assert found(run(STORED, loop.format(f"@%p2 {LOADED}"), **schedule)) == [("B517", f"@%p2 {LOADED}")]
    assert found(run(STORED, loop.format(LOADED), **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_parts_that_come_one_after_the_other(schedule: dict[str, Any]) -> None:
    """The threads have converged again when they wait."""
    assert found(run(STORED, LATE.format(LOADED), **schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_wgmma_fence(schedule: dict[str, Any]) -> None:
    end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    body = FILL + WGMMA.replace("wgmma.fence.sync.aligned;", "{}") + end
    body = body.replace("{%f", "{{%f").replace("%f3}", "%f3}}").replace("{%r4", "{{%r4").replace("%r4}", "%r4}}")
    part = "setp.lt.u32 %p2, %r1, 7;\n@%p2 wgmma.fence.sync.aligned;"
    options = {"target": "sm_90a", "block": 128, **schedule}
    assert found(launch(body.format("wgmma.fence.sync.aligned;"), **options)) == []
    assert ("B517", "@%p2 wgmma.fence.sync.aligned;") in found(launch(body.format(part), **options))
