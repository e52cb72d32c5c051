"""Arrays are device memory themselves while a kernel runs: nothing is copied that is not written, and failures leave them as they were."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ptxlab
from ptxlab.isa.context import Misuse
from ptxlab.machine.memory.global_memory import ALIGNMENT, DeviceMemory
from ptxlab.machine.memory.journal import Journal
from tests.machine.launch_helpers import kernel

POINTER = ", .param .u64 more"
LOAD = "ld.param.u64 rd1, [more]; mad.wide.u32 rd1, tid, 4, rd1;"
FAULT = "mov.u64 rd9, 64; st.global.u32 [rd9], tid;"
ROOT = Path(__file__).resolve().parents[2]
LARGE = 1 << 23
"""Elements of 4 bytes: such an array has several parts that are kept one by one."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("check", ["none", "all"])
def test_one_cluster_of_a_large_product(check: str) -> None:
    """8192 x 8192 operands, only one cluster: of the memory beside that of the process itself, the arrays are all but a little.

    The memory of the process is what it has after the same kernel has multiplied small matrices.
    """
    command = [sys.executable, "-m", "benchmarks.worker", "one_cluster", "8192", check]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    arrays, own = found["arrays_mib"], found["own_mib"]
    assert found["good"]
    assert arrays == 3 * 128
    assert found["begun_mib"] - own >= 0.9 * arrays, "the arrays are in memory before the launch"
    assert found["peak_mib"] - own <= 1.3 * arrays


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_memory_of_a_process_that_compiles(tmp_path: Path) -> None:
    """The whole process, with Python, NumPy and LLVM, takes no more than 1.3 times the arrays."""
    command = [sys.executable, "-m", "benchmarks.worker", "one_cluster", "8192", "none"]
    environment = os.environ | {"PTXLAB_CACHE_DIR": str(tmp_path)}
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment).stdout)
    assert list(tmp_path.glob("*/*.o")), "it has compiled the kernel"
    assert found["peak_mib"] <= 1.3 * found["arrays_mib"]


@pytest.mark.parametrize("writeable", [True, False])
def test_no_copy_of_an_input_that_no_kernel_writes(writeable: bool) -> None:
    given = np.arange(LARGE, dtype=np.uint32)
    given.flags.writeable = writeable
    out = np.zeros(32, np.uint32)
    ready = kernel(LOAD + "ld.global.u32 r1, [rd1+4096]; st.global.u32 [at], r1;", params=POINTER)
    ready.launch(block=32, args=[out, given], check="none").raise_for_errors()
    tracemalloc.start()
    try:
        ready.launch(block=32, args=[out, given], check="none").raise_for_errors()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < given.nbytes / 8
    assert out.tolist() == list(range(1024, 1056))


def test_a_write_copies_one_part() -> None:
    given = np.arange(LARGE, dtype=np.uint32)
    ready = kernel("st.global.u32 [at+8192], tid;")
    ready.launch(block=32, args=[given], check="none").raise_for_errors()
    tracemalloc.start()
    try:
        ready.launch(block=32, args=[given], check="none").raise_for_errors()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < given.nbytes / 8
    assert given[2048:2080].tolist() == list(range(32))


WRITES = {
    "stores": "st.global.v2.u32 [rd2], {tid, tid};",
    "an atomic": "atom.global.add.u32 r1, [rd2], 7;",
    "a reduction": "red.global.or.b32 [rd2], 0x80000000;",
    "a bulk copy": "bar.sync 0; cp.async.bulk.global.shared::cta.bulk_group [rd2], [tile], 64; cp.async.bulk.commit_group;"
    "cp.async.bulk.wait_group 0;",
}


@pytest.mark.parametrize("what", list(WRITES))
@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_a_kernel_that_fails_leaves_arrays_as_they_were(what: str, check: str, policy: str) -> None:
    """Each thread writes into a part of its own, and reads before and after."""
    body = f"mul.wide.u32 rd2, tid, {LARGE * 4 // 32}; add.s64 rd2, rd2, out; ld.global.u32 r3, [rd2+64];\n{WRITES[what]}\n"
    before = np.random.default_rng(1).integers(0, 1 << 31, LARGE, np.uint32)
    array = before.copy()
    options = {"shared": ".shared .align 128 .b8 tile[128];", "params": ""}
    kernel(body, **options).launch(block=32, args=[array], check=check, policy=policy)
    changed = array != before
    assert changed.any()
    assert not changed.reshape(32, -1)[:, 16:].any()
    assert changed.reshape(32, -1)[:, :16].any(axis=1).all()
    array[:] = before
    result = kernel(body + FAULT, **options).launch(block=32, args=[array], check=check, policy=policy)
    assert "M401" in [each.code for each in result.diagnostics]
    assert np.array_equal(array, before)


