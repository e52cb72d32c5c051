"""Values that nothing defines: carried bit by bit, reported where they leave a thread, with the place that they come from."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from tests.machine.launch_helpers import codes, details, kernel, run, store

SOURCE = '.file 1 "kernel.py"'
UNWRITTEN = "r9"
"""A register that no body here writes."""


DEFINED = {
    "unpacked": "mov.b64 rd1, {r9, tid}; mov.b64 {_, r1}, rd1;",
    "shifted": "mov.b64 rd1, {r9, tid}; shr.u64 rd1, rd1, 32; cvt.u32.u64 r1, rd1;",
    "masked": "shl.b32 r2, r9, 8; or.b32 r2, r2, tid; and.b32 r1, r2, 255;",
    "selected": "setp.lt.u32 q, tid, 64; selp.b32 r1, tid, r9, q;",
    "permuted": "prmt.b32 r1, r9, tid, 0x7654;",
    "halves": "mov.b32 r2, {h, h}; and.b32 r2, r2, 0; or.b32 r1, r2, tid;",
    "a field": "mov.b32 r2, 0; bfi.b32 r2, tid, r9, 0, 8; bfe.u32 r1, r2, 0, 8;",
    "a funnel shift": "shf.l.wrap.b32 r1, r9, tid, 0;",
    "shuffled": "shfl.sync.bfly.b32 r2, tid, 1, 31, -1; shfl.sync.bfly.b32 r1, r2, 1, 31, -1; shfl.sync.idx.b32 r2, r9, 0, 31, -1;",
    "a defined lane is shuffled": (
        "mov.u32 r2, r9; setp.eq.u32 q, lane, 0; @q mov.u32 r2, 0; shfl.sync.idx.b32 r2, r2, 0, 31, -1; add.u32 r1, r2, tid;"
    ),
    "a ballot of defined lanes": "setp.lt.u32 q, lane, 99; vote.sync.ballot.b32 r2, q, -1; and.b32 r1, r2, 0; or.b32 r1, r1, tid;",
}


@pytest.mark.parametrize("name", DEFINED)
def test_defined_bits_may_decide(name: str) -> None:
    """LLVM packs a value that it has with one that it has not; a branch and an address then depend on the first."""
    use = "setp.ge.u32 p, r1, 32; @p bra END; mul.wide.u32 rd2, r1, 4; add.u64 rd2, rd2, out; st.global.u32 [rd2], r1; END:"
    out, result = run(f"{DEFINED[name]} {use}")
    assert result.diagnostics == ()
    if name != "a funnel shift":
        assert out.tolist() == list(range(32))


UNDEFINED = {
    "a branch": ("add.u32 r1, r9, tid; setp.lt.u32 p, r1, 5; @p bra END; END:", "R802", "p is used here but has no value in this thread"),
    "an address": ("cvt.u64.u32 rd2, r9; add.u64 rd2, rd2, out; st.global.u32 [rd2], tid;", "R802", "rd2 is used here"),
    "a barrier": ("and.b32 r1, r9, 1; bar.sync r1;", "R802", "r1 is used here"),
    "a store": (store("r9"), "R808", "st.global.u32 stores r9, which is undefined"),
    "some bits": ("and.b32 r1, r9, 0xff00; " + store("r1"), "R808", "st.global.u32 stores r1, whose bits 8-15 are undefined"),
    "a bit": ("and.b32 r1, r9, 4; or.b32 r1, r1, tid; " + store("r1"), "R808", "st.global.u32 stores r1, whose bit 2 is undefined"),
    "an atomic": ("red.global.add.u32 [out], r9;", "R808", "red.global.add.u32 uses r9, which is undefined"),
    "a generic store": ("st.u32 [at], r9;", "R808", "st.u32 stores r9, which is undefined"),
    "a vector": ("st.global.v2.u32 [out], {tid, r9};", "R808", "st.global.v2.u32 stores r9, which is undefined"),
    "a shuffle": ("shfl.sync.bfly.b32 r1, r9, 1, 31, -1; " + store("r1"), "R808", "st.global.u32 stores r1, which is undefined"),
    "a ballot": (
        "setp.lt.u32 p, r9, 4; setp.lt.u32 q, lane, 30; @q setp.lt.u32 p, lane, 4; vote.sync.ballot.b32 r1, p, -1; " + store("r1"),
        "R808",
        "st.global.u32 stores r1, whose bits 30-31 are undefined",
    ),
    "a vote": ("setp.lt.u32 p, r9, 4; vote.sync.any.pred q, p, -1; @q bra END; END:", "R802", "q is used here"),
    "a reduction": ("redux.sync.add.u32 r1, r9, -1; " + store("r1"), "R808", "st.global.u32 stores r1, which is undefined"),
    "a guarded move": ("setp.lt.u32 p, r9, 4; mov.u32 r1, 6; @p mov.u32 r1, 5; " + store("r1"), "R808", "r1, whose bits 0-1 are undefined"),
    "a lane of a shuffle": ("shfl.sync.idx.b32 r1, tid, r9, 31, -1; " + store("r1"), "R808", "st.global.u32 stores r1, which is undefined"),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_where_it_is_observed(name: str) -> None:
    body, code, message = UNDEFINED[name]
    _, result = run(body)
    (found,) = result.diagnostics
    assert (found.code, result.completed) == (code, code == "R808")
    assert message in found.message
    assert details(found)["origin"].startswith("r9, which is first read by <ptx>:")
    assert details(found)["origin"].endswith("; no instruction writes it before")
    assert found.fix == "write the register on every path that leads here"


def test_a_generic_store_to_shared_memory_is_not_seen() -> None:
    _, result = run("mov.u64 rd1, s; cvta.shared.u64 rd1, rd1; st.u32 [rd1], r9;", shared=".shared .b32 s;")
    assert result.diagnostics == ()


def test_not_followed_without_the_check() -> None:
    every: tuple[dict[str, Any], ...] = ({"check": "none"}, {"check": "memory,race"}, {"undefined": "zero"})
    for options in every:
        out, result = run("setp.lt.u32 p, r9, 5; @p bra END; trap; END: " + store("r9"), **options)
        assert result.diagnostics == ()
        assert (out == 0).all()


def test_a_masked_load_is_the_origin() -> None:
    body = """setp.lt.u32 p, lane, 30;
