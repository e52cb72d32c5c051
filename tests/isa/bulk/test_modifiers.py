"""Cache hints and multicasting on every copy that has them: where the bytes go is that of the form without them, which others test."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.isa.bulk.bulk_helpers import CLUSTER, DUMP, EXPECT, FILL, INIT, SIZE, WAIT, ZERO
from tests.isa.bulk.test_copies import SOURCE, run

SHOWS = {
    "test_loads": (
        "cp.async.bulk.shared::cluster.global.*multicast::cluster*",
        "cp.async.bulk.shared::cta.global.*bytes*L2::cache_hint}",
        "cp.async.bulk.tensor.*global*mbarrier*multicast=*",
        "cp.async.bulk.tensor.*global*mbarrier*multicast::cluster*",
        "cp.async.bulk.tensor.*global*mbarrier*L2::cache_hint}",
    ),
    "test_stores": (
        "cp.async.bulk.global.shared::cta.bulk_group{.hint=L2::cache_hint}",
        "cp.async.bulk.tensor.*global.shared::cta*L2::cache_hint}",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group{.hint=L2::cache_hint}*",
        "cp.reduce.async.bulk.tensor.*L2::cache_hint}",
    ),
    "test_reductions_to_the_peer": ("cp.reduce.async.bulk.shared::cluster.*",),
    "test_prefetches": ("cp.async.bulk.prefetch.*",),
}

RNG = np.random.default_rng(21)
TILES = RNG.integers(1, 1 << 16, (64, 64), np.uint16)
IMAGES = RNG.integers(1, 1 << 16, (4, 3, 40, 16), np.uint16)
POLICY = "0x12f0000000000000"
DONE = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"


def tensor_load(rank, mode, at, info=""):
    opcode = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes<MODS>"
    return f"{opcode} [dst], [m, {at}], [bar]{info}<MORE>;\n"


LOADS = {
    "linear": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes<MODS> [dst], [in], 1024, [bar]<MORE>;\n",
    "tile": tensor_load(2, "tile", "{c0, c1}"),
    "gather4": tensor_load(2, "tile::gather4", "{c0, c1, c2, c3, c4}"),
    "im2col": tensor_load(4, "im2col", "{c0, c1, c2, c3}", ", {1, 0}"),
    "im2col::w": tensor_load(4, "im2col::w", "{c0, c1, c2, c3}", ", {2, 1}"),
    "im2col::w::128": tensor_load(4, "im2col::w::128", "{c0, c1, c2, c3}", ", {2, 1}"),
}
"""Loads, with places for modifiers and for the operands that these bring."""


def filled(text, mods, more):
    return text.replace("<MODS>", mods).replace("<MORE>", more)


def tensor_map(name):
    if "im2col" in name:
        return ptxlab.TensorMap.im2col(IMAGES, lower=(-1, 0), upper=(-1, 0), channels=16, pixels=20, swizzle="32B")
    return ptxlab.TensorMap(TILES, box=(64, 1 if name.endswith("4") else 8), swizzle="128B")


BYTES = {"gather4": 512, "im2col": 640, "im2col::w": 22 * 32, "im2col::w::128": 136 * 32}
AT = {"linear": (), "tile": (0, 8), "gather4": (0, 9, 4, 33, 1)}


def loaded(name, mods, more, multicast):
    """The shared memory of two CTAs, after one of them or both have loaded."""
    issue = "setp.eq.and.u32 p, rank, 0, p;\nmov.b16 h, 3;\n" if multicast else ""
    body = ZERO + INIT + CLUSTER + EXPECT + CLUSTER + issue + "@p " + filled(LOADS[name], mods, more) + WAIT + CLUSTER + DUMP
    at = AT.get(name, (0, -1, 1, 2))
    return run(body, tensor_map=tensor_map(name), coordinates=at, size=BYTES.get(name, 1024), ctas=2, cluster=2)


@pytest.mark.parametrize("name", LOADS)
def test_loads(name):
    plain = loaded(name, "", "", False)
    assert len(np.unique(plain)) > 100
    assert np.array_equal(plain[:SIZE], plain[SIZE:])
    for mods, more in (
        (".L2::cache_hint", f", {POLICY}"),
        (".multicast::cluster", ", h"),
        (".multicast::cluster.L2::cache_hint", f", h, {POLICY}"),
    ):
        assert np.array_equal(loaded(name, mods, more, "multicast" in mods), plain), mods


STORES = {
    "linear": ("cp.async.bulk.global.shared::cta.bulk_group<MODS> [out], [dst], 2048<MORE>;\n", None),
    "reduction": ("cp.reduce.async.bulk.global.shared::cta.bulk_group<MODS>.xor.b32 [out], [dst], 2048<MORE>;\n", None),
    "tile": ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group<MODS> [m, {c0, c1}], [dst]<MORE>;\n", "tile"),
    "tiles": ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group<MODS> [m, {c0, c1}], [dst]<MORE>;\n", "tile"),
    "scatter4": (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group<MODS> [m, {c0, c1, c2, c3, c4}], [dst]<MORE>;\n",
        "gather4",
    ),
    "columns": (
        "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group<MODS> [m, {c0, c1, c2, c3}], [dst]<MORE>;\n",
        "columns",
    ),
    "sums of columns": (
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group<MODS> [m, {c0, c1, c2, c3}], [dst]<MORE>;\n",
        "columns",
    ),
}


def stored(name, mods, more):
    text, kind = STORES[name]
    tensor = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    at = {"tile": (0, 8), "gather4": (0, 9, 4, 33, 1), "columns": (0, 1, 1, 0)}.get(kind, ())
    made = bytes(128)
    if kind == "columns":
        tensor = np.arange(2 * 5 * 6 * 16, dtype=np.uint32).reshape(2, 5, 6, 16)
        made = ptxlab.TensorMap.im2col(tensor, lower=(0, 0), upper=(0, 0), channels=16, pixels=16)
    elif kind:
        tensor = tensor.astype(np.uint32)[:, :32].copy()
        made = ptxlab.TensorMap(tensor, box=(32, 1 if kind == "gather4" else 8), swizzle="128B")
    body = FILL + "fence.proxy.async;\nbar.sync 0;\n@p " + filled(text, mods, more) + DONE
    out = run(body, tensor_map=made, coordinates=at)
    return out if kind is None else tensor


@pytest.mark.parametrize("name", STORES)
def test_stores(name):
    plain = stored(name, "", "")
    assert len(np.unique(plain)) > 200
    assert np.array_equal(stored(name, ".L2::cache_hint", f", {POLICY}"), plain)


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", lambda a, b: a + b),
        ("add.u64", lambda a, b: (a.view(np.uint64) + b.view(np.uint64)).view(np.uint32)),
        ("min.s32", lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32)),
        ("max.u32", np.maximum),
        ("and.b32", lambda a, b: a & b),
        ("or.b32", lambda a, b: a | b),
        ("xor.b32", lambda a, b: a ^ b),
        ("inc.u32", lambda a, b: np.where(a >= b, 0, a + 1).astype(np.uint32)),
        ("dec.u32", lambda a, b: np.where((a == 0) | (a > b), b, a - 1).astype(np.uint32)),
    ],
)
def test_reductions_to_the_peer(operation, expected, policy):
    """Each CTA combines the first KiB of its buffer with the second of its peer."""
    body = (
        FILL
        + INIT
        + "fence.proxy.async.shared::cta;\n"
        + CLUSTER
        + EXPECT
        + "xor.b32 r1, rank, 1;\nmapa.shared::cluster.u32 r2, dst, r1;\nmapa.shared::cluster.u32 r3, bar, r1;\nadd.u32 r2, r2, 1024;\n"
        + f"@p cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation} [r2], [dst], 1024, [r3];\n"
        + WAIT
        + DUMP
        + CLUSTER
    )
    out = run(body, size=1024, ctas=2, cluster=2, policy=policy).reshape(2, SIZE)
    words = SOURCE.view(np.uint32)
    want = words.copy()
    want[256:512] = expected(words[256:512].copy(), words[:256].copy())
    assert np.array_equal(out[0].view(np.uint32), want)
    assert np.array_equal(out[1], out[0])


PREFETCHES = {
    "linear": "cp.async.bulk.prefetch.L2.global<MODS> [in], 64<MORE>;\n",
    "tile": "cp.async.bulk.prefetch.tensor.2d.L2.global.tile<MODS> [m, {c0, c1}]<MORE>;\n",
    "gather4": "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4<MODS> [m, {c0, c1, c2, c3, c4}]<MORE>;\n",
    "im2col": "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col<MODS> [m, {c0, c1, c2, c3}], {1, 0}<MORE>;\n",
    "im2col::w": "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w<MODS> [m, {c0, c1, c2, c3}], {2, 1}<MORE>;\n",
}


@pytest.mark.parametrize("hint", ["", ".L2::cache_hint"])
@pytest.mark.parametrize("name", PREFETCHES)
def test_prefetches(name, hint):
    """A prefetch changes nothing that a kernel can see."""
    text = filled(PREFETCHES[name], hint, f", {POLICY}" if hint else "")
    out = run(FILL + "@p " + text + "bar.sync 0;\n" + DUMP, tensor_map=tensor_map(name), coordinates=AT.get(name, (0, -1, 1, 2)))
    assert np.array_equal(out, SOURCE)
