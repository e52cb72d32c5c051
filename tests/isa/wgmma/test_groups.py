"""Groups, accumulators in flight, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import WgmmaDescriptor

from . import wgmma_helpers as bench

SHOWS = {
    "test_a_chain_adds_up_across_groups": ("wgmma.fence*", "wgmma.commit_group*"),
    "test_an_older_group_can_be_used_while_a_newer_one_is_pending": ("wgmma.wait_group*",),
}

POLICIES: list[dict[str, Any]] = [{"policy": "eager"}, {"policy": "lazy"}, *({"policy": "random", "seed": s} for s in range(3))]
A = WgmmaDescriptor(start=0x400, leading=128, stride=256)
B = WgmmaDescriptor(start=0x1000, leading=128, stride=256)
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
FIRST, SECOND = "{%d0, %d1, %d2, %d3}", "{%d4, %d5, %d6, %d7}"
HALF_ONE = 0x3800_3800
"""Two halves of 0.5: with both matrices full of it, one instruction adds 16 * 0.25 = 4 to every element."""


def multiply(d: str = FIRST, a: str = "%da", tail: str = "%p, 1, 1, 0, 0") -> str:
    return f"{MMA} {d}, {a}, %db, {tail};"


def launch(body: str, *, threads: int = 128, a: int = int(A), b: int = int(B), **options: Any) -> tuple[ptxlab.Result, Any]:
    """Shared memory is full of halves of 0.5, D is zero; the eight registers of each thread are stored where the body says `STORE`."""
    store = "".join(f"st.global.f32 [%o+{4 * j}], %d{j};" for j in range(8))
    text = bench.head(
        ".param .u64 o",
        ".reg .pred %p, %q; .reg .b32 %d<8>, %t, %i, %w; .reg .b64 %o, %da, %db; .shared .align 1024 .b8 mem[8192];",
        f"""
ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 32, %o; shr.u32 %w, %t, 5;
mov.b64 %da, {a:#x}; mov.b64 %db, {b:#x}; setp.eq.u32 %p, 0, 0;
{"".join(f"mov.b32 %d{j}, 0;" for j in range(8))}
and.b32 %i, %t, 127; mad.lo.u32 %i, %i, 16, mem;
{"".join(f"st.shared.v4.b32 [%i+{2048 * j}], {{{HALF_ONE}, {HALF_ONE}, {HALF_ONE}, {HALF_ONE}}};" for j in range(4))}
fence.proxy.async.shared::cta; bar.sync 0;
wgmma.fence.sync.aligned;
{body.replace("STORE", store)}
""",
    )
    out = np.zeros((threads, 8), np.float32)
    options = {"policy": "eager", "check": "all"} | options
    return ptxlab.loads(text).kernel().launch(grid=(1,), block=(threads,), args=[out], **options), out


def finding(result: ptxlab.Result) -> Any:
    assert len(result.diagnostics) == 1, result.diagnostics
    return result.diagnostics[0]


COMMIT, WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_chain_adds_up_across_groups(policy: dict[str, Any]) -> None:
    body = multiply() * 3 + COMMIT + multiply() + multiply(SECOND) + COMMIT + multiply() + COMMIT + WAIT + "STORE"
    result, out = launch(body, **policy)
    assert not result.diagnostics
    assert (out[:, :4] == 20).all()
    assert (out[:, 4:] == 4).all()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_an_older_group_can_be_used_while_a_newer_one_is_pending(policy: dict[str, Any]) -> None:
    use = "".join(f"add.f32 %d{j}, %d{j}, 0f3F800000;" for j in range(4))
    body = multiply() + COMMIT + multiply(SECOND) + COMMIT + "wgmma.wait_group.sync.aligned 1;" + use
    body += "wgmma.fence.sync.aligned;" + multiply() + COMMIT + WAIT + "STORE"
    result, out = launch(body, **policy)
    assert not result.diagnostics
    assert (out[:, :4] == 9).all()
    assert (out[:, 4:] == 4).all()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_registers_in_flight_are_found(policy: dict[str, Any]) -> None:
    result, out = launch(multiply() + COMMIT + "st.global.f32 [%o], %d1;" + WAIT, **policy)
    found = finding(result)
    assert found.code == "R805"
    assert found.message == "st.global.f32 uses %d1 while a wgmma.mma_async that has not been waited for may still write to it"
    if policy["policy"] != "random":
        assert (out[:, 0] == (4 if policy["policy"] == "eager" else 0)).all()


LATER: list[dict[str, Any]] = [{"policy": "lazy"}, {"policy": "random", "seed": 1}, {"policy": "random", "seed": 2}]


@pytest.mark.parametrize("policy", LATER, ids=str)
def test_a_copy_of_a_register_in_flight_that_nothing_uses(policy: dict[str, Any]) -> None:
    """Triton unpacks f16 accumulators between commit and wait; of the lanes some are masked away."""
    copy = "mov.b32 %t, %d1;"
    other = "setp.eq.u32 %q, %i, 77; selp.b32 %t, %t, 5, %q; st.global.b32 [%o], %t;"
    for use in ("", "add.u32 %t, %t, 1;", f"mov.u32 %i, 3; {other}"):
        result, _ = launch(multiply() + COMMIT + copy + WAIT + use, **policy)
        assert result.diagnostics == ()


@pytest.mark.parametrize("policy", LATER, ids=str)
def test_a_copy_of_a_register_in_flight_that_is_used(policy: dict[str, Any]) -> None:
    result, _ = launch(multiply() + COMMIT + "\nmov.b32 %t, %d1;\n" + WAIT + "\nst.global.b32 [%o], %t;\n", **policy)
    found = finding(result)
    assert (found.code, found.excerpt.strip()) == ("R805", "mov.b32 %t, %d1;")
    assert found.message == "mov.b32 uses %d1 while a wgmma.mma_async that has not been waited for may still write to it"
    assert "`st.global.b32 [%o], %t;`" in dict(found.details)["used by"]
    assert "wgmma.mma_async" in dict(found.details)["in flight"]


@pytest.mark.parametrize("policy", LATER, ids=str)
def test_registers_are_defined_behind_the_wait(policy: dict[str, Any]) -> None:
    """What is copied before is not used, what is copied behind the wait is."""
    body = multiply() + COMMIT + "mov.b32 %t, %d1;" + WAIT + "mov.b32 %t, %d1; st.global.b32 [%o], %t;"
    assert launch(body, **policy)[0].diagnostics == ()


@pytest.mark.parametrize("policy", [{"policy": "eager"}, *LATER], ids=str)
def test_a_write_to_a_register_in_flight(policy: dict[str, Any]) -> None:
    assert finding(launch(multiply() + COMMIT + "mov.b32 %d1, 0;" + WAIT, **policy)[0]).code == "R805"


def test_eager_results_stand_in_the_registers_at_issue() -> None:
    """Triton unpacks f16 accumulators between commit and wait; what is written to D then counts for the next instruction."""
    unpacked = "".join(f"add.f32 %d{j}, %d{j}, 0f3F800000;" for j in range(4))
    result, out = launch(multiply() + COMMIT + unpacked + multiply() + COMMIT + WAIT + "STORE")
    assert (out[:, :4] == 9).all()
    early, unfenced = result.diagnostics
    assert (early.code, early.message) == (
        "R805",
        "add.f32 uses %d0 while a wgmma.mma_async that has not been waited for may still write to it",
    )
    assert dict(early.details)["other uses"].startswith("lines ")
    assert unfenced.code == "R807"


ZEROS = "mov.b32 %d0, 0f00000000; mov.b32 %d1, %d0; mov.b32 %d2, %d1; mov.b32 %d3, %d0;"


def test_zeros_behind_the_fence() -> None:
    """CuTe DSL for Hopper fills the accumulator before the fence, and its compiler moves the zeros after it."""
    fence, product = "wgmma.fence.sync.aligned;", multiply()
    body = f"{fence} {ZEROS} {product} {COMMIT} {WAIT} STORE"
    result, out = launch(body)
    assert result.diagnostics == ()
    assert (out[:, :4] == 4).all()
    assert launch(f"{fence} {multiply(SECOND)} {ZEROS} {product} {COMMIT} {WAIT} STORE")[0].diagnostics == ()
    (letter,) = launch(body, model="spec")[0].diagnostics
    assert letter.code == "R807"
    for other in (
        f"{fence} {product} {COMMIT} {WAIT} {ZEROS} {product}",  # the fence belongs to another product
        f"{fence} mov.b32 %d0, %i; {product}",  # a value
        f"{fence} {ZEROS} add.f32 %d2, %d3, %i; {product}",
    ):
        found = launch(f"{other} {COMMIT} {WAIT} STORE")[0].diagnostics
        assert [each.code for each in found] == ["R807"], other


def test_each_missing_wait_is_one_finding() -> None:
    use = "".join(f"mov.b32 %t, %d{j};" for j in range(4))
    result, _ = launch((multiply() + COMMIT + use + WAIT) * 2 + "STORE")
    assert [found.code for found in result.diagnostics] == ["R805", "R805"]


def test_eager_reports_a_warp_that_never_issues() -> None:
    result, _ = launch("setp.eq.u32 %q, %w, 2; @%q bra E;" + multiply() + COMMIT + "mov.b32 %t, %d0; E:")
    assert {found.code for found in result.diagnostics} >= {"H601"}


def test_a_group_of_which_part_was_waited_for_is_found_through_loops() -> None:
    loop = "mov.u32 %i, 0; L: " + multiply() + COMMIT + "wgmma.wait_group.sync.aligned 1;"
    loop += "add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 3; @%q bra L;"
    result, out = launch(loop + WAIT + "STORE")
    assert not result.diagnostics
    assert (out[:, :4] == 12).all()
    result, _ = launch(loop + "mov.b32 %t, %d0;" + WAIT + "STORE")
    assert finding(result).code == "R805"


def test_overlapping_accumulators() -> None:
    """The second instruction works on registers of the first in another order."""
    result, out = launch(multiply() + multiply("{%d2, %d3, %d4, %d5}") + COMMIT + WAIT + "STORE")
    assert result.ok
    assert (out == [4, 4, 8, 8, 4, 4, 0, 0]).all()


def test_two_warpgroups_work_on_their_own() -> None:
    result, out = launch("setp.lt.u32 %q, %w, 4; @%q bra E;" + multiply() + "E:" + multiply() + COMMIT + WAIT + "STORE", threads=256)
    assert {found.code for found in result.diagnostics} == {"X123"}
    assert (out[:128, :4] == 4).all()
    assert (out[128:, :4] == 8).all()


REFUSED = [
    (
        "W901",
        {"body": multiply(), "threads": 96},
        "wgmma.mma_async in warp 2: a warpgroup is 4 warps of 32 threads, but the CTA has 96 threads",
    ),
    (
        "W901",
        {"body": "setp.lt.u32 %q, %w, 4; @%q bra E;" + multiply() + COMMIT + "E:", "threads": 192},
        "wgmma.mma_async in warp 5: a warpgroup is 4 warps of 32 threads, but the CTA has 192 threads",
    ),
    (
        "W902",
        {"body": "setp.eq.u32 %q, %w, 2; @%q bra E;" + multiply() + "bra F; E:" + multiply(SECOND) + "F:" + COMMIT + WAIT},
        None,
    ),
    (
        "W902",
        {"body": "setp.ne.u32 %p, %w, 3;" + multiply() + COMMIT + WAIT},
        "scale-d is true in warp 0, but false in warp 3 of the same warpgroup",
    ),
    (
        "W902",
        {"body": "setp.eq.u32 %q, %w, 1; @%q add.u64 %db, %db, 2;" + multiply() + COMMIT + WAIT},
        f"the descriptor of B is {int(B) + 2:#x} in warp 1, but {int(B):#x} in warp 0 of the same warpgroup",
    ),
    (
        "W903",
        {"body": "setp.eq.u32 %q, %t, 5; @%q exit;" + multiply()},
        "wgmma.mma_async is executed by 31 threads of warp 0; it needs all 32",
    ),
    ("W904", {"body": multiply(tail="%p, 2, 1, 0, 0")}, "imm-scale-a must be an immediate, -1 or 1"),
    ("W904", {"body": multiply(tail="%p, 1, %w, 0, 0")}, "imm-scale-b must be an immediate, -1 or 1"),
    ("W904", {"body": multiply(tail="%p, 1, 1, 0, 2")}, "imm-trans-b must be an immediate, 0 or 1"),
    ("R801", {"body": "mad.wide.u32 %db, %t, 2, %db;" + multiply()}, None),
    (
        "D704",
        {"body": multiply(), "b": int(WgmmaDescriptor(start=0x2400, leading=128, stride=256))},
        "B reads shared memory from 0x2400 to 0x24ff; the CTA has 0x400 to 0x23ff",
    ),
    (
        "D702",
        {"body": multiply(), "a": int(A) | 1 << 15},
        None,
    ),
]


@pytest.mark.parametrize(("code", "given", "message"), REFUSED, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)])
def test_refusals(code: str, given: dict[str, Any], message: str | None) -> None:
    result, _ = launch(**given)
    assert not result.ok
    found = result.diagnostics[-1]
    assert found.code == code, found
    if message is not None:
        assert found.message == message


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_warp_that_is_missing(policy: dict[str, Any]) -> None:
    result, _ = launch("setp.eq.u32 %q, %w, 2; @%q bra E;" + multiply() + COMMIT + WAIT + "E:", **policy)
    found = finding(result)
    text = str(found)
    assert found.code.startswith("H")
    assert "wgmma.wait_group 0 waits for operations of its warpgroup" in text
    assert "warps that have not executed the next of them: 2" in text
