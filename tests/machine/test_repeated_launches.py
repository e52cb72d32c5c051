"""A kernel that is launched again: what is kept from launch to launch, and what is made only when it is needed."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.launch import program_facts
from ptxlab.machine.launch.program_facts import facts_of, uses_tensor_memory
from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.warp.warp import Warp

from .launch_helpers import kernel, store

KERNELS = Path(__file__).parents[1] / "end_to_end"
IN_TENSOR_MEMORY = {"alloc", "dealloc", "ld", "st", "cp", "shift", "mma"}
"""The instructions tcgen05.X that access tensor memory or allocate it."""
SIZES = "mov.u32 r1, %nctaid.x; mad.lo.u32 r1, r1, 1000, size;" + store("r1")


def test_a_launch_follows_what_it_is_given_not_the_launch_before() -> None:
    made = kernel(SIZES)
    for grid, block in ((1, 32), (1, 32), (2, 32), (1, 64), (1, 32)):
        out = np.zeros(grid * block, np.uint32)
        assert made.launch(grid=grid, block=block, args=[out]).ok
        assert (out == 1000 * grid + block).all()


@pytest.mark.parametrize("check", ["none", "all"])
def test_shared_memory_holds_nothing_of_the_launch_before(check: str) -> None:
    """Word 0 of thread t is stored or not, then read: what was not written in this launch is what it is in the first launch."""
    body = """
    mov.u32 r3, buffer; mad.lo.u32 r3, tid, 4, r3;
    .reg .pred narrow;
    setp.ne.u32 narrow, size, 64;
    @narrow st.shared.u32 [r3], 7;
    ld.shared.u32 r1, [r3];
    """
    made = kernel(body + store("r1"), shared=".shared .b32 buffer[64];")

    def launch(block: int) -> tuple[list[int], list[str], int]:
        out = np.zeros(block, np.uint32)
        result = made.launch(block=block, args=[out], check=check)
        return out.tolist(), [d.code for d in result.diagnostics], result.stats.instructions

    first, written, again = launch(64), launch(32), launch(64)
    assert first == again
    assert written[0] == [7] * 32
    assert 7 not in again[0]


def test_shared_memory_of_another_size_is_made_anew() -> None:
    made = kernel("mov.u32 r1, %dynamic_smem_size;" + store("r1"))
    for size in (1024, 4096, 1024, 0):
        out = np.zeros(32, np.uint32)
        assert made.launch(block=32, shared_bytes=size, args=[out]).ok
        assert (out == size).all()


@pytest.mark.parametrize(
    ("name", "good", "wrong", "code"), [("grid", 1, 1.0, "A308"), ("grid", 1, True, "A308"), ("seed", 1, True, "A310")]
)
def test_an_option_equal_to_a_good_one_is_refused_all_the_same(name: str, good: object, wrong: object, code: str) -> None:
    made, out = kernel(SIZES), np.zeros(32, np.uint32)
    assert made.launch(**{"grid": 1, "block": 32, "args": [out], name: good}).ok  # type: ignore[arg-type]
    with pytest.raises(ptxlab.PtxlabError) as refused:
        made.launch(**{"grid": 1, "block": 32, "args": [out], name: wrong})  # type: ignore[arg-type]
    assert [d.code for d in refused.value.diagnostics] == [code]


def test_an_object_that_changes_is_read_at_each_launch() -> None:
    class Blocks:
        number = 1

        def __index__(self) -> int:
            return self.number

        __int__ = __index__

    made, blocks = kernel(SIZES), Blocks()
    for blocks.number in (1, 2, 3):
        out = np.zeros(96, np.uint32)
        assert made.launch(grid=blocks, block=32, args=[out]).ok
        assert (out[: 32 * blocks.number] == 1000 * blocks.number + 32).all()
        assert not out[32 * blocks.number :].any()


def test_ctas_that_are_named_by_an_iterator_are_those_of_this_launch() -> None:
    def only(*ctas: int) -> Iterator[tuple[int]]:
        yield from ((cta,) for cta in ctas)

    made = kernel(SIZES)
    for ctas in ((0,), (2, 1), (0,)):
        out = np.zeros(96, np.uint32)
        assert made.launch(grid=3, block=32, args=[out], only=only(*ctas)).ok
        assert set(np.flatnonzero(out) // 32) == set(ctas)


def test_sms_take_ctas_in_order_and_clusters_neighbours() -> None:
    made = kernel("mov.u32 r1, %smid;" + store("r1"))

    def sms(ctas: int, cluster: int, sms: int, per_sm: int) -> list[int]:
        out = np.zeros(32 * ctas, np.uint32)
        device = ptxlab.Device("sm_100a", sms=sms, ctas_per_sm=per_sm)
        # A random order starts all clusters that fit before one runs.
        result = made.launch(grid=ctas, block=32, cluster=cluster, args=[out], device=device, policy="random")
        assert result.ok
        return [int(sm) for sm in out[::32]]

    assert sms(4, 1, 8, 2) == [0, 1, 2, 3]
    assert sms(6, 1, 3, 2) == [0, 1, 2, 0, 1, 2]
    assert sms(8, 2, 5, 2) == [0, 1, 2, 3, 0, 1, 2, 3]  # no cluster has the fifth SM
    with pytest.raises(ptxlab.PtxlabError, match=r"a cluster of 4 CTAs does not fit on a device with 3 SMs"):
        sms(4, 4, 3, 1)


@pytest.mark.parametrize(
    "name", ["triton/gl_mm_2cta_fp16", "triton/gl_mm_a_in_tmem_fp16", "triton/flash_fp16", "triton_sm90/sm90_flash_fp16"]
)
def test_which_instructions_use_tensor_memory(name: str) -> None:
    program = ptxlab.load(KERNELS / f"{name}.ptx").kernel().program
    every = list(program.ops)
    for op in every:
        program.ops = [op]
        first, second, *_ = (*op.opcode.split("."), "")
        assert uses_tensor_memory(program) == (first == "tcgen05" and second in IN_TENSOR_MEMORY), op.opcode
    program.ops = every


def test_programs_that_share_an_executable_have_their_own_services() -> None:
    """The mutation benchmark changes services and compiles nothing again."""
    text = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { nanosleep.u32 1; bar.sync 0; ret; }"
    program, executable = ptxlab.loads(text).kernel().variant(False, False)
    (place,) = [i for i, op in enumerate(program.ops) if op.opcode.startswith("bar")]

    def changed(warp: object) -> None:
        raise NotImplementedError

    ops = list(program.ops)
    ops[place] = replace(ops[place], row=replace(ops[place].row, semantics=changed))
    assert facts_of(program, executable).handlers[place] is program.ops[place].row.semantics
    assert facts_of(replace(program, ops=ops), executable).handlers[place] is changed
    assert facts_of(program, executable).handlers[place] is program.ops[place].row.semantics


def test_what_a_launch_has_made_goes_when_it_ends() -> None:
    """It does not wait until Python looks for cycles: a program may launch often."""

    def living() -> list[object]:
        return [one for one in gc.get_objects() if isinstance(one, Scheduler | Warp)]

    made, out = kernel(SIZES), np.zeros(64, np.uint32)
    gc.collect()
    gc.disable()
    try:
        before = len(living())
        assert made.launch(grid=2, block=32, args=[out]).ok
        assert len(living()) == before
    finally:
        gc.enable()


def test_ctas_that_have_ended_wait_for_no_collection() -> None:
    """A CTA and its cluster refer to each other; without an observer nobody asks for the CTAs of a cluster that has ended."""
    made, out = kernel(SIZES), np.zeros(64 * 32, np.uint32)
    assert made.launch(grid=64, block=32, args=[out], check="none").ok
    gc.collect()
    gc.disable()
    try:
        assert made.launch(grid=64, block=32, args=[out], check="none").ok
        assert gc.collect() < 64
    finally:
        gc.enable()


def test_mbarriers_of_an_earlier_launch_are_not_there_in_a_later_one() -> None:
    """The phase of the mbarrier is over in the first launch; in the second one nothing has initialised it."""
    body = """
    .reg .pred initialises, waited;
    mov.u32 r3, buffer;
    setp.eq.u32 initialises, size, 32;
    @initialises mbarrier.init.shared.b64 [r3], 32;
    bar.sync 0;
    @initialises mbarrier.arrive.shared.b64 _, [r3];
    mbarrier.test_wait.parity.shared.b64 waited, [r3], 0;
    selp.u32 r1, 1, 0, waited;
    """
    made = kernel(body + store("r1"), shared=".shared .align 8 .b64 buffer;")
    for block in (32, 64, 32):
        out = np.zeros(block, np.uint32)
        result = made.launch(block=block, args=[out], check="none")
        assert (result.completed, bool(out.all())) == (block == 32, block == 32)


def test_options_that_are_gone_are_not_kept() -> None:
    """What launches with the same options begin with does not refer to the options: they may hold objects of the program."""

    class Progress:
        def __call__(self, ended: int, ctas: int) -> None:
            """Progress of a launch."""

    made, progress = kernel(SIZES), Progress()
    for shown in (progress, None):
        assert made.launch(block=32, args=[np.zeros(32, np.uint32)], progress=shown).ok
    gone = ref(progress)
    del progress, shown
    assert gone() is None


def test_launches_of_threads_have_frames_of_their_own() -> None:
    """Frames of warps that have ended are used by later launches of the program, each by one at a time."""
    made = kernel(SIZES)

    def launch(number: int) -> bool:
        grid, block = 1 + number % 3, 32 * (1 + number % 5)
        out = np.zeros(grid * block, np.uint32)
        return bool(made.launch(grid=grid, block=block, args=[out]).ok and (out == 1000 * grid + block).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(launch, range(200)))


def test_another_thread_takes_what_a_launch_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so after this one has seen that there is something."""

    class Taken(deque[Any]):
        def __bool__(self) -> bool:
            return True

    monkeypatch.setattr(program_facts, "deque", Taken)
    out = np.zeros(64, np.uint32)
    assert kernel(SIZES).launch(grid=2, block=32, args=[out]).ok
    assert (out == 2032).all()


def test_registers_of_an_earlier_launch_are_not_defined_in_a_later_one() -> None:
    made = kernel("setp.eq.u32 p, size, 32; @p mov.u32 r1, 7;" + store("r1"))
    for size in (32, 64, 32, 64):
        out = np.zeros(size, np.uint32)
        result = made.launch(block=size, args=[out])
        assert [d.code for d in result.diagnostics] == ([] if size == 32 else ["R808"])
        if size == 32:
            assert (out == 7).all()
