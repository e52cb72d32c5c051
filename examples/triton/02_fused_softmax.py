"""Softmax of rows in one kernel, with as many programs as can be resident at a time. Runs on sm_90a, sm_100a and sm_103a."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from report import differs

DRIVER = triton.runtime.driver.active
DEVICE = DRIVER.get_active_torch_device()


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_stride, y_stride, rows, cols, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    col = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        x = tl.load(x_ptr + row * x_stride + col, mask=col < cols, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * y_stride + col, e / tl.sum(e, axis=0), mask=col < cols)


def resident_programs(kernel, num_warps: int) -> int:
    """The number of programs that can be resident at a time, limited by registers and shared memory."""
    device = DRIVER.utils.get_device_properties(DRIVER.get_current_device())
    by_registers = device["max_num_regs"] // (kernel.n_regs * device["warpSize"] * num_warps)
    by_memory = device["max_shared_mem"] // kernel.metadata.shared if kernel.metadata.shared else by_registers
    return device["multiprocessor_count"] * min(by_registers, by_memory)


def softmax(x: torch.Tensor) -> torch.Tensor:
    rows, cols = x.shape
    y = torch.empty_like(x)
    options = {"BLOCK": triton.next_power_of_2(cols), "num_stages": 4, "num_warps": 8}
    kernel = softmax_kernel.warmup(x, y, x.stride(0), y.stride(0), rows, cols, grid=(1,), **options)
    kernel._init_handles()
    programs = min(resident_programs(kernel, 8), rows)
    softmax_kernel[(programs,)](x, y, x.stride(0), y.stride(0), rows, cols, **options)
    return y


def main() -> int:
    torch.manual_seed(0)
    x = torch.randn(67, 781, device=DEVICE)
    return differs("softmax", softmax(x), torch.softmax(x.double(), dim=1), 1e-6)


if __name__ == "__main__":
    sys.exit(main())
