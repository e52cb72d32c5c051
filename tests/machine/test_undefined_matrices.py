"""Undefined bits of matrices: which elements of a product have some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from tests.check.race.order_table.pair import FRAME
from tests.machine.launch_helpers import codes, details, run, store

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
