"""Who wrote the operands of products that are in registers or in tensor memory."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from tests.check.operands import (
    scaled_kernels,
    sparse_kernels,
    tensor_kernels,
    test_sparse_registers,
    test_sparse_wgmma,
    warp_kernels,
    warpgroup_kernels,
    word_kernels,
)
from tests.check.operands.test_tensor_stores import copied

from .product_kernels import WARP
from .test_contributions import warp_case


def found(writers: Any) -> list[tuple[str, bool, list[str]]]:
    """Of each writer the first words of the opcode, whether it is asynchronous, and what stands behind it."""
    return [(".".join(w.opcode.split(".")[:2]), w.asynchronous, [".".join(b.opcode.split(".")[:2]) for b in w.behind]) for w in writers]


def test_provenance_of_an_mma_of_a_warp() -> None:
    result, _, _, c = warp_case()
    provenance = result.provenance(c, (13, 5), inputs=True)
    for each in provenance.contributions:
        assert found(each.a.writers) == [("ldmatrix.sync", False, ["st.shared"] * len(each.a.writers[0].behind))]
        assert found(each.b.writers) == [("ldmatrix.sync", False, ["st.shared"])]
        # Row 13 of A is in lanes 20 to 23, and so is row 5 of B; thread t has stored row t / 2 of A, and row t / 4 of B.
        assert each.a.writers[0].lanes == each.b.writers[0].lanes == (20, 21, 22, 23)
        assert {lane for writer in each.a.writers[0].behind for lane in writer.lanes} <= {26, 27}
    line = next(i for i, text in enumerate(WARP.splitlines(), 1) if "ldmatrix.sync.aligned.m8n8.x4" in text)
    assert {writer.place.line for writer in provenance.contributions[0].a.writers} == {line}
    data = json.loads(json.dumps(provenance.as_dict()))
    assert data["contributions"][0]["a"]["writers"][0]["behind"][0]["opcode"] == "st.shared.v4.b32"


def test_provenance_as_text() -> None:
    result, right = warp_kernels.launch(warp_kernels.TEXT, keep_inputs=True)
    assert right
    lines = str(result.provenance("d", (3, 5), inputs=True)).splitlines()
    assert lines[5:11] == [
        "    row 3 of A: a[3, 0:64]",
        "      brought by CTA (0, 0, 0) warp 0 lanes 12-15: ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "        product.ptx:58:5 | ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r11];",
        "        copied from what was written by CTA (0, 0, 0) warp 0 lanes 24-31: cp.async.cg.shared.global",
        "          product.ptx:29:5 | cp.async.cg.shared.global [%r6], [%rd4], 16;",
        "    column 5 of B: b[5, 0:64]",
    ]


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize(("text", "copy"), [(warp_kernels.TEXT, "cp.async"), (warp_kernels.BOXED_TEXT, "cp.async")])
def test_records_of_a_warp(text: str, copy: str, policy: str) -> None:
    result, _ = warp_kernels.launch(text, keep_inputs=True, policy=policy)
    records = result.mmas(writers=True)
    assert len(records) == 4
    for record in records:
        assert {name: found(writers) for name, writers in record.writers.items()} == {
            name: [("ldmatrix.sync", False, [copy])] for name in "ab"
        }
        assert [writer.lanes for writer in record.writers["a"]] == [tuple(range(32))]
    bulk = "tensor" in text
    assert all(behind.asynchronous == bulk for record in records for behind in record.writers["a"][0].behind)
    assert "  A written by CTA (0, 0, 0) warp 0 lanes 0-31: ldmatrix" in str(records[0])
    data = json.loads(json.dumps(records.as_dict()))
    assert data[0]["writers"]["b"][0]["behind"][0]["opcode"].startswith(copy)


def test_records_without_writers() -> None:
    result, _ = warp_kernels.launch(warp_kernels.TEXT, keep_inputs=True)
    (record, *_) = result.mmas()
    assert record.writers == {}
    assert "writers" not in record.as_dict()


def test_records_of_a_warpgroup() -> None:
    result, _ = warpgroup_kernels.launch(warpgroup_kernels.TEXT, keep_inputs=True)
    record = result.mmas(writers=True)[1]
    assert [(writer.warp, writer.opcode.split(".")[0]) for writer in record.writers["a"]] == [(warp, "ldmatrix") for warp in range(4)]
    assert {name for name, _, _ in found(record.writers["b"])} == {"cp.async"}


def test_registers_that_are_computed() -> None:
    """The writer is the instruction that has computed them, of which nothing more is known."""
    text = warp_kernels.TEXT.replace("mma.sync", "add.u32 %r26, %r24, 0;\n    mma.sync").replace("{%r24, %r25}, {%f0", "{%r26, %r25}, {%f0")
    result, right = warp_kernels.launch(text, keep_inputs=True)
    assert right
    record = result.mmas(writers=True)[0]
    assert found(record.writers["b"]) == [("add.u32", False, []), ("ldmatrix.sync", False, ["cp.async"])]


def test_a_in_tensor_memory() -> None:
    result, _ = word_kernels.launch(tensor_kernels.TEXT, keep_inputs=True)
    record = result.mmas(writers=True)[1]
    # An instruction takes what two loads of four words have brought.
    assert found(record.writers["a"]) == [("tcgen05.st", False, ["ld.global", "ld.global"])] * 4
    assert [{each.lanes for each in writer.behind} for writer in record.writers["a"]] == [{tuple(range(32))}] * 4
    assert len({each.place.line for each in record.writers["a"][0].behind}) == 2
    assert [writer.lanes for writer in record.writers["a"]] == [tuple(range(32))] * 4
    provenance = result.provenance("c", (77, 5), inputs=True)
    for each in provenance.contributions:
        (writer,) = each.a.writers
        assert (writer.warp, writer.lanes) == (2, (13,))
        assert {(behind.warp, behind.lanes) for behind in writer.behind} == {(2, (13,))}


def test_a_in_tensor_memory_that_comes_from_shared_memory() -> None:
    """Behind the store stands the load, and behind the load who had written the bytes then, not who did so later."""
    at = tensor_kernels.TEXT.index("    ld.param.u64 %rd13, [a];")
    store = tensor_kernels.TEXT.index("    add.u32 %r24, %r4, 64;")
    load = "".join(
        f"""    xor.b32 %r25, %r11, {i};
    shl.b32 %r25, %r25, 4;
    add.u32 %r25, %r25, %r10;
    ld.shared.v4.b32 {{{", ".join(f"%a{4 * i + j}" for j in range(4))}}}, [%r25];
