"""A kernel that executes lists of copies of contiguous bytes, one list for each warp, and launches of it with and without repetition."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.isa.bulk import _linear
from tests.repetition_helpers import both_ways, note_handled

from .box_step_helpers import MOST, SIZE, STEPS, TENSOR, Step, text_of

HANDLED: list[int] = []
"""The lines of the instructions that the handler has executed, for each lane: a test module notes them."""
BYTES = 32768
"""Of the array in global memory."""
FORM = "cp.async.bulk.{direction}.mbarrier::complete_tx::bytes{more}"
LOAD = FORM.format(direction="shared::{space}.global", more="{multicast} [dst], [m], c1, [bar]{mask};")
SOURCE = "mov.u32 r1, buffer; add.u32 r1, r1, c0;"
COMMIT = "cp.async.bulk.commit_group;"
LINE_STEPS = {
    "load": LOAD.format(space="cta", multicast="", mask=""),
    "load anywhere": LOAD.format(space="cluster", multicast="", mask=""),
    "multicast": LOAD.format(space="cluster", multicast=".multicast::cluster", mask=", ctas"),
    "exchange": f"{SOURCE} cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [dst], [r1], c1, [bar];",
    "sum": f"{SOURCE} cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [dst], [r1], c1, [bar];",
    "maximum": f"{SOURCE} cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.s32 [dst], [r1], c1, [bar];",
    "load of each lane": f"mad.lo.u32 c1, lane, 16, c1; {LOAD.format(space='cta', multicast='', mask='')}",
    **{kind: STEPS[kind] for kind in ("expect", "arrive", "wait", "overwrite", "invalidate", "exit")},
    "store": f"cp.async.bulk.global.shared::cta.bulk_group [m], [dst], c1; {COMMIT}",
    "store of each lane": f"mad.lo.u32 c1, lane, 16, c1; cp.async.bulk.global.shared::cta.bulk_group [m], [dst], c1; {COMMIT}",
    "store some bytes": f"cp.async.bulk.global.shared::cta.bulk_group.cp_mask [m], [dst], c1, ctas; {COMMIT}",
    "reduce": f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [m], [dst], c1; {COMMIT}",
    "wait for stores": "cp.async.bulk.wait_group 0;",
    "fence": "fence.proxy.async;",
    "write": "st.shared.u32 [dst], n;",
    "read": "ld.shared.u32 v, [dst]; st.global.u32 [m], v;",
}
KINDS = {name: number for number, name in enumerate(LINE_STEPS)}
LOADS = tuple(KINDS)[:7]
STORES = ("store", "store of each lane", "store some bytes", "reduce")
PLACES = """
cvt.s64.s32 m, c0; add.u64 m, m, maps; mul.lo.u32 r1, lane, which; cvt.u64.u32 rd1, r1; add.u64 m, m, rd1; add.u32 dst, dst, r1;
"""
"""Each lane has its own part of both memories, ``which`` bytes behind that of the lane before."""


@cache
def kernel() -> ptxlab.Kernel:
    return ptxlab.loads(text_of(LINE_STEPS, PLACES)).kernel()


def step(kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: int = 0, size: int = 0, lanes: int = 1, apart: int = 0) -> Step:
    """``at``: the place in global memory, or that of the source in shared memory; ``apart``: the distance of the parts of lanes."""
    return KINDS[kind], dst, bar, amount, at & 0xFFFFFFFF, size, lanes, apart


def inputs() -> NDArray[np.uint8]:
    return np.random.default_rng(3).integers(0, 256, BYTES, np.uint8)


def launch(lists: dict[tuple[int, int], list[Step]], arrivals: int = 1, **options: Any) -> tuple[NDArray[np.uint8], ptxlab.Result]:
    """Run lists of steps by CTA and warp; the contents of shared memory and of the array."""
    table = np.zeros((2, 2, MOST, 8), np.uint32)
    for (cta, warp), steps in lists.items():
        table[cta, warp, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 8)
    device = ptxlab.Device("sm_100a")
    held, out = device.array(inputs()), np.zeros((2, SIZE), np.uint8)
    unused = ptxlab.TensorMap(device.array(TENSOR), box=(64, 8), swizzle="128B")
    args = [unused, unused, held, table, max(map(len, lists.values())), arrivals, out]
    result = kernel().launch(grid=2, block=64, cluster=2, args=args, device=device, **{"check": "none", **options})
    return np.hstack([out.reshape(-1), held.numpy()]), result


def both(lists: dict[tuple[int, int], list[Step]], arrivals: int = 1, **options: Any) -> tuple[NDArray[np.uint8], ptxlab.Result, int]:
    """What a launch gives, which is the same if the handler executes each copy; and how often the handler copies for a lane."""
    (out,), result, handled, _ = both_ways(lambda: launch(lists, arrivals, **options), HANDLED)
    return out, result, len(handled)


def fresh() -> None:
    """Forget what earlier launches have told compiled code."""
    kernel.cache_clear()


@pytest.fixture
def count_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note what the handler copies."""
    note_handled(monkeypatch, _linear, "start", HANDLED)
    HANDLED.clear()
