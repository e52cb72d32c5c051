"""Elements of arrays in device memory: where an address lies, and what findings say of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import ptxlab
from ptxlab.machine.memory.elements import ArrayPlace, elements_text
from ptxlab.native import address_of

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 c, .param .u64 d) .reqntid 32
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;
ld.param.u64 %rd1, [c];
ld.param.u64 %rd2, [d];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
setp.eq.u32 %p1, %r1, 0;
setp.eq.and.u32 %p2, %r2, 0, %p1;
setp.eq.and.u32 %p3, %r2, 1, %p1;
BODY
ret;
}
"""


def place(array: np.ndarray[Any, Any]) -> ArrayPlace:
    return ArrayPlace("c", address_of(array), str(array.dtype), array.itemsize, array.shape, array.strides)


WHOLE = np.zeros((4, 6, 5), np.float32)
VIEWS = {
    "whole": WHOLE,
    "transposed": WHOLE.transpose(2, 0, 1),
    "every second": WHOLE[::2, 1:, ::2],
    "reversed": WHOLE[::-1, :, ::-1],
    "one row": WHOLE[1:2],
    "one number": WHOLE[1, 2, 3],
    "bytes": np.zeros(7, np.uint8),
}


@pytest.mark.parametrize("name", VIEWS)
def test_each_byte_of_each_element(name: str) -> None:
    view = np.asarray(VIEWS[name])
    for index in np.ndindex(view.shape):
        start = address_of(view) + sum(i * s for i, s in zip(index, view.strides, strict=True))
        assert place(view).indices(np.arange(start, start + view.itemsize)).tolist() == [list(index)]


OTHER_STRIDES = {
    "bytes of a row, twice": as_strided(WHOLE, (2, 5), (0, 4)),
    "gaps and elements that overlap": as_strided(WHOLE, (3, 3), (8, 8)),
    "elements that overlap": as_strided(WHOLE, (4, 4), (4, 8)),
    "an empty one": WHOLE[:0],
    "a column": WHOLE[0, :, :1],
    "rows of one number": WHOLE.reshape(1, 120, 1),
}


@pytest.mark.parametrize("name", {**VIEWS, **OTHER_STRIDES})
def test_contiguous_bytes(name: str) -> None:
    """All bytes between the ends of an array, if each belongs to one element."""
    view = np.asarray({**VIEWS, **OTHER_STRIDES}[name])
    count = np.zeros(1000, np.int64)
    for index in np.ndindex(view.shape):
        start = sum(i * s for i, s in zip(index, view.strides, strict=True))
        if start < 0:
            assert place(view).contiguous_bytes == 0
            return
        count[start : start + view.itemsize] += 1
    end = int(np.flatnonzero(count).max(initial=-1)) + 1
    assert place(view).contiguous_bytes == (end if (count[:end] == 1).all() else 0)


def test_what_no_element_holds() -> None:
    """Between the elements of a view, and before the first one; behind the last one the outermost index goes on."""
    view = WHOLE[:, :, ::2]
    first = address_of(view)
    assert place(view).indices(np.array([first - 1, first + 4])).tolist() == []
    assert place(WHOLE).indices(np.array([first + WHOLE.nbytes + 4])).tolist() == [[4, 0, 1]]
    assert elements_text([place(np.zeros((0, 3), np.float32))], [first]) == ""


def test_several_arrays_and_many_elements() -> None:
    base = address_of(WHOLE)
    before = ArrayPlace("b", base - 16, "float64", 8, (2,), (8,))
    text = elements_text([before, place(WHOLE)], range(base + 16, base + 24))
    assert text == "c[0, 0, 4], c[0, 1, 0]; c is float32[4, 6, 5]"
    assert elements_text([place(WHOLE)], range(base, base + WHOLE.nbytes)) == (
        "c[0, 0, 0] to c[0, 0, 4], c[0, 1, 0] to c[0, 1, 4], c[0, 2, 0] to c[0, 2, 4] and 21 more; c is float32[4, 6, 5]"
    )


def found(body: str, c: Any, d: Any = None, **options: Any) -> list[tuple[str, str | None]]:
    result = ptxlab.loads(KERNEL.replace("BODY", body)).kernel().launch(args=[c, d], **options)
    return [(each.code, dict(each.details).get("elements")) for each in result.diagnostics]


C = np.zeros((4, 8), np.float32)


