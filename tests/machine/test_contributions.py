"""Provenance through products: the row of A and the column of B that an element of a result is a sum of, as elements of the arguments."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.launch.contributions import InputElement
from ptxlab.view import draw_provenance
from tests.check.operands import box_kernels, word_kernels
from tests.end_to_end.triton.case_helpers import kernel as real_kernel
from tests.end_to_end.triton.cases import CASES
from tests.end_to_end.triton_sm90.cases import CASES as SM90
from tests.machine.launch_helpers import kernel, store
from tests.machine.product_kernels import warp_case, warpgroup_case

Elements = list[tuple[InputElement, ...]]


def taken(found: ptxlab.Provenance) -> tuple[Elements, Elements]:
    """The inputs of A and of B, along the k of all products."""
    assert not any(line.mixed for each in found.contributions for line in (each.a, each.b))
    return [x for each in found.contributions for x in each.a.inputs], [x for each in found.contributions for x in each.b.inputs]


def row(array: str, index: int, k: int) -> Elements:
    return [((array, (index, i)),) for i in range(k)]


def column(array: str, index: int, k: int) -> Elements:
    return [((array, (i, index)),) for i in range(k)]


@pytest.mark.parametrize("index", [(0, 0), (13, 5), (7, 7), (15, 2)])
def test_mma_of_a_warp_after_generic_stores(index: tuple[int, int]) -> None:
    result, _, _, c = warp_case()
    found = result.provenance(c, index, inputs=True)
    assert taken(found) == (row("a", index[0], 32), row("b", index[1], 32))
    assert [(each.m, each.n, each.mma.number) for each in found.contributions] == [(*index, 0), (*index, 1)]
    assert (found.several, found.loaded) == (False, None)


@pytest.mark.parametrize(("thread", "register"), [(0, 0), (37, 2), (127, 3)])
def test_wgmma_after_bulk_copies(thread: int, register: int) -> None:
    result, _, _, c = warpgroup_case()
    m, n = thread // 32 * 16 + thread % 32 // 4 + register // 2 * 8, thread % 4 * 2 + register % 2
    found = result.provenance(c, (thread, register), inputs=True)
    (each,) = found.contributions
    assert (each.m, each.n) == (m, n)
    assert taken(found) == (
        [(("a", (k // 8, m // 8, m % 8, k % 8)),) for k in range(16)],
        [(("b", (k // 8, 0, n, k % 8)),) for k in range(16)],
    )
    assert [[writer.place.line for writer in line.writers] for line in (each.a, each.b)] == [[20], [21]]
    assert str(found).splitlines()[3:-1] == [
        f"  D[{m}, {n}] of wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, 64x8x16, f16 * f16 -> f32",
        "    group.ptx:32:3 | wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd7, 0, 1, 1, 0, 0;",
        f"    row {m} of A: a[0, {m // 8}, {m % 8}, 0:8], a[1, {m // 8}, {m % 8}, 0:8]",
        "      brought by CTA (0, 0, 0) warp 0 lane 0: asynchronous cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "        group.ptx:20:3 | @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 2048, [full];",
        f"    column {n} of B: b[0, 0, {n}, 0:8], b[1, 0, {n}, 0:8]",
        "      brought by CTA (0, 0, 0) warp 0 lane 0: asynchronous cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "        group.ptx:21:3 | @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 256, [full];",
    ]


def test_rows_that_a_copy_with_im2col_gathers() -> None:
    """The rows are pixels, moved by the offsets of the copy: from row to row of images, and from image to image."""
    layout, width, height, moved = "K-major, 64 k in a box", 14, 12, (1, 2)
    copy = "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r20], [%rd1, {0, 0, 0, 0}], [%r5], {1, 2};"
    text, count = re.subn(r"cp\.async\.bulk\.tensor\.2d\..*;", copy, box_kernels.ptx(layout))
    assert count == 1
    images = np.random.default_rng(3).integers(-4, 5, (2, height, width, 64)).astype(np.float16)
    places = [(i, y + moved[1], x + moved[0]) for i in range(2) for y in range(height - 2) for x in range(width - 2)][:128]
    tensor_map = ptxlab.TensorMap.im2col(images, lower=(0, 0), upper=(-2, -2), channels=64, pixels=128, swizzle="128B")
    c = np.zeros((128, 64), np.float32)
    result = ptxlab.loads(text, file="pixels.ptx").kernel().launch(block=128, args=[tensor_map, c], keep_inputs=True)
    assert result.diagnostics == ()
    rows = np.stack([images[place][:16] for place in places]).astype(np.float64)
    assert (c == rows @ rows[:64].T).all()
    for m, n in ((0, 0), (13, 5), (125, 63)):
        found = result.provenance(c, (m, n), inputs=True)
        assert taken(found) == tuple([(("map", (*places[line], k)),) for k in range(16)] for line in (m, n))
        (each,) = found.contributions
        assert {writer.opcode for line in (each.a, each.b) for writer in line.writers} == {copy.partition(" ")[0]}


def test_json_and_picture() -> None:
    result, _, _, c = warpgroup_case()
    found = result.provenance(c, (37, 2), inputs=True)
    data = json.loads(json.dumps(found.as_dict()))
    (each,) = data["contributions"]
    assert (each["element"], each["product"]["shape"], each["a"]["line"]) == ([25, 2], [64, 8, 16], 25)
    assert each["b"]["inputs"][9] == [{"array": "b", "index": [1, 0, 2, 1]}]
    picture = draw_provenance(found)
    text = str(picture)
    assert re.search(r"^a\[0, 3, 1, 0:8\], a\[1, 3, 1, 0:8\]  20$", text, re.MULTILINE)
    assert re.search(r"^b\[0, 0, 2, 0:8\], b\[1, 0, 2, 0:8\]  21$", text, re.MULTILINE)
    assert picture.svg().startswith("<svg")
    assert picture.data == found.as_dict()
    assert "D[" not in str(draw_provenance(result.provenance(c, (37, 2))))


def test_an_element_without_products() -> None:
    out = np.zeros(32, np.uint32)
    result = kernel(store("tid")).launch(block=32, args=[out], keep_inputs=True)
    found = result.provenance(out, 3, inputs=True)
    assert (found.contributions, found.several) == ((), False)
    assert str(found) == str(result.provenance(out, 3))


def test_the_load_from_tensor_memory_before_paths_that_join() -> None:
    """Compiled code also notes the end of the block that reads a register of it (`Program.noted_ends`)."""
    paths = "setp.eq.u32 %p7, %r1, 1000;\n    @%p7 bra NEXT;\n    mul.f32 %f0, %f0, 0f3F800000;\nNEXT:"
    text = word_kernels.TEXT.replace("ld.param.u64 %rd4, [c];", f"ld.param.u64 %rd4, [c];\n    {paths}")
    a, c = np.random.default_rng(5).integers(-4, 5, (128, 128)).astype(np.float16), np.zeros((128, 64), np.float32)
    found = ptxlab.loads(text).kernel().launch(block=128, args=[a, c], keep_inputs=True).provenance(c, (3, 5), inputs=True)
    assert found.loaded is not None
    assert found.loaded.opcode == "tcgen05.ld.sync.aligned.32x32b.x64.b32"


KERNELS = {
    # name: (A as rows of, B as columns of, whether B is stored by rows), the copies, the load of D
    "gl_mm_fp16": (0, 5, False, "cp.async.bulk.tensor.2d", "tcgen05.ld"),
    "gl_mm_fp16_m64": (0, 5, True, "cp.async.bulk.tensor.2d", "tcgen05.ld"),
    "gl_mm_2cta_fp16": (0, 5, False, "cp.async.bulk.tensor.2d", "tcgen05.ld"),
    "gl_mm_i8": (0, 5, True, "cp.async.bulk.tensor.2d", "tcgen05.ld"),
    "mm_ptr_fp16": (0, 1, False, "cp.async.cg", "tcgen05.ld"),
    "sm90_mm_ptr_fp16": (0, 1, False, "cp.async.cg", None),
    "sm90_mm_ws_fp16": (0, 5, True, "cp.async.bulk.tensor.2d", None),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", KERNELS)
def test_rows_and_columns_of_compiled_kernels(name: str) -> None:
    first, second, by_rows, copies, load = KERNELS[name]
    family: Any = SM90[name] if name.startswith("sm90") else CASES[name]
    case = family(next(iter(family.sizes)))
    ((_, out),) = case.outputs.items()
    result = real_kernel(name).launch(**case.geometry(), args=[*case.args, *case.scratch()], check="none", keep_inputs=True)
    prefix = next(iter(result.replay.arrays)).name.rsplit("_", 1)[0] if result.replay is not None else ""
    m, n = out.shape[0] - 7, out.shape[1] // 2 + 3
    found = result.provenance(out, (m, n), inputs=True)
    k = sum(each.mma.k for each in found.contributions)
    of_b = row if by_rows else column
    assert taken(found) == (row(f"{prefix}_{first}", m, k), of_b(f"{prefix}_{second}", n, k))
    assert k == (case.args[0].dims[0] if isinstance(case.args[0], ptxlab.TensorMap) else case.args[0].shape[1])
    writers = [w for each in found.contributions for line in (each.a, each.b) for w in line.writers]
    assert writers
    assert all(writer.opcode.startswith(copies) for writer in writers)
    assert (found.loaded is None) == (load is None)
    assert found.loaded is None or found.loaded.opcode.startswith(load or "")


@pytest.mark.compiler
def test_several_sums() -> None:
    """Attention: an element is a sum over the rows of V, and divided by a sum over the whole row of scores."""
    family = CASES["flash_fp16"]
    case = family(next(iter(family.sizes)))
    out = case.outputs[next(iter(case.outputs))]
    result = real_kernel("flash_fp16").launch(**case.geometry(), args=[*case.args, *case.scratch()], check="none", keep_inputs=True)
    index = (0, 5, 9)
    found = result.provenance(out, index, inputs=True)
    assert found.several
    assert "it depends on several elements of matrices D, of which this was complete last:" in str(found)
    assert {each.n for each in found.contributions} == {9}
    of_v = {element for each in found.contributions for inputs in each.b.inputs for element in inputs}
    assert {(array, index[-1]) for array, index in of_v} == {("attention_param_2", 9)}
