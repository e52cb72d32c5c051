"""Bulk and tensor copies in whole kernels: where bytes go, who is signalled, and when."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import decode_tensor_map
from tests.isa.bulk.bulk_helpers import CLUSTER, DUMP, EXPECT, FILL, INIT, SIZE, WAIT, ZERO, kernel
from tests.layout.tma_helpers import tma_box

SHOWS = {
    "test_copies_of_chosen_bytes": ("cp.async.bulk.global.shared::cta.bulk_group*.cp_mask",),
    "test_a_tensor_map_made_on_the_device": ("tensormap.replace.*", "tensormap.cp_fenceproxy.*"),
    "test_prefetches_change_nothing": ("prefetch{.space=param|const}.tensormap",),
}

POLICIES = ["eager", "lazy", "random"]
SOURCE = np.random.default_rng(7).integers(0, 256, SIZE, np.uint8)


def run(body, *, tensor_map=bytes(128), source=SOURCE, out=None, coordinates=(), size=0, ctas=1, cluster=1, **options):
    found = np.zeros(ctas * SIZE, np.uint8) if out is None else out
    five = (*coordinates, 0, 0, 0, 0, 0)[:5]
    result = kernel(body).launch(grid=ctas, block=128, cluster=cluster, args=[tensor_map, source, found, *five, size], **options)
    result.raise_for_errors()
    assert result.diagnostics == ()
    return found


def coordinates_text(rank):
    return "{" + ", ".join(f"c{i}" for i in range(rank)) + "}"


def load(rank, tail="", destination="shared::cta", extra=""):
    opcode = f"cp.async.bulk.tensor.{rank}d.{destination}.global.tile.mbarrier::complete_tx::bytes{tail}"
    return f"@p {opcode} [dst], [m, {coordinates_text(rank)}], [bar]{extra};\n"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_load_of_every_rank(rank, policy):
    rng = np.random.default_rng(rank)
    shape = (*(int(s) for s in rng.integers(3, 9, rank - 1)), 24)
    tensor = rng.integers(0, 1 << 16, shape, np.uint16)
    box = (16, *(int(b) for b in rng.integers(2, 6, rank - 1)))
    swizzle = ["none", "32B"][rank % 2]
    tensor_map = ptxlab.TensorMap(tensor, box=box, swizzle=swizzle)
    at = (8, *(int(c) for c in rng.integers(-2, 4, rank - 1)))
    count = int(np.prod(box)) * 2
    body = ZERO + INIT + EXPECT + load(rank) + WAIT + DUMP
    out = run(body, tensor_map=tensor_map, coordinates=at, size=count, policy=policy)
    expected = np.full(SIZE, 0xEE, np.uint8)
    where = tma_box(decode_tensor_map(bytes(tensor_map)), at, 0x400)
    flat = tensor.view(np.uint8).ravel()
    for i in range(2):
        values = np.where(where.inside, flat[np.where(where.inside, where.offset + i, 0)], 0)
        expected[where.shared + i] = values
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_store_skips_what_is_outside(policy):
    tensor = np.zeros((20, 40), np.float32)
    tensor_map = ptxlab.TensorMap(tensor, box=(32, 16), swizzle="128B")
    body = (
        FILL
        + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        + "@p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {c0, c1}], [dst];\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    )
    run(body, tensor_map=tensor_map, coordinates=(16, 8), policy=policy)
    where = tma_box(decode_tensor_map(bytes(ptxlab.TensorMap(tensor, box=(32, 16), swizzle="128B"))), (16, 8), 0x400)
    expected = np.zeros_like(tensor).ravel()
    words = SOURCE.view(np.uint32)
    inside = where.inside
    expected.view(np.uint32)[where.offset[inside] // 4] = words[where.shared[inside] // 4]
    assert np.array_equal(tensor.view(np.uint32).ravel(), expected.view(np.uint32))
    assert tensor[8:, 16:].any()


def test_multicast_reaches_every_cta_of_the_mask_and_signals_it():
    tensor = np.arange(64 * 32, dtype=np.uint16).reshape(32, 64)
    tensor_map = ptxlab.TensorMap(tensor, box=(64, 8))
    body = (
        ZERO
        + INIT
        + CLUSTER
        + EXPECT
        + CLUSTER
        + "setp.eq.and.u32 p, rank, 1, p;\nmov.b16 h, 11;\n"
        + load(2, ".multicast::cluster", "shared::cluster", ", h")
        + "setp.eq.u32 t, rank, 2;\n@t bra SKIP;\n"
        + WAIT
        + "SKIP:\nsetp.eq.u32 p, tid, 0;\n"
        + CLUSTER
        + DUMP
    )
    out = run(body, tensor_map=tensor_map, coordinates=(0, 4), size=1024, ctas=4, cluster=4).reshape(4, SIZE)
    for cta in (0, 1, 3):
        assert np.array_equal(out[cta, :1024], tensor[4:12].view(np.uint8).ravel())
    assert (out[2] == 0xEE).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_cta_group_2_signals_the_leader(policy):
    """Both CTAs load for themselves; the even one's barrier counts all bytes: its address has bit 24 cleared."""
    tensor = np.arange(128 * 16, dtype=np.uint32).reshape(128, 16)
    tensor_map = ptxlab.TensorMap(tensor, box=(16, 32), swizzle="64B")
    body = (
        ZERO
        + INIT
        + CLUSTER
        + "setp.eq.and.u32 q, rank, 0, p;\n@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], bytes;\n"
        + CLUSTER
        + "shl.b32 r1, cta, 5;\nand.b32 r2, bar, -16777217;\n"
        + "@p cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [dst], [m, {0, r1}], [r2];\n"
        + "setp.ne.u32 t, rank, 0;\n@t bra SKIP;\n"
        + WAIT
        + "SKIP:\n"
        + CLUSTER
        + DUMP
    )
    out = run(body, tensor_map=tensor_map, size=4096, ctas=4, cluster=2, policy=policy).reshape(4, SIZE)
    where = tma_box(decode_tensor_map(bytes(tensor_map)), (0, 0), 0x400)
    for cta in range(4):
        assert np.array_equal(out[cta, where.shared].ravel(), tensor.view(np.uint8)[32 * cta : 32 * cta + 32, ::4].ravel())


