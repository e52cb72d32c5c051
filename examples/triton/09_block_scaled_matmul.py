"""Block-scaled matrix multiplication: mxfp8 and nvfp4, scale factors in the layout of the tensor core. Runs on sm_100a and sm_103a."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from report import differs
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)


@triton.jit
def scaled_kernel(
    a_desc, a_scale_desc, b_desc, b_scale_desc, c_desc, K,
    FORMAT: tl.constexpr, PER_BYTE: tl.constexpr, VECTOR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Scale factors are stored in blocks of 128 rows and 4 columns: 32 x 4 x 4, one row of 16 bytes after the other."""
    m, n = tl.program_id(0), tl.program_id(1)
    ROWS_A: tl.constexpr = BM // 128
    ROWS_B: tl.constexpr = BN // 128
    COLUMNS: tl.constexpr = BK // VECTOR // 4
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), num_stages=2):
        a = a_desc.load([m * BM, k * (BK // PER_BYTE)])
        b = b_desc.load([n * BN, k * (BK // PER_BYTE)])
        sa = a_scale_desc.load([0, m * ROWS_A, k * COLUMNS, 0, 0])
        sb = b_scale_desc.load([0, n * ROWS_B, k * COLUMNS, 0, 0])
        sa = sa.reshape(ROWS_A, COLUMNS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // VECTOR)
        sb = sb.reshape(ROWS_B, COLUMNS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // VECTOR)
        acc = tl.dot_scaled(a, sa, FORMAT, b.T, sb, FORMAT, acc)
    c_desc.store([m * BM, n * BN], acc)


def packed_scales(scales: torch.Tensor) -> torch.Tensor:
    """[rows, columns] in the layout of the tensor core: row 32 j + i of a block of 128 rows is at line i, position j."""
    rows, columns = scales.shape
    blocks = scales.reshape(rows // 128, 4, 32, columns // 4, 4)
    return blocks.permute(0, 3, 2, 1, 4).reshape(1, rows // 128, columns // 4, 2, 256).contiguous()


def mxfp8(rows: int, K: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scale factors, and the values that they represent."""
    codes = torch.randn(rows, K, device=DEVICE).to(torch.float8_e4m3fn)
    scales = torch.randint(124, 131, (rows, K // 32), dtype=torch.uint8, device=DEVICE)
    values = codes.double() * torch.exp2(scales.double() - 127).repeat_interleave(32, 1)
    return codes, scales, values


def nvfp4(rows: int, K: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, two in a byte, scale factors, and the values that they represent."""
    codes = torch.randint(0, 256, (rows, K // 2), dtype=torch.uint8, device=DEVICE)
    scales = (torch.rand(rows, K // 16, device=DEVICE) + 0.5).to(torch.float8_e4m3fn)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).reshape(rows, K).long()
    values = E2M1.to(DEVICE)[nibbles & 7] * (1 - 2 * (nibbles >> 3))
    return codes, scales, values * scales.double().repeat_interleave(16, 1)


def scaled_matmul(a, a_scales, b, b_scales, K: int, kind: str) -> torch.Tensor:
    M, N = a.shape[0], b.shape[0]
    per_byte, vector = (2, 16) if kind == "e2m1" else (1, 32)
    BM, BN, BK = 128, 128, 256 if kind == "e2m1" else 128
    c = torch.empty(M, N, device=DEVICE, dtype=torch.float32)
    columns = BK // vector // 4
    scales = [TensorDescriptor.from_tensor(packed_scales(s), [1, 1, columns, 2, 256]) for s in (a_scales, b_scales)]
    operands = [TensorDescriptor.from_tensor(t, [128, BK // per_byte]) for t in (a, b)]
    out = TensorDescriptor.from_tensor(c, [BM, BN])
    scaled_kernel[(M // BM, N // BN)](
        operands[0], scales[0], operands[1], scales[1], out, K,
        FORMAT=kind, PER_BYTE=per_byte, VECTOR=vector, BM=BM, BN=BN, BK=BK, num_warps=4,
    )  # fmt: skip
    return c


def main() -> int:
    torch.manual_seed(0)
    M, N, K = 128, 256, 512
    wrong = 0
    for name, kind, make in (("mxfp8", "e4m3", mxfp8), ("nvfp4", "e2m1", nvfp4)):
        a, a_scales, a_values = make(M, K)
        b, b_scales, b_values = make(N, K)
        exact = a_values @ b_values.T
        found = scaled_matmul(a, a_scales, b, b_scales, K, kind)
        wrong |= differs(f"block-scaled matmul, {name}", found, exact, 1e-5 * exact.abs().max().item())
    return wrong


if __name__ == "__main__":
    sys.exit(main())
