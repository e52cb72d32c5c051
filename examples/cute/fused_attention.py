"""softmax(Q K^T / sqrt(d)) V in one kernel: probabilities are stored from registers to tensor memory, as operand A of tcgen05.mma.

Each thread of four warps computes one query, one warp multiplies, one loads. For sm_100a and sm_103a:
``ptxlab exec examples/cute/fused_attention.py`` runs it without a GPU.
"""

from __future__ import annotations

import math
import sys

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import torch
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator
from cutlass.utils import blackwell_helpers as sm100

ROWS, KEYS = 128, 128
MMA_WARP, LOAD_WARP = 4, 5
THREADS = 192
SOFTMAX_THREADS = 128
STAGES = 2
SCORES, PROBABILITIES, OUTPUT, COLUMNS = 0, 128, 192, 512
LOG2_E = math.log2(math.e)
WHOLE = ((None, None), 0, 0)


class FusedAttention:
    """Q, K, V and O [heads, sequence, depth] of f16; the sequence a multiple of 128, the depth 64. ``causal``: no key after its query."""

    def __init__(self, depth=64, causal=False):
        self.depth, self.causal = depth, causal
        self.qk_tile, self.pv_tile = (ROWS, KEYS, depth), (ROWS, depth, KEYS)

    @cute.jit
    def __call__(self, q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, o: cute.Tensor):
        kind = self.kind = q.element_type
        one = tcgen05.CtaGroup.ONE
        major = OperandMajorMode
        qk = sm100.make_trivial_tiled_mma(kind, kind, major.K, major.K, cutlass.Float32, one, self.qk_tile[:2])
        pv = sm100.make_trivial_tiled_mma(kind, kind, major.K, major.MN, cutlass.Float32, one, self.pv_tile[:2], tcgen05.OperandSource.TMEM)
        layouts = (
            sm100.make_smem_layout_a(qk, self.qk_tile, kind, 1),
            sm100.make_smem_layout_b(qk, self.qk_tile, kind, STAGES),
            sm100.make_smem_layout_b(pv, self.pv_tile, kind, STAGES),
        )
        q, k, o = (cute.make_tensor(x.iterator, cute.select(x.layout, mode=[1, 2, 0])) for x in (q, k, o))
        v = cute.make_tensor(v.iterator, cute.select(v.layout, mode=[2, 1, 0]))
        load = cpasync.CopyBulkTensorTileG2SOp(one)
        alone, stage = (1, 1, 1, 1), (None, None, None, 0)
        tma_q, map_q = cute.nvgpu.make_tiled_tma_atom_A(load, q, cute.slice_(layouts[0], stage), self.qk_tile, qk, alone)
        tma_k, map_k = cute.nvgpu.make_tiled_tma_atom_B(load, k, cute.slice_(layouts[1], stage), self.qk_tile, qk, alone)
        tma_v, map_v = cute.nvgpu.make_tiled_tma_atom_B(load, v, cute.slice_(layouts[2], stage), self.pv_tile, pv, alone)
        probabilities = sm100.make_smem_layout_a(pv, self.pv_tile, kind, 1)
        self.kernel(qk, pv, tma_q, map_q, tma_k, map_k, tma_v, map_v, o, layouts, probabilities).launch(
            grid=(cute.ceil_div(q.shape[0], ROWS), q.shape[2], 1), block=(THREADS, 1, 1)
        )

    @cute.kernel
    def kernel(
        self,
        qk: cute.TiledMma,
        pv: cute.TiledMma,
        tma_q: cute.CopyAtom,
        q: cute.Tensor,
        tma_k: cute.CopyAtom,
        k: cute.Tensor,
        tma_v: cute.CopyAtom,
        v: cute.Tensor,
        o: cute.Tensor,
        layouts: tuple,
        probabilities: cute.ComposedLayout,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        block, head, _ = cute.arch.block_idx()

        smem = SmemAllocator()
        load_barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
        q_loaded, scored, weighed, summed = (smem.allocate_array(cutlass.Int64, 1) for _ in range(4))
        address = smem.allocate(cutlass.Int32)
        tile_q, tiles_k, tiles_v = (
            smem.allocate_tensor(self.kind, layout.outer, byte_alignment=1024, swizzle=layout.inner) for layout in layouts
        )
        bytes_q, bytes_k, bytes_v = (cute.size_in_bytes(self.kind, cute.slice_(layout, (None, None, None, 0))) for layout in layouts)
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        loads = pipeline.PipelineTmaUmma.create(
            num_stages=STAGES, producer_group=one, consumer_group=one, tx_count=bytes_k + bytes_v,
            barrier_storage=load_barriers, cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)), defer_sync=True,
        )  # fmt: skip
        if thread == 0:
            for barrier, count in ((q_loaded, 1), (scored, 1), (weighed, SOFTMAX_THREADS), (summed, 1)):
                cute.arch.mbarrier_init(barrier, count)
        cute.arch.mbarrier_init_fence()
        if warp == 0:
            cute.arch.alloc_tmem(COLUMNS, address)
            cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.sync_threads()
        base = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, address)
        scores = cute.make_tensor(base + SCORES, qk.make_fragment_C(qk.partition_shape_C(self.qk_tile[:2])).layout)
        output = cute.make_tensor(base + OUTPUT, pv.make_fragment_C(pv.partition_shape_C(self.pv_tile[:2])).layout)

        keys = cute.size(k, mode=[0]) // KEYS
        blocks = block + 1 if cutlass.const_expr(self.causal) else keys
        if warp == LOAD_WARP:
            part_q, part_v = qk.get_slice(0), pv.get_slice(0)
            whole_q = part_q.partition_A(cute.local_tile(q, (ROWS, self.depth), (block, 0, head)))
            whole_k = part_q.partition_B(cute.local_tile(k, (KEYS, self.depth), (None, 0, head)))
            whole_v = part_v.partition_B(cute.local_tile(v, (self.depth, KEYS), (0, None, head)))
            alone = cute.make_layout(1)
            to_q, from_q = cpasync.tma_partition(tma_q, 0, alone, cute.group_modes(tile_q, 0, 3), cute.group_modes(whole_q, 0, 3))
            to_k, from_k = cpasync.tma_partition(tma_k, 0, alone, cute.group_modes(tiles_k, 0, 3), cute.group_modes(whole_k, 0, 3))
            to_v, from_v = cpasync.tma_partition(tma_v, 0, alone, cute.group_modes(tiles_v, 0, 3), cute.group_modes(whole_v, 0, 3))
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(q_loaded, bytes_q)
            cute.copy(tma_q, from_q, to_q[(None, 0)], tma_bar_ptr=q_loaded)
            producer = loads.make_producer()
            for j in cutlass.range(blocks, unroll=1):
                filled = producer.acquire_and_advance()
                cute.copy(tma_k, from_k[(None, j)], to_k[(None, filled.index)], tma_bar_ptr=filled.barrier)
                cute.copy(tma_v, from_v[(None, j)], to_v[(None, filled.index)], tma_bar_ptr=filled.barrier)
            producer.tail()
        if warp == MMA_WARP:
            of_q, of_k, of_v = qk.make_fragment_A(tile_q), qk.make_fragment_B(tiles_k), pv.make_fragment_B(tiles_v)
            place = cute.recast_ptr(base + PROBABILITIES, dtype=self.kind)
            of_p = cute.make_tensor(place, pv.make_fragment_A(probabilities.outer.shape).layout)
            consumer = loads.make_consumer()
            cute.arch.mbarrier_wait(q_loaded, 0)
            pv.set(tcgen05.Field.ACCUMULATE, False)
            for j in cutlass.range(blocks, unroll=1):
                filled = consumer.wait_and_advance()
                qk.set(tcgen05.Field.ACCUMULATE, False)
                for i in cutlass.range_constexpr(cute.size(of_q, mode=[2])):
                    cute.gemm(qk, scores, of_q[(None, None, i, 0)], of_k[(None, None, i, filled.index)], scores)
                    qk.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(scored)
                cute.arch.mbarrier_wait(weighed, j % 2)
                for i in cutlass.range_constexpr(cute.size(of_p, mode=[2])):
                    cute.gemm(pv, output, of_p[(None, None, i, 0)], of_v[(None, None, i, filled.index)], output)
                    pv.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(summed)
                filled.release()
        if warp < 4:
            self.softmax(thread, block, head, blocks, base, scores, output, o, scored, weighed, summed)
        cute.arch.sync_threads()
        if warp == 0:
            cute.arch.dealloc_tmem(base, COLUMNS)

    @cute.jit
    def softmax(self, thread, block, head, blocks, base, scores, output, o, scored, weighed, summed):
        """Each thread has one query: its scores, the largest score so far, the sum of exponentials, and its row of the output."""
        row = cute.make_identity_tensor((ROWS, self.depth))
        wide = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x128), cutlass.Float32)
        read_scores = tcgen05.make_tmem_copy(wide, scores[WHOLE]).get_slice(thread)
        halves = cute.make_tensor(base + PROBABILITIES, cute.composition(scores[WHOLE].layout, cute.make_layout((ROWS, KEYS // 2))))
        put = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition.x64), cutlass.Float32)
        write_weights = tcgen05.make_tmem_copy(put, halves).get_slice(thread)
        get = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32)
        read_output = tcgen05.make_tmem_copy(get, output[WHOLE]).get_slice(thread)
        write_output = tcgen05.make_tmem_copy(put, output[WHOLE]).get_slice(thread)

        from_scores, to_weights = read_scores.partition_S(scores[WHOLE]), write_weights.partition_D(halves)
        from_output, to_output = read_output.partition_S(output[WHOLE]), write_output.partition_D(output[WHOLE])
        places = read_scores.partition_D(cute.make_identity_tensor((ROWS, KEYS)))
        values = cute.make_rmem_tensor(places.shape, cutlass.Float32)
        exponentials = cute.make_rmem_tensor(places.shape, self.kind)
        target = read_output.partition_D(row)
        sums = cute.make_rmem_tensor(target.shape, cutlass.Float32)

        scale = cutlass.Float32(LOG2_E / math.sqrt(self.depth))
        most, total = cutlass.Float32(-1e30), cutlass.Float32(0)
        for j in cutlass.range(blocks, unroll=1):
            cute.arch.mbarrier_wait(scored, j % 2)
            cute.copy(read_scores, from_scores, values)
            cute.arch.fence_view_async_tmem_load()
            if cutlass.const_expr(self.causal):  # noqa: SIM102  (only the inner condition is one of the kernel)
                if j == block:
                    for i in cutlass.range(cute.size(values), unroll_full=True):
                        if places[i][1] > thread:
                            values[i] = cutlass.Float32(-1e30)
            before = most
            most = cute.arch.fmax(before, values.load().reduce(cute.ReductionOp.MAX, cutlass.Float32(-1e30), 0))
            shrink = cute.math.exp2((before - most) * scale, fastmath=True)
            weights = cute.math.exp2((values.load() - most) * scale, fastmath=True)
            total = total * shrink + weights.reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0)
            exponentials.store(weights.to(self.kind))
            if j > 0:
                cute.arch.mbarrier_wait(summed, (j - 1) % 2)
                cute.copy(read_output, from_output, sums)
                cute.arch.fence_view_async_tmem_load()
                sums.store(sums.load() * shrink)
                cute.copy(write_output, sums, to_output)
            pairs = cute.recast_tensor(exponentials, cutlass.Float32)
            cute.copy(write_weights, cute.make_tensor(pairs.iterator, write_weights.partition_S(halves).shape), to_weights)
            cute.arch.fence_view_async_tmem_store()
            cute.arch.mbarrier_arrive(weighed)
        cute.arch.mbarrier_wait(summed, (blocks - 1) % 2)
        cute.copy(read_output, from_output, sums)
        cute.arch.fence_view_async_tmem_load()
        mine = cute.local_tile(o, (1, self.depth), (block * ROWS + thread, 0, head))
        result = cute.make_rmem_tensor(sums.shape, self.kind)
        result.store((sums.load() / total).to(self.kind))
        cute.autovec_copy(cute.make_tensor(result.iterator, mine.layout.shape), mine)


def attention(q, k, v, causal):
    """The expected result, in float64."""
    scores = q.double() @ k.double().transpose(1, 2) / math.sqrt(q.shape[2])
    if causal:
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(2) @ v.double()


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 256, 64, device=device, dtype=torch.float16) for _ in range(3))
    o = torch.empty_like(q)
    tensors = [from_dlpack(x, assumed_align=16) for x in (q, k, v, o)]
    wrong = 0
    for causal in (False, True):
        cute.compile(FusedAttention(causal=causal), *tensors)(*tensors)
        # Probabilities are rounded to f16, and so is the result.
        worst = (o.double() - attention(q, k, v, causal)).abs().max().item()
        print(f"2 heads of 256 x 64{', causal' * causal}: {'ok' if worst < 2e-3 else f'WRONG by {worst:.1e}'}")
        wrong |= worst >= 2e-3
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
