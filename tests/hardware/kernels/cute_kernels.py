"""Kernels in CuTe DSL for sm_90a, compiled by ``build.py``; the GEMM on wgmma is that of ``examples/cute/hopper_gemm.py``."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.memory import SmemAllocator

THREADS = 128
TILE = (32, 64)


class Move:
    """C = A, tile by tile through shared memory with 128B swizzling, in reverse order of the tiles of a row."""

    @cute.jit
    def __call__(self, a: cute.Tensor, c: cute.Tensor):
        self.element = a.element_type
        layout = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, cute.make_layout(TILE, stride=(TILE[1], 1)))
        load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout, TILE)
        store, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), c, layout, TILE)
        grid = (a.shape[0] // TILE[0], a.shape[1] // TILE[1], 1)
        self.kernel(load, source, store, target, layout).launch(grid=grid, block=(32, 1, 1))

    @cute.kernel
    def kernel(self, load: cute.CopyAtom, a: cute.Tensor, store: cute.CopyAtom, c: cute.Tensor, layout: cute.ComposedLayout):
        row, column, _ = cute.arch.block_idx()
        _, columns, _ = cute.arch.grid_dim()
        smem = SmemAllocator()
        barrier = smem.allocate_array(cutlass.Int64, 1)
        tile = smem.allocate_tensor(self.element, layout.outer, 1024, swizzle=layout.inner)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_warp()
        alone, shared = cute.make_layout(1), cute.group_modes(tile, 0, 2)
        whole_a, whole_c = cute.local_tile(a, TILE, (row, column)), cute.local_tile(c, TILE, (row, columns - 1 - column))
        to_tile, from_a = cpasync.tma_partition(load, 0, alone, shared, cute.group_modes(whole_a, 0, 2))
        from_tile, to_c = cpasync.tma_partition(store, 0, alone, shared, cute.group_modes(whole_c, 0, 2))
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, cute.size_in_bytes(self.element, layout))
        cute.copy(load, from_a, to_tile, tma_bar_ptr=barrier)
        cute.arch.mbarrier_wait(barrier, 0)
        cute.copy(store, from_tile, to_c)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)


class Reduce:
    """C [32, N] = the reduction over all blocks of 32 rows of A [M, N], and of C."""

    def __init__(self, kind: str):
        self.kind = cute.ReductionKind[kind]

    @cute.jit
    def __call__(self, a: cute.Tensor, c: cute.Tensor):
        self.element = a.element_type
        layout = cute.make_layout(TILE, stride=(TILE[1], 1))
        load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout, TILE)
        reduce, target = cpasync.make_tiled_tma_atom(cpasync.CopyReduceBulkTensorTileS2GOp(self.kind), c, layout, TILE)
        grid = (a.shape[0] // TILE[0], a.shape[1] // TILE[1], 1)
        self.kernel(load, source, reduce, target, layout).launch(grid=grid, block=(32, 1, 1))

    @cute.kernel
    def kernel(self, load: cute.CopyAtom, a: cute.Tensor, reduce: cute.CopyAtom, c: cute.Tensor, layout: cute.Layout):
        row, column, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        barrier = smem.allocate_array(cutlass.Int64, 1)
        tile = smem.allocate_tensor(self.element, layout, 128)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_warp()
        alone, shared = cute.make_layout(1), cute.group_modes(tile, 0, 2)
        whole_a, whole_c = cute.local_tile(a, TILE, (row, column)), cute.local_tile(c, TILE, (0, column))
        to_tile, from_a = cpasync.tma_partition(load, 0, alone, shared, cute.group_modes(whole_a, 0, 2))
        from_tile, to_c = cpasync.tma_partition(reduce, 0, alone, shared, cute.group_modes(whole_c, 0, 2))
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, cute.size_in_bytes(self.element, layout))
        cute.copy(load, from_a, to_tile, tma_bar_ptr=barrier)
        cute.arch.mbarrier_wait(barrier, 0)
        cute.copy(reduce, from_tile, to_c)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)


class Transpose:
    """C = A^T in tiles of 32 x 32 through padded shared memory."""

    @cute.jit
    def __call__(self, a: cute.Tensor, c: cute.Tensor):
        self.kernel(a, c).launch(grid=(a.shape[0] // 32, a.shape[1] // 32, 1), block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, a: cute.Tensor, c: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        tile = smem.allocate_tensor(a.element_type, cute.make_layout((32, 32), stride=(33, 1)), 16)
        source, target = cute.local_tile(a, (32, 32), (row, column)), cute.local_tile(c, (32, 32), (column, row))
        for i in cutlass.range_constexpr(32 * 32 // THREADS):
            at = i * THREADS + thread
            tile[at // 32, at % 32] = source[at // 32, at % 32]
        cute.arch.sync_threads()
        for i in cutlass.range_constexpr(32 * 32 // THREADS):
            at = i * THREADS + thread
            target[at // 32, at % 32] = tile[at % 32, at // 32]


class Normalise:
    """Rows divided by their root mean square, a warp for each; the root is rounded correctly, the sum is a butterfly."""

    @cute.jit
    def __call__(self, a: cute.Tensor, c: cute.Tensor, epsilon: cutlass.Float32):
        self.kernel(a, c, epsilon).launch(grid=(a.shape[0] // 4, 1, 1), block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, a: cute.Tensor, c: cute.Tensor, epsilon: cutlass.Float32):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row, lane = block * 4 + thread // 32, thread % 32
        total = cutlass.Float32(0)
        for i in cutlass.range_constexpr(a.shape[1] // 32):
            value = a[row, 32 * i + lane].to(cutlass.Float32)
            total = total + value * value
        for i in cutlass.range_constexpr(5):
            total = total + cute.arch.shuffle_sync_bfly(total, offset=1 << i)
        root = cute.math.sqrt(total * cutlass.Float32(1 / a.shape[1]) + epsilon)
        for i in cutlass.range_constexpr(a.shape[1] // 32):
            c[row, 32 * i + lane] = (a[row, 32 * i + lane].to(cutlass.Float32) / root).to(c.element_type)


class WarpGemm:
    """C = A B^T with mma.sync of f16: tiles of 64 x 64, K in steps of 32, ldmatrix from shared memory."""

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        op = warp.MmaF16BF16Op(a.element_type, cutlass.Float32, (16, 8, 16))
        mma = cute.make_tiled_mma(op, cute.make_layout((2, 2, 1)), permutation_mnk=(32, 32, 16))
        self.kernel(mma, a, b, c).launch(grid=(a.shape[0] // 64, b.shape[0] // 64, 1), block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, mma: cute.TiledMma, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        padded = cute.make_layout((64, 32), stride=(40, 1))
        tile_a, tile_b = smem.allocate_tensor(a.element_type, padded, 16), smem.allocate_tensor(b.element_type, padded, 16)
        part = mma.get_slice(thread)
        target = part.partition_C(cute.local_tile(c, (64, 64), (row, column)))
        product = mma.make_fragment_C(target)
        product.fill(0.0)
        fragment_a, fragment_b = mma.make_fragment_A(part.partition_A(tile_a)), mma.make_fragment_B(part.partition_B(tile_b))
        load = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), a.element_type)
        load_a, load_b = cute.make_tiled_copy_A(load, mma), cute.make_tiled_copy_B(load, mma)
        from_a, from_b = load_a.get_slice(thread).partition_S(tile_a), load_b.get_slice(thread).partition_S(tile_b)
        to_a, to_b = load_a.retile(fragment_a), load_b.retile(fragment_b)
        for k in cutlass.range(a.shape[1] // 32, unroll=1):
            whole_a, whole_b = cute.local_tile(a, (64, 32), (row, k)), cute.local_tile(b, (64, 32), (column, k))
            for i in cutlass.range_constexpr(64 * 32 // THREADS):
                at = i * THREADS + thread
                tile_a[at // 32, at % 32] = whole_a[at // 32, at % 32]
                tile_b[at // 32, at % 32] = whole_b[at // 32, at % 32]
            cute.arch.sync_threads()
            cute.copy(load_a, from_a, to_a)
            cute.copy(load_b, from_b, to_b)
            cute.gemm(mma, product, fragment_a, fragment_b, product)
            cute.arch.sync_threads()
        cute.autovec_copy(product, target)
