"""A Gluon kernel that does not wait for its TMA load: `ptxlab exec examples/findings/missing_wait.py` reports the race."""

from __future__ import annotations

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@gluon.jit
def double(source, target):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], loaded, tile)
    # Missing: mbarrier.wait(loaded, phase=0)
    rows = gl.arange(0, 16, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    gl.store(target + rows * 32 + columns, 2 * tile.load(layout))


x = torch.ones(16, 32, device=DEVICE)
y = torch.empty_like(x)
layout = gl.NVMMASharedLayout.get_default_for([16, 32], gl.float32)
double[(1,)](TensorDescriptor.from_tensor(x, [16, 32], layout), y)
print("largest difference from 2 * x:", (y - 2 * x).abs().max().item())
