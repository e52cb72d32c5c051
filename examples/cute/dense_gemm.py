"""C = A B^T on tcgen05, by one CTA or by CTA pairs. Different warps load, multiply and store. For sm_100a and sm_103a.

``ptxlab exec examples/cute/dense_gemm.py`` runs it without a GPU.
"""

from __future__ import annotations

import sys

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import torch
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator, TmemAllocator, get_num_tmem_alloc_cols
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers as sm100

LOAD_WARP, MMA_WARP = 4, 5
THREADS = 192


class DenseGemm:
    """A [M, K] and B [N, K] of one type, either K-major or M- and N-major; C [M, N] in any floating-point type.

    ``tile`` is the size in M and N that the CTAs of one instruction compute, and the size of a stage in K.
    """

    def __init__(self, tile=(128, 128, 64), stages=3, ctas=1, accumulator=cutlass.Float32):
        self.tile, self.stages, self.ctas, self.accumulator = tile, stages, ctas, accumulator
        self.group = tcgen05.CtaGroup.TWO if ctas == 2 else tcgen05.CtaGroup.ONE

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        self.types = a.element_type, b.element_type
        majors = LayoutEnum.from_tensor(a).mma_major_mode(), LayoutEnum.from_tensor(b).mma_major_mode()
        mma = sm100.make_trivial_tiled_mma(*self.types, *majors, self.accumulator, self.group, self.tile[:2])
        cluster = cute.tiled_divide(cute.make_layout((self.ctas, 1, 1)), (mma.thr_id.shape,))
        shared_a = sm100.make_smem_layout_a(mma, self.tile, self.types[0], self.stages)
        shared_b = sm100.make_smem_layout_b(mma, self.tile, self.types[1], self.stages)
        stage = (None, None, None, 0)
        load = cpasync.CopyBulkTensorTileG2SOp(self.group)
        tma_a, map_a = cute.nvgpu.make_tiled_tma_atom_A(load, a, cute.slice_(shared_a, stage), self.tile, mma, cluster.shape)
        tma_b, map_b = cute.nvgpu.make_tiled_tma_atom_B(load, b, cute.slice_(shared_b, stage), self.tile, mma, cluster.shape)
        tiles_m, tiles_n = cute.ceil_div(c.shape[0], self.tile[0]), cute.ceil_div(c.shape[1], self.tile[1])
        self.kernel(mma, tma_a, map_a, tma_b, map_b, c, shared_a, shared_b, cluster).launch(
            grid=(tiles_m * self.ctas, tiles_n, 1), block=(THREADS, 1, 1), cluster=(self.ctas, 1, 1)
        )

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        tma_a: cute.CopyAtom,
        a: cute.Tensor,
        tma_b: cute.CopyAtom,
        b: cute.Tensor,
        c: cute.Tensor,
        layout_a: cute.ComposedLayout,
        layout_b: cute.ComposedLayout,
        cluster: cute.Layout,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        block, column, _ = cute.arch.block_idx()
        row, half = block // self.ctas, block % self.ctas

        smem = SmemAllocator()
        load_barriers = smem.allocate_array(cutlass.Int64, 2 * self.stages)
        sum_barriers = smem.allocate_array(cutlass.Int64, 2)
        free_barrier = smem.allocate_array(cutlass.Int64, 1)
        address = smem.allocate(cutlass.Int32)
        tiles_a = smem.allocate_tensor(self.types[0], layout_a.outer, byte_alignment=1024, swizzle=layout_a.inner)
        tiles_b = smem.allocate_tensor(self.types[1], layout_b.outer, byte_alignment=1024, swizzle=layout_b.inner)

        stage = (None, None, None, 0)
        bytes_a = cute.size_in_bytes(self.types[0], cute.slice_(layout_a, stage))
        bytes_b = cute.size_in_bytes(self.types[1], cute.slice_(layout_b, stage))
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        readers = pipeline.CooperativeGroup(pipeline.Agent.Thread, 128 * self.ctas)
        loads = pipeline.PipelineTmaUmma.create(
            num_stages=self.stages, producer_group=one, consumer_group=one, tx_count=self.ctas * (bytes_a + bytes_b),
            barrier_storage=load_barriers, cta_layout_vmnk=cluster, defer_sync=True,
        )  # fmt: skip
        sums = pipeline.PipelineUmmaAsync.create(
            num_stages=1, producer_group=one, consumer_group=readers, barrier_storage=sum_barriers, cta_layout_vmnk=cluster, defer_sync=True
        )
        tmem = TmemAllocator(
            address,
            barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=160),
            is_two_cta=self.ctas == 2,
            two_cta_tmem_dealloc_mbar_ptr=free_barrier,
        )
        pipeline.pipeline_init_arrive(cluster_shape_mn=cluster, is_relaxed=True)
        pipeline.pipeline_init_wait(cluster_shape_mn=cluster)

        part = mma.get_slice(half)
        whole_a = part.partition_A(cute.local_tile(a, cute.slice_(self.tile, (None, 0, None)), (row, None)))
        whole_b = part.partition_B(cute.local_tile(b, cute.slice_(self.tile, (0, None, None)), (column, None)))
        result = part.partition_C(cute.local_tile(c, self.tile[:2], (row, column)))[((None, None), 0, 0)]
        alone = cute.make_layout(1)
        to_a, from_a = cpasync.tma_partition(tma_a, 0, alone, cute.group_modes(tiles_a, 0, 3), cute.group_modes(whole_a, 0, 3))
        to_b, from_b = cpasync.tma_partition(tma_b, 0, alone, cute.group_modes(tiles_b, 0, 3), cute.group_modes(whole_b, 0, 3))
        steps = cute.size(from_a, mode=[1])
        fragments_a, fragments_b = mma.make_fragment_A(tiles_a), mma.make_fragment_B(tiles_b)
        shape = mma.make_fragment_C(mma.partition_shape_C(self.tile[:2]))

        if warp == LOAD_WARP:
            producer = loads.make_producer()
            for k in cutlass.range(steps, unroll=1):
                filled = producer.acquire_and_advance()
                cute.copy(tma_a, from_a[(None, k)], to_a[(None, filled.index)], tma_bar_ptr=filled.barrier)
                cute.copy(tma_b, from_b[(None, k)], to_b[(None, filled.index)], tma_bar_ptr=filled.barrier)
            producer.tail()
        if warp == MMA_WARP:
            tmem.wait_for_alloc()
            product = cute.make_tensor(tmem.retrieve_ptr(self.accumulator), shape.layout)
            if half == 0:
                consumer, output = loads.make_consumer(), sums.make_producer()
                computed = output.acquire_and_advance()
                mma.set(tcgen05.Field.ACCUMULATE, False)
                for _ in cutlass.range(steps, unroll=1):
                    filled = consumer.wait_and_advance()
                    for j in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                        at = (None, None, j, filled.index)
                        cute.gemm(mma, product, fragments_a[at], fragments_b[at], product)
                        mma.set(tcgen05.Field.ACCUMULATE, True)
                    filled.release()
                computed.commit()
                output.tail()
        if warp < 4:
            tmem.allocate(get_num_tmem_alloc_cols(shape))
            tmem.wait_for_alloc()
            tmem.relinquish_alloc_permit()
            base = tmem.retrieve_ptr(self.accumulator)
            accumulated = cute.make_tensor(base, shape.layout)[((None, None), 0, 0)]
            read = tcgen05.make_tmem_copy(
                sm100.get_tmem_load_op(
                    (self.tile[0] // self.ctas, *self.tile[1:]), LayoutEnum.ROW_MAJOR, c.element_type, self.accumulator,
                    (self.tile[0] // self.ctas, self.tile[1]), self.ctas == 2,
                ),
                accumulated,
            ).get_slice(thread)  # fmt: skip
            target = read.partition_D(result)
            values = cute.make_rmem_tensor(target.shape, self.accumulator)
            finished = sums.make_consumer().wait_and_advance()
            cute.copy(read, read.partition_S(accumulated), values)
            cute.arch.fence_view_async_tmem_load()
            rounded = cute.make_rmem_tensor(target.shape, c.element_type)
            rounded.store(values.load().to(c.element_type))
            cute.autovec_copy(rounded, target)
            finished.release()
            cute.arch.barrier(barrier_id=2, number_of_threads=128)
            tmem.free(base)


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randint(-4, 5, (512, 256), device=device, dtype=torch.float16)
    b = torch.randint(-4, 5, (256, 256), device=device, dtype=torch.float16)
    c = torch.empty(512, 256, device=device, dtype=torch.float32)
    tensors = [from_dlpack(x, assumed_align=16) for x in (a, b, c)]
    wrong = 0
    for gemm in (DenseGemm((128, 128, 64)), DenseGemm((256, 128, 64), ctas=2)):
        c.zero_()
        cute.compile(gemm, *tensors)(*tensors)
        same = torch.equal(c.double(), a.double() @ b.double().T)
        print(f"512 x 256 x 256 by {gemm.ctas} CTA{'s' * (gemm.ctas > 1)}: {'ok' if same else 'WRONG'}")
        wrong |= not same
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