def test_multicast_of_a_pair_signals_the_cta_with_the_parity_of_the_barrier():
    tensor = np.arange(64 * 32, dtype=np.uint16).reshape(32, 64)
    tensor_map = ptxlab.TensorMap(tensor, box=(64, 8))
    body = (
        ZERO
        + INIT
        + CLUSTER
        + "and.b32 r1, rank, 1;\nsetp.eq.and.u32 q, r1, 0, p;\n@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], bytes;\n"
        + CLUSTER
        + "and.b32 bar, bar, -16777217;\nmov.b16 h, 15;\nsetp.eq.and.u32 p, rank, 3, p;\n"
        + load(2, ".multicast::cluster.cta_group::2", "shared::cluster", ", h")
        + "and.b32 bar, bar, 0xFFFFFF;\nshl.b32 r2, rank, 24;\nor.b32 bar, bar, r2;\nsetp.ne.u32 t, r1, 0;\n@t bra SKIP;\n"
        + WAIT
        + "SKIP:\n"
        + CLUSTER
        + DUMP
    )
    out = run(body, tensor_map=tensor_map, coordinates=(0, 16), size=2048, ctas=4, cluster=4).reshape(4, SIZE)
    for cta in range(4):
        assert np.array_equal(out[cta, :1024], tensor[16:24].view(np.uint8).ravel())


