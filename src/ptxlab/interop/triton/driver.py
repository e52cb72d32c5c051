"""Triton's backend entry point, driver half: Triton's own driver for NVIDIA, whose calls are those of the current session."""

from __future__ import annotations

import os
from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

from triton.backends.nvidia import driver

from ptxlab import cuda
from ptxlab.interop._host_memory import HostArray, call_in_session
from ptxlab.interop._torch_cuda import FUNCTIONS, product
from ptxlab.interop.session import require_triton
from ptxlab.interop.torch import has_cuda_tensors
from ptxlab.interop.triton.ptxas import driver_settings
from ptxlab.machine.launch.options import refuse

__all__ = ["LoadedModule", "PtxlabDriver"]


class LoadedModule(int):
    """The handle of a module of the virtual driver."""

    ended: ClassVar[list[LoadedModule]] = []
    """Those of kernels that are gone, which may be anywhere in the program; they are unloaded when the next kernel is loaded."""


class Utils:
    """Triton's functions over the driver; those that ask for a device ask that of the current session."""

    def __init__(self) -> None:
        self._own = driver.CudaUtils()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call a function whose last argument is a device."""
        with call_in_session([]):
            return getattr(self._own, name)(*arguments, 0)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Module, kernel, registers per thread, spilled registers, threads per CTA at most."""
        if binary.startswith(b"\x7fELF"):
            raise refuse(
                "I304",
                f"kernel {name} was compiled to machine code before ptxlab was switched on",
                fix="compile it under `ptxlab exec`, or inside `with ptxlab.interop.triton.device(...)`",
            )
        while LoadedModule.ended:
            cuda.install().library.cuModuleUnload(c_void_p(LoadedModule.ended.pop()))
        module, *rest = self._ask("load_binary", name, binary, shared)
        return LoadedModule(module), *rest

    def get_device_properties(self, device: Any = None) -> Any:
        return self._ask("get_device_properties")

    def set_printf_fifo_size(self, size: int) -> None:
        """Printed text is not limited."""


class PtxlabDriver(driver.CudaDriver):  # type: ignore[misc]
    """Triton's driver for NVIDIA, whose launches are those of the current session.

    Triton makes it when ``TRITON_DEFAULT_BACKEND`` is ``ptxlab``; `ptxlab.interop.triton.device` makes one for its context.
    """

    def __init__(self) -> None:
        require_triton()
        from ptxlab.interop.triton import runtime

        product()
        cuda.install()
        with patch.dict(os.environ, driver_settings()):
            self.utils = Utils()
        self.launcher_cls = driver.CudaLauncher
        runtime.install()

    @staticmethod
    def is_active() -> bool:
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "ptxlab"

    def get_current_device(self) -> int:
        """A number for each target, because Triton keeps compiled kernels by device."""
        major, minor = self.get_device_capability()
        return 10 * major + minor

    def set_current_device(self, device: Any) -> None:
        pass

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return product().capability

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", torch.cuda.current_device()) if has_cuda_tensors() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda if has_cuda_tensors() else SimpleNamespace(**FUNCTIONS)

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        return HostArray.zeros(size)
