"""Who wrote the operands of products that are in registers or in tensor memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.check.operands import scaled_kernels, sparse_kernels, tensor_kernels, warp_kernels, warpgroup_kernels, word_kernels
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
    text = warp_kernels.TEXT.replace("mma.sync", "xor.b32 %r26, %r24, 0;\n    mma.sync").replace("{%r24, %r25}, {%f0", "{%r26, %r25}, {%f0")
    result, right = warp_kernels.launch(text, keep_inputs=True)
    assert right
    record = result.mmas(writers=True)[0]
    assert found(record.writers["b"]) == [("xor.b32", False, []), ("ldmatrix.sync", False, ["cp.async"])]


def test_a_in_tensor_memory() -> None:
    result, _ = word_kernels.launch(tensor_kernels.TEXT, keep_inputs=True)
    record = result.mmas(writers=True)[1]
    assert found(record.writers["a"]) == [("tcgen05.st", False, [])] * 4
    assert [writer.lanes for writer in record.writers["a"]] == [tuple(range(32))] * 4
    provenance = result.provenance("c", (77, 5), inputs=True)
    for each in provenance.contributions:
        assert [(writer.warp, writer.lanes) for writer in each.a.writers] == [(2, (13,))]


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
