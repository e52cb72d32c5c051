"""Triton's backend entry point, driver half: the device as Triton's runtime sees it."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from triton.backends import driver as triton_driver
from triton.backends.compiler import GPUTarget

from ptxlab.interop._host_memory import HostArray
from ptxlab.interop._torch_cuda import FUNCTIONS
from ptxlab.interop.session import require_triton

__all__ = ["PtxlabDriver"]


class PtxlabDriver(triton_driver.DriverBase):  # type: ignore[misc]
    """A CUDA device without CUDA: memory is the computer's, kernels run in ptxlab.

    Triton makes it when ``TRITON_DEFAULT_BACKEND`` is ``ptxlab``; `ptxlab.interop.triton.device` makes one for its context.
    """

    def __init__(self) -> None:
        require_triton()
        from ptxlab.interop.triton import runtime
        from ptxlab.interop.triton._launcher import Launcher
        from ptxlab.interop.triton._utils import Utils

        self.utils = Utils()
        self.launcher_cls = Launcher
        runtime.install()

    @staticmethod
    def is_active() -> bool:
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "ptxlab"

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.get_current_device(), 32)

    def get_current_device(self) -> int:
        """A number for each target, because Triton keeps compiled kernels by device."""
        major, minor = self.get_device_capability()
        return 10 * major + minor

    def set_current_device(self, device: Any) -> None:
        pass

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.utils.get_device_capability(device)

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return SimpleNamespace(**FUNCTIONS)

    def get_benchmarker(self) -> Callable[..., Any]:
        from ptxlab.interop.triton._benchmark import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """There is no cache to flush."""

    def clear_cache(self, cache: Any) -> None:
        pass

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        return HostArray.zeros(size)

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))
