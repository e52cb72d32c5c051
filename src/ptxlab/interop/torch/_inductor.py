"""Settings of torch's compiler, Inductor: its kernels are compiled in this process, and launched by Triton's own launcher.

Operators that torch itself writes in Triton or CuTe DSL are switched off: a CPU kernel does the same in much less time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import current
from ptxlab.native import cache_directory

__all__ = ["adapt_on_import", "set_environment"]


def set_environment() -> None:
    """Set what torch reads when it is imported."""
    os.environ.setdefault("TORCH_DISABLE_NATIVE_JIT", "1")
    os.environ["TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"] = "0"  # that launcher is a part of CUDA builds
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # other processes would have no device
    folder = cache_directory()
    if folder is not None:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))  # apart from kernels that were compiled for a GPU


def adapt_on_import() -> None:
    """Change what compiled programs call, when a program first compiles something."""
    import torch

    torch._C._dynamo.guards._empty_strided_cuda = _empty_strided_cuda
    after_import("torch._inductor.runtime.triton_heuristics", _take_first_configuration)


def _empty_strided_cuda(size: Sequence[int], stride: Sequence[int], dtype: Any) -> Any:
    """New tensors of compiled programs; the function of a CPU build raises."""
    import torch

    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _take_first_configuration() -> None:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def bench(tuner: Any, *_: Any, **__: Any) -> float:
        current().note_unmeasured("I305", f"autotuning of {tuner.fn.__name__} took the first of its configurations")
        return 1.0

    CachingAutotuner.bench = bench
