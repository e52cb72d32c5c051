"""Kernels for the tests of the Triton driver."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def whoami(out):
    tl.store(out + tl.program_id(0) + tl.num_programs(0) * tl.program_id(1), 1 + tl.program_id(0) + 10 * tl.program_id(1))


@triton.jit
def scalars(out, small, wide, flag, real, nothing):
    tl.store(out, small)
    tl.store(out + 1, wide)
    tl.store(out + 2, flag)
    tl.store(out + 3, (real * 4).to(tl.int64))
    tl.store(out + 4, 1 if nothing is None else 0)


@triton.jit
def typed_scalars(out, half: tl.float16, brain: tl.bfloat16, double: tl.float64, byte: tl.int8):
    tl.store(out, half.to(tl.float64))
    tl.store(out + 1, brain.to(tl.float64))
    tl.store(out + 2, double)
    tl.store(out + 3, byte.to(tl.float64))


@triton.jit
def pairs(pair, out):
    tl.store(out, tl.load(pair[0]) + pair[1])


@triton.jit
def through_table(table, out):
    for i in tl.static_range(2):
        tl.store(out + i, tl.load(tl.load(table + i).to(tl.pointer_type(tl.float32))))


@triton.jit
def at_address(address, out):
    tl.store(out, tl.load(address.to(tl.pointer_type(tl.float32))))


@triton.jit
def copy_tile(x_desc, out, M: tl.constexpr, N: tl.constexpr):
    tile = x_desc.load([tl.program_id(0) * M, 0])
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + (tl.program_id(0) * M + m)[:, None] * N + n[None, :], tile)


@triton.jit
def device_descriptor(x, out, rows, M: tl.constexpr, N: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [rows, N], [N, 1], [M, N])
    tile = desc.load([tl.program_id(0) * M, 0])
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + (tl.program_id(0) * M + m)[:, None] * N + n[None, :], tile)


@triton.jit
def prints(n):
    tl.device_print("n is", n)


def describe(grid, metadata, args):
    return {"name": f"add_{args['n']}", "bytes": 12 * args["n"]}


@triton.jit(launch_metadata=describe)
def add_described(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.autotune([triton.Config({"SIZE": 256}), triton.Config({"SIZE": 64}), triton.Config({"SIZE": 128})], key=["n"])
@triton.jit
def tuned(a, b, out, n, SIZE: tl.constexpr):
    """The first configuration needs more shared memory than there is."""
    i = tl.arange(0, SIZE)
    at = (i[:, None] % 64) * 64 + (i[None, :] % 64)
    tl.store(out, tl.sum(tl.dot(tl.load(a + at), tl.load(b + at))) * 0 + SIZE)


@triton.jit
def matmul_tile(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, acc)
    c_desc.store([m, n], acc.to(tl.float16))


@triton.jit
def count_slowly(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(n):
        value += 1
    tl.store(x + at, value)
