"""Memory that nothing has written: findings only where a value is used."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import codes, kernel, run, store

SHARED = ".shared .align 16 .b8 s[2048];"


def used_by(result: ptxlab.Result) -> str:
    (found,) = result.diagnostics
    return dict(found.details).get("used by", "")


LOADS = {
    "ld": "ld.shared.u32 r1, [s];",
    "a vector": "ld.shared.v2.u32 {r4, r1}, [s];",
    "generic": "mov.u64 rd1, s; cvta.shared.u64 rd1, rd1; ld.u32 r1, [rd1];",
    "a byte": "mov.u32 r1, s; ld.shared.s8 r1, [r1+3];",
    "ldmatrix": "mad.lo.u32 r2, lane, 16, s; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r1}, [r2];",
    "through shared memory": "ld.shared.u32 r2, [s]; st.shared.u32 [s+64], r2; bar.sync 0; ld.shared.u32 r1, [s+64];",
    "through stmatrix": (
        "ld.shared.u32 r2, [s]; mad.lo.u32 r4, lane, 16, s; stmatrix.sync.aligned.m8n8.x1.shared.b16 [r4+1024], {r2}; bar.sync 0;"
        "ld.shared.u32 r1, [s+1024];"
    ),
    "through a shuffle": "ld.shared.u32 r2, [s]; shfl.sync.bfly.b32 r1, r2, 1, 31, -1;",
    "through a product": (
        "ld.shared.u32 r2, [s]; .reg .b32 d<4>; mov.u32 r4, 0;"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {r2, r4, r4, r4}, {r4, r4}, {r4, r4, r4, r4}; mov.u32 r1, d0;"
    ),
    "through local memory": "ld.shared.u32 r2, [s]; st.local.u32 [l], r2; ld.local.u32 r1, [l];",
}
USES = {
    "a store": store("r1"),
    "a branch": "setp.eq.u32 p, r1, 3; @p bra L; L:",
    "an address": "and.b32 r3, r1, 0; ld.shared.u32 r5, [s+4]; and.b32 r5, r1, 4; add.u32 r5, r5, s; st.shared.u32 [r5], tid;",
    "an atomic": "red.global.add.u32 [out], r1;",
    "a ballot that is stored": "setp.eq.u32 p, r1, 3; vote.sync.ballot.b32 r3, p, -1;" + store("r3"),
}
NO_USES = {
    "nothing": store("tid"),
    "arithmetic": "mad.lo.u32 r3, r1, 5, 7; cvt.rn.f32.u32 r3, r3; add.f32 r3, r3, r3;" + store("tid"),
    "another selection": "setp.lt.u32 p, lane, 32; selp.u32 r3, tid, r1, p;" + store("r3"),
    "bits that are cut off": "shl.b32 r3, r1, 16; mov.b32 {h, _}, r3; cvt.u32.u16 r3, h; add.u32 r3, r3, tid;" + store("r3"),
    "shared memory that nobody reads": "st.shared.u32 [s+512], r1;",
    "a store that no thread executes": "setp.gt.u32 p, lane, 32; @p " + store("r1"),
}
LOCAL = SHARED + ".local .align 4 .b8 l[4];"


@pytest.mark.parametrize("use", USES)
def test_uses(use: str) -> None:
    _, result = run(LOADS["ld"] + USES[use], shared=SHARED)
    assert set(codes(result)) == {"M411"}
    assert all("used by" in dict(found.details) for found in result.diagnostics)


@pytest.mark.parametrize("use", NO_USES)
def test_no_uses(use: str) -> None:
    _, result = run(LOADS["ld"] + NO_USES[use], shared=SHARED)
    assert result.diagnostics == ()


@pytest.mark.parametrize("load", LOADS)
def test_ways_of_a_value(load: str) -> None:
    _, result = run(LOADS[load] + store("r1"), shared=LOCAL)
    assert codes(result) == ["M411"]
    assert "st.global.u32 [at], r1;" in used_by(result)
    assert run(LOADS[load] + store("tid"), shared=LOCAL)[1].diagnostics == ()


def test_bytes_of_a_word() -> None:
    body = "st.shared.u16 [s+2], 5; ld.shared.u32 r1, [s]; shr.u32 r2, r1, {};" + store("r2")
    assert run(body.format(16), shared=SHARED)[1].diagnostics == ()
    assert codes(run(body.format(15), shared=SHARED)[1]) == ["M411"]


ATOMICS = {
    8: "atom.shared.add.u64 rd2, [s], rd3;",
    16: ".reg .b128 w, v; mov.b128 v, {rd3, rd3}; atom.shared.cas.b128 w, [s], v, v;",
}


@pytest.mark.parametrize("size", ATOMICS)
def test_an_atomic_reads_all_its_bytes(size: int) -> None:
    """The last four bytes are undefined. Nobody uses the result, but what is in memory depends on them."""
    body = f"""mov.u64 rd3, 0;
