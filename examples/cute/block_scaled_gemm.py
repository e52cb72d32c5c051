"""C = (A * scales) (B * scales)^T with kind::mxf8f6f4 or kind::mxf4nvf4: one warp loads, copies scales to tensor memory and multiplies.

For sm_100a and sm_103a: ``ptxlab exec examples/cute/block_scaled_gemm.py`` runs it without a GPU.
"""

from __future__ import annotations

import sys

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import torch
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator
from cutlass.utils import blackwell_helpers as sm100
from cutlass.utils import blockscaled_layout as scaling

THREADS, COLUMNS = 128, 512
STAGE = (None, None, None, 0)


class BlockScaledGemm:
    """A [M, K] and B [N, K] K-major, C [M, N] of f32; M, N multiples of 128.

    The scales of 128 rows and 4 blocks are contiguous, as tcgen05.cp reads them: see `blocked`. Elements of 4 bits are bytes
    [M, K / 2].
    """

    def __init__(self, element, scale, block, tile=(128, 128, 128), stages=2):
        self.element, self.scale, self.block, self.tile, self.stages = element, scale, block, tile, stages
        self.types = element, element, scale, scale

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, scales_a: cute.Tensor, scales_b: cute.Tensor, c: cute.Tensor):
        a, b = cute.recast_tensor(a, self.element), cute.recast_tensor(b, self.element)
        scales_a, scales_b = self.scales_of(scales_a, a), self.scales_of(scales_b, b)
        mma = sm100.make_blockscaled_trivial_tiled_mma(
            *self.types[:2], OperandMajorMode.K, OperandMajorMode.K, self.scale, self.block, tcgen05.CtaGroup.ONE, self.tile[:2]
        )
        layouts = (
            sm100.make_smem_layout_a(mma, self.tile, self.element, self.stages),
            sm100.make_smem_layout_b(mma, self.tile, self.element, self.stages),
            scaling.make_smem_layout_sfa(mma, self.tile, self.block, self.stages),
            scaling.make_smem_layout_sfb(mma, self.tile, self.block, self.stages),
        )
        load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
        of_a, of_b = cute.nvgpu.make_tiled_tma_atom_A, cute.nvgpu.make_tiled_tma_atom_B
        one = (1, 1, 1, 1)
        loads = (
            of_a(load, a, cute.slice_(layouts[0], STAGE), self.tile, mma, one),
            of_b(load, b, cute.slice_(layouts[1], STAGE), self.tile, mma, one),
            of_a(load, scales_a, cute.slice_(layouts[2], STAGE), self.tile, mma, one, internal_type=cutlass.Int16),
            of_b(load, scales_b, cute.slice_(layouts[3], STAGE), self.tile, mma, one, internal_type=cutlass.Int16),
        )
        atoms, maps = tuple(load[0] for load in loads), tuple(load[1] for load in loads)
        grid = (cute.ceil_div(c.shape[0], self.tile[0]), cute.ceil_div(c.shape[1], self.tile[1]), 1)
        self.kernel(mma, atoms, maps, c, layouts).launch(grid=grid, block=(THREADS, 1, 1))

    def scales_of(self, scales, operand):
        layout = cute.tile_to_shape(scaling.BlockScaledBasicChunk(self.block).layout, operand.shape, (2, 1))
        return cute.make_tensor(scales.iterator, layout)

    @cute.kernel
    def kernel(self, mma: cute.TiledMma, atoms: tuple, maps: tuple, c: cute.Tensor, layouts: tuple):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()

        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * self.stages)
        done = smem.allocate_array(cutlass.Int64, 1)
        address = smem.allocate(cutlass.Int32)
        shared = [smem.allocate_tensor(self.element, layout.outer, byte_alignment=1024, swizzle=layout.inner) for layout in layouts[:2]] + [
            smem.allocate_tensor(self.scale, layout, byte_alignment=128) for layout in layouts[2:]
        ]
        stage_bytes = sum(cute.size_in_bytes(kind, cute.slice_(layout, STAGE)) for kind, layout in zip(self.types, layouts, strict=True))
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        loads = pipeline.PipelineTmaUmma.create(
            num_stages=self.stages, producer_group=one, consumer_group=one, tx_count=stage_bytes,
            barrier_storage=barriers, cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)), defer_sync=True,
        )  # fmt: skip
        if thread == 0:
            cute.arch.mbarrier_init(done, 1)
        cute.arch.mbarrier_init_fence()
        if warp == 0:
            cute.arch.alloc_tmem(COLUMNS, address)
            cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.sync_threads()

        base = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, address)
        product = cute.make_tensor(base, mma.make_fragment_C(mma.partition_shape_C(self.tile[:2])).layout)
        place = base + tcgen05.find_tmem_tensor_col_offset(product)
        factors_a = cute.make_tensor(
            cute.recast_ptr(place, dtype=self.scale),
            scaling.make_tmem_layout_sfa(mma, self.tile, self.block, cute.slice_(layouts[2], STAGE)),
        )
        place = place + tcgen05.find_tmem_tensor_col_offset(factors_a)
        factors_b = cute.make_tensor(
            cute.recast_ptr(place, dtype=self.scale),
            scaling.make_tmem_layout_sfb(mma, self.tile, self.block, cute.slice_(layouts[3], STAGE)),
        )
        copy_a, from_a, to_a = self.to_tensor_memory(shared[2], factors_a)
        copy_b, from_b, to_b = self.to_tensor_memory(shared[3], factors_b)

        part = mma.get_slice(0)
        rows, columns = cute.slice_(self.tile, (None, 0, None)), cute.slice_(self.tile, (0, None, None))
        pieces = []
        for i, (by, at, cut) in enumerate(((rows, row, part.partition_A), (columns, column, part.partition_B)) * 2):
            whole = cut(cute.local_tile(maps[i], by, (at, None)))
            tiles, cut_up = cpasync.tma_partition(
                atoms[i], 0, cute.make_layout(1), cute.group_modes(shared[i], 0, 3), cute.group_modes(whole, 0, 3)
            )
            pieces.append((cute.filter_zeros(tiles), cute.filter_zeros(cut_up)))
        steps = cute.size(pieces[0][1], mode=[1])
        fragments_a, fragments_b = mma.make_fragment_A(shared[0]), mma.make_fragment_B(shared[1])

        if warp == 0:
            producer, consumer = loads.make_participants()
            ahead = self.stages - 1
            for k in cutlass.range(ahead):
                empty = producer.acquire_and_advance()
                for atom, (to, source) in zip(atoms, pieces, strict=True):
                    cute.copy(atom, source[(None, k)], to[(None, empty.index)], tma_bar_ptr=empty.barrier)
            mma.set(tcgen05.Field.ACCUMULATE, False)
            for k in cutlass.range(steps):
                if k + ahead < steps:
                    empty = producer.acquire_and_advance()
                    for atom, (to, source) in zip(atoms, pieces, strict=True):
                        cute.copy(atom, source[(None, k + ahead)], to[(None, empty.index)], tma_bar_ptr=empty.barrier)
                filled = consumer.wait_and_advance()
                cute.copy(copy_a, from_a[(None, None, None, None, filled.index)], to_a)
                cute.copy(copy_b, from_b[(None, None, None, None, filled.index)], to_b)
                for j in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                    mma.set(tcgen05.Field.SFA, factors_a[(None, None, j)].iterator)
                    mma.set(tcgen05.Field.SFB, factors_b[(None, None, j)].iterator)
                    at = (None, None, j, filled.index)
                    cute.gemm(mma, product, fragments_a[at], fragments_b[at], product)
                    mma.set(tcgen05.Field.ACCUMULATE, True)
                filled.release()
            with cute.arch.elect_one():
                tcgen05.commit(done)
        cute.arch.mbarrier_wait(done, 0)

        tile = ((None, None), 0, 0)
        read = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32), product[tile])
        mine = read.get_slice(thread)
        target = mine.partition_D(part.partition_C(cute.local_tile(c, self.tile[:2], (row, column)))[tile])
        values = cute.make_rmem_tensor(target.shape, cutlass.Float32)
        cute.copy(read, mine.partition_S(product[tile]), values)
        cute.arch.fence_view_async_tmem_load()
        cute.autovec_copy(values, target)
        cute.arch.sync_threads()
        if warp == 0:
            cute.arch.dealloc_tmem(base, COLUMNS)

    def to_tensor_memory(self, scales, factors):
        """The copy of a stage's scales to tensor memory, its source and its destination."""
        target = cute.filter_zeros(factors)
        copy = tcgen05.make_s2t_copy(cute.make_copy_atom(tcgen05.Cp4x32x128bOp(tcgen05.CtaGroup.ONE), self.scale), target)
        mine = copy.get_slice(0)
        source = tcgen05.get_s2t_smem_desc_tensor(copy, mine.partition_S(cute.filter_zeros(scales)))
        return copy, source, mine.partition_D(target)


