"""TMA reductions of CuTe DSL: one thread of a warp copies, commits and waits apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cutlass
import cutlass.cute as cute_dsl
import numpy as np
import pytest
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

from ptxlab.interop import cute

from .cute_helpers import integers

TILE = (16, 32)


class Reduce:
    """C [16, N] = the reduction over all blocks of 16 rows of A [M, N], and of C."""

    def __init__(self, kind: str) -> None:
        self.kind = cute_dsl.ReductionKind[kind]

    @cute_dsl.jit
    def __call__(self, a: cute_dsl.Tensor, c: cute_dsl.Tensor):  # type: ignore[no-untyped-def]
        self.element = a.element_type
        layout = cute_dsl.make_layout(TILE, stride=(TILE[1], 1))
        load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout, TILE)
        reduce, target = cpasync.make_tiled_tma_atom(cpasync.CopyReduceBulkTensorTileS2GOp(self.kind), c, layout, TILE)
        grid = (a.shape[0] // TILE[0], a.shape[1] // TILE[1], 1)
        self.kernel(load, source, reduce, target, layout).launch(grid=grid, block=(32, 1, 1))

    @cute_dsl.kernel
    def kernel(  # type: ignore[no-untyped-def]
        self, load: cute_dsl.CopyAtom, a: cute_dsl.Tensor, reduce: cute_dsl.CopyAtom, c: cute_dsl.Tensor, layout: cute_dsl.Layout
    ):
        row, column, _ = cute_dsl.arch.block_idx()
        smem = SmemAllocator()
        barrier = smem.allocate_array(cutlass.Int64, 1)
        tile = smem.allocate_tensor(self.element, layout, 128)
        with cute_dsl.arch.elect_one():
            cute_dsl.arch.mbarrier_init(barrier, 1)
        cute_dsl.arch.mbarrier_init_fence()
        cute_dsl.arch.sync_warp()
        alone, shared = cute_dsl.make_layout(1), cute_dsl.group_modes(tile, 0, 2)
        whole_a, whole_c = cute_dsl.local_tile(a, TILE, (row, column)), cute_dsl.local_tile(c, TILE, (0, column))
        to_tile, from_a = cpasync.tma_partition(load, 0, alone, shared, cute_dsl.group_modes(whole_a, 0, 2))
        from_tile, to_c = cpasync.tma_partition(reduce, 0, alone, shared, cute_dsl.group_modes(whole_c, 0, 2))
        with cute_dsl.arch.elect_one():
            cute_dsl.arch.mbarrier_arrive_and_expect_tx(barrier, cute_dsl.size_in_bytes(self.element, layout))
        cute_dsl.copy(load, from_a, to_tile, tma_bar_ptr=barrier)
        cute_dsl.arch.mbarrier_wait(barrier, 0)
        cute_dsl.copy(reduce, from_tile, to_c)
        cute_dsl.arch.cp_async_bulk_commit_group()
        cute_dsl.arch.cp_async_bulk_wait_group(0)


CASES = {
    "ADD f32": ("ADD", np.float32, np.add),
    "ADD f16": ("ADD", np.float16, np.add),
    "MAX s32": ("MAX", np.int32, np.maximum),
    "MIN s32": ("MIN", np.int32, np.minimum),
    "OR b32": ("OR", np.uint32, np.bitwise_or),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reductions(case: tuple[str, Any, Any], policies: Sequence[dict[str, Any]]) -> None:
    kind, dtype, combine = case
    a, before = integers(1, (64, 64), dtype, 0, 9), integers(2, (16, 64), dtype, 0, 9)
    expected = combine.reduce([before, *a.reshape(4, 16, 64)])
    compiled = cute.compile(Reduce(kind), a, before)
    for policy in policies:
        c = before.copy()
        result = compiled.launch(a, c, check="all", **policy)
        assert [str(d) for d in result.diagnostics if d.severity == "error"] == []
        assert result.ok
        np.testing.assert_array_equal(c, expected)