@pytest.mark.parametrize("policy", POLICIES)
def test_linear_copies(policy):
    body = (
        ZERO
        + INIT
        + EXPECT
        + "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [dst], [in], 4096, [bar];\n"
        + WAIT
        + "add.u64 rd1, out, 16;\n"
        + "@p cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [rd1], [dst], 2048, 0x12f0000000000000;\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    )
    out = run(body, size=4096, policy=policy)
    assert np.array_equal(out[16:2064], SOURCE[:2048])
    assert not out[2064:].any()


@pytest.mark.parametrize("hint", [False, True])
@pytest.mark.parametrize("mask", [0x0000, 0x8001, 0x00FF, 0xFFFF])
def test_copies_of_chosen_bytes(mask, hint):
    hinted, policy = (".L2::cache_hint", "0x12f0000000000000, ") if hint else ("", "")
    body = (
        FILL
        + f"fence.proxy.async.shared::cta;\nbar.sync 0;\nmov.b16 h, {mask};\n"
        + f"@p cp.async.bulk.global.shared::cta.bulk_group{hinted}.cp_mask [out], [dst], 4096, {policy}h;\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    )
    before = np.random.default_rng(5).integers(0, 256, SIZE, np.uint8)
    out = run(body, out=before.copy())
    chosen = np.array([mask >> i & 1 for i in range(16)], bool)
    assert np.array_equal(out[:4096], np.where(np.tile(chosen, 256), SOURCE[:4096], before[:4096]))
    assert np.array_equal(out[4096:], before[4096:])


def test_copy_between_ctas():
    body = (
        FILL
        + INIT
        + CLUSTER
        + EXPECT
        + "xor.b32 r1, rank, 1;\nmapa.shared::cluster.u32 r2, dst, r1;\nmapa.shared::cluster.u32 r3, bar, r1;\nadd.u32 r2, r2, 8192;\n"
        + "shl.b32 r4, rank, 4;\nadd.u32 r4, r4, dst;\n"
        + "@p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [r2], [r4], 1024, [r3];\n"
        + WAIT
        + DUMP
        + CLUSTER
    )
    out = run(body, size=1024, ctas=2, cluster=2).reshape(2, SIZE)
    assert np.array_equal(out[0, 8192:9216], SOURCE[16:1040])
    assert np.array_equal(out[1, 8192:9216], SOURCE[:1024])
    assert np.array_equal(out[0, :8192], SOURCE[:8192])


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", lambda a, b: a + b),
        ("max.s32", lambda a, b: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32)),
        ("xor.b32", lambda a, b: a ^ b),
        ("inc.u32", lambda a, b: np.where(a >= b, 0, a + 1).astype(np.uint32)),
        ("dec.u32", lambda a, b: np.where((a == 0) | (a > b), b, a - 1).astype(np.uint32)),
    ],
)
def test_linear_reductions(operation, expected):
    out = np.random.default_rng(3).integers(0, 1 << 32, SIZE // 4, np.uint32)
    before = out.copy()
    body = (
        FILL
        + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        + f"@p cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [out], [dst], 8192;\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
    )
    run(body, out=out)
    words = SOURCE.view(np.uint32)
    assert np.array_equal(out[:2048], expected(before[:2048], words[:2048]))
    assert np.array_equal(out[2048:], before[2048:])


@pytest.mark.parametrize("policy", POLICIES)
def test_groups_complete_in_order_of_age(policy):
    """wait_group 1 lets the newest group be pending; an empty group counts."""
    body = (
        FILL
        + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        + "@p cp.async.bulk.global.shared::cta.bulk_group [out], [dst], 1024;\ncp.async.bulk.commit_group;\ncp.async.bulk.commit_group;\n"
        + "cp.async.bulk.wait_group 1;\n"
        + "@p ld.global.u32 r1, [out];\n@p st.global.u32 [out+4096], r1;\n"
    )
    out = run(body, policy=policy)
    assert np.array_equal(out[4096:4100], SOURCE[:4])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tensor_map_made_on_the_device(policy):
    """replace on zeroed shared memory, copied to global memory, used there: rank 2, f16, 128B swizzle."""
    tensor = np.arange(64 * 96, dtype=np.float16).reshape(64, 96)
    fields = "".join(
        f"@p tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [dst+16384], {value};\n"
        for name, kind, value in (
            ("global_address", "b64", "in"), ("rank", "b32", "1"), ("box_dim", "b32", "0, 64"), ("box_dim", "b32", "1, 16"),
            ("global_dim", "b32", "0, 96"), ("global_dim", "b32", "1, 64"), ("global_stride", "b64", "0, rd1"),
            ("element_stride", "b32", "0, 1"), ("element_stride", "b32", "1, 1"), ("elemtype", "b32", "6"), ("swizzle_mode", "b32", "3"),
        )
    )  # fmt: skip
    body = (
        ZERO
        + "mov.u32 v, 0;\nshl.b32 w, tid, 2;\nadd.u32 w, w, dst;\nsetp.lt.u32 t, tid, 32;\n@t st.shared.u32 [w+16384], v;\nbar.sync 0;\n"
        + "mov.u64 rd1, 192;\n"
        + fields
        + "bar.sync 0;\nadd.u64 rd2, out, 24576;\nadd.u32 r1, dst, 16384;\n"
        + "setp.lt.u32 t, tid, 32;\n"
        + "@t tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [rd2], [r1], 0x80;\n"
        + "bar.sync 0;\nfence.proxy.tensormap::generic.acquire.gpu [rd2], 0x80;\nmov.b64 m, rd2;\n"
        + INIT
        + EXPECT
        + load(2)
        + WAIT
        + DUMP
    )
    out = run(body, source=tensor, coordinates=(32, 48), size=2048, policy=policy)
    host = ptxlab.TensorMap(tensor, box=(64, 16), swizzle="128B")
    where = tma_box(decode_tensor_map(bytes(host)), (32, 48), 0x400)
    found = out[where.shared[..., None] + np.arange(2)].reshape(16, 128).view(np.float16)
    assert np.array_equal(found, tensor[48:64, 32:96])


def test_prefetches_change_nothing():
    tensor_map = ptxlab.TensorMap(np.zeros((64, 64), np.float32), box=(8, 8))
    body = (
        FILL
        + "prefetch.tensormap [m];\n@p cp.async.bulk.prefetch.tensor.2d.L2.global.tile [m, {c0, c1}];\n"
        + "@p cp.async.bulk.prefetch.L2.global [in], 64;\nbar.sync 0;\n"
        + DUMP
    )
    assert np.array_equal(run(body, tensor_map=tensor_map), SOURCE)