def blocked(scales):
    """Scales [rows, K / block], a NumPy array or torch tensor, reordered into chunks of 128 rows and 4 blocks."""
    rows, blocks = scales.shape
    axes = (0, 3, 2, 1, 4)
    chunks = scales.reshape(rows // 128, 4, 32, blocks // 4, 4)
    return (chunks.permute(axes) if hasattr(chunks, "permute") else chunks.transpose(axes)).reshape(-1)


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    m, n, k, block = 256, 128, 512, 32
    a, b = (torch.randint(-4, 5, (rows, k), device=device).to(torch.float8_e4m3fn) for rows in (m, n))
    scales_a, scales_b = (torch.exp2(torch.randint(-2, 3, (rows, k // block), device=device)) for rows in (m, n))
    c = torch.empty(m, n, device=device)

    def scaled(x, scales):
        return x.double() * scales.double().repeat_interleave(block, 1)

    def tensor(x, kind):
        made = from_dlpack(x.view(torch.uint8), assumed_align=16)
        made.element_type = kind
        return made

    scale_bytes = (blocked(scales).contiguous().to(torch.float8_e8m0fnu) for scales in (scales_a, scales_b))
    tensors = [
        tensor(a, cutlass.Float8E4M3FN), tensor(b, cutlass.Float8E4M3FN),
        *(tensor(scales, cutlass.Float8E8M0FNU) for scales in scale_bytes), from_dlpack(c, assumed_align=16),
    ]  # fmt: skip
    cute.compile(BlockScaledGemm(cutlass.Float8E4M3FN, cutlass.Float8E8M0FNU, block), *tensors)(*tensors)
    same = torch.equal(c.double(), scaled(a, scales_a) @ scaled(b, scales_b).T)
    print(f"{m} x {n} x {k}, scales of {block} elements: {'ok' if same else 'WRONG'}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