"""
        for i in range(8)
    )
    later = "    bar.sync 0;\n    ld.shared.b32 %r25, [%r10];\n    st.shared.b32 [%r10], %r25;\n"
    text = tensor_kernels.TEXT[:at] + load + later + tensor_kernels.TEXT[store:]
    result, right = word_kernels.launch(text, keep_inputs=True, check="none")
    assert right
    for record in result.mmas(writers=True):
        assert {name for name, _, _ in found(record.writers["a"])} == {"tcgen05.st"}
        loads = [behind for writer in record.writers["a"] for behind in writer.behind]
        assert {name for name, _, _ in found(loads)} == {"ld.shared"}
        assert {name for name, _, _ in found(behind for each in loads for behind in each.behind)} == {"cp.async"}
    lines = str(result.provenance("c", (77, 5), inputs=True)).splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines if "lane 13: " in line and ("tcgen05.st" in line or "ld.shared" in line)]
    assert indents[0] < indents[1]


def test_computed_values_in_tensor_memory() -> None:
    computed = tensor_kernels.STORE.replace("%a7,", "%r31,")
    text = tensor_kernels.TEXT.replace(tensor_kernels.STORE, f"add.u32 %r31, %a7, 0;\n    {computed}")
    result, right = word_kernels.launch(text, keep_inputs=True)
    assert right
    behind = [found(record.writers["a"][0].behind) for record in result.mmas(writers=True)]
    assert [sorted(name for name, _, _ in each) for each in behind] == [
        ["ld.global", "ld.global"] if number else ["add.u32", "ld.global", "ld.global"] for number in range(4)
    ]


def test_registers_behind_moves() -> None:
    """The writer of a register that a move has copied in the same block is the load."""
    load = warp_kernels.LOAD_A.replace("{%r20, %r21", "{%r26, %r27")
    text = warp_kernels.TEXT.replace(warp_kernels.LOAD_A, f"{load}\n    mov.b32 %r21, %r27;\n    mov.b32 %r20, %r26;")
    result, right = warp_kernels.launch(text, keep_inputs=True)
    assert right
    assert all(found(record.writers["a"]) == [("ldmatrix.sync", False, ["cp.async"])] for record in result.mmas(writers=True))


LOAD = warp_kernels.LOAD_A.replace("{%r20, %r21, %r22, %r23}", "{%r26, %r27, %r28, %r29}")
MOVE = "".join(f"    mov.b32 %r{20 + i}, %r{26 + i};\n" for i in range(4))
MOVES = {
    "another block": f"{MOVE}    setp.gt.u32 %p0, %r1, 64;\n    @%p0 bra NEXT;\n    mov.b32 %r3, 7;\nNEXT:",
    "halves": "".join(
        f"    prmt.b32 %r20, %r{26 + i}, 0, 0x1032;\n    prmt.b32 %r{20 + i}, %r20, 0, 0x1032;\n" for i in reversed(range(4))
    ),
    "some lanes": f"{MOVE}    setp.lt.u32 %p0, %r1, 9;\n{MOVE.replace('mov', '@%p0 mov')}",
}


def behind_moves(moves: str) -> Any:
    """The records of the products behind moves."""
    result, right = warp_kernels.launch(warp_kernels.TEXT.replace(warp_kernels.LOAD_A, f"{LOAD}\n    {moves}"), keep_inputs=True)
    assert right
    return [record.writers["a"] for record in result.mmas(writers=True)]


@pytest.mark.parametrize("moves", MOVES)
def test_loads_behind_moves_of_other_blocks(moves: str) -> None:
    """Registers that have rows of their own: the writer is the load. What it has read is known if it has been executed once."""
    first, *others = behind_moves(MOVES[moves])
    assert found(first) == [("ldmatrix.sync", False, ["cp.async"])]
    assert [found(each) for each in others] == [[("ldmatrix.sync", False, [])]] * 3


def test_two_loads_behind_a_choice() -> None:
    """Each may have brought what the register holds."""
    other = warp_kernels.LOAD_A.replace("{%r20, %r21, %r22, %r23}", "{%r16, %r17, %r18, %r19}")
    choice = "".join(f"    selp.b32 %r{20 + i}, %r{26 + i}, %r{16 + i}, %p0;\n" for i in range(4))
    writers = behind_moves(f"{other}\n    setp.lt.u32 %p0, %r1, 9;\n{choice}")[0]
    assert [name for name, _, _ in found(writers)] == ["ldmatrix.sync"] * 2
    assert len({writer.place.line for writer in writers}) == 2


def test_registers_that_may_be_computed_behind_moves() -> None:
    """No load is named for what another instruction may have computed."""
    computed = MOVE.replace("mov", "@%p0 add").replace(";", ", 0;").replace(".b32", ".u32")
    assert behind_moves(f"{MOVE}    setp.lt.u32 %p0, %r1, 9;\n{computed}")[0] == ()


def test_metadata_of_a_warpgroup() -> None:
    """Of each row a thread of its warp holds the metadata."""
    result, right = test_sparse_wgmma.launch(test_sparse_wgmma.TEXT, keep_inputs=True)
    assert right
    for record in result.mmas(writers=True):
        (*warps,) = record.writers["metadata"]
        assert [(writer.opcode, writer.warp, len(writer.lanes)) for writer in warps] == [("mov.u32", warp, 16) for warp in range(4)]
    (contribution, *_) = result.provenance("d", (77, 1), inputs=True).contributions
    (writer,) = contribution.a.beside["sparsity metadata"]
    assert (writer.opcode, writer.warp) == ("mov.u32", contribution.m // 16)
    assert {lane // 4 for lane in writer.lanes} == {contribution.m % 8}


def test_metadata_of_a_warp() -> None:
    result, right = test_sparse_registers.launch(test_sparse_registers.KERNEL, keep_inputs=True)
    assert right
    for record in result.mmas(writers=True):
        assert found(record.writers["metadata"]) == [("mov.b32", False, [])]
    (contribution, *_) = result.provenance("d", (11, 3), inputs=True).contributions
    (writer,) = contribution.a.beside["sparsity metadata"]
    assert writer.lanes == (12, 13)
    assert "its sparsity metadata:" in str(result.provenance("d", (11, 3), inputs=True))


def test_scale_factors_in_registers() -> None:
    result = scaled_warp()
    (record,) = result.mmas(writers=True)
    assert found(record.writers["scale_a"]) == found(record.writers["scale_b"]) == [("ld.global", False, [])]
    # Threads 0 and 1 of four hold the scale factors of two rows of A, and thread 0 those of a column of B.
    assert record.writers["scale_a"][0].lanes == tuple(lane for lane in range(32) if lane % 4 < 2)
    assert record.writers["scale_b"][0].lanes == tuple(range(0, 32, 4))
    (contribution,) = result.provenance("d", (11, 3), inputs=True).contributions
    assert [writer.lanes for writer in contribution.a.beside["scale factors"]] == [(13,)]
    assert [writer.lanes for writer in contribution.b.beside["scale factors"]] == [(12,)]


def scaled_warp() -> Any:
    """One block-scaled product of a warp, whose operands each thread loads."""
    registers = ", ".join(f"%r{i}" for i in range(4))
    text = f"""