def test_memory_faults() -> None:
    assert found("@%p1 st.global.u32 [%rd1+128], %r1;", C) == [("M402", "c[4, 0], which does not exist; c is float32[4, 8]")]
    frozen = C.copy()
    frozen.flags.writeable = False
    assert found("@%p1 st.global.u32 [%rd1+36], %r1;", frozen) == [("M404", "c[1, 1]; c is float32[4, 8]")]
    assert found("@%p1 st.global.u32 [%rd1+16777216], %r1;", C) == [("M401", None)]


def test_a_bulk_copy_past_the_end() -> None:
    body = ".shared .align 16 .b8 held[64];\nmov.u32 %r3, held;\n@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1+96], [%r3], 64;"
    assert found(body, C, check="memory") == [("M402", "c[3, 0]; c is float32[4, 8]")]


def test_two_arrays_that_share_memory() -> None:
    """The second is a part of the first. Behind both, the element is one of the array that begins last."""
    assert found("@%p1 st.global.u32 [%rd2+96], %r1;", C, C[1:]) == [("M402", "d[3, 0], which does not exist; d is float32[3, 8]")]


def test_races_and_unwritten_reads() -> None:
    race = "@%p2 st.global.u32 [%rd1+72], %r1;\n@%p3 st.global.u32 [%rd1+72], %tid.y;\n@%p3 st.global.u32 [%rd1+72], 5;"
    assert ("X114", "c[2, 2]; c is float32[4, 8]") in found(race, C, grid=2)
    device = ptxlab.Device("sm_100a")
    buffer = device.empty((4, 4), np.float16, name="x")
    read = "@%p1 ld.global.u32 %r3, [%rd1+8];\n@%p1 st.global.u32 [%rd2], %r3;"
    for check in ("all", "register,memory,race"):
        assert found(read, buffer, C, device=device, check=check)[0] == ("M412", "x[1, 0] to x[1, 1]; x is float16[4, 4]")


def test_the_fix_of_a_race_names_no_barrier_that_cannot_be() -> None:
    """A barrier joins the threads of a CTA or of a cluster."""
    write = "@%p2 st.global.u32 [%rd1], 1;\n"
    for later, fix in (
        ("@%p3 st.global.u32 [%rd1], 2;", "no barrier joins CTAs of different clusters: let one CTA own the element"),
        (
            "@%p3 ld.global.u32 %r3, [%rd1];\n@%p3 st.global.u32 [%rd2], %r3;",
            "let the CTA that writes set a flag after line 14 with st.release.gpu",
        ),
    ):
        kernel = ptxlab.loads(KERNEL.replace("BODY", write + later)).kernel()
        (apart,) = kernel.launch(grid=2, args=[C, np.zeros(1, np.uint32)]).diagnostics
        assert fix in apart.fix
        assert "bar.sync" not in apart.fix
        (joined,) = kernel.launch(grid=2, cluster=2, args=[C, np.zeros(1, np.uint32)]).diagnostics
        assert joined.fix == (
            "synchronise the CTAs of the cluster between line 14 and line 15: barrier.cluster.arrive and barrier.cluster.wait"
        )


def test_stores_of_undefined_values() -> None:
    """The elements of the lanes that store such a value."""
    body = "mad.wide.u32 %rd3, %r1, 4, %rd1;\nsetp.gt.u32 %p1, %r1, 29;\n@%p1 st.global.u32 [%rd3], %r9;"
    ((code, elements),) = found(body.replace("%r9", "%r8"), C)
    assert (code, elements) == ("R808", "c[3, 6] to c[3, 7]; c is float32[4, 8]")


def test_callers_of_inlined_code() -> None:
    """The line of the helper, and the lines that it was inlined at, innermost first."""
    where = """.loc 1 40 1
.loc 1 9 3, function_name $L__name, inlined_at 1 40 1
.loc 1 5 7, function_name $L__name, inlined_at 1 9 3
"""
    body = where + "@%p1 st.global.u32 [%rd1+128], %r1;\n.loc 1 41 1"
    text = KERNEL.replace("BODY", body) + '.file 1 "k.cu"\n.section .debug_str { $L__name: .b8 104, 0 }\n'
    (fault,) = ptxlab.loads(text).kernel().launch(args=[C, None]).diagnostics
    assert (fault.code, str(fault.source)) == ("M402", "k.cu:5:7")
    assert dict(fault.details)["inlined at"] == "k.cu:9:3, k.cu:40:1"
