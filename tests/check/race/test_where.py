"""Reports name all bytes, or columns and lanes, where two accesses meet, and the lanes that reach them."""

from __future__ import annotations

from .small_kernels import launch


def message(body: str, **options: object) -> tuple[str, dict[str, str]]:
    (finding,) = launch(body, **options).diagnostics
    return finding.message, dict(finding.details)


def test_all_bytes_and_the_lanes() -> None:
    body = """
    mad.lo.u32 %r3, %r1, 4, %r2;
    setp.lt.u32 %p2, %r1, 32;
    @%p2 st.shared.u32 [%r3], %r1;
    setp.ge.u32 %p3, %r1, 40;
    setp.lt.u32 %p4, %r1, 56;
    and.pred %p3, %p3, %p4;
    @%p3 ld.shared.u32 %r4, [%r3+-128];
    @%p3 st.global.u32 [%rd1], 0;
    """
    text, details = message(body.replace("st.global.u32 [%rd1], 0", "st.global.u32 [%rd1], %r4") + "@%p3 mov.u32 %r5, %r4;")
    assert text.startswith("ld.shared reads shared memory bytes 0x820-0x85f of CTA (0, 0, 0), which st.shared at line 19 writes")
    assert details["later"] == "lanes 8-23 of warp 1 of CTA (0, 0, 0)"
    assert details["earlier"].startswith("warp 0 of CTA (0, 0, 0): line 19")


def test_bytes_apart() -> None:
    body = """
    mad.lo.u32 %r3, %r1, 64, %r2;
    setp.lt.u32 %p2, %r1, 32;
    @%p2 st.shared.u32 [%r3], %r1;
    @!%p2 st.shared.u32 [%r3+-2048], %r2;
    """
    text, _ = message(body)
    assert "shared memory bytes 0x800-0x803, 0x840-0x843, 0x880-0x883 and 29 more of CTA (0, 0, 0)" in text


def test_a_copy_in_full() -> None:
    body = """
    mad.lo.u32 %r3, %r1, 512, %r2;
    mov.u32 %r4, 0;
    AGAIN: st.shared.u32 [%r3], %r1;
    add.u32 %r3, %r3, 4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p2, %r4, 128;
    @%p2 bra AGAIN;
    bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 32768;
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;
    """
    text, details = message(body, words=8192, block=64)
    assert text.startswith("cp.async.bulk reads shared memory bytes 0x800-0x47ff of CTA (0, 0, 0), which st.shared at line 19 writes")
    assert details["later"] == "cp.async.bulk issued by lane 0 of warp 0 of CTA (0, 0, 0)"


COLUMNS = """
    mov.u32 %r8, %warpid;
    setp.eq.u32 %p3, %r8, 0;
    @%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
    shl.b32 %r10, %r8, 21;
    add.u32 %r10, %r10, %r9;"""
"""Each warp has the address of its lanes in r10."""


def test_columns_and_lanes() -> None:
    body = f"""{COLUMNS}
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r10], {{%r1, %r1, %r1, %r1}};
    bar.sync 0;
    @%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
    """
    result = launch(body)
    assert [d.code for d in result.diagnostics] == ["X107"]
    assert result.diagnostics[0].message.startswith("tcgen05.dealloc releases tensor memory columns 0-3, lanes ")


def test_a_wait_behind_the_second_access_is_no_wait_before_it() -> None:
    """All of this is recorded in one go."""
    body = f"""{COLUMNS}
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {{%r1}};
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r11}}, [%r10];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    @%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
    """
    result = launch(body)
    assert [(d.code, d.fix) for d in result.diagnostics] == [
        ("X107", "insert tcgen05.wait::st.sync.aligned after line 24, before the threads synchronise")
    ]


def test_what_nothing_has_written() -> None:
    text, details = message("mad.lo.u32 %r3, %r1, 4, %r2;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd1], %r4;", block=16)
    assert text == "ld.shared reads shared memory bytes 0x800-0x83f of CTA (0, 0, 0), which nothing has written"
    assert details["reader"] == "lanes 0-15 of warp 0 of CTA (0, 0, 0)"
