"""Dropout whose mask is computed from a seed and never stored. Runs on sm_90a, sm_100a and sm_103a."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from report import differs

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    keep = tl.rand(seed, at) > p
    tl.store(y_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=at < n)


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    dropout_kernel[(triton.cdiv(n, 1024),)](x, y, n, p, seed, BLOCK=1024)
    return y


def main() -> int:
    torch.manual_seed(0)
    x = torch.rand(10_000, device=DEVICE) + 1.0
    p = 0.3
    y, again, other = dropout(x, p, 123), dropout(x, p, 123), dropout(x, p, 512)
    kept = y != 0
    rate = 1 - kept.double().mean().item()
    sound = torch.equal(y, again) and not torch.equal(y, other) and abs(rate - p) < 5 * (p * (1 - p) / x.numel()) ** 0.5
    print(f"dropout: rate {rate:.3f} (asked for {p}), the same seed gives the same mask: {'ok' if sound else 'WRONG'}")
    return (not sound) | differs("dropout, kept elements", y, torch.where(kept, x.double() / (1 - p), 0.0), 1e-6)


if __name__ == "__main__":
    sys.exit(main())
