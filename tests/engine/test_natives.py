"""Native ops of lanes: both back ends against each other, and against what the specification says."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.engine import Fault, Status, Word
from tests.engine.engine_helpers import FULL
from tests.engine.native_helpers import RNG, WORDS, both

SHOWS = {
    "test_faults": ("trap",),
    "test_redux_f32": ("redux.sync.(op=min|max)*.(type=f32)",),
}


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_widening_loads(bits, signed):
    data = RNG.integers(0, 1 << 32, 64, np.uint32)
    kind = f"{'s' if signed else 'u'}{bits}"
    _, out = both(f"add.s64 %rd8, %rd1, %rd3; add.s64 %rd8, %rd8, %rd3; ld.global.{kind} %rd9, [%rd8]; st.global.b64 [%rd7], %rd9;", data)
    source = data.view(np.uint8).reshape(32, 8)[:, : bits // 8].copy().view(f"{'i' if signed else 'u'}{bits // 8}")[:, 0]
    assert np.array_equal(out.view(np.uint64)[:, 0], source.astype(np.int64 if signed else np.uint64).astype(np.uint64))


@pytest.mark.parametrize("vector", ["v2.b32", "v4.b32", "v2.b64", "v4.b16", "v4.b8", "v2.b16"])
def test_vectors_through_shared(vector):
    count, bits = int(vector[1]), int(vector.split("b")[1])
    letter = {8: "h", 16: "h", 32: "r", 64: "rd"}[bits]
    registers = ", ".join(f"%{letter}{10 + i}" for i in range(count))
    others = ", ".join(f"%{letter}{20 + i}" for i in range(count))
    size = count * bits // 8
    body = f"""
      add.s64 %rd8, %rd1, %rd3; add.s64 %rd8, %rd8, %rd3; add.s64 %rd8, %rd8, %rd3; add.s64 %rd8, %rd8, %rd3;
      mul.lo.u32 %r5, %r1, {size}; mov.u32 %r6, s; add.s32 %r5, %r5, %r6;
      ld.global.{vector} {{{registers}}}, [%rd8];
      st.shared.{vector} [%r5+{size}], {{{registers}}};
      ld.shared.{vector} {{{others}}}, [%r5+{size}];
      st.global.{vector} [%rd7], {{{others}}};
    """
    data = RNG.integers(0, 1 << 32, 256, np.uint32)
    _, out = both(body, data, before=".shared .align 64 .b8 s[2048];")
    assert np.array_equal(out.view(np.uint8)[:, :size], data.view(np.uint8)[: 32 * 16].reshape(32, 16)[:, :size])


def test_sink_and_constants():
    body = "ld.global.v2.b32 {_, %r9}, [%rd1]; st.global.v4.b32 [%rd7], {7, %r9, 0, -1}; st.global.b8 [%rd7+16], 300;"
    _, out = both(body, np.arange(32, dtype=np.uint32))
    assert out[5, :5].tolist() == [7, 1, 0, 0xFFFFFFFF, 300 & 255]


def test_b128():
    body = "ld.global.b128 %rq1, [%rd1]; mov.b128 {%rd10, %rd11}, %rq1; mov.b128 %rq2, {%rd11, %rd10}; st.global.b128 [%rd7], %rq2;"
    _, out = both(body, np.arange(32, dtype=np.uint32))
    assert out[3, :4].tolist() == [2, 3, 0, 1]


STORED = {
    "b8": "%h1", "b16": "%h1", "b32": "%r1", "v2.b16": "{%h1, %h1}", "b64": "%rd8", "v4.b16": "{%h1, %h1, %h1, %h1}",
    "v2.b32": "{%r1, %r1}", "v4.b32": "{%r1, %r1, %r1, %r1}", "v2.b64": "{%rd8, %rd8}",
}  # fmt: skip


@pytest.mark.parametrize("type", STORED)
@pytest.mark.parametrize("lanes", [FULL, 0x7FF0_0FFE, 0x0000_0F30])
def test_lanes_that_store_to_one_place(type, lanes):
    """Of four places; an H200 stores 128 bytes at a time, and of the lanes of such a pass the lowest one's value stays."""
    size = int(type.rpartition("b")[2]) // 8 * int(type[1] if type[0] == "v" else 1)
    body = f"""
 and.b32 %r4, %r1, 3; mul.wide.u32 %rd9, %r4, 16; add.s64 %rd10, %rd2, %rd9;
 cvt.u16.u32 %h1, %r1; cvt.u64.u32 %rd8, %r1; st.global.{type} [%rd10], {STORED[type]};"""
    _, out = both(body, np.zeros(32, np.uint32), lanes=lanes, fill=0xFFFFFFFF)
    bytes_ = 0xFF if type == "b8" else 0xFFFF if "b16" in type else 0xFFFFFFFF
    for place in range(4):
        same_place = [lane for lane in range(place, 32, 4) if lanes >> lane & 1]
        last = [lane for lane in same_place if lane * size // 128 == same_place[-1] * size // 128]
        if same_place:
            assert out.ravel()[4 * place] & bytes_ == last[0]


@pytest.mark.parametrize("space", ["shared", "local", "generic", "global"])
def test_predicated_and_partial(space):
    where = "[%rd12]" if space in ("generic", "global") else "[%r5]"
    suffix = "" if space == "generic" else "." + space
    prepare = {
        "shared": "mov.u32 %r6, s; mul.lo.u32 %r5, %r1, 4; add.s32 %r5, %r5, %r6;",
        "local": "mov.u32 %r5, l;",
        "global": "mov.u64 %rd12, %rd4;",
        "generic": "mov.u64 %rd12, %rd4;",
    }[space]
    body = f"""{prepare} setp.lt.u32 %p1, %r1, 20; mov.u32 %r8, 99;
      @%p1 st{suffix}.b32 {where}, %r2; @!%p1 st{suffix}.b32 {where}, 5; @%p1 ld{suffix}.b32 %r8, {where}; st.global.b32 [%rd7+32], %r8;"""
    declared = ".shared .align 4 .b8 s[256];" if space == "shared" else ".local .align 4 .b8 l[16];" if space == "local" else ""
    _, out = both(body, WORDS, before=declared, lanes=0x0FFFFFF0)
    lanes = np.arange(32)
    alive = (lanes >= 4) & (lanes < 28)
    want = np.where(alive, np.where(lanes < 20, WORDS, 99), 0)
    assert np.array_equal(out[:, 8], want)


@pytest.mark.parametrize(
    ("body", "fault", "lane"),
    [
        ("ld.global.b32 %r3, [%rd4+4];", Fault.GLOBAL_READ, 31),
        ("ld.global.b32 %r3, [%rd4+-4];", Fault.GLOBAL_READ, 0),
        ("ld.global.b32 %r3, [%rd4+2];", Fault.MISALIGNED, 0),
        ("ld.global.v2.b32 {%r3, %r4}, [%rd4];", Fault.MISALIGNED, 1),
        ("ld.global.b32 %r3, [0];", Fault.GLOBAL_READ, 0),
        ("mov.u64 %rd9, -4; ld.global.b32 %r3, [%rd9];", Fault.GLOBAL_READ, 0),
        ("mov.u64 %rd9, 0x7fffffffffff; ld.b8 %r3, [%rd9];", Fault.GLOBAL_READ, 0),
        ("st.shared.b32 [%r2], %r3;", Fault.SHARED_RANGE, 0),
        ("mov.u32 %r5, 0x2000; st.shared.b32 [%r5], %r3;", Fault.SHARED_RANGE, 0),
        ("mov.u32 %r5, 0x1ffc; ld.shared.b32 %r3, [%r5]; ld.shared.v2.b32 {%r3, %r4}, [%r5+-4];", Fault.NONE, 0),
        ("mov.u32 %r5, -4; ld.shared.b32 %r3, [%r5];", Fault.SHARED_RANGE, 0),
        ("mov.u32 %r5, 0x1000400; ld.shared.b32 %r3, [%r5];", Fault.SHARED_PEER, 0),
        ("mov.u32 %r5, 0x2000400; ld.shared::cluster.b32 %r3, [%r5];", Fault.SHARED_GONE, 0),
        ("mov.u32 %r5, 0x1002000; ld.shared::cluster.b32 %r3, [%r5];", Fault.SHARED_RANGE, 0),
        ("mov.u64 %rd9, 0x800100002000; ld.b32 %r3, [%rd9];", Fault.SHARED_RANGE, 0),
        ("mov.u64 %rd9, 0x800200000010; ld.b32 %r3, [%rd9];", Fault.LOCAL_RANGE, 0),
        ("mov.u64 %rd9, 0x800300000000; ld.b32 %r3, [%rd9];", Fault.PARAM_RANGE, 0),
        ("mov.u64 %rd9, 0x800300000380; ld.b64 %rd10, [%rd9]; st.b64 [%rd9], %rd10;", Fault.PARAM_WRITE, 0),
        ("mov.u32 %r5, 16; ld.local.b32 %r3, [%r5];", Fault.LOCAL_RANGE, 0),
        ("setp.gt.u32 %p1, %r1, 6; @%p1 trap;", Fault.TRAP, 7),
        ("shfl.sync.idx.b32 %r3, %r2, 0, 31, 0xfffffffe;", Fault.NOT_MEMBER, 0),
    ],
)
def test_faults(body, fault, lane):
    bench, _ = both(body, np.full(32, 0x7FFFFFFC, np.uint32), before=".local .align 16 .b8 l[16];", cluster=2)
    assert bench.status == (Status.FAULT if fault else Status.EXIT)
    assert bench.fault[:2] == (fault, lane)


def test_read_only():
    bench, _ = both("st.global.b32 [%rd4], %r2;", WORDS, readonly=(0,))
    assert bench.fault[0] == Fault.GLOBAL_WRITE


def test_guard_saves_a_bad_address():
    bench, _ = both("setp.eq.u32 %p1, %r1, 77; @%p1 ld.global.b32 %r3, [0]; @%p1 st.shared.b32 [%r2], %r2; @%p1 trap;", WORDS)
    assert bench.status == Status.EXIT


def test_cluster_and_generic_shared():
    body = """mov.u32 %r5, s; xor.b32 %r6, %r5, 0x1000000; mul.lo.u32 %r7, %r1, 4; add.s32 %r6, %r6, %r7;
      st.shared::cluster.b32 [%r6], %r2; cvt.u64.u32 %rd9, %r6; add.s64 %rd9, %rd9, 0x800100000000; ld.b32 %r8, [%rd9];
      st.global.b32 [%rd7], %r8;"""
    bench, out = both(body, WORDS, before=".shared .align 4 .b8 s[256];", cluster=2, rank=1)
    assert np.array_equal(out[:, 0], WORDS)
    assert np.array_equal(bench.all_shared[0][0x400 : 0x400 + 128].view(np.uint32), WORDS)


ATOMICS = [("add", t) for t in ("u32", "u64", "f32", "f64", "f16x2", "bf16x2", "s32")]
ATOMICS += [(o, t) for o in ("min", "max") for t in ("u32", "s32", "u64", "s64")]
ATOMICS += [(o, t) for o in ("and", "or", "xor", "exch") for t in ("b32", "b64")] + [("inc", "u32"), ("dec", "u32"), ("exch", "b128")]


def _atomic(operation: str, type: str, space: str) -> str:
    dots = f"{operation}{'.noftz' if type[-2:] == 'x2' else ''}.{type}"
    return f"atom.{space}.{dots}"


@pytest.mark.parametrize(("operation", "type"), ATOMICS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics(operation, type, space):
    wide = {"b128": "rq", "u64": "rd", "s64": "rd", "b64": "rd", "f64": "fd", "f32": "f"}.get(type, "r")
    size = {"rq": 16, "rd": 8, "fd": 8}.get(wide, 4)
    bits = 8 * size
    address = "[%rd8]" if space == "global" else "[%r5]"
    opcode = _atomic(operation, type, space)
    body = f"""
      and.b32 %r4, %r1, 3; mul.lo.u32 %r4, %r4, {size}; mul.wide.u32 %rd9, %r1, 16; add.s64 %rd9, %rd9, %rd1;
      cvt.u64.u32 %rd8, %r4; add.s64 %rd8, %rd8, %rd2; add.s64 %rd8, %rd8, 2048; mov.u32 %r5, s; add.s32 %r5, %r5, %r4;
      ld.global.b{bits} %{wide}1, [%rd9]; ld.global.b{bits} %{wide}2, [%rd1];
      st.{space}.b{bits} {address}, %{wide}2;
      {opcode} %{wide}3, {address}, %{wide}1;
      st.global.b{bits} [%rd7], %{wide}3; ld.{space}.b{bits} %{wide}4, {address}; st.global.b{bits} [%rd7+16], %{wide}4;
    """.replace("cvt.u64.u32 %rd8, %r4", "mul.wide.u32 %rd8, %r4, 1")
    special = np.array([0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F800000, 0x00018001, 0x7C007C01, 0xFFFFFFFF], np.uint32)
    data = RNG.choice(np.concatenate([special, WORDS]), 128).astype(np.uint32)
    if type == "f64":
        doubles = np.linspace(-5, 7, 64).view(np.uint64)
        doubles[::3] = np.resize(np.array([0x7FF0000000000001, 0xFFF8000000000002, 0x7FF0000000000000, 0xFFF0000000000000], np.uint64), 22)
        data = doubles.view(np.uint32)
    body = body.replace("%r1, 16;", "%r1, 16;")
    both(body, data, before=".shared .align 16 .b8 s[256];", out=1024)


def test_atomic_results_are_in_lane_order():
    _, out = both(
        "atom.global.add.u32 %r3, [%rd1], 3; st.global.b32 [%rd7], %r3; red.global.max.u32 [%rd1+4], %r1;", np.zeros(32, np.uint32)
    )
    assert np.array_equal(out[:, 0], 3 * np.arange(32))


def test_compare_and_swap():
    body = "setp.lt.u32 %p1, %r1, 30; @%p1 atom.global.cas.b32 %r3, [%rd1], %r1, %r9; st.global.b32 [%rd7], %r3;"
    bench, out = both("add.s32 %r9, %r1, 1; mov.u32 %r3, 50;" + body, np.zeros(32, np.uint32))
    assert out[:, 0].tolist() == [*range(30), 50, 50]
    assert bench.arrays[0][0] == 30


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(("b", "c"), [("1", "31"), ("5", "0"), ("%r1", "0x1c1f"), ("3", "0x181f"), ("17", "0x0f07")])
def test_shfl(mode, b, c):
    body = f"shfl.sync.{mode}.b32 %r3|%p1, %r2, {b}, {c}, -1; selp.b32 %r4, 1, 0, %p1; st.global.v2.b32 [%rd7], {{%r3, %r4}};"
    _, out = both(body, WORDS)
    limit, segment = int(c, 0) & 31, int(c, 0) >> 8 & 31
    for lane in range(32):
        amount = lane if b == "%r1" else int(b)
        highest, lowest = (lane & segment) | (limit & ~segment & 31), lane & segment
        j = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount, "idx": lowest | (amount & ~segment & 31)}[mode]
        inside = j >= highest if mode == "up" else j <= highest
        assert out[lane, 0] == WORDS[j % 32 if inside else lane]
        assert out[lane, 1] == inside


def test_votes():
    body = """setp.gt.u32 %p1, %r2, 0x80000000; vote.sync.ballot.b32 %r3, %p1, -1; vote.sync.any.pred %p2, !%p1, -1;
      vote.sync.all.pred %p3, %p1, -1;
      vote.sync.uni.pred %p4, 1, -1; selp.b32 %r4, 1, 0, %p2; selp.b32 %r5, 1, 0, %p3; selp.b32 %r6, 1, 0, %p4;
      st.global.v4.b32 [%rd7], {%r3, %r4, %r5, %r6};
      activemask.b32 %r8; st.global.b32 [%rd7+16], %r8;"""
    _, out = both(body, WORDS)
    ballot = sum(1 << i for i in range(32) if WORDS[i] > 0x80000000)
    assert out[9, :5].tolist() == [ballot, 1, 0, 1, FULL]


def test_elect_match_redux():
    body = """setp.gt.u32 %p1, %r1, 3; and.b32 %r9, %r1, 6; mov.u32 %r10, 0xfffffff0;
      @%p1 elect.sync %r3|%p2, %r10; @!%p1 elect.sync %r3|%p2, 15; selp.b32 %r4, 1, 0, %p2;
      match.any.sync.b32 %r5, %r9, -1; match.all.sync.b32 %r6|%p3, %r9, -1; redux.sync.max.s32 %r7, %r2, -1;
      st.global.v4.b32 [%rd7], {%r3, %r4, %r5, %r6}; st.global.b32 [%rd7+16], %r7;"""
    _, out = both(body, WORDS)
    assert out[:, 0].tolist() == [0] * 4 + [4] * 28
    assert np.flatnonzero(out[:, 1]).tolist() == [0, 4]
    assert all(out[i, 2] == sum(1 << j for j in range(32) if j & 6 == i & 6) for i in range(32))
    assert not out[:, 3].any()
    assert (out[:, 4] == WORDS.view(np.int32).max().astype(np.uint32)).all()


@pytest.mark.parametrize("mode", ["min", "max", "min.abs", "max.NaN", "min.abs.NaN"])
def test_redux_f32(mode):
    values = RNG.standard_normal(32).astype(np.float32)
    values[[3, 9]] = [0.0, -0.0]
    for nan in (False, True):
        values[5] = np.nan if nan else 1.5
        _, out = both(f"mov.b32 %f1, %r2; redux.sync.{mode}.f32 %f2, %f1, -1; st.global.f32 [%rd7], %f2;", values.view(np.uint32).copy())
        v = np.abs(values) if "abs" in mode else values
        want = np.float32(np.nan) if nan and "NaN" in mode else (np.nanmin if "min" in mode else np.nanmax)(v)
        assert np.array_equal(out[:, 0].view(np.float32), np.full(32, want), equal_nan=True)


def test_splits_meet_at_a_collective():
    body = """setp.lt.u32 %p1, %r1, 7; mov.u32 %r9, 0; @%p1 bra ONE; add.s32 %r9, %r9, 5; bra TWO; ONE: add.s32 %r9, %r9, 1; TWO:
      shfl.sync.idx.b32 %r3, %r9, 20, 31, -1; st.global.b32 [%rd7], %r3;"""
    _, out = both(body, WORDS)
    assert (out[:, 0] == 5).all()


def test_a_missing_member_is_reported():
    bench, _ = both("setp.lt.u32 %p1, %r1, 7; @%p1 bra ONE; bar.warp.sync -1; ONE: ret;", WORDS)
    assert bench.status == Status.EXIT  # the others have exited
    bench, _ = both("setp.lt.u32 %p1, %r1, 7; @%p1 shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;", WORDS)
    assert bench.status == Status.CONVERGE
    assert int(bench.context.words[Word.ACTIVE]) == 0x7F
