"""The device without a compiled library: CPU tensors stand for those of the device, and there is one."""

from __future__ import annotations

from typing import Any

from ptxlab.interop.torch._library import Count

__all__ = ["HostDevice"]


class HostDevice:
    """What `DeviceLibrary` does, for one device on which every call has ended when it returns."""

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: int) -> None:
        if device != 0:
            raise RuntimeError("CUDA error: invalid device ordinal")

    def synchronize(self, device: int) -> None:
        """Nothing is queued."""

    def current_stream(self, device: int) -> int:
        return 0

    def set_stream(self, device: int, stream: int) -> None:
        """All streams are one."""

    def statistics(self, device: int) -> tuple[Count, Count]:
        return Count(0, 0, 0, 0), Count(0, 0, 0, 0)

    def reset_peaks(self, device: int) -> None:
        """Nothing is counted."""

    def generator(self, device: int) -> Any:
        import torch

        return torch.default_generator

    def is_capturing(self) -> bool:
        return False
