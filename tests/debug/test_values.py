"""Watchpoints, and what a session shows: registers by type, undefined bits, memories."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.debug import DebugError, Session

from .debug_kernels import HEAD, LOOP, copies, output, prepared

TYPES = (
    HEAD
    + """.visible .entry k(.param .u64 out) {
  .reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<6>; .reg .s32 %s<3>; .reg .f32 %f<3>; .reg .b64 %rd<3>; .reg .b128 %rq<2>;
  mov.f32 %f1, 0fC0200000;
  mov.s32 %s1, -5;
  mov.b16 %h1, 0xBC00;
  mov.b32 %r1, {%h1, %h1};
  setp.lt.s32 %p1, %s1, 0;
  mov.b64 %rd1, 0x123456789ABCDEF0;
  mov.b128 %rq1, {%rd1, %rd1};
  @%p2 mov.b32 %r2, 1;
  and.b32 %r3, %r2, 0xFF;
  ret;
}
"""
)
"""-2.5, -5, -1 as f16 and twice in a word, a predicate; %p2 and so %r2 are never written."""

FAULT = (
    HEAD
    + """.visible .entry k(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4096;
  add.s64 %rd3, %rd1, %rd2;
  st.global.b32 [%rd3], %r1;
  ret;
}
"""
)
"""Lane 1 stores 4096 bytes behind the start of an array of 260 bytes."""


def test_values_by_type() -> None:
    with Session(prepared(TYPES)) as session:
        undefined = session.register("%f1")
        assert undefined.undefined == (0xFFFFFFFF,) * 32
        assert undefined.as_dict()["values"] == [None] * 32
        session.step(9)
        assert session.register("%f1").value(3) == -2.5
        assert session.register("%s1").value(3) == -5
        assert session.register("%r1").value(3) == 0xBC00BC00
        assert session.register("%r1").value(3, "f16") == [-1.0, -1.0]
        assert session.register("%p1").value(3) is True
        assert session.register("%rd1").value(3, "u16") == [0xDEF0, 0x9ABC, 0x5678, 0x1234]
        assert session.register("%rq1").value(3) == 0x123456789ABCDEF0123456789ABCDEF0
        assert session.evaluate("%f1 * 2 == -5 and %s1 + %laneid == -5") is True
        names = [r.name for r in session.registers()]
        assert names[:2] == ["%f1", "%s1"]


def test_undefined_bits_are_marked() -> None:
    with Session(prepared(TYPES)) as session:
        session.break_at("line", 15)
        session.run()
        assert session.register("%r3").undefined == (0xFF,) * 32
        assert session.register("%r3").as_dict()["undefined bits"]["7"] == "0xff"


def test_special_registers() -> None:
    with Session(prepared(LOOP, 64)) as session:
        session.choose_thread(warp=1)
        special = session.special()
        assert special["%tid.x"] == list(range(32, 64))
        assert (special["%ntid.x"][0], special["%warpid"][5], special["%lanemask_lt"][3]) == (64, 1, 7)
        assert session.register("%ctaid.x").value(0) == 0


def test_a_watchpoint_names_the_writer() -> None:
    with Session(prepared(LOOP, 64)) as session:
        address = int(session.memory("param", 0, 1, "u64")[0])
        session.watch_memory("global", address + 4 * 40, 4)
        stop = session.run()
        (change,) = stop.changes
        assert (stop.reason, change.before, change.after) == ("watchpoint", "00000000", "32000000")
        assert change.writer == {"opcode": "st.global.b32", "line": 18, "cta": (0, 0, 0), "warp": 1, "lanes": "0x100"}
        assert session.run().reason == "ended"
        assert session.run_back().changes == (change,)
        assert session.run_back().reason == "start"


def test_a_watched_register() -> None:
    with Session(prepared(LOOP)) as session:
        session.watch_register("%r3")
        seen = []
        while (stop := session.run()).reason == "watchpoint":
            seen += [(change.before, change.after, change.writer["line"]) for change in stop.changes]
        assert seen == [(None, 0, 9), (0, 1, 11), (1, 3, 11), (3, 6, 11), (6, 10, 11)]


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_a_copy_is_the_writer(policy: str) -> None:
    with Session(copies(policy=policy)) as session:
        tile = session.launch.program.shared.variables["tile"]
        session.watch_memory("shared", "tile", 4)
        seen = []
        while (stop := session.run()).reason == "watchpoint":
            seen += [(change.after, change.writer["line"], change.writer["operation"]) for change in stop.changes]
        assert seen == [("01000000", 17, 0), ("02000000", 18, 1)]
        assert tile % 16 == 0


REMOTE = (
    HEAD
    + """.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {
  .reg .b32 %r<6>; .reg .pred %p<2>;
  .shared .align 4 .b8 word[4];
  mov.u32 %r1, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra MEET;
  mov.u32 %r2, word;
  mapa.shared::cluster.u32 %r3, %r2, 0;
  mov.u32 %r4, 77;
  st.shared::cluster.u32 [%r3], %r4;
MEET:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
"""
)
"""The second CTA of a cluster stores 77 in the shared memory of the first one (line 13)."""


def test_distributed_shared_memory_is_watched() -> None:
    with Session(prepared(REMOTE, 1, grid=2, cluster=2)) as session:
        session.choose_thread((0, 0, 0))
        session.watch_memory("shared", "word", 4)
        (change,) = session.run().changes
        assert change.after == "4d000000"
        assert (change.writer["opcode"], change.writer["cta"], change.writer["line"]) == ("st.shared::cluster.u32", (1, 0, 0), 13)
        assert session.memory("shared", "word", 1, "u32").tolist() == [0xFFFFFFFF]
        session.choose_thread((0, 0, 0))
        assert session.memory("shared", "word", 1, "u32").tolist() == [77]
        session.run()
        assert session.run_back().changes == (change,)


def test_memories() -> None:
    with Session(copies(policy="lazy")) as session:
        session.run()
        assert output(session, 32) == [2] * 32
        session.step_any_back()
        session.step_any_back()
        assert session.memory("shared", "tile", 3, "u32").tolist() == [2, 2, 2]
        for address, size, text in ((1 << 20, 1, "are not inside"), ("nowhere", 1, "no variable or array nowhere in shared memory")):
            with pytest.raises(DebugError, match=text):
                session.memory("shared", address, size)
        with pytest.raises(DebugError, match="there is no type q7"):
            session.memory("shared", "tile", 1, "q7")
        with pytest.raises(DebugError, match="null pointer with an offset"):
            session.memory("global", 16, 1)


def test_tensor_memory() -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u64 out) {
  .reg .b32 %r<6>;
  .shared .align 4 .b32 slot;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  ld.shared.b32 %r1, [slot];
  mov.u32 %r2, %laneid;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2};
  tcgen05.wait::st.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
  ret;
}
"""
    )
    with Session(prepared(text)) as session:
        session.break_at("instruction", "tcgen05.st")
        session.run()
        session.watch_tensor(5, 0)
        stop = session.run()
        assert (stop.reason, stop.changes[0].writer["line"]) == ("watchpoint", 10)
        assert session.tensor(0, 0, 32, 1, "u32")[:, 0].tolist() == list(range(32))
        assert session.tensor(4, 0, 2, 2, "u32")[1].tolist() == [5, 0x7FFF7FFF]
        with pytest.raises(DebugError, match="are not all in tensor memory"):
            session.tensor(127, 0, 2)