.version 9.0
.target sm_120a
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 scales, .param .u64 d)
{{
    .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .f32 %f<4>; .reg .b16 %h<2>;
    mov.u32 %r8, %tid.x;
    ld.param.u64 %rd1, [a];
    mul.wide.u32 %rd2, %r8, 16;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.v4.b32 {{{registers}}}, [%rd1];
    ld.param.u64 %rd1, [b];
    mul.wide.u32 %rd2, %r8, 8;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.v2.b32 {{%r4, %r5}}, [%rd1];
    ld.param.u64 %rd1, [scales];
    add.u64 %rd1, %rd1, %rd2;
    ld.global.b32 %r6, [%rd1];
    ld.global.b32 %r7, [%rd1+4];
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, %f0;
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
    mov.b16 %h0, 0;
    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0
        {{%f0, %f1, %f2, %f3}}, {{{registers}}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}, %r6, {{%h0, %h0}}, %r7, {{%h0, %h0}};
    ld.param.u64 %rd6, [d];
    shr.u32 %r9, %r8, 2;
    mul.wide.u32 %rd7, %r9, 32;
    add.u64 %rd6, %rd6, %rd7;
    and.b32 %r9, %r8, 3;
    mul.wide.u32 %rd7, %r9, 8;
    add.u64 %rd6, %rd6, %rd7;
    st.global.v2.f32 [%rd6], {{%f0, %f1}};
    st.global.v2.f32 [%rd6+256], {{%f2, %f3}};
    ret;
}}
"""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (32, n)).astype(ml_dtypes.float8_e4m3fn) for n in (16, 8))
    scales = np.full((32, 8), 127, np.uint8)
    result = (
        ptxlab.loads(text, file="scaled.ptx")
        .kernel()
        .launch(block=32, args=[a, b, scales, np.zeros((16, 8), np.float32)], keep_inputs=True)
    )
    result.raise_for_errors()
    return result


def test_a_that_is_copied_to_tensor_memory() -> None:
    result, _ = word_kernels.launch(copied(2), keep_inputs=True)
    provenance = result.provenance("c", (77, 5), inputs=True)
    for each in provenance.contributions:
        assert found(each.a.writers) == [("tcgen05.cp", True, ["cp.async"] * len(each.a.writers[0].behind))]
        assert {(behind.warp, behind.lanes) for behind in each.a.writers[0].behind} == {(2, (13,))}


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_scale_factors(policy: str) -> None:
    result, right = scaled_kernels.launch(scaled_kernels.TEXT, keep_inputs=True, policy=policy)
    assert right
    records = result.mmas(writers=True)
    assert len(records) == 4
    for record in records:
        assert set(record.writers) == {"a", "b", "scale_a", "scale_b"}
        for name in ("scale_a", "scale_b"):
            # A warp has stored the scale factors of A and of B to shared memory.
            assert found(record.writers[name]) == [("tcgen05.cp", True, ["st.shared"])]
            assert [(behind.warp, behind.lanes) for behind in record.writers[name][0].behind] == [(0, tuple(range(32)))]
    assert "  scale factors of B written by CTA (0, 0, 0) warp 0" in str(records[0])
    assert json.loads(json.dumps(records.as_dict()))[3]["writers"]["scale_b"][0]["opcode"].startswith("tcgen05.cp")


def test_scale_factors_of_an_element() -> None:
    result, _ = scaled_kernels.launch(scaled_kernels.TEXT, keep_inputs=True)
    provenance = result.provenance("c", (77, 5), inputs=True)
    assert len(provenance.contributions) == 4
    for each in provenance.contributions:
        # Row 77 of A is row 13 of the third group of 32, and each thread has stored the 16 bytes of one such row.
        for line, lane in ((each.a, 13), (each.b, 5)):
            (writer,) = line.beside["scale factors"]
            assert found([writer]) == [("tcgen05.cp", True, ["st.shared"])]
            # One store has written both rows, and its lanes are named together.
            assert lane in writer.behind[0].lanes
            assert set(writer.behind[0].lanes) <= {5, 13}
    lines = str(provenance).splitlines()
    assert sum(line.strip() == "its scale factors:" for line in lines) == 2
    data = json.loads(json.dumps(provenance.as_dict()))
    assert data["contributions"][2]["a"]["scale_factors"]["writers"][0]["behind"][0]["opcode"].startswith("st.shared")


def test_scale_factors_that_are_overwritten_in_shared_memory() -> None:
    """The writer is the one whose bytes have been copied, not the one that came after the copy."""
    text = scaled_kernels.TEXT.replace("setp.ne.u32 %p4, %r15, 0;", "setp.ne.u32 %p4, %r15, 0;\n    st.shared.b32 [%r2+16384], 0;")
    assert text != scaled_kernels.TEXT
    result, right = scaled_kernels.launch(text, keep_inputs=True, policy="eager", check="none")
    assert right
    for record in result.mmas(writers=True):
        (writer,) = record.writers["scale_a"]
        assert {behind.opcode for behind in writer.behind} == {"st.shared.v4.b32"}


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_metadata(policy: str) -> None:
    result, right = sparse_kernels.launch(sparse_kernels.TEXT, keep_inputs=True, policy=policy)
    assert right
    for record in result.mmas(writers=True):
        assert set(record.writers) == {"a", "b", "metadata"}
        assert found(record.writers["metadata"]) == [("tcgen05.cp", True, ["st.shared"])]
    provenance = result.provenance("c", (77, 5), inputs=True)
    assert {found(each.a.beside["sparsity metadata"])[0][0] for each in provenance.contributions} == {"tcgen05.cp"}
    assert all(each.b.beside == {} for each in provenance.contributions)
