"""Values that nothing defines: carried bit by bit, reported where they leave a thread, with the place that they come from."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from tests.check.race.order_table.pair import FRAME

from .launch_helpers import kernel, run, store

SOURCE = '.file 1 "kernel.py"'
UNWRITTEN = "r9"
"""A register that no body here writes."""


def codes(result: ptxlab.Result) -> list[str]:
    return [found.code for found in result.diagnostics]


def details(found: Any) -> dict[str, str]:
    return dict(found.details)


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


MULTIPLY = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};"
GIVEN = {"a": 4, "b": 2, "c": 4}


def product(open_: str, guard: str, stored: str, multiply: str = MULTIPLY) -> ptxlab.Result:
    """A product in which the registers of one operand are loaded only where a guard holds, and of which some elements are stored."""
    loads = "".join(
        f"{'@p ' if name == open_ else ''}ld.global.b32 {name}{i}, [at];\n" for name, count in GIVEN.items() for i in range(count)
    )
    body = f".reg .b32 a<4>, b<2>, c<4>, d<4>;\n{guard}\n{loads}{multiply}\n{stored}"
    return run(body)[1]


STORED = "".join(f"{{guard}} st.global.b32 [at], d{i};\n" for i in range(4))
BY_ROW, BY_COLUMN = "setp.lt.u32 p, lane, 16;", "setp.lt.u32 p, lane, 4;"
SOME = "and.b32 r1, lane, 3; setp.eq.u32 q, r1, 0; and.pred q, q, p;"


def test_a_masked_row_of_a_matrix_taints_its_row() -> None:
    """Lanes 0 to 15 hold rows 0 to 3 and 8 to 11."""
    assert product("a", BY_ROW, STORED.format(guard="@p")).diagnostics == ()
    found = product("a", BY_ROW, STORED.format(guard=""))
    assert [(each.code, details(each)["lanes"]) for each in found.diagnostics] == [("R808", "16-31")]
    assert "@p ld.global.b32 a0" in details(found.diagnostics[0])["origin"]


def test_a_column_of_b_taints_its_column() -> None:
    """Lanes 0 to 3 hold column 0 of B; lanes 0, 4, 8 ... hold columns 0 and 1 of D."""
    columns = "and.b32 r1, lane, 3; setp.eq.u32 q, r1, 0; @q st.global.b32 [at], d{};"
    assert product("b", BY_COLUMN, columns.format(0)).diagnostics == ()
    assert set(codes(product("b", BY_COLUMN, columns.format(1)))) == {"R808"}


def test_an_element_of_c_taints_its_element() -> None:
    assert product("c", BY_ROW, STORED.format(guard="@p")).diagnostics == ()
    assert codes(product("c", BY_ROW, STORED.format(guard=""))) == ["R808"]


def test_a_product_may_be_masked_away() -> None:
    """What tl.load(p, mask=m) without other gives reaches a product; the rows are not stored."""
    masked = "".join(f"selp.b32 d{i}, d{i}, 0, p;\n" for i in range(4)) + STORED.format(guard="")
    assert product("a", BY_ROW, masked).diagnostics == ()


def test_a_transposed_matrix() -> None:
    """Lanes 0 to 15 hold rows 0 to 3, which become columns 0 to 3: those of lanes 0 and 1 in each four."""
    body = "setp.lt.u32 p, lane, 16; @p ld.global.b32 r1, [at]; movmatrix.sync.aligned.m8n8.trans.b16 r2, r1;"
    part = "and.b32 r3, lane, 2; setp.eq.u32 q, r3, 0;"
    assert run(f"{body} {part} @q {store('r2')}")[1].diagnostics == ()
    assert codes(run(f"{body} {part} @!q {store('r2')}")[1]) == ["R808"]


FILL = "".join(f"st.shared.v4.b32 [%t+{2048 * i}], {{%zero, %zero, %zero, %zero}};\n" for i in range(2))


def wgmma(before: str, stored: str, accumulate: bool = False, fill: str = FILL, more: str = "", **options: Any) -> ptxlab.Result:
    """A product of A in registers with what ``fill`` stores, by default zeros; ``more`` follows in the same group."""
    descriptor = 1 << 16 | 64 << 32 | 1 << 62
    body = f"""mad.lo.u32 %t, %tid, 16, %smem;
{fill}fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %t, %smem, 4;
cvt.u64.u32 %bdesc, %t;
or.b64 %bdesc, %bdesc, {descriptor:#x};
and.b32 %t, %tid, 31;
setp.{"eq" if accumulate else "ne"}.u32 %enable, %tid, %tid;
setp.lt.u32 %p0, %t, 16;
{before}
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f4, %f5, %f6, %f7}}, {{%r4, %r5, %r6, %r7}}, %bdesc, %enable, 1, 1, 0;
{more}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{stored}"""
    text = FRAME.format(target="sm_90a", body=body, use="")
    array = np.zeros(65536, np.uint8)
    return ptxlab.loads(text).kernel().launch(block=128, shared_bytes=4096, args=[array, bytes(128)], **options)


ZERO_A = "".join(f"mov.b32 %r{i}, 0;\n" for i in range(4, 8))
ZERO_D = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(5, 8))
SAVED = "".join(f"{{guard}} st.global.f32 [%out+{4 * i}], %f{4 + i};\n" for i in range(4))


def test_wgmma_does_not_read_an_accumulator_that_it_replaces() -> None:
    assert wgmma(ZERO_A, SAVED.format(guard="")).diagnostics == ()


def test_wgmma_adds_to_what_nothing_defines() -> None:
    found = wgmma(ZERO_A + ZERO_D + "@%p0 mov.f32 %f4, 0f00000000;\n", SAVED.format(guard=""), True)
    assert codes(found) == ["R808"]
    assert found.diagnostics[0].message.startswith("st.global.f32 stores %f4")
    assert wgmma(ZERO_A + ZERO_D + "@%p0 mov.f32 %f4, 0f00000000;\n", SAVED.format(guard="@%p0"), True).diagnostics == ()


def test_wgmma_keeps_undefined_rows_of_a_apart() -> None:
    before = "".join(f"@%p0 ld.global.b32 %r{i}, [%out];\n" for i in range(4, 8))
    assert wgmma(before, SAVED.format(guard="@%p0")).diagnostics == ()
    found = wgmma(before, SAVED.format(guard=""))
    assert codes(found) == ["R808"]
    assert details(found.diagnostics[0])["lanes"] == "16-31"


POLICIES: list[dict[str, Any]] = [{"policy": "eager"}, {"policy": "lazy"}, {"policy": "random", "seed": 5}]
COLUMN_3 = "shr.u32 %r9, %tid, 3;\nsetp.ne.u32 %p1, %r9, 3;\n"
"""Threads 24 to 31 store column 3 of B, which lanes 1, 5, 9 ... have in the second and fourth register of D."""
OTHER_LANES = "and.b32 %r9, %tid, 3;\nsetp.ne.u32 %p1, %r9, 1;\n"


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_wgmma_keeps_columns_of_b_apart(options: dict[str, Any]) -> None:
    fill = COLUMN_3 + FILL.replace("st.shared", "@%p1 st.shared")
    store_3 = "{} st.global.f32 [%out], %f5;\nst.global.f32 [%out+4], %f4;\n"
    assert wgmma(ZERO_A, OTHER_LANES + store_3.format("@%p1"), fill=fill, **options).diagnostics == ()
    (found,) = wgmma(ZERO_A, OTHER_LANES + store_3.format(""), fill=fill, **options).diagnostics
    assert (found.code, found.message.partition(" ")[0]) == ("M411", "wgmma.mma_async")
    assert "st.global.f32 [%out], %f5;" in details(found)["used by"]


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_wgmma_reads_a_masked_load_from_shared_memory(options: dict[str, Any]) -> None:
    """The registers of the masked load go to column 3 of B."""
    fill = COLUMN_3 + "mov.b32 %r10, 0;\n@%p1 ld.global.b32 %r11, [%out];\n" + FILL.replace("%zero", "%r11")
    stored = "{} st.global.f32 [%out+64], %f7;\n"
    assert wgmma(ZERO_A, OTHER_LANES + stored.format("@%p1"), fill=fill, **options).diagnostics == ()
    (found,) = wgmma(ZERO_A, OTHER_LANES + stored.format(""), fill=fill, **options).diagnostics
    assert (found.code, found.message) == ("R808", "st.global.f32 stores %f7, which is undefined")
    assert "`@%p1 ld.global.b32 %r11, [%out];`" in details(found)["origin"]
    assert details(found)["lanes"] == "1, 5, 9, 13, 17, 21, 25, 29"


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_wgmma_in_a_row(options: dict[str, Any], waits: bool) -> None:
    """A second product that does not add defines what the first has left undefined; one that adds keeps it."""
    first, last = FILL.splitlines()
    fill = f"{COLUMN_3}@%p1 {first}\n{last}\n"
    wait = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nwgmma.fence.sync.aligned;\n" if waits else ""
    again = f"""{wait}add.u64 %bdesc, %bdesc, 128;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f4, %f5, %f6, %f7}}, {{%r4, %r5, %r6, %r7}}, %bdesc, ADDS, 1, 1, 0;"""
    stored = SAVED.format(guard="")
    assert wgmma(ZERO_A, stored, fill=fill, more=again.replace("ADDS", "%copied"), **options).diagnostics == ()
    kept = wgmma(ZERO_A, stored, fill=fill, more=again.replace("ADDS", "%ignored"), **options)
    assert codes(kept) == ["M411"]


def narrow(use: str, half_of_b: bool = False) -> ptxlab.Result:
    """A product of 4-bit elements of kind::f8f6f4, which stand in 8 of 16 bytes; nothing writes the others."""
    descriptor = int(SharedMemoryDescriptor(start=0, leading=128, stride=256))
    idesc = int(InstructionDescriptor(kind="f8f6f4", m=128, n=16, a="e2m1", b="e2m1", d="f32"))
    body = f"""@%warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tensor_slot], 32;
