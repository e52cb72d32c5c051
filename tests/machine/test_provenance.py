"""Who wrote an element: threads, several in a row, atomics, asynchronous operations; the launch runs again from what was kept."""

from __future__ import annotations

import _thread
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.end_to_end import triton as kernels
from tests.end_to_end.triton.case_helpers import kernel as real_kernel
from tests.end_to_end.triton.cases import CASES
from tests.machine.launch_helpers import kernel, store

GLUON = (Path(kernels.__file__).parent / "gluon_kernels.py").read_text().splitlines()


def launched(body: str, threads: int = 64, ctas: int = 1, shared: str = "", **options: Any) -> tuple[np.ndarray, ptxlab.Result]:
    out = np.zeros(threads * ctas, np.uint32)
    return out, kernel(body, shared=shared).launch(grid=ctas, block=threads, args=[out], keep_inputs=True, **options)


def test_the_thread_that_stored() -> None:
    out, result = launched(store("tid"), threads=96, ctas=3)
    for index in (0, 31, 32, 95, 96, 200, 287):
        found = result.provenance(out, index)
        (writer,) = found.writers
        assert (writer.cta, writer.warp, writer.lanes) == ((index // 96, 0, 0), index % 96 // 32, (index % 32,))
        assert (writer.opcode, writer.asynchronous, writer.excerpt.strip()) == ("st.global.u32", False, "st.global.u32 [at], tid;")
        assert (found.before, found.after, writer.value, found.count) == (0, index % 96, index % 96, 1)


def test_writers_stand_last_first() -> None:
    body = """
    setp.eq.u32 p, warp, 0;
    @p st.global.u32 [out+20], 5;
    bar.sync 0;
    @!p st.global.u32 [out+20], lane;
    """
    out, result = launched(body)
    found = result.provenance(out, 5)
    assert [(w.warp, w.lanes, w.value) for w in found.writers] == [(1, tuple(range(32)), 0), (0, tuple(range(32)), 5)]
    assert str(found).splitlines()[:4] == [
        "result[5] is 0, written twice, the last write first",
        "  CTA (0, 0, 0) warp 1 lanes 0-31: st.global.u32, then 0",
        "    <ptx>:29:5 | @!p st.global.u32 [out+20], lane;",
        "  CTA (0, 0, 0) warp 0 lanes 0-31: st.global.u32, then 5",
    ]
    assert str(result.provenance(out, 6)) == "result[6] is 0: the kernel never wrote it"


STEPS = [
    ("st.global.u32 [out+20], {};", lambda old, n: n),
    ("st.global.u16 [out+22], half;", lambda old, n: old & 0xFFFF | 7 << 16),
    ("atom.global.add.u32 r1, [out+20], {};", lambda old, n: old + n),
    ("red.global.xor.b32 [out+20], {};", lambda old, n: old ^ n),
    ("st.global.v2.u32 [out+16], {{r0, r0}};", lambda old, n: 5),
    ("st.global.u8 [out+21], half;", lambda old, n: old & ~0xFF00 | 7 << 8),
]


@pytest.mark.parametrize("around", [0, 3, 1020, 1024, 2500])
@pytest.mark.parametrize("seed", range(4))
def test_every_value_of_many_writes_in_a_row(around: int, seed: int) -> None:
    """Stores, partial stores and atomics of one thread, with nothing between them where the machine could look; other stores before."""
    rng = random.Random(seed)
    chosen = [(rng.randrange(len(STEPS)), rng.randrange(1, 1 << 20)) for _ in range(30)]
    expected = [0]
    for step, number in chosen:
        expected.append(STEPS[step][1](expected[-1], number) & 0xFFFF_FFFF)
    body = f"""
    mov.b16 half, 7;
    mov.u32 r0, {around};
    setp.eq.u32 p, r0, 0;
    @p bra WRITE;
    AGAIN: st.global.u32 [out], r0;
    sub.u32 r0, r0, 1;
    setp.ne.u32 p, r0, 0;
    @p bra AGAIN;
    WRITE: mov.u32 r0, 5;
    """
    launched = kernel(body + "\n".join(STEPS[step][0].format(number) for step, number in chosen), shared=".reg .b16 half;")
    out = np.zeros(8, np.uint32)
    result = launched.launch(block=1, args=[out], keep_inputs=True)
    found = result.provenance(out, 5)
    assert (found.count, len(found.writers), out[5]) == (30, 16, expected[-1])
    assert [int(w.value) for w in found.writers] == expected[:-17:-1]


def test_only_the_last_of_many_are_kept() -> None:
    body = """
    mov.u32 r0, 0;
    AGAIN: atom.global.add.u32 r1, [out+4], 1;
    add.u32 r0, r0, 1;
    setp.lt.u32 p, r0, 50;
    @p bra AGAIN;
    """
    out, result = launched(body, threads=32)
    found = result.provenance(out, 1)
    assert (out[1], found.after, found.count, len(found.writers)) == (32 * 50, 32 * 50, 50, 16)
    assert {w.opcode for w in found.writers} == {"atom.global.add.u32"}
    assert str(found).splitlines()[-2:] == ["  and 34 writes before", "  before the launch: 0"]


def test_part_of_a_vector_store() -> None:
    out, result = launched("mov.u32 r0, 9;\nsetp.eq.u32 p, tid, 0;\n@p st.global.v4.u32 [out+16], {tid, r0, r0, r0};", threads=32)
    assert [result.provenance(out, i).count for i in (3, 4, 7, 8)] == [0, 1, 1, 0]
    halves = out.view(np.uint16)
    assert [result.provenance(halves, i).count for i in (7, 8, 15, 16)] == [0, 1, 1, 0]


@pytest.mark.compiler
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_tensor_store_of_a_tensor_core_kernel(policy: str) -> None:
    case = CASES["gl_mm_fp16"]("256x256x128")
    ((_, out),) = case.outputs.items()
    result = real_kernel("gl_mm_fp16").launch(
        **case.geometry(), args=[*case.args, *case.scratch()], policy=policy, seed=3, keep_inputs=True
    )
    result.raise_for_errors()
    owners = set()
    for row, column in ((0, 0), (127, 127), (0, 128), (200, 5), (255, 255)):
        found = result.provenance(out, (row, column))
        (writer,) = found.writers
        assert writer.asynchronous
        assert writer.opcode.startswith("cp.async.bulk.tensor.2d.global.shared")
        assert writer.source is not None
        assert writer.source.file.endswith("gluon_kernels.py")
        assert "tma.async_store(" in GLUON[writer.source.line - 1]
        assert (writer.warp, writer.lanes) == (column // 64 % 2, (0,))  # two warps store 64 columns each
        assert found.after == writer.value == out[row, column]
        (behind,) = writer.behind  # a thread has a row of the accumulator, as tcgen05.ld.32x32b gives it
        assert (behind.cta, behind.warp, behind.lanes) == (writer.cta, row % 128 // 32, (row % 32,))
        assert (behind.opcode, behind.asynchronous) == ("st.shared.v4.b32", False)
        assert behind.source is not None
        assert "csm.store(" in GLUON[behind.source.line - 1]
        owners.add((writer.cta, row // 128, column // 128))
    assert len(owners) == 4
    assert len({cta for cta, *_ in owners}) == 4


def test_values_of_a_device_and_its_variables_are_those_of_the_launch() -> None:
    body = """
    atom.global.add.u32 r0, [counter], 1;
    st.global.u32 [out], r0;
    """
    count = kernel(body, top=".global .u32 counter;")
    device = ptxlab.Device("sm_100a")
    buffer = device.array(np.zeros(4, np.uint32))
    results = [count.launch(block=1, args=[buffer], device=device, keep_inputs=True) for _ in range(3)]
    buffer.write(np.full(4, 77, np.uint32))
    assert [int(r.provenance(buffer, 0).after) for r in results] == [0, 1, 2]
    assert [int(r.provenance("result", (0,)).before) for r in results] == [0, 0, 1]
    assert buffer.numpy().tolist() == [77] * 4


def test_a_service_instruction_that_writes() -> None:
    body = """
    setp.eq.u32 p, tid, 5;
    mov.b64 rd0, 0x1234;
    @p tensormap.replace.tile.global_address.global.b1024.b64 [out], rd0;
    """
    out, result = launched(body, threads=32)
    (writer,) = result.provenance(out, 0).writers
    assert writer.opcode == "tensormap.replace.tile.global_address.global.b1024.b64"
    assert (writer.lanes, writer.asynchronous, writer.value) == ((5,), False, out[0])
    assert out[0]


HALVES = """
    mov.u32 r0, words;
    mad.lo.u32 r1, tid, 4, r0;
    cvt.u16.u32 h, tid;
    st.shared.b16 [r1], h;
    bar.sync 0;
    sub.u32 r2, 31, tid;
    mad.lo.u32 r3, r2, 4, r0;
    st.shared.b16 [r3+2], h;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.eq.u32 p, tid, 0;
    @p cp.async.bulk.global.shared::cta.bulk_group [out], [words], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    bar.sync 0;
    st.shared.u32 [r1], 0;
"""


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_halves_of_an_element_that_a_bulk_copy_brings(policy: str) -> None:
    """By different threads; what is written after the copy is not in it."""
    out, result = launched(HALVES, threads=32, shared=".shared .align 128 .b8 words[128];", policy=policy)
    result.raise_for_errors()
    for index in (0, 9, 31):
        found = result.provenance(out, index)
        (writer,) = found.writers
        assert out[index] == index | (31 - index) << 16
        assert [(w.lanes, w.excerpt.strip()) for w in writer.behind] == [
            ((31 - index,), "st.shared.b16 [r3+2], h;"),
            ((index,), "st.shared.b16 [r1], h;"),
        ]
        low = result.provenance(out.view(np.uint16), 2 * index).writers[0].behind
        assert [w.lanes for w in low] == [(index,)]
    shown = str(found).splitlines()
    assert shown[1].startswith("  CTA (0, 0, 0) warp 0 lane 0: asynchronous cp.async.bulk.global.shared::cta.bulk_group, then ")
    assert shown[3] == "    copied from what was written by CTA (0, 0, 0) warp 0 lane 0: st.shared.b16"
    assert found.as_dict()["writers"][0]["behind"][0]["opcode"] == "st.shared.b16"


def test_what_is_behind_a_copy_may_be_a_copy() -> None:
    body = """
    setp.ne.u32 p, tid, 0;
    @p bra END;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [words], [out], 128, [full];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [full], 0;
    @!q bra WAIT;
    add.u64 rd1, out, 128;
    cp.async.bulk.global.shared::cta.bulk_group [rd1], [words], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    END:
    """
    shared = ".shared .align 128 .b8 words[128]; .shared .align 8 .b64 full;"
    out, result = launched(body, threads=64, shared=shared)
    result.raise_for_errors()
    (writer,) = result.provenance(out, 40).writers
    (behind,) = writer.behind
    assert (behind.asynchronous, behind.warp, behind.lanes) == (True, 0, (0,))
    assert behind.opcode == "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
    assert result.provenance(out, 3).count == 0


def test_of_a_launch_that_ended_early() -> None:
    out, result = launched(store("7") + "trap;", threads=32)
    assert not result.completed
    assert out[3] == 0
    assert (result.provenance(out, 3).after, result.provenance(out, 3).count) == (7, 1)


def test_refusals() -> None:
    out = np.zeros(32, np.uint32)
    bare = kernel(store("tid")).launch(block=32, args=[out])
    with pytest.raises(ptxlab.LaunchError) as caught:
        bare.provenance(out, 0)
    assert str(caught.value) == (
        "error[A316]: the launch did not keep its inputs\n  fix: launch with keep_inputs=True, which copies the device memory"
    )
    result = kernel(store("tid")).launch(block=32, args=[out], keep_inputs=True)
    for array, text in ((out.copy(), "this ndarray"), ("C", "'C'"), (3, "this int"), (None, "this NoneType")):
        with pytest.raises(ptxlab.LaunchError) as caught:
            result.provenance(array, 0)
        assert str(caught.value) == (
            f"error[A317]: {text} is no array of the launch\n  fix: its array arguments: result; give the same object or the name"
        )
    for index in (32, -33, (1, 2), (), "x", 1.5, True, slice(3), None):
        with pytest.raises(ptxlab.LaunchError) as caught:
            result.provenance(out, index)
        assert str(caught.value) == (f"error[A317]: result of shape [32] has no element {index!r}\n  fix: give an int for each dimension")
    assert result.provenance(out, -1).index == (31,)


WRITERS = {
    "mm_ptr_fp16": "st.global.v4.b32",
    "convert_fp32": "st.global.b8",
    "mm_batched_fp16": "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group",
    "mm_split_k_fp16": "red.global.gpu.relaxed.add.v4.f32",
    "histogram_i32": "atom.global.gpu.acq_rel.add.u32",
    "gl_reduce_store_fp32": "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group",
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", WRITERS)
def test_the_last_writer_of_a_real_kernel_left_what_is_there(name: str) -> None:
    family = CASES[name]
    case = family(next(iter(family.sizes)))
    before = {key: array.copy() for key, array in case.outputs.items()}
    result = real_kernel(name).launch(**case.geometry(), args=[*case.args, *case.scratch()], check="none", keep_inputs=True)
    opcodes = set()
    for key, array in case.outputs.items():
        changed = np.argwhere(array.view(f"u{array.itemsize}") != before[key].view(f"u{array.itemsize}"))
        for index in (tuple(changed[0]), tuple(changed[len(changed) // 2]), tuple(changed[-1])):
            found = result.provenance(array, index)
            assert (found.before, found.after, found.writers[0].value) == (before[key][index], array[index], array[index])
            opcodes.add(found.writers[0].opcode)
    assert WRITERS[name] in opcodes


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupt_ends_the_search() -> None:
    """Also one that comes while a full buffer is drained."""
    body = """
    mov.u32 r1, 0;
    AGAIN: add.u32 r1, r1, 1;
    st.global.u32 [at], r1;
    setp.lt.u32 p, r1, 2000000;
    @p bra AGAIN;
    """
    out = np.zeros(32, np.uint32)
    result = kernel(body).launch(block=32, args=[out], keep_inputs=True, check="none")
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        result.provenance(out, 3)