st.shared.v4.u32 [s], {{tid, tid, tid, tid}};
ld.shared.u32 r1, [s+PLACE];
st.shared.u32 [s+{size - 4}], r1;
{ATOMICS[size]}"""
    result = run(body.replace("PLACE", "64"), 1, shared=SHARED)[1]
    assert codes(result) == ["M411"]
    assert "atom.shared" in used_by(result)
    assert run(body.replace("PLACE", "0"), 1, shared=SHARED)[1].diagnostics == ()


def test_each_read_is_tested_by_itself() -> None:
    body = f"ld.shared.u32 r1, [s];\nld.shared.u32 r2, [s+64];\n{store('r2')}"
    (found,) = run(body, shared=SHARED)[1].diagnostics
    assert found.excerpt.strip() == "ld.shared.u32 r2, [s+64];"


SECOND = {
    "the same bytes": ("ld.shared.u32 r1, [s];", "ld.shared.u32 r2, [s];", "lanes 0-31 of "),
    "a part of them": ("ld.shared.v4.u32 {r1, r3, r4, r5}, [s];", "ld.shared.u32 r2, [s+8];", "lanes 0-31 of "),
    "by another instruction": (
        "mad.lo.u32 r3, lane, 16, s; ld.shared.v4.u32 {r1, _, _, _}, [r3];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r2}, [r3];",
        "",
    ),
    "by an atomic": ("ld.shared.u32 r1, [s];", "atom.shared.exch.b32 r2, [s], tid;", "lanes 0-31 of "),
    "after an atomic": ("atom.shared.exch.b32 r1, [s+64], tid; ld.shared.u32 r1, [s];", "ld.shared.u32 r2, [s];", "lanes 0-31 of "),
}


@pytest.mark.parametrize("name", SECOND)
def test_a_second_read_of_the_same_bytes(name: str) -> None:
    """Nothing uses what the first one reads."""
    first, second, lanes = SECOND[name]
    (found,) = run(f"{first}\n{second}\n{store('r2')}", shared=SHARED)[1].diagnostics
    place = {"a part of them": "0x408-0x40b", "by another instruction": "0x400-0x47f"}.get(name, "0x400-0x403")
    assert found.code == "M411"
    assert found.message.endswith(f"reads shared memory bytes {place} of CTA (0, 0, 0), which nothing has written")
    assert second.endswith(found.excerpt.strip())
    assert dict(found.details) == {
        "kernel": "k",
        "CTA": "(0, 0, 0)",
        "reader": f"{lanes}warp 0 of CTA (0, 0, 0)",
        "used by": dict(found.details)["used by"],
    }
    assert "st.global.u32 [at], r2;" in dict(found.details)["used by"]
    assert found.fix.startswith("write the bytes before they are read, with a barrier between")


@pytest.mark.parametrize("name", SECOND)
def test_two_reads_of_the_same_bytes_are_one_finding(name: str) -> None:
    first, second, _ = SECOND[name]
    assert run(f"{first}\n{second}\n{store('tid')}", shared=SHARED)[1].diagnostics == ()
    found = run(f"{first}\n{second}\nadd.u32 r1, r1, r2;\n{store('r1')}", shared=SHARED)[1].diagnostics
    assert [each.code for each in found] == ["M411"]


def test_a_second_read_of_what_has_been_written_meanwhile() -> None:
    """The bytes that are stored are undefined because of a masked load: that is the finding."""
    body = "ld.shared.u32 r1, [s];\nsetp.lt.u32 p, lane, 16;\n@p ld.global.u32 r3, [at];\n{} ld.shared.u32 r2, [s];\n" + store("r2")
    written = body.format("st.shared.u32 [s], tid;")
    assert run(written, shared=SHARED)[1].diagnostics == ()
    copied = body.format("mad.lo.u32 r4, lane, 4, s; st.shared.u32 [r4], r3; bar.sync 0;").replace("r2, [s]", "r2, [r4]")
    assert codes(run(copied, shared=SHARED)[1]) == ["R808"]


def test_a_second_read_in_each_of_two_ctas() -> None:
    body = f"ld.shared.u32 r1, [s];\nld.shared.u32 r2, [s];\n{store('r2')}"
    (found,) = kernel(body, shared=SHARED).launch(grid=2, block=32, args=[np.zeros(64, np.uint32)]).diagnostics
    assert found.excerpt.strip() == "ld.shared.u32 r2, [s];"


@pytest.mark.parametrize("atomic", ["atom.shared.add.u32 r1, [s], 1;", "red.shared.add.u32 [s], 1;", "atom.shared.cas.b32 r1, [s], 0, 1;"])
def test_an_atomic_on_memory_that_nothing_has_written(atomic: str) -> None:
    """What is in memory afterwards depends on it."""
    (found,) = run(atomic, shared=SHARED)[1].diagnostics
    assert found.code == "M411"
    short = ".".join(atomic.split(".")[:2])
    assert found.message == f"{short} reads shared memory bytes 0x400-0x403 of CTA (0, 0, 0), which nothing has written"
    assert atomic in dict(found.details)["used by"]
    assert run(f"st.shared.u32 [s], 0;\n{atomic}", shared=SHARED)[1].diagnostics == ()


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_an_exchange_reads_for_its_register_alone(bits: int) -> None:
    """What is in memory afterwards does not depend on it: a lock may be set free in this way at first."""
    head = ".reg .b128 w, v; mov.b128 v, {rd3, rd3};" if bits == 128 else ""
    old, new, low = {
        32: ("r2", "tid", "mov.u32 r3, r2;"),
        64: ("rd2", "rd3", "cvt.u32.u64 r3, rd2;"),
        128: ("w", "v", "mov.b128 {rd2, rd4}, w; cvt.u32.u64 r3, rd4;"),
    }[bits]
    exchange = f"mov.u64 rd3, 0; {head}\natom.shared.exch.b{bits} {old}, [s], {new};"
    assert run(exchange, shared=SHARED)[1].diagnostics == ()
    assert run(f"{exchange} ld.shared.u32 r3, [s];\n{store('r3')}", shared=SHARED)[1].diagnostics == ()
    (found,) = run(f"{exchange} {low}\n{store('r3')}", 1, shared=SHARED)[1].diagnostics
    assert (found.code, found.message.split()[0]) == ("M411", "atom.shared")
    assert "st.global.u32 [at], r3;" in dict(found.details)["used by"]


def test_lanes_exchange_one_after_the_other() -> None:
    """Only the first one at a place gets what nothing has written."""
    body = "atom.shared.exch.b32 r2, [s], tid;\nsetp.eq.u32 p, lane, {};\n@p " + store("r2")
    assert codes(run(body.format(0), shared=SHARED)[1]) == ["M411"]
    assert run(body.format(1), shared=SHARED)[1].diagnostics == ()


def test_an_exchange_of_bytes_of_which_some_are_defined() -> None:
    body = "st.shared.u16 [s+2], 5; atom.shared.exch.b32 r1, [s], tid; shr.u32 r2, r1, {};" + store("r2")
    assert run(body.format(16), 1, shared=SHARED)[1].diagnostics == ()
    assert codes(run(body.format(15), 1, shared=SHARED)[1]) == ["M411"]


_HALVES = """
ld.global.u32 r1, [rd9]; and.b32 r2, r1, 0xffff0000; or.b32 r2, r2, 3;
atom.global.cas.b32 r3, [rd9], r1, r2;
ld.global.u32 r1, [rd9]; and.b32 r2, r1, 0x0000ffff; or.b32 r2, r2, 0x50000;
atom.global.cas.b32 r3, [rd9], r1, r2;
"""


def compared(body: str, load: str = "ld.global.u32 r4, [rd9];") -> tuple[int, set[str]]:
    """The result of a load after some code, and the instructions that use what nothing has written; rd9 is the address of that."""
    device, out = ptxlab.Device("sm_100a"), np.zeros(1, np.uint32)
    head = ".reg .b128 v, w, x; .reg .b16 h2, h3; ld.param.u64 rd9, [memory];"
    made = kernel(f"{head}\n{body}\n{load}\n{store('r4')}", params=", .param .u64 memory")
    result = made.launch(block=1, args=[out, device.empty(4, np.uint32)], device=device)
    return int(out[0]), {dict(found.details)["used by"].split("`")[1].split()[0] for found in result.diagnostics}


def test_a_compare_and_swap_on_undefined_bits_is_the_last_finding() -> None:
    """A word that threads fill part by part, with its other parts as they were: these are reported where they are compared, not later."""
    assert compared(_HALVES) == (0x50003, {"atom.global.cas.b32"})


def test_a_compare_and_swap_on_undefined_bits_that_fails_stores_nothing() -> None:
    failing = "ld.global.u32 r1, [rd9];\nadd.u32 r1, r1, 1;\natom.global.cas.b32 r3, [rd9], r1, 8;"
    assert compared(failing)[1] == {"atom.global.cas.b32", "st.global.u32"}


def test_lanes_that_fill_parts_of_words_in_turn() -> None:
    """Four lanes a word, each with its four bits of any value, until its comparison succeeds; none of them is undefined afterwards."""
    body = """
    shr.u32 r1, tid, 2; mul.wide.u32 rd1, r1, 4; add.u64 rd1, rd1, rd9;
    and.b32 r2, tid, 3; shl.b32 r2, r2, 2; shl.b32 r3, 15, r2; not.b32 r3, r3; and.b32 r1, r1, 15; shl.b32 r1, r1, r2;
    ld.global.u32 r5, [rd1];
    AGAIN:
    and.b32 r6, r5, r3; or.b32 r6, r6, r1;
    atom.global.cas.b32 r7, [rd1], r5, r6;
    setp.ne.u32 p, r7, r5; mov.u32 r5, r7;
    @p bra AGAIN;
    bar.sync 0;
    ld.global.u32 r4, [rd1]; and.b32 r4, r4, 0xffff;
    """
    device, out = ptxlab.Device("sm_100a"), np.zeros(64, np.uint32)
    made = kernel(f"ld.param.u64 rd9, [memory];{body}{store('r4')}", params=", .param .u64 memory")
    result = made.launch(block=64, args=[out, device.empty(16, np.uint32)], device=device)
    assert (out == np.arange(64, dtype=np.uint32) // 4 * 0x1111).all()
    assert not any("st.global" in dict(found.details).get("used by", "") or found.code == "R808" for found in result.diagnostics)


@pytest.mark.parametrize("bits", [16, 64, 128])
def test_what_a_compare_and_swap_has_stored(bits: int) -> None:
    """Its bits are undefined as those of the register are: here none."""
    body, load = {
        16: ("ld.global.b16 h, [rd9]; mov.b16 h2, 9;\natom.global.cas.b16 h3, [rd9], h, h2;", "ld.global.u16 r4, [rd9];"),
        64: (
            "ld.global.u64 rd1, [rd9]; mov.u64 rd2, 0x900000000;\natom.global.cas.b64 rd3, [rd9], rd1, rd2;",
            "ld.global.u32 r4, [rd9+4];",
        ),
        128: (
            "ld.global.v2.u64 {rd1, rd2}, [rd9]; mov.b128 v, {rd1, rd2}; mov.u64 rd3, 9; mov.b128 w, {rd3, rd3};\n"
            "atom.global.cas.b128 x, [rd9], v, w;",
            "ld.global.u32 r4, [rd9+8];",
        ),
    }[bits]
    assert compared(body, load) == (9, {f"atom.global.cas.b{bits}"})


def test_results_are_those_of_the_first_run() -> None:
    body = "ld.global.u32 r1, [at]; add.u32 r1, r1, 1; st.global.u32 [at], r1; ld.shared.u32 r2, [s];"
    out = np.zeros(32, np.uint32)
    result = kernel(body, shared=SHARED).launch(block=32, args=[out])
    assert result.diagnostics == ()
    assert (out == 1).all()
    assert result.replay is None


def test_a_device_keeps_its_memory() -> None:
    device = ptxlab.Device("sm_100a")
    buffer = device.array(np.zeros(32, np.uint32))
    loaded = kernel("ld.global.u32 r1, [at]; add.u32 r1, r1, 1; st.global.u32 [at], r1; ld.shared.u32 r2, [s];", shared=SHARED)
    for _ in range(2):
        assert loaded.launch(block=32, args=[buffer], device=device).diagnostics == ()
    assert (buffer.numpy() == 2).all()


# ----------------------------------------------------------------------------------------- undefined registers, by way of memory
KEPT = {
    "shared memory": "mad.lo.u32 r4, lane, 4, s; st.shared.u32 [r4], r1; bar.sync 0; ld.shared.u32 r3, [r4];",
    "stmatrix and ldmatrix": (
        "mad.lo.u32 r4, lane, 16, s; stmatrix.sync.aligned.m8n8.x1.shared.b16 [r4], {r1}; bar.sync 0;"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r3}, [r4];"
    ),
    "a generic address": (
        "mov.u64 rd3, s; cvta.shared.u64 rd3, rd3; mad.wide.u32 rd3, lane, 4, rd3; st.u32 [rd3], r1; bar.sync 0;"
        "mad.lo.u32 r4, lane, 4, s; ld.shared.u32 r3, [r4];"
    ),
}
KEPT["local memory"] = "st.local.u32 [l], r1; ld.local.u32 r3, [l];"
MASKED = "setp.lt.u32 p, lane, 16;\n@p ld.global.u32 r1, [at];\n"


@pytest.mark.parametrize("way", KEPT)
def test_a_masked_load_by_way_of_memory(way: str) -> None:
    (found,) = run(f"{MASKED}{KEPT[way]}\n{store('r3')}", shared=LOCAL)[1].diagnostics
    assert (found.code, found.message) == ("R808", "st.global.u32 stores r3, which is undefined")
    assert "`@p ld.global.u32 r1, [at];`: its guard is false" in dict(found.details)["origin"]
    (decides,) = run(f"{MASKED}{KEPT[way]}\nsetp.eq.u32 q, r3, 5;\n@q bra L; L:", shared=LOCAL)[1].diagnostics
    assert (decides.code, decides.message) == ("R802", "q is used here but has no value in this thread")
    assert run(f"{MASKED}{KEPT[way]}\n{store('tid')}", shared=LOCAL)[1].diagnostics == ()


def test_the_defined_rows_of_a_product_by_way_of_memory() -> None:
    """tl.load with a mask, shared memory, ldmatrix, tl.dot, and a store with the same mask."""
    load = f"{MASKED}{KEPT['stmatrix and ldmatrix']} mov.u32 r5, 0; .reg .b32 d<4>;"
    product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {r3, r5, r3, r5}, {r5, r5}, {r5, r5, r5, r5};"
    assert run(f"{load}\n{product}\n@p {store('d0')}", shared=LOCAL)[1].diagnostics == ()
    assert codes(run(f"{load}\n{product}\n{store('d0')}", shared=LOCAL)[1]) == ["R808"]