def test_an_error_stops_before_the_launch_ends() -> None:
    with Session(prepared(FAULT)) as session:
        stop = session.run()
        assert (stop.reason, stop.line) == ("finding", 10)
        assert stop.finding is not None
        assert stop.finding.code == "M402"
        assert session.register("%r1").value(1) == 1
        assert [line.line for line in session.stack()] == [10]
        assert session.run().reason == "ended"
        assert session.result is not None
        assert [d.code for d in session.result.diagnostics] == ["M402"]
        session.break_at("finding", "M4")
        assert session.run_back().breakpoints == (1,)


def test_a_hang_ends_with_its_report() -> None:
    text = LOOP.replace("mov.u32 %r3, 0;", "bar.sync 0, 64;")
    with Session(prepared(text, 32)) as session:
        stop = session.run()
        assert stop.finding is not None
        assert stop.finding.code == "H601"


@pytest.mark.parametrize(
    ("do", "text"),
    [
        (lambda s: s.break_at("line", 400), "no instruction belongs to line 400"),
        (lambda s: s.break_at("colour", 4), "there is no breakpoint at colour with 1 hits"),
        (lambda s: s.break_at("line", 11, "%r77 == 1"), "the kernel has no register %r77"),
        (lambda s: s.break_at("line", 11, "%r1 =="), "'%r1 ==' is no expression"),
        (lambda s: s.break_at("line", 11, "__import__('os')"), "has what no condition may have"),
        (lambda s: s.evaluate("1 << 1000000"), "has no value here: a shift by 1000000 bits"),
        (lambda s: s.evaluate("1 // 0"), "has no value here"),
        (lambda s: s.evaluate("%r3"), "%r3 has no value in lane 0 yet: bits 0xffffffff are undefined"),
        (lambda s: s.choose_thread(warp=7), "CTA \\(0, 0, 0\\) warp 7 lane 0 is not resident"),
        (lambda s: s.delete(3), "there is no breakpoint or watchpoint 3"),
        (lambda s: s.watch_memory("param", 0), "memory param cannot be watched"),
        (lambda s: s.register("%r1").value(0, "f64"), "%r1 has 32 bits, too few for f64"),
        (lambda s: s.tensor(0, 0, 1, 1, "f64"), "1 columns of 32 bits hold no whole number of f64"),
    ],
)
def test_refused(do: object, text: str) -> None:
    with Session(prepared(LOOP)) as session:
        before = session.digest()
        with pytest.raises(DebugError, match=text):
            do(session)  # type: ignore[operator]
        assert session.digest() == before


def test_the_arrays_of_the_caller_stay_as_they_are() -> None:
    out = np.zeros(32, np.uint32)
    with Session(ptxlab.loads(LOOP).kernel().prepare(block=32, args=[out])) as session:
        session.run()
        assert output(session, 1) == [10]
    assert not out.any()
