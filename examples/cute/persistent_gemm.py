"""C = A B^T by persistent clusters: each requests, with clusterlaunchcontrol, the tile of a cluster that has not started.

One warp asks, and all warps of the cluster read the answer; the result leaves by TMA while the next tile is multiplied. For sm_100a and
sm_103a: ``ptxlab exec examples/cute/persistent_gemm.py`` runs it without a GPU.
"""

from __future__ import annotations

import sys

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import torch
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator, TmemAllocator, get_num_tmem_alloc_cols
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers as sm100

LOAD_WARP, MMA_WARP, SCHEDULER_WARP = 4, 5, 6
THREADS = 224
ANSWER_BYTES = 16


class PersistentGemm:
    """A [M, K] and B [N, K] K-major, C [M, N] N-major of f16 or bf16; M, N multiples of the tile."""

    def __init__(self, tile=(256, 64, 64), stages=3, ctas=2):
        self.tile, self.stages, self.ctas = tile, stages, ctas
        self.group = tcgen05.CtaGroup.TWO if ctas == 2 else tcgen05.CtaGroup.ONE
        self.cta_tile = (tile[0] // ctas, tile[1])

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        self.types = a.element_type, b.element_type, c.element_type
        mma = sm100.make_trivial_tiled_mma(
            *self.types[:2], OperandMajorMode.K, OperandMajorMode.K, cutlass.Float32, self.group, self.tile[:2]
        )
        cluster = cute.tiled_divide(cute.make_layout((self.ctas, 1, 1)), (mma.thr_id.shape,))
        layouts = (
            sm100.make_smem_layout_a(mma, self.tile, self.types[0], self.stages),
            sm100.make_smem_layout_b(mma, self.tile, self.types[1], self.stages),
            sm100.make_smem_layout_epi(self.types[2], LayoutEnum.ROW_MAJOR, self.cta_tile, 1),
        )
        stage = (None, None, None, 0)
        load, store = cpasync.CopyBulkTensorTileG2SOp(self.group), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, map_a = cute.nvgpu.make_tiled_tma_atom_A(load, a, cute.slice_(layouts[0], stage), self.tile, mma, cluster.shape)
        tma_b, map_b = cute.nvgpu.make_tiled_tma_atom_B(load, b, cute.slice_(layouts[1], stage), self.tile, mma, cluster.shape)
        tma_c, map_c = cpasync.make_tiled_tma_atom(store, c, cute.slice_(layouts[2], (None, None, 0)), self.cta_tile)
        grid = (cute.ceil_div(c.shape[0], self.cta_tile[0]), cute.ceil_div(c.shape[1], self.tile[1]), 1)
        self.kernel(mma, tma_a, map_a, tma_b, map_b, tma_c, map_c, layouts, cluster).launch(
            grid=grid, block=(THREADS, 1, 1), cluster=(self.ctas, 1, 1)
        )

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        tma_a: cute.CopyAtom,
        a: cute.Tensor,
        tma_b: cute.CopyAtom,
        b: cute.Tensor,
        tma_c: cute.CopyAtom,
        c: cute.Tensor,
        layouts: tuple,
        cluster: cute.Layout,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()
        half = row % self.ctas

        smem = SmemAllocator()
        load_barriers = smem.allocate_array(cutlass.Int64, 2 * self.stages)
        sum_barriers = smem.allocate_array(cutlass.Int64, 4)
        work_barriers = smem.allocate_array(cutlass.Int64, 2)
        free_barrier = smem.allocate_array(cutlass.Int64, 1)
        address = smem.allocate(cutlass.Int32)
        answer = smem.allocate(ANSWER_BYTES, 16)
        tiles_a, tiles_b, tile_c = (
            smem.allocate_tensor(kind, layout.outer, byte_alignment=1024, swizzle=layout.inner)
            for kind, layout in zip(self.types, layouts, strict=True)
        )

        stage = (None, None, None, 0)
        bytes_a = cute.size_in_bytes(self.types[0], cute.slice_(layouts[0], stage))
        bytes_b = cute.size_in_bytes(self.types[1], cute.slice_(layouts[1], stage))
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        readers = pipeline.CooperativeGroup(pipeline.Agent.Thread, 128 * self.ctas)
        # Only the scheduler warp of the first CTA sends requests.
        workers = pipeline.CooperativeGroup(pipeline.Agent.Thread, (THREADS - 32) * self.ctas + 32)
        loads = pipeline.PipelineTmaUmma.create(
            num_stages=self.stages, producer_group=one, consumer_group=one, tx_count=self.ctas * (bytes_a + bytes_b),
            barrier_storage=load_barriers, cta_layout_vmnk=cluster, defer_sync=True,
        )  # fmt: skip
        sums = pipeline.PipelineUmmaAsync.create(
            num_stages=2, producer_group=one, consumer_group=readers, barrier_storage=sum_barriers, cta_layout_vmnk=cluster, defer_sync=True
        )
        work = pipeline.PipelineClcFetchAsync.create(
            num_stages=1, producer_group=one, consumer_group=workers, tx_count=ANSWER_BYTES,
            barrier_storage=work_barriers, cta_layout_vmnk=cluster, defer_sync=True,
        )  # fmt: skip
        tmem = TmemAllocator(
            address,
            barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=160),
            is_two_cta=self.ctas == 2,
            two_cta_tmem_dealloc_mbar_ptr=free_barrier,
        )
        pipeline.pipeline_init_arrive(cluster_shape_mn=cluster, is_relaxed=True)
        pipeline.pipeline_init_wait(cluster_shape_mn=cluster)

        part = mma.get_slice(half)
        whole_a = part.partition_A(cute.local_tile(a, cute.slice_(self.tile, (None, 0, None)), (None, None)))
        whole_b = part.partition_B(cute.local_tile(b, cute.slice_(self.tile, (0, None, None)), (None, None)))
        whole_c = cute.local_tile(c, self.cta_tile, (None, None))
        alone = cute.make_layout(1)
        to_a, from_a = cpasync.tma_partition(tma_a, 0, alone, cute.group_modes(tiles_a, 0, 3), cute.group_modes(whole_a, 0, 3))
        to_b, from_b = cpasync.tma_partition(tma_b, 0, alone, cute.group_modes(tiles_b, 0, 3), cute.group_modes(whole_b, 0, 3))
        from_c, to_c = cpasync.tma_partition(tma_c, 0, alone, cute.group_modes(tile_c, 0, 2), cute.group_modes(whole_c, 0, 2))
        steps = cute.size(from_a, mode=[2])
        fragments_a, fragments_b = mma.make_fragment_A(tiles_a), mma.make_fragment_B(tiles_b)
        shape = mma.make_fragment_C(cute.append(mma.partition_shape_C(self.tile[:2]), 2))

        more = cutlass.Int32(1)
        answered = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 1)
        if warp == LOAD_WARP:
            producer = loads.make_producer()
            while more != 0:
                tile_a, tile_b = from_a[(None, row // self.ctas, None)], from_b[(None, column, None)]
                for k in cutlass.range(steps, unroll=1):
                    filled = producer.acquire_and_advance()
                    cute.copy(tma_a, tile_a[(None, k)], to_a[(None, filled.index)], tma_bar_ptr=filled.barrier)
                    cute.copy(tma_b, tile_b[(None, k)], to_b[(None, filled.index)], tma_bar_ptr=filled.barrier)
                row, column, more = self.next_tile(work, answered, answer, half)
                answered.advance()
            producer.tail()
        elif warp == MMA_WARP:
            tmem.wait_for_alloc()
            products = cute.make_tensor(tmem.retrieve_ptr(cutlass.Float32), shape.layout)
            consumer, output = loads.make_consumer(), sums.make_producer()
            while more != 0:
                if half == 0:
                    computed = output.acquire_and_advance()
                    product = products[(None, None, None, computed.index)]
                    mma.set(tcgen05.Field.ACCUMULATE, False)
                    for _ in cutlass.range(steps, unroll=1):
                        filled = consumer.wait_and_advance()
                        for j in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                            at = (None, None, j, filled.index)
                            cute.gemm(mma, product, fragments_a[at], fragments_b[at], product)
                            mma.set(tcgen05.Field.ACCUMULATE, True)
                        filled.release()
                    computed.commit()
                row, column, more = self.next_tile(work, answered, answer, half)
                answered.advance()
            if half == 0:
                output.tail()
        elif warp == SCHEDULER_WARP:
            if rank == 0:
                asked = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 1)
                while more != 0:
                    work.producer_acquire(asked)
                    with cute.arch.elect_one():
                        cute.arch.issue_clc_query(work.producer_get_barrier(asked), answer, multicast=self.ctas > 1)
                    asked.advance()
                    row, column, more = self.next_tile(work, answered, answer, half)
                    answered.advance()
                # The warps of the other CTA arrive on a barrier of this CTA, so this CTA must not exit before.
                work.sync_object_empty.wait(asked.index, asked.phase)
        else:
            tmem.allocate(get_num_tmem_alloc_cols(shape))
            tmem.wait_for_alloc()
            tmem.relinquish_alloc_permit()
            base = tmem.retrieve_ptr(cutlass.Float32)
            products = cute.make_tensor(base, shape.layout)[((None, None), 0, 0, None)]
            load = sm100.get_tmem_load_op(
                (*self.cta_tile, self.tile[2]), LayoutEnum.ROW_MAJOR, self.types[2], cutlass.Float32, self.cta_tile, self.ctas == 2
            )
            read = tcgen05.make_tmem_copy(load, products[(None, None, 0)])
            store = sm100.get_smem_store_op(LayoutEnum.ROW_MAJOR, self.types[2], cutlass.Float32, read)
            write = cute.make_tiled_copy_D(store, read)
            from_tmem, to_tile = read.get_slice(thread).partition_S(products), write.get_slice(thread).partition_D(tile_c)
            values = cute.make_rmem_tensor(read.get_slice(thread).partition_D(whole_c[(None, None, 0, 0)]).shape, cutlass.Float32)
            rounded = cute.make_rmem_tensor(values.shape, self.types[2])
            results = sums.make_consumer()
            while more != 0:
                finished = results.wait_and_advance()
                cute.copy(read, from_tmem[(None, None, None, finished.index)], values)
                cute.arch.fence_view_async_tmem_load()
                finished.release()
                rounded.store(values.load().to(self.types[2]))
                if warp == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                cute.arch.barrier(barrier_id=2, number_of_threads=128)
                cute.copy(write, write.retile(rounded), to_tile[(None, None, None, 0)])
                cute.arch.fence_view_async_shared()
                cute.arch.barrier(barrier_id=2, number_of_threads=128)
                if warp == 0:
                    cute.copy(tma_c, from_c[(None, 0)], to_c[(None, row, column)])
                    cute.arch.cp_async_bulk_commit_group()
                row, column, more = self.next_tile(work, answered, answer, half)
                answered.advance()
            if warp == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.barrier(barrier_id=2, number_of_threads=128)
            tmem.free(base)

    @cute.jit
    def next_tile(self, work, answered, answer, half):
        """Row and column of this CTA's next tile, and whether there is one."""
        work.consumer_wait(answered)
        first, column, _, more = cute.arch.clc_response(answer)
        cute.arch.fence_view_async_shared()
        work.consumer_release(answered)
        return first + half, column, more


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randint(-3, 4, (1024, 192), device=device, dtype=torch.float16)
    b = torch.randint(-3, 4, (256, 192), device=device, dtype=torch.float16)
    c = torch.empty(1024, 256, device=device, dtype=torch.float16)
    tensors = [from_dlpack(x, assumed_align=16) for x in (a, b, c)]
    cute.compile(PersistentGemm(), *tensors)(*tensors)
    same = torch.equal(c.double(), a.double() @ b.double().T)
    print(f"1024 x 256 x 192 by persistent pairs of CTAs: {'ok' if same else 'WRONG'}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
