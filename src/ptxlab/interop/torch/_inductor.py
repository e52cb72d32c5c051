"""Settings of torch's compiler, Inductor: its kernels are compiled in this process, and launched by Triton's own launcher."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ptxlab.native import cache_directory

__all__ = ["replace_allocation", "set_environment"]


def set_environment() -> None:
    """Set what Inductor reads when it is imported."""
    os.environ["TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"] = "0"  # that launcher is a part of CUDA builds
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # other processes would have no device
    folder = cache_directory()
    if folder is not None:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))  # apart from kernels that were compiled for a GPU


def replace_allocation() -> None:
    """Give compiled programs a function for new tensors; that of a CPU build raises."""
    import torch

    def _empty_strided_cuda(size: Sequence[int], stride: Sequence[int], dtype: Any) -> Any:
        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    torch._C._dynamo.guards._empty_strided_cuda = _empty_strided_cuda
