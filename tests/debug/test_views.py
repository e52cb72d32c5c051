"""Views of operands against the product that the instruction computed from them, and other views against values known otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.debug import DebugError, Session
from ptxlab.debug.views.operands import OperandView
from tests.sweep_helpers import one_in, part

from .debug_kernels import COPIES, HEAD, LOOP, copies, output, prepared
from .gemm_kernels import NAMES, PART, compiled

PRODUCTS = [name for name in NAMES if "mm_" in name or "flash" in name]


def multiplied(view: OperandView, opcode: str) -> NDArray[Any]:
    """D of an instruction, computed from what a view shows."""
    facts = dict(dict(view.facts)["instruction"]) if "instruction" in dict(view.facts) else {}
    tcgen05 = opcode.startswith("tcgen05")
    negate = {f"negate_{x}": bool(facts.get(f"negate_{x}", facts.get(f"negate {x.upper()}", False))) for x in "ab"}
    kind = next(word[6:] for word in opcode.split(".") if word.startswith("kind::")) if tcgen05 else None
    scales: dict[str, Any] = {}
    if "scale_a" in view.codes:
        rows = view.codes["scale_a"].shape[1]
        scales = {"scale_a": view.codes["scale_a"], "scale_b": view.codes["scale_b"], "scale": view.types["scale_a"]}
        scales["block"] = view.codes["a"].shape[1] // rows
    return numerics.mma(
        arch="tcgen05" if tcgen05 else "wgmma",
        kind=kind,
        **{x: view.types[x] for x in "abd"},
        A=view.codes["a"],
        B=view.codes["b"],
        C=view.codes["d"] if view.accumulate else None,
        metadata=view.codes.get("metadata"),
        **negate,
        **scales,
    )


OTHER_OPERANDS = ("gl_mm_a_in_tmem_fp16", "gl_mm_i8", "gl_mm_fp16_acc16")
CASES = one_in(20, [(name, ("eager", "lazy")[number % 2]) for number, name in enumerate(PRODUCTS)])


@pytest.mark.parametrize(("name", "policy"), part(CASES, lambda name, _: name in (*PART, *OTHER_OPERANDS)))
def test_a_product_of_what_is_shown_is_what_the_instruction_gives(name: str, policy: str) -> None:
    """Each product of the launch: what its operands are before it performs, and what D is after it."""
    with Session(compiled(name, policy=policy)) as session:
        compared = 0
        while session.to_asynchronous().reason != "ended":
            operation = session.point.operation
            if operation is None or operation.details is None:
                continue
            view = session.operands()
            details = operation.details
            expected = multiplied(view, view.opcode)
            session.step_any()
            assert np.array_equal(details().read_d(), expected)
            compared += 1
        assert compared


REGISTERS = (
    HEAD
    + """.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b) {
  .reg .b32 %r<20>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [a];
  mad.wide.u32 %rd2, %r1, 16, %rd1;
  ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd2];
  ld.param.u64 %rd3, [b];
  mad.wide.u32 %rd4, %r1, 8, %rd3;
  ld.global.v2.b32 {%r6, %r7}, [%rd4];
  mov.b32 %r8, 0f3F800000;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r9, %r10, %r11, %r12}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%r8, %r8, %r8, %r8};
  ld.param.u64 %rd5, [out];
  mad.wide.u32 %rd6, %r1, 16, %rd5;
  st.global.v4.b32 [%rd6], {%r9, %r10, %r11, %r12};
  ret;
}
"""
)
"""One mma.sync. Each lane loads its fragments as they lie one after the other; C is one everywhere."""


def test_operands_in_registers() -> None:
    """Matrices that are placed by the fragments of the PTX ISA; D is what the kernel stores."""
    random = np.random.default_rng(1)
    a, b = random.integers(-4, 5, (16, 16)).astype(np.float16), random.integers(-4, 5, (8, 16)).astype(np.float16)
    lane, pair = np.arange(32)[:, None], np.arange(2)
    group, inner = lane // 4, lane % 4 * 2
    parts = [a[group + 8 * (i % 2), inner + 8 * (i // 2) + pair] for i in range(4)]
    columns = [b[group, inner + 8 * i + pair] for i in range(2)]
    replay = prepared(REGISTERS, 32, np.stack(parts, 1), np.stack(columns, 1), out=128)
    with Session(replay) as session:
        session.break_at("instruction", "mma.sync")
        session.run()
        view = session.operands()
        assert (view.m, view.n, view.k, view.types) == (16, 8, 16, {"a": "f16", "b": "f16", "d": "f32"})
        assert np.array_equal(view.values["a"], a)
        assert np.array_equal(view.values["b"], b)
        assert session.run().reason == "ended"
        stored = np.array(output(session, 128), np.uint32).view(np.float32).reshape(32, 2, 2)
    expected = a.astype(np.float64) @ b.astype(np.float64).T + 1
    assert all(np.array_equal(stored[:, i], expected[group + 8 * i, inner + pair]) for i in range(2))


@pytest.mark.parametrize("name", ["gl_mm_i8", "sm90_mm_tile_64x64_fp16"])
def test_operands_of_the_instruction_and_of_its_operation_are_the_same(name: str) -> None:
    with Session(compiled(name, policy="lazy")) as session:
        opcode = "wgmma.mma_async" if name.startswith("sm90") else "tcgen05.mma"
        session.break_at("instruction", opcode)
        session.run()
        before = session.digest()
        here = session.operands()
        assert session.digest() == before
        while session.point.operation is None or session.point.operation.details is None:
            session.to_asynchronous()
        there = session.operands()
        assert there.facts == here.facts
        assert all(np.array_equal(there.codes[each], here.codes[each]) for each in here.codes)
        facts = dict(here.facts).get("descriptor of B", ())
        assert facts
        assert here.as_dict()["b"]["values"] == here.values["b"].tolist()


def test_a_kernel_that_was_debugged_runs_as_before() -> None:
    """Its registers are in other rows in the debugger; what is known of instructions there is not used in a plain launch."""
    replay = compiled("sm90_mm_tile_128x256_bf16")
    with Session(replay) as session:
        session.break_at("instruction", "wgmma.wait_group")
        session.run()
    result, _ = replay.run()
    assert result.ok


def test_a_descriptor_is_shown_as_the_matrix_that_the_instruction_takes() -> None:
    with Session(compiled("gl_mm_i8")) as session:
        session.break_at("instruction", "tcgen05.mma")
        session.run()
        view, op = session.operands(), session.op()
        assert op is not None
        names = {r.name: r for r in session.registers()}
        registers = [session.launch.program.registers[r].name for r in session.launch.program.reads[op.index]]
        raws = [names[name].value(session.focus.lane) for name in registers if names[name].bits == 64]
        assert len(raws) == 2
        shown = [session.matrix(raw, rows, view.k, "s8") for raw, rows in zip(raws, (view.m, view.n), strict=True)]
        assert all(np.array_equal(a, view.values[name]) for a, name in zip(shown, "ab", strict=True))
        for raw, rows, k, element in ((raws[0], 128, 32, "f13"), (raws[0], 1 << 14, 32, "s8")):
            with pytest.raises(DebugError):
                session.matrix(raw, rows, k, element)
        with pytest.raises(DebugError, match="only elements of 4 bits can be padded"):
            session.matrix(raws[0], 128, 32, "s8", padded=True)


def test_a_box_holds_what_the_copy_places() -> None:
    with Session(compiled("mm_device_desc_fp16", policy="lazy")) as session:
        seen = 0
        while session.to_asynchronous().reason != "ended" and not seen:
            operation = session.point.operation
            if operation is not None and operation.tiles is not None:
                for tile in session.tiles():
                    held = session.memory("shared", tile.offset, tile.values.size, "f16")
                    session.step_any()
                    landed = session.memory("shared", tile.offset, tile.values.size, "f16")
                    assert not np.array_equal(held, landed)
                    assert np.array_equal(np.sort(landed), np.sort(tile.values.reshape(-1).astype(landed.dtype)))
                    seen += 1
        assert seen


def test_who_wrote_a_value() -> None:
    with Session(copies()) as session:
        session.run()
        session.break_at("line", 14)
        stop = session.written(lambda: session.watch_memory("global", "out", 4))
        assert [change.writer["line"] for change in stop.changes] == [COPIES[: COPIES.index("st.global")].count("\n") + 1]
        assert list(session.stops.breakpoints) == [1]
        assert not session.stops.watchpoints
    with Session(prepared(LOOP)) as session:
        session.break_at("line", 15)
        session.run()
        (change,) = session.written(lambda: session.watch_register("%r3")).changes
        assert (change.before, change.after, change.writer["line"]) == (6, 10, 11)


def test_differences_of_two_points() -> None:
    with Session(prepared(LOOP)) as session:
        session.break_at("line", 18)
        session.run()
        here, digest = session.point.step, session.digest()
        session.step()
        assert {(row.get("register"), row.get("memory"), row.get("bytes")) for row in session.differences(here)} == {
            (None, "global argument 0 (out)", 32)
        }
        session.step_back()
        assert session.digest() == digest
        rows = {row["register"]: (row["before"], row["after"]) for row in session.differences(here - 1)}
        assert rows == {"%r4": (None, 10)}
        with pytest.raises(DebugError):
            session.differences(10_000)
        assert session.point.step == here
