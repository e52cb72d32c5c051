"""Stores of rows that end within 16 bytes: a GPU writes whole pieces, as `tests/hardware` records it. What the checks make of the rest."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.descriptors import encode_tensor_map
from tests.isa.bulk.bulk_helpers import FILL, SIZE, kernel, move
from tests.isa.bulk.test_copies import POLICIES, SOURCE, run

Words = NDArray[np.uint32]
FENCE = "fence.proxy.async;\nbar.sync 0;\n"
DONE = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
STORE = "@p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [m, {c0, c1}], [dst];\n"
ADD = "@p cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [m, {c0, c1}], [dst];\n"
COLUMNS = "@p cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [m, {c0, c1, c2}], [dst];\n"
SCATTER = "@p cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [m, {c0, c1, c2, c3, c4}], [dst];\n"
PITCH, ELEMENTS, WRITTEN, ROWS = 12, 5, 8, 4
"""Words from one row to the next, of a row, of its pieces; rows."""
SHORT = PITCH * (ROWS - 1) + ELEMENTS
"""Words up to the last element of the last row."""


def tensor(words: int = PITCH * ROWS) -> Words:
    return np.arange(1000, 1000 + words, dtype=np.uint32)


def encoded(memory: ptxlab.machine.Buffer, mode: str = "tile") -> bytes:
    """A tensor map of rows of u32."""
    row = {"data_type": 2, "address": memory.address, "element_strides": (1, 1, 1), "target": "sm_100a"}
    if mode == "im2col":
        corners = {"im2col": True, "lower": (0,), "upper": (0,), "channels": PITCH, "pixels": ROWS}
        return encode_tensor_map(**row, rank=3, dims=(ELEMENTS, ROWS, 1), strides=(4 * PITCH, 4 * PITCH * ROWS), **corners)
    box = (PITCH, ROWS if mode == "tile" else 1)
    return encode_tensor_map(**row, rank=2, dims=(ELEMENTS, ROWS), strides=(4 * PITCH,), box=box)


def after(text: str, size: int, mode: str = "tile", policy: str = "eager") -> Words:
    """The memory of a tensor after a copy."""
    device = ptxlab.Device("sm_100a")
    memory = device.array(tensor(size))
    run(FILL + FENCE + text + DONE, tensor_map=encoded(memory, mode), coordinates=FORMS[mode][1], policy=policy, device=device)
    return memory.numpy()


def expected(memory: Words, add: bool = False) -> Words:
    """Word by word: rows of 12 words in shared memory, of which the tensor has 5 and 3 are in the same piece."""
    found, source = memory.copy(), SOURCE.view(np.uint32)
    for row in range(ROWS):
        for word in range(WRITTEN):
            at = row * PITCH + word
            if at < len(found):
                found[at] = source[at] + (found[at] if add else np.uint32(0))
    return found


FORMS = {"tile": (STORE, ()), "im2col": (COLUMNS, ()), "scatter4": (SCATTER, (0, 0, 1, 2, 3))}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mode", FORMS)
def test_whole_pieces_are_written(mode: str, policy: str) -> None:
    found = after(FORMS[mode][0], PITCH * ROWS, mode, policy)
    assert np.array_equal(found, expected(tensor()))


@pytest.mark.parametrize("mode", FORMS)
@pytest.mark.parametrize("left", [0, 1, 2])
def test_nothing_is_written_behind_an_allocation(mode: str, left: int) -> None:
    """It ends with the last element of the tensor, or within its piece."""
    found = after(FORMS[mode][0], SHORT + left, mode)
    assert np.array_equal(found, expected(tensor(SHORT + left)))


@pytest.mark.parametrize("size", [PITCH * ROWS, SHORT])
def test_a_reduction_takes_the_whole_piece(size: int) -> None:
    assert np.array_equal(after(ADD, size), expected(tensor(size), add=True))


def test_an_element_behind_the_allocation_is_refused() -> None:
    with pytest.raises(ptxlab.PtxlabError, match="runs 4 bytes past the end"):
        after(STORE, SHORT - 1)


@pytest.mark.parametrize("mode", FORMS)
@pytest.mark.parametrize("size", [PITCH * ROWS, SHORT])
def test_undefined_bits_behind_a_row_are_no_finding(mode: str, size: int) -> None:
    """The kernel writes the elements of the tensor only. Of one that it leaves out there is a finding."""
    text, at = FORMS[mode]
    five, found = (*at, 0, 0, 0, 0, 0)[:5], {}
    for elements in (ELEMENTS, ELEMENTS - 1):
        fill = move(f"rem.u32 n, i, {PITCH};\nsetp.lt.u32 q, n, {elements};\n@q st.shared.u32 [w], i;")
        device = ptxlab.Device("sm_100a")
        arguments = [encoded(device.array(tensor(size)), mode), SOURCE, np.zeros(SIZE, np.uint8), *five, 0]
        result = kernel(fill + FENCE + text + DONE).launch(block=128, args=arguments, device=device, check="all")
        found[elements] = [d.code for d in result.diagnostics]
    assert found == {ELEMENTS: [], ELEMENTS - 1: ["M411"]}


def test_a_write_to_the_rest_of_a_piece_races() -> None:
    """Another thread writes a word behind the elements of a row while the copy may do so."""
    found = {}
    for word in (WRITTEN - 1, WRITTEN):
        device = ptxlab.Device("sm_100a")
        memory = device.array(tensor())
        other = f"setp.eq.u32 q, tid, 64;\n@q st.global.u32 [in+{4 * word}], tid;\n"
        arguments = [encoded(memory), memory, np.zeros(SIZE, np.uint8), 0, 0, 0, 0, 0, 0]
        fill = move("st.shared.u32 [w], i;")
        result = kernel(fill + FENCE + STORE + other + DONE).launch(block=128, args=arguments, device=device, check="race")
        found[word] = [d.code for d in result.diagnostics]
    assert found == {WRITTEN - 1: ["X103"], WRITTEN: []}


@pytest.mark.parametrize("mode", ["tile", "im2col"])
@pytest.mark.parametrize("size", [PITCH * ROWS, SHORT])
def test_sums_that_depend_on_the_order(mode: str, size: int) -> None:
    """Two copies add to the last row, or to two rows: the note is about elements of the tensor."""
    found = {}
    for second in (ROWS - 1, ROWS - 2):
        device = ptxlab.Device("sm_100a")
        memory = device.array(np.full(size, 0.1, np.float32))
        row = {"data_type": 7, "address": memory.address, "element_strides": (1, 1, 1), "target": "sm_100a"}
        if mode == "tile":
            made = encode_tensor_map(**row, rank=2, dims=(ELEMENTS, ROWS), strides=(4 * PITCH,), box=(PITCH, 1))
            add, at = ADD, (0, ROWS - 1, 0, second)
        else:
            corners = {"im2col": True, "lower": (0,), "upper": (0,), "channels": PITCH, "pixels": 1}
            made = encode_tensor_map(**row, rank=3, dims=(ELEMENTS, ROWS, 1), strides=(4 * PITCH, 4 * PITCH * ROWS), **corners)
            add, at = ADD.replace("2d", "3d").replace("tile", "im2col_no_offs").replace("c1}", "c1, c4}"), (0, ROWS - 1, 0, second)
        fill = move("cvt.rn.f32.u32 v, i;\ndiv.rn.f32 v, v, 0f40E00000;\nst.shared.u32 [w], v;")
        body = fill + FENCE + add + add.replace("c0", "c2").replace("c1", "c3") + DONE
        result = kernel(body).launch(block=128, args=[made, SOURCE, np.zeros(SIZE, np.uint8), *at, 0, 0], device=device, check="all")
        notes = [dict(d.details)["most additions to an element"] for d in result.diagnostics if d.code == "M410"]
        assert len(notes) == len(result.diagnostics)
        found[second] = notes
    # To word 0 zero is added, which rounds nothing.
    second_word = 4 * PITCH * (ROWS - 1) + 4
    assert found == {ROWS - 2: [], ROWS - 1: [f"2, at byte {second_word} of buffer float32[{size}]"]}
