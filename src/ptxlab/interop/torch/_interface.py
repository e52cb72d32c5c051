"""Where tensors for kernels are, and their functions: those of ``torch.cuda``, or some of these names for tensors on ``cpu``."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from ptxlab.interop.session import current
from ptxlab.interop.torch._names import device_properties, nothing
from ptxlab.interop.torch._state import library
from ptxlab.interop.torch._streams import HostEvent, HostStream

__all__ = ["device_interface", "tensor_device"]

_ON_CPU = SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 1,
    current_device=lambda: 0,
    get_device_capability=lambda device=None: current().product.capability,
    get_device_name=lambda device=None: current().product.name,
    get_device_properties=lambda device=None: device_properties(0),
    device=lambda device: nullcontext(),
    stream=lambda stream: nullcontext(),
    current_stream=lambda device=None: HostStream(),
    default_stream=lambda device=None: HostStream(),
    Stream=HostStream,
    Event=HostEvent,
    **{name: nothing(name) for name in ("set_device", "set_stream", "empty_cache", "synchronize")},
)
"""The functions that scripts around kernels and Triton's benchmarks call, for a device on which every call is synchronous."""


def tensor_device() -> Any:
    """The device of tensors that kernels of ptxlab can use: ``cuda`` if torch has it in this process."""
    import torch

    return torch.device("cpu") if library() is None else torch.device("cuda", torch.cuda.current_device())


def device_interface() -> Any:
    """The functions for these tensors."""
    import torch

    return _ON_CPU if library() is None else torch.cuda
