"""A matrix multiplication as Triton's tutorials write it: pointers, masks, a software pipeline of three stages."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, stride_a, stride_b, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c[M, N] = a[M, K] @ b[K, N], one BM x BN tile per program."""
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    pid_m = pid % tiles_m
    pid_n = pid // tiles_m
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    cols = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_tile = a + rows[:, None] * stride_a + k[None, :]
    b_tile = b + k[:, None] * stride_b + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.cdiv(K, BK)):
        x = tl.load(a_tile, mask=k[None, :] < K - start * BK, other=0.0)
        y = tl.load(b_tile, mask=k[:, None] < K - start * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        a_tile += BK
        b_tile += BK * stride_b
    rows = pid_m * BM + tl.arange(0, BM)
    cols = pid_n * BN + tl.arange(0, BN)
    c_tile = c + rows[:, None] * stride_c + cols[None, :]
    tl.store(c_tile, acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))
