"""Records of matrix instructions: shapes, descriptors, operand matrices and the place of D, for all three families."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.end_to_end.triton.case_helpers import kernel as real_kernel
from tests.end_to_end.triton.cases import CASES
from tests.machine.launch_helpers import kernel, store
from tests.machine.product_kernels import warp_case, warpgroup_case


def test_products_of_a_warp() -> None:
    result, a, b, c = warp_case()
    result.raise_for_errors()
    found = result.mmas()
    assert [(r.number, r.first, r.accumulate, r.shape, r.types) for r in found] == [
        (0, 0, False, "16x8x16", "f16 * f16 -> f32"),
        (1, 0, True, "16x8x16", "f16 * f16 -> f32"),
    ]
    total = np.zeros((16, 8))
    for step, record in enumerate(found):
        matrices = record.matrices()
        assert np.array_equal(matrices.a, a[:, 16 * step : 16 * step + 16])
        assert np.array_equal(matrices.b, b[:, 16 * step : 16 * step + 16])
        total += matrices.a.astype(float) @ matrices.b.T
        assert np.allclose(matrices.d, total, atol=1e-5)
    assert np.array_equal(found[1].matrices().d, c)
    assert found[0].d_place == "register 0 of D in warp 0, lane 0"
    assert (found[0].opcode, found[0].place.line) == ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 44)


def test_a_product_of_a_warpgroup() -> None:
    result, a, b, c = warpgroup_case()
    result.raise_for_errors()
    (record,) = result.mmas()
    fields = record.fact("descriptor of A")
    assert [fields[name] for name in ("start", "leading", "stride", "swizzle")] == [0x400, 1024, 128, "none"]
    matrices = record.matrices()
    assert np.array_equal(matrices.a, a.transpose(1, 2, 0, 3).reshape(64, 16))
    assert np.array_equal(matrices.b, b.transpose(1, 2, 0, 3).reshape(8, 16))
    assert np.allclose(matrices.d, matrices.a.astype(float) @ matrices.b.T, atol=1e-5)
    thread, register = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    rows, columns = thread // 32 * 16 + thread % 32 // 4 + register // 2 * 8, thread % 4 * 2 + register % 2
    assert np.array_equal(matrices.d[rows, columns], c)
    assert [line.split("  ")[0] for line in str(result.mmas()).splitlines()] == ["product", "0"]
    assert "0x400 none LBO 1024 SBO 128  0xc00 none LBO 128 SBO 128  register 0 of D in warp 0, lane 0" in str(result.mmas())
    assert str(record).splitlines()[2:5] == [
        "  issued by: CTA (0, 0, 0) warp 3 lanes 0-31",
        "  computes: 64x8x16, f16 * f16 -> f32",
        "  instruction: major of A k, major of B k, negate A False, negate B False",
    ]
    assert record.as_dict()["descriptor of B"]["start"] == 0xC00


@pytest.mark.compiler
@pytest.mark.parametrize(
    "name", ["gl_mm_fp16", "gl_mm_2cta_fp16", "gl_mm_a_in_tmem_fp16", "gl_mm_i8", "gl_mm_fp16_m64", "gl_mm_fp16_acc16"]
)
def test_operands_of_tensor_core_kernels_multiply_to_what_they_say(name: str) -> None:
    """D of the last product of each sum is the sum of A B of all its products."""
    family = CASES[name]
    case = family(next(iter(family.sizes)))
    result = real_kernel(name).launch(**case.geometry(), args=[*case.args, *case.scratch()], check="none", keep_inputs=True)
    found = result.mmas(cta=(0, 0, 0))
    sums: dict[int, np.ndarray] = {}
    for record in found[:8]:
        matrices = record.matrices()
        assert (matrices.a.shape, matrices.b.shape, matrices.d.shape) == (
            (record.m, record.k),
            (record.n, record.k),
            (record.m, record.n),
        )
        before = sums.get(record.first, 0.0)
        assert record.accumulate == (record.number != record.first)
        sums[record.first] = before + matrices.a.astype(float) @ matrices.b.T.astype(float)
        assert np.allclose(matrices.d, sums[record.first], rtol=1e-2, atol=1e-1 if record.d == "f16" else 1e-3)
    line = found[-1].place.line
    assert {record.place.line for record in result.mmas(line=line)} == {line}


def test_none_and_not_kept() -> None:
    out = np.zeros(32, np.uint32)
    result = kernel(store("tid")).launch(block=32, args=[out], keep_inputs=True)
    assert (len(result.mmas()), str(result.mmas())) == (0, "no matrix instruction was executed")
    with pytest.raises(ptxlab.LaunchError) as caught:
        kernel(store("tid")).launch(block=32, args=[out]).mmas()
    assert caught.value.diagnostics[0].code == "A316"