@%first mbarrier.init.shared::cta.b64 [%mbar], 1;
mad.lo.u32 %t, %tid, 16, %smem;
st.shared.v2.b32 [%t], {{%zero, %zero}};
st.shared.v2.b32 [%t+2048], {{%zero, %zero}};
@%warp0 st.shared.v2.b32 [%t+4096], {{%zero, %zero}};
fence.proxy.async.shared::cta;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %tmem, [tensor_slot];
shr.u32 %t, %smem, 4;
cvt.u64.u32 %adesc, %t;
or.b64 %adesc, %adesc, {descriptor:#x};
add.u64 %bdesc, %adesc, 256;
setp.ne.u32 %enable, %tid, %tid;
@%first tcgen05.mma.cta_group::1.kind::f8f6f4 [%tmem], %adesc, %bdesc, {idesc:#x}, %enable;
@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%mbar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar], 0;
@!%done bra WAIT;
tcgen05.fence::after_thread_sync;
{use}
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
@%warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 32;
"""
    text = body.replace("@%warp0 st.shared.v2.b32 [%t+4096], {%zero, %zero};", "") if half_of_b else body
    loaded = ptxlab.loads(FRAME.format(target="sm_100a", body=text, use="")).kernel()
    return loaded.launch(block=128, shared_bytes=8192, args=[np.zeros(65536, np.uint8), bytes(128)])


LOADED = """and.b32 %at, %warp, 3;
shl.b32 %at, %at, 21;
add.u32 %at, %at, %tmem;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%at];
tcgen05.wait::ld.sync.aligned;
"""
SAVED_PRODUCT = LOADED + "st.global.b32 [%out], %r9;"


def test_padding_of_narrow_elements_is_not_read() -> None:
    assert narrow(SAVED_PRODUCT).diagnostics == ()
    (found,) = narrow(SAVED_PRODUCT, half_of_b=True).diagnostics
    assert (found.code, found.message.partition(" ")[0]) == ("M411", "tcgen05.mma")
    assert "st.global.b32 [%out], %r9;" in details(found)["used by"]


@pytest.mark.parametrize("use", ["", LOADED])
def test_a_product_that_nothing_uses(use: str) -> None:
    assert narrow(use, half_of_b=True).diagnostics == ()


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
