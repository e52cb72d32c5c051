"""C = A B^T on wgmma: two warpgroups multiply, one warp loads, and the CTAs of a cluster share the tiles of B by multicast. For sm_90a.

``ptxlab exec --target sm_90a examples/cute/hopper_gemm.py`` runs it without a GPU.
"""

from __future__ import annotations

import sys

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import torch
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as sm90

MATH_WARPS = 8
THREADS = 32 * (MATH_WARPS + 1)


class HopperGemm:
    """A [M, K] and B [N, K] of one type, C [M, N] of f32; M a multiple of 128 times the cluster, N of the tile size."""

    def __init__(self, tile=(128, 64, 64), stages=3, cluster=2):
        self.tile, self.stages, self.cluster = tile, stages, cluster

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        self.types = a.element_type, b.element_type
        m, n, k = self.tile
        of_a, of_b = LayoutEnum.from_tensor(a), LayoutEnum.from_tensor(b)
        majors = of_a.sm90_mma_major_mode(), of_b.sm90_mma_major_mode()
        mma = sm90.make_trivial_tiled_mma(*self.types, *majors, cutlass.Float32, (2, 1, 1), (64, n))
        layout_a = sm90.make_smem_layout_a(of_a, self.tile, self.types[0], self.stages)
        layout_b = sm90.make_smem_layout_b(of_b, self.tile, self.types[1], self.stages)
        stage = (None, None, 0)
        load, share = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileG2SMulticastOp()
        tma_a, map_a = cpasync.make_tiled_tma_atom(load, a, cute.slice_(layout_a, stage), (m, k))
        tma_b, map_b = cpasync.make_tiled_tma_atom(share, b, cute.slice_(layout_b, stage), (n, k), num_multicast=self.cluster)
        self.kernel(mma, tma_a, map_a, tma_b, map_b, c, layout_a, layout_b).launch(
            grid=(cute.ceil_div(c.shape[0], m), cute.ceil_div(c.shape[1], n), 1), block=(THREADS, 1, 1), cluster=(self.cluster, 1, 1)
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
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()
        m, n, k = self.tile

        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * self.stages)
        tiles_a = smem.allocate_tensor(self.types[0], layout_a.outer, byte_alignment=1024, swizzle=layout_a.inner)
        tiles_b = smem.allocate_tensor(self.types[1], layout_b.outer, byte_alignment=1024, swizzle=layout_b.inner)
        bytes_a = cute.size_in_bytes(self.types[0], cute.slice_(layout_a, (None, None, 0)))
        bytes_b = cute.size_in_bytes(self.types[1], cute.slice_(layout_b, (None, None, 0)))
        loads = pipeline.PipelineTmaAsync.create(
            num_stages=self.stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32 * MATH_WARPS),
            enable_multicast_signaling=True,
            tx_count=bytes_a + bytes_b,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, self.cluster, 1, 1)),
            mcast_mode_mn=(0, 1),
        )

        whole_a, whole_b = cute.local_tile(a, (m, k), (row, None)), cute.local_tile(b, (n, k), (column, None))
        to_a, from_a = cpasync.tma_partition(
            tma_a, 0, cute.make_layout(1), cute.group_modes(tiles_a, 0, 2), cute.group_modes(whole_a, 0, 2)
        )
        to_b, from_b = cpasync.tma_partition(
            tma_b, rank, cute.make_layout(self.cluster), cute.group_modes(tiles_b, 0, 2), cute.group_modes(whole_b, 0, 2)
        )
        steps = cute.size(from_a, mode=[1])
        if warp == MATH_WARPS:
            producer = loads.make_producer()
            everyone = cutlass.Int16((1 << self.cluster) - 1)
            for i in cutlass.range(steps, unroll=1):
                filled = producer.acquire_and_advance()
                cute.copy(tma_a, from_a[(None, i)], to_a[(None, filled.index)], tma_bar_ptr=filled.barrier)
                cute.copy(tma_b, from_b[(None, i)], to_b[(None, filled.index)], tma_bar_ptr=filled.barrier, mcast_mask=everyone)
            producer.tail()
        else:
            part = mma.get_slice(thread)
            fragments_a, fragments_b = mma.make_fragment_A(part.partition_A(tiles_a)), mma.make_fragment_B(part.partition_B(tiles_b))
            target = part.partition_C(cute.local_tile(c, (m, n), (row, column)))
            product = cute.make_rmem_tensor(target.shape, cutlass.Float32)
            consumer = loads.make_consumer()
            mma.set(warpgroup.Field.ACCUMULATE, False)
            for _ in cutlass.range(steps, unroll=1):
                filled = consumer.wait_and_advance()
                warpgroup.fence()
                for j in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                    at = (None, None, j, filled.index)
                    cute.gemm(mma, product, fragments_a[at], fragments_b[at], product)
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                filled.release()
            cute.autovec_copy(product, target)


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randint(-4, 5, (512, 256), device=device, dtype=torch.bfloat16)
    b = torch.randint(-4, 5, (128, 256), device=device, dtype=torch.bfloat16)
    c = torch.empty(512, 128, device=device)
    tensors = [from_dlpack(x, assumed_align=16) for x in (a, b, c)]
    cute.compile(HopperGemm(), *tensors)(*tensors)
    same = torch.equal(c.double(), a.double() @ b.double().T)
    print(f"512 x 128 x 256 by clusters of 2: {'ok' if same else 'WRONG'}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
