"""Right kernels that look like mistakes: products that are repeated, tiles in blocks of columns, elements that are meant to be the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from . import box_kernels, word_kernels
from .test_bulk_copies import STRIDES
from .test_bulk_copies import ptx as bulk_ptx

BLOCKS = "0x4000404002000000"
"""128B swizzling, 8,192 bytes from 64 columns to the next ones."""
TRANSPOSED = "0x08118010"
COPY = "mul.wide.u32 %rd2, %r1, 256;"


def product_of_blocks(text: str, map_of: Any = None) -> tuple[Any, bool]:
    """Launch a kernel whose A and B stand in the array in blocks of 64 columns, each with 64 rows of k."""
    blocks = np.random.default_rng(5).integers(-4, 5, (128, 64)).astype(np.float16)
    c = np.zeros((128, 64), np.float32)
    kernel = ptxlab.loads(text, file="blocks.ptx").kernel()
    result = kernel.launch(block=128, args=[blocks if map_of is None else map_of(blocks), c])
    k = 64 if "STEP" in text else 16
    a = blocks.reshape(2, 64, 64)[:, :k].transpose(0, 2, 1).reshape(128, k).astype(np.float64)
    return result, bool((c == a @ a[:64].T).all())


@pytest.mark.parametrize("text", [word_kernels.TEXT, word_kernels.LOADED_TEXT], ids=["cp.async", "loads and stores"])
def test_blocks_of_columns_that_threads_copy(text: str) -> None:
    right = text.replace(COPY, COPY.replace("256", "128")).replace(word_kernels.MATRICES, BLOCKS)
    right = right.replace(word_kernels.INSTRUCTION, TRANSPOSED).replace(word_kernels.STEP, word_kernels.STEP.replace(" 2;", " 128;"))
    result, equal = product_of_blocks(right)
    assert equal
    assert result.diagnostics == ()


@pytest.mark.parametrize("text", [word_kernels.TEXT, word_kernels.LOADED_TEXT], ids=["cp.async", "loads and stores"])
def test_rows_that_are_wider_than_a_block(text: str) -> None:
    """The tile of a K-major matrix with the transpose bit set, and a leading offset that is legal with it."""
    wrong = text.replace(word_kernels.MATRICES, BLOCKS).replace(word_kernels.INSTRUCTION, "0x08108010")
    result, right = word_kernels.launch(wrong, check="operands")
    assert not right
    assert any(found.code == "O101" and "clear the transpose bit" in found.fix for found in result.diagnostics)


def test_blocks_of_columns_in_one_box() -> None:
    layout = "K-major, 64 k in a box"
    text = box_kernels.ptx(layout, "A", 8192).replace(word_kernels.INSTRUCTION, TRANSPOSED)
    result, equal = product_of_blocks(text, lambda blocks: ptxlab.TensorMap(blocks, box=(64, 128), swizzle="128B"))
    assert equal
    assert result.diagnostics == ()


ONCE = "setp.lt.u32 %p5, %r15, 4;"


@pytest.mark.parametrize("text", [word_kernels.TEXT, word_kernels.LOADED_TEXT], ids=["cp.async", "loads and stores"])
@pytest.mark.parametrize(("times", "codes"), [(4, {"O105"}), (40, set())])
def test_a_product_that_is_repeated(text: str, times: int, codes: set[str]) -> None:
    """As often as there are k it is a forgotten step; a measurement repeats it more often."""
    repeated = text.replace(word_kernels.STEP, "").replace(ONCE, ONCE.replace("4;", f"{times};"))
    result, _ = word_kernels.launch(repeated)
    assert {found.code for found in result.diagnostics} == codes


@pytest.mark.parametrize(("times", "codes"), [(4, {"O105"}), (40, set())])
def test_a_product_of_a_box_that_is_repeated(times: int, codes: set[str]) -> None:
    layout = "K-major, 64 k in a box"
    more = box_kernels.MMA.replace(", 0;", ", 1;")
    result, _ = box_kernels.launch(layout, box_kernels.ptx(layout).replace(box_kernels.MMA, box_kernels.MMA + more * (times - 1)))
    assert {found.code for found in result.diagnostics} == codes


@pytest.mark.parametrize(("dtype", "codes"), [(np.float16, {"O102"}), (np.uint8, set())])
def test_the_same_bytes_of_what_the_host_prepared(dtype: Any, codes: set[str]) -> None:
    """An array of the operand's type holds a matrix; bytes may be anything, such as a row that is meant for all rows."""
    rows = np.random.default_rng(5).integers(-4, 5, (2, 128, 8)).astype(np.float16).view(dtype)
    kernel = ptxlab.loads(bulk_ptx(False).replace(STRIDES, "0x0000400800400000")).kernel()
    result = kernel.launch(block=128, args=[rows, np.zeros((128, 64), np.float32)])
    assert {found.code for found in result.diagnostics} == codes


@pytest.mark.parametrize("use", ["use", "lastuse"])
def test_a_matrix_in_a_collector_buffer(use: str) -> None:
    """A is kept for the next k of B: its start address does not advance."""
    mma = "tcgen05.mma.cta_group::1.kind::f16{} [%r4], %rd10, %rd11, %r6, {};\n"
    kept = mma.format(".collector::a::fill", 0) + "add.u64 %rd11, %rd11, 2;\n" + mma.format(f".collector::a::{use}", 1)
    layout = "K-major, 64 k in a box"
    text = box_kernels.ptx(layout).replace(box_kernels.MMA, kept)
    assert box_kernels.launch(layout, text)[0].diagnostics == ()
    codes = {found.code for found in box_kernels.launch(layout, text.replace(f".collector::a::{use}", ""))[0].diagnostics}
    assert codes == {"O105"}


def blocks_in_boxes(text: str) -> set[str]:
    """The codes of a kernel whose operands stand in the array in blocks of 64 columns with 32 rows of k, each of which is a box."""
    rows = np.random.default_rng(5).integers(-4, 5, (64, 64)).astype(np.float16)
    kernel = ptxlab.loads(text.replace("{64, 0}", "{0, 32}")).kernel()
    result = kernel.launch(block=128, args=[ptxlab.TensorMap(rows, box=(64, 32), swizzle="128B"), np.zeros((128, 64), np.float32)])
    return {found.code for found in result.diagnostics}


def test_blocks_of_columns_in_boxes() -> None:
    assert blocks_in_boxes(box_kernels.ptx("M-major, 32 k in a box")) == set()


@pytest.mark.parametrize("more", [1, 2, 4])
def test_an_operand_that_begins_inside_a_block(more: int) -> None:
    """Its last columns are those of the next rows."""
    text = box_kernels.ptx("M-major, 32 k in a box").replace(box_kernels.MMA, f"    add.u64 %rd11, %rd11, {more};\n{box_kernels.MMA}")
    assert blocks_in_boxes(text) == {"O101"}
