"""The device of this process."""

from __future__ import annotations

from ptxlab.interop.torch._host_device import HostDevice
from ptxlab.interop.torch._library import DeviceLibrary

__all__ = ["device", "is_prepared", "library", "set_device"]

_device: list[DeviceLibrary | HostDevice] = []


def device() -> DeviceLibrary | HostDevice:
    """What `torch.cuda` talks to."""
    return _device[-1]


def is_prepared() -> bool:
    """Whether torch has a device in this process: it has been imported, or is being imported."""
    return bool(_device)


def library() -> DeviceLibrary | None:
    """The compiled library, if the process has loaded one."""
    return _device[-1] if _device and isinstance(_device[-1], DeviceLibrary) else None


def set_device(found: DeviceLibrary | HostDevice) -> None:
    _device[:] = [found]
