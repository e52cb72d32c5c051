"""Kernels without tensor cores: masks, shuffles, atomics, conversions, integers."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    """z = x + y."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(z + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Counts the values of x, int32 in [0, BINS), with atomics on shared and global memory."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(counts + tl.arange(0, BINS), h)


@triton.jit
def scan_rows(x, sums, best, where, cols, BLOCK: tl.constexpr):
    """Of each int32 row: inclusive sums, the largest value and where it first stands."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0)
    tl.store(sums + row * cols + c, tl.cumsum(v, 0), mask=c < cols)
    w = tl.where(c < cols, v, -2147483648)
    value, index = tl.max(w, 0, return_indices=True)
    tl.store(best + row, value)
    tl.store(where + row, index)


@triton.jit
def convert(x, f16, bf16, e4m3, e5m2, back, i32, u8, n, BLOCK: tl.constexpr):
    """float32 to the narrow types, the sum of the narrow values back, and to integers."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask=mask, other=0.0)
    a = v.to(tl.float16)
    b = v.to(tl.bfloat16)
    c = v.to(tl.float8e4nv)
    d = v.to(tl.float8e5)
    tl.store(f16 + i, a, mask=mask)
    tl.store(bf16 + i, b, mask=mask)
    tl.store(e4m3 + i, c, mask=mask)
    tl.store(e5m2 + i, d, mask=mask)
    s = b.to(tl.float32) + c.to(tl.float32) + d.to(tl.float32)
    tl.store(back + i, s, mask=mask)
    tl.store(i32 + i, v.to(tl.int32), mask=mask)
    tl.store(u8 + i, tl.abs(v).to(tl.int32).to(tl.uint8), mask=mask)


@triton.jit
def integers(x, y, out, wide, n, BLOCK: tl.constexpr):
    """A mixture of integer operations; out and wide have a row of n for each."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a = tl.load(x + i, mask=mask, other=0)
    b = tl.load(y + i, mask=mask, other=1)
    ua = a.to(tl.uint32, bitcast=True)
    ub = b.to(tl.uint32, bitcast=True)
    tl.store(out + 0 * n + i, a // b, mask=mask)
    tl.store(out + 1 * n + i, a % b, mask=mask)
    tl.store(out + 2 * n + i, (ua // ub).to(tl.int32, bitcast=True), mask=mask)
    tl.store(out + 3 * n + i, (ua % ub).to(tl.int32, bitcast=True), mask=mask)
    tl.store(out + 4 * n + i, tl.umulhi(ua, ub).to(tl.int32, bitcast=True), mask=mask)
    tl.store(out + 5 * n + i, (a << (b & 31)) ^ (a >> (b & 31)), mask=mask)
    tl.store(out + 6 * n + i, (ua >> (ub & 31)).to(tl.int32, bitcast=True) | (a & ~b), mask=mask)
    tl.store(out + 7 * n + i, tl.minimum(tl.abs(a), tl.maximum(a, b)), mask=mask)
    la = a.to(tl.int64)
    lb = b.to(tl.int64)
    tl.store(wide + 0 * n + i, la * lb + (la << 7), mask=mask)
    tl.store(wide + 1 * n + i, (la * la * la) // lb, mask=mask)
    tl.store(wide + 2 * n + i, (ua.to(tl.uint64) * ub.to(tl.uint64)).to(tl.int64, bitcast=True), mask=mask)
    r0, r1, r2, r3 = tl.randint4x(7, i)
    tl.store(out + 8 * n + i, r0.to(tl.int32, bitcast=True), mask=mask)
    tl.store(out + 9 * n + i, (r1 ^ r2 ^ r3).to(tl.int32, bitcast=True), mask=mask)


@triton.jit
def sort_rows(x, y, COLS: tl.constexpr):
    """Sorts each float32 row."""
    row = tl.program_id(0)
    c = tl.arange(0, COLS)
    tl.store(y + row * COLS + c, tl.sort(tl.load(x + row * COLS + c)))


@triton.jit
def transpose(x, y, R, C, BLOCK: tl.constexpr):
    """y = x.T in square float16 tiles."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r[:, None] * C + c[None, :], mask=(r[:, None] < R) & (c[None, :] < C), other=0.0)
    tl.store(y + c[:, None] * R + r[None, :], v.T, mask=(c[:, None] < C) & (r[None, :] < R))


@triton.jit
def elementary(x, out, n, BLOCK: tl.constexpr):
    """The elementary functions that Triton maps to approximations; out has a row of n for each."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask=mask, other=1.0)
    tl.store(out + 0 * n + i, tl.exp(v), mask=mask)
    tl.store(out + 1 * n + i, tl.log(tl.abs(v)), mask=mask)
    tl.store(out + 2 * n + i, tl.sin(v), mask=mask)
    tl.store(out + 3 * n + i, tl.cos(v), mask=mask)
    tl.store(out + 4 * n + i, tl.rsqrt(tl.abs(v)), mask=mask)
    tl.store(out + 5 * n + i, tl.sqrt(tl.abs(v)), mask=mask)
    tl.store(out + 6 * n + i, tl.sqrt_rn(tl.abs(v)), mask=mask)
    tl.store(out + 7 * n + i, tl.div_rn(1.0, v), mask=mask)
    tl.store(out + 8 * n + i, tl.fdiv(2.0, v), mask=mask)
    tl.store(out + 9 * n + i, tl.floor(v) + tl.ceil(v * 0.5), mask=mask)
    tl.store(out + 10 * n + i, tl.fma(v, v, 0.25), mask=mask)
    tl.store(out + 11 * n + i, tl.clamp(v, -1.0, 1.0), mask=mask)


@triton.jit
def ordered_floats(x, least, most, total, n, BLOCK: tl.constexpr):
    """Atomic minimum and maximum of float32 and a sum of int64."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_min(least, tl.min(tl.where(i < n, v, float("inf")), 0))
    tl.atomic_max(most, tl.max(tl.where(i < n, v, -float("inf")), 0))
    tl.atomic_add(total, tl.sum(tl.where(i < n, v * 16, 0.0).to(tl.int64), 0))
