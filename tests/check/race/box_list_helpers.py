"""Lists of steps on boxes under the race check: what compiled code copies at once, and the kernel whose lists change what copies read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.bulk import _tensor
from tests.isa.bulk import box_step_helpers as boxes
from tests.optimised_helpers import optimise_race_check

from .test_compiled_arrivals import outcome
from .test_compiled_waits import calls_of

__all__ = [
    "ACCESS_SOURCE",
    "MOST",
    "TABLE",
    "TURNS",
    "WRITE_SOURCE",
    "Lists",
    "_at_once",
    "element",
    "fenced",
    "handled",
    "in_each_turn",
    "kernel_of_sources",
    "run_sources",
    "table_of",
]

TABLE = "_table_of_repetitions"
MOST = 64
"""The steps of a warp of `kernel_of_sources`."""
TURNS = 6
"""Those of `in_each_turn`."""
_SOURCE = "ld.param.u64 rd1, [p_source]; cvt.u64.u32 rd2, amount; add.u64 rd1, rd1, rd2;"
WRITE_SOURCE = f"{_SOURCE} st.global.u32 [rd1], amount;"
ACCESS_SOURCE = {
    "write": "st.shared.u32 [dst], amount; fence.proxy.async;",
    "read": "ld.shared.u32 v, [dst];",
    "read tensor": f"{_SOURCE} ld.global.u32 v, [rd1];",
    "write tensor": WRITE_SOURCE,
}
"""Steps of threads on what copies read and write."""

Lists = dict[tuple[int, int], list[boxes.Step]]
"""Steps by CTA and warp; each cluster executes them."""


def element(row: int, column: int) -> int:
    """Where an element is in the tensor, in bytes."""
    return 512 * row + 2 * column


def in_each_turn(
    step: Callable[..., boxes.Step], kind: str, places: Sequence[tuple[int, int]], amount: int = 0, expected: int = 1
) -> list[boxes.Step]:
    """Steps, made by ``step``, which copy one box in each turn to shared memory, and wait for so many."""
    found = []
    for turn in range(TURNS):
        begin = [step("expect", amount=expected * boxes.BOX), step("arrive")]
        found += [*begin, step(kind, amount=amount, at=places[turn % len(places)]), step("wait", amount=turn & 1)]
    return found


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> None:
    """Copy although functions are not optimised yet."""
    optimise_race_check()


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The copies and stores of lanes that Python has handled."""
    return calls_of(monkeypatch, _tensor, "_prepare")


def table_of(lists: Lists, clusters: int, most: int) -> Any:
    """Lists of so many steps as the kernel reads them."""
    table = np.zeros((clusters, 2, 2, most, 8), np.uint32)
    for (cta, warp), steps in lists.items():
        table[:, cta, warp, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 8)
    return table


def fenced(text: str) -> ptxlab.Kernel:
    """A kernel that clears shared memory for copies, too."""
    return ptxlab.loads(text.replace("fence.mbarrier_init", "fence.proxy.async; fence.mbarrier_init")).kernel()


def kernel_of_sources(steps: dict[str, str]) -> ptxlab.Kernel:
    """A kernel whose steps may write what copies read: the tensor, and tensor maps in memory."""
    text = boxes.text_of(steps, boxes.MAPS).replace(f"r1, {boxes.MOST * 32};", f"r1, {MOST * 32};")
    return fenced(text.replace(".param .u64 p_out)", ".param .u64 p_out, .param .u64 p_source)"))


def run_sources(kernel: ptxlab.Kernel, lists: Lists, clusters: int = 1, check: str = "race", unwritten: int = 64, **options: Any) -> Any:
    """What a launch of such a kernel gives; nothing has written the rows of the tensor from ``unwritten`` on."""
    table = table_of(lists, clusters, MOST)
    device = ptxlab.Device("sm_100a")
    tensors = [device.array(each) for each in (boxes.TENSOR, boxes.BYTES)]
    if unwritten < len(boxes.TENSOR):
        tensors[0], rows = device.empty(boxes.TENSOR.shape, np.float16), boxes.TENSOR[:unwritten].view(np.uint8).reshape(-1)
        device.memory.view(tensors[0].address, rows.size, write=True)[:] = rows
        device.memory.define(tensors[0].address, rows.size)
    maps = boxes.tensor_maps(*tensors)
    in_memory = np.stack([np.frombuffer(bytes(each), np.uint8) for each in maps])
    out: Any = np.zeros((2 * clusters, boxes.SIZE), np.uint8)
    args = [maps[0], maps[1], in_memory, table, max(map(len, lists.values())), 1, out, tensors[0]]
    result = kernel.launch(grid=2 * clusters, block=64, cluster=2, args=args, device=device, check=check, **options)
    held = [device.memory.view(each.address, each.nbytes).tobytes() for each in tensors]
    undefined = b"".join(b"" if each.mirror is None else each.mirror.bits.tobytes() for each in device.memory.live())
    return outcome(result, out.tobytes(), *held, undefined)
