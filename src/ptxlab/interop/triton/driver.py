"""Triton's backend entry point, driver half: Triton's own driver for NVIDIA, whose calls are those of the current session."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from triton.backends.nvidia import driver

from ptxlab.interop._host_memory import call_in_session
from ptxlab.interop._torch_cuda import FUNCTIONS, product
from ptxlab.interop.session import require_triton
from ptxlab.interop.torch import has_cuda_tensors
from ptxlab.machine.launch.options import refuse

__all__ = ["PtxlabDriver"]


def _utils() -> SimpleNamespace:
    """Triton's functions over the driver; those that ask for a device ask that of the current session."""
    own = driver.CudaUtils()

    def load_binary(name: str, binary: bytes, shared: int, device: int) -> Any:
        if binary.startswith(b"\x7fELF"):
            raise refuse(
                "I304",
                f"kernel {name} was compiled to machine code before ptxlab was switched on",
                fix="compile it under `ptxlab exec`, or inside `with ptxlab.interop.triton.device(...)`",
            )
        with call_in_session([]):
            return own.load_binary(name, binary, shared, 0)

    def get_device_properties(device: Any = None) -> Any:
        with call_in_session([]):
            return own.get_device_properties(0)

    changed = {"load_binary": load_binary, "get_device_properties": get_device_properties}
    return SimpleNamespace(**vars(own) | changed | {"set_printf_fifo_size": lambda size: None})  # printed text is not limited


class PtxlabDriver(driver.CudaDriver):  # type: ignore[misc]
    """Triton's driver for NVIDIA, whose launches are those of the current session.

    Triton makes it when ``TRITON_DEFAULT_BACKEND`` is ``ptxlab``; `ptxlab.interop.triton.device` makes one for its context.
    """

    def __init__(self) -> None:
        require_triton()
        from ptxlab.interop.triton.launches import install

        product()
        install()
        self.utils, self.launcher_cls = _utils(), driver.CudaLauncher
        self.get_device_capability, self.set_current_device = FUNCTIONS["get_device_capability"], FUNCTIONS["set_device"]
        self.get_current_stream = lambda device: 0

    @staticmethod
    def is_active() -> bool:
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "ptxlab"

    def get_current_device(self) -> int:
        """A number for each target, because Triton keeps compiled kernels by device."""
        major, minor = product().capability
        return 10 * major + minor

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", torch.cuda.current_device()) if has_cuda_tensors() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        return super().get_device_interface() if has_cuda_tensors() else SimpleNamespace(**FUNCTIONS)
