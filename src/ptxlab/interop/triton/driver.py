"""Triton's backend entry point, driver half: Triton's own driver for NVIDIA, whose device is that of the current session."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import SimpleNamespace

import triton
from triton.backends.nvidia import driver

from ptxlab.interop._host_memory import call_in_session
from ptxlab.interop.compilers import require_triton
from ptxlab.interop.session import FOR_GOOD, current
from ptxlab.interop.torch import device_interface, tensor_device

__all__ = ["PtxlabDriver"]


class PtxlabDriver(driver.CudaDriver):  # type: ignore[misc]
    """Triton's driver for NVIDIA, whose launches are those of the current session.

    Triton makes it when ``TRITON_DEFAULT_BACKEND`` is ``ptxlab``; `ptxlab.interop.triton.device` makes one for its context.
    """

    def __init__(self, stack: ExitStack = FOR_GOOD) -> None:
        require_triton()
        from ptxlab.interop.triton.launches import install

        if not isinstance(triton.runtime.driver._active, PtxlabDriver):
            install(stack)
        own, in_session = driver.CudaUtils(), call_in_session([])
        self.utils, self.launcher_cls = SimpleNamespace(**vars(own)), driver.CudaLauncher
        self.utils.load_binary = in_session(lambda name, binary, shared, device: own.load_binary(name, binary, shared, 0))
        self.utils.get_device_properties = in_session(lambda device: own.get_device_properties(0))
        self.get_device_capability = lambda device: current().product.capability
        self.set_current_device, self.get_current_stream = lambda device: None, lambda device: 0
        self.get_active_torch_device, self.get_device_interface = tensor_device, device_interface

    @staticmethod
    def is_active() -> bool:
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "ptxlab"

    def get_current_device(self) -> int:
        """A number for each target, because Triton keeps compiled kernels by device."""
        major, minor = current().product.capability
        return 10 * major + minor