def test_memory_between_the_elements_is_not_the_kernels() -> None:
    """A kernel cannot see or change what lies between the rows of a part of a matrix."""
    whole = np.full((32, 8), 5, np.uint32)
    out = np.zeros(32, np.uint32)
    body = LOAD.replace("tid, 4", "tid, 32") + "ld.global.u32 r1, [rd1+16]; st.global.u32 [at], r1; st.global.u32 [rd1+16], 9;"
    body += "st.global.u32 [rd1], tid;"
    part = whole[:, :2]
    last = whole[31:]  # so that the last row may be accessed as a whole
    result = kernel(body, params=POINTER + ", .param .u64 end").launch(block=32, args=[out, part, last], check="none")
    assert result.ok
    assert out[:31].tolist() == [0] * 31
    assert (whole[:31, 2:] == 5).all()
    assert whole[:, 0].tolist() == list(range(32))


def test_a_write_to_a_read_only_array_is_refused() -> None:
    array = np.zeros(64, np.uint32)
    array.flags.writeable = False
    result = kernel("st.global.u32 [at], 1;").launch(block=32, args=[array])
    assert [each.code for each in result.diagnostics] == ["M404"]
    assert not array.any()


@pytest.mark.parametrize("view", ["transposed", "reversed", "offset by a byte", "the same array twice"])
def test_views(view: str) -> None:
    base = np.zeros(32 * 4 + 1, np.uint8)
    array: NDArray[np.uint32] = np.zeros(32, np.uint32)
    if view == "transposed":
        array = np.zeros((8, 4), np.uint32).T
    elif view == "reversed":
        array = array[::-1]
    elif view == "offset by a byte":
        array = base[1:].view(np.uint32)
    body = LOAD + "ld.global.u32 r1, [rd1]; add.u32 r1, r1, tid; st.global.u32 [at], r1;"
    step = -4 if view == "reversed" else 4
    body = body.replace("[at]", "[rd2]").replace("[rd1]", "[rd2]") + "\n"
    body = f"mul.wide.s32 rd2, tid, {step}; add.s64 rd2, rd2, out;" + body.removeprefix(LOAD)
    result = kernel(body, params=POINTER).launch(block=32, args=[array, array if "twice" in view else np.zeros(1, np.uint32)])
    assert result.ok
    assert array.ravel(order="K" if view == "transposed" else "C").tolist() == list(range(32))


def test_with_several_workers() -> None:
    before = np.arange(1 << 22, dtype=np.uint32)
    array = before.copy()
    ready = kernel("ld.global.u32 r1, [at]; add.u32 r1, r1, 1; st.global.u32 [at], r1;")
    result = ready.launch(grid=8, block=32, args=[array], workers=2)
    assert result.stats.workers == 2
    assert np.array_equal(array[:256], before[:256] + 1)
    assert np.array_equal(array[256:], before[256:])


ranges = st.lists(st.tuples(st.integers(0, 3), st.integers(0, (1 << 22) - 1), st.integers(1, 1 << 20)), max_size=40)


@settings(deadline=None, max_examples=25)
@given(ranges, st.integers(0, 3))
def test_journal(writes: list[tuple[int, int, int]], reads_only: int) -> None:
    """After any writes: the table has each byte once, what was written may be written, and the state before can be had."""
    rng = np.random.default_rng(0)
    memory = DeviceMemory()
    made = [memory.adopt(rng.integers(0, 256, 1 << 22, np.uint8), str(i), writable=i != reads_only) for i in range(4)]
    before = [each.data.copy() for each in made]
    journal = Journal(memory, made)
    for at, start, size in writes:
        allocation, stop = made[at], min(start + size, 1 << 22)
        if at == reads_only:
            with pytest.raises(Misuse):
                journal.before_write(allocation.base + start, stop - start)
            continue
        journal.before_write(allocation.base + start, stop - start)
        allocation.data[start:stop] ^= 0xFF
    rows = journal.rows[: journal.count].tolist()
    assert rows == sorted(rows)
    for at, each in enumerate(made):
        own = [row for row in rows if each.base <= row[0] < each.base + each.size]
        assert sum(row[1] for row in own) == each.size
        assert all((row[0] - each.base) % ALIGNMENT == 0 and row[0] - each.base == row[2] - own[0][2] for row in own)
        writable = np.concatenate([np.full(row[1], row[3] >> 1 & 1, np.bool_) for row in own])
        assert writable[each.data != before[at]].all()
    copy = journal.memory_before(b"")
    for each, old in zip(made, before, strict=True):
        found = copy.containing(each.base)
        assert found is not None
        assert np.array_equal(found.data, old)
    journal.restore(made)
    assert all(np.array_equal(each.data, old) for each, old in zip(made, before, strict=True))


def test_the_arrays_count_as_memory_of_the_device() -> None:
    device = ptxlab.Device("sm_100a", memory_bytes=1 << 16)
    with pytest.raises(ptxlab.PtxlabError, match="65536 are free"):
        kernel("st.global.u32 [at], 1;").launch(block=32, args=[np.zeros(1 << 15, np.uint32)], device=device)
    assert device.memory.used == 0