.loc 1 7 3
@p ld.global.u32 r1, [at];
add.u32 r2, r1, 1;
.loc 1 9 3
st.global.u32 [at], r2;
st.global.u32 [out], r1;
"""
    _, result = run(body, top=SOURCE)
    (found,) = result.diagnostics
    assert found.code == "R808"
    assert found.source is not None
    assert str(found.source).startswith("kernel.py:9")
    assert details(found)["lanes"] == "30-31"
    assert re.fullmatch(
        r"<ptx>:\d+:1 `@p ld.global.u32 r1, \[at\];` \(source kernel.py:7(:3)?\): its guard is false, and nothing else writes its register",
        details(found)["origin"],
    )
    assert "other=0" in found.fix


def test_each_origin_is_one_finding() -> None:
    body = f"{store('r9')} {store('r9')} {store('r8')} @p bra L; L:"
    _, result = run("setp.lt.u32 p, lane, 99;" + body)
    assert codes(result) == ["R808", "R808"]


def stored_twice(value: str, instruction: str) -> ptxlab.Result:
    """Two warps store to the same place, without an order."""
    body = f"mad.lo.u32 r1, lane, 16, s; {value} {instruction} bar.sync 0; ld.shared.u32 r3, [s]; {store('r3')}"
    return run(body, 64, shared=".shared .align 16 .b8 s[512];")[1]


STMATRIX = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [r1], {r2};"


@pytest.mark.parametrize("instruction", [STMATRIX, "st.shared.u32 [r1], r2;"])
def test_equal_bits_in_no_order(instruction: str) -> None:
    assert codes(stored_twice("mov.u32 r2, lane;", instruction)) == ["X123"]
    assert codes(stored_twice("mov.u32 r2, tid;", instruction)) == ["X101"]


def filled(seed: int, body: str, **options: Any) -> NDArray[np.uint32]:
    out, result = run(body, undefined="random", seed=seed, **options)
    assert result.ok
    return out


MEMORY = f"mad.lo.u32 r1, lane, 4, s; ld.shared.u32 r2, [r1]; xor.b32 r2, r2, r9; {store('r2')}"


def test_random_values_are_repeatable() -> None:
    shared: dict[str, Any] = {"shared": ".shared .b32 s[32];", "check": "none"}
    first, again, other = (filled(seed, MEMORY, **shared) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).mean() > 0.9
    out, _ = run(MEMORY, undefined="zero", **shared)
    assert (out == 0).all()


def test_zeros_follow_other_contents() -> None:
    """Shared memory of a CTA that has ended is used again."""
    body = f"mad.lo.u32 r1, lane, 4, s; ld.shared.u32 r2, [r1]; st.shared.u32 [r1], tid; {store('r2')}"
    out, _ = run(body, 32, 40, shared=".shared .b32 s[32];", undefined="zero", check="none")
    assert (out == 0).all()


def test_a_kernel_that_defines_everything_is_not_changed() -> None:
    loaded = kernel(store("tid"))
    assert not loaded.program.tracked
    assert loaded.variant(False, False, False)[1] is loaded.variant(False, False, True)[1]


NARROW = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) .reqntid 32
{{
    .reg .b64 %rd<4>;
    .reg .b32 %r<6>;
    .reg .b16 %rs<6>;
    ld.param.u64 %rd1, [a];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 2;
    add.u64 %rd3, %rd1, %rd2;
    mov.b16 %rs1, 5;
    mov.b32 %r2, {{{halves}}};
    st.global.{type} [%rd3], %r2;
    ret;
}}
"""


@pytest.mark.parametrize("type", ["b8", "u8", "b16"])
@pytest.mark.parametrize("in_buffer", [False, True], ids=["array", "buffer"])
def test_bits_that_a_narrow_store_leaves_out_do_not_count(type: str, in_buffer: bool) -> None:
    device, array = ptxlab.Device("sm_100a"), np.zeros(64, np.uint8)
    given = device.array(array) if in_buffer else array
    result = ptxlab.loads(NARROW.format(halves="%rs1, %rs2", type=type)).kernel().launch(args=[given], device=device)
    assert result.diagnostics == ()
    stored = given.numpy() if in_buffer else array
    assert stored[::2].tolist() == [5] * 32
    assert device.diagnostics == []


@pytest.mark.parametrize(("type", "bits"), [("u8", "0-7"), ("b16", "0-15")])
def test_a_finding_about_a_narrow_store_names_the_bits_that_it_takes(type: str, bits: str) -> None:
    result = ptxlab.loads(NARROW.format(halves="%rs2, %rs3", type=type)).kernel().launch(args=[np.zeros(64, np.uint8)])
    (found,) = result.diagnostics
    assert (found.code, found.message) == ("R808", f"st.global.{type} stores %r2, whose bits {bits} are undefined")
