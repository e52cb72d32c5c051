"""Torch without a compiled device: arguments that name a CUDA device mean the memory of the computer."""

from __future__ import annotations

from typing import Any

from ptxlab.diagnostics import diagnose
from ptxlab.interop.session import current

__all__ = ["redirect"]

_OF_DEVICE_MODULES = (
    "Event", "Stream", "current_device", "current_stream", "default_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "is_available", "set_device", "set_stream", "stream",
    "synchronize",
)  # fmt: skip
"""Functions of ``torch.cuda`` that programs look for in the module of the device that Triton names, which is ``torch.cpu``."""


def _is_cuda(value: Any) -> bool:
    import torch

    return (isinstance(value, torch.device) and value.type == "cuda") or (isinstance(value, str) and value.split(":")[0] == "cuda")


def redirect(why: str) -> None:
    """Redirect torch until the program ends; ``why`` says why there is no compiled device."""
    import torch
    from torch.overrides import TorchFunctionMode

    def to_cpu(value: Any) -> Any:
        if not _is_cuda(value):
            return value
        current().note(
            diagnose(
                "I307",
                "the program asks torch for a CUDA device and gets the memory of the computer; tensors say that they are on cpu",
                reason=why,
                fix="install a C++ compiler, g++ or clang++, and a CPU build of torch",
            )
        )
        return torch.device("cpu")

    class CudaIsCpu(TorchFunctionMode):  # type: ignore[misc]
        """Replaces CUDA devices in the arguments of torch's functions; copies between devices still copy."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
            if func in (torch.Tensor.cuda, torch.Tensor.cpu):
                return args[0].clone()
            if func == torch.Tensor.is_cuda.__get__:
                return True
            named = {name: to_cpu(value) for name, value in (kwargs or {}).items()}
            if func == torch.Tensor.to and any(isinstance(value, (torch.device, str)) for value in (*args[1:], *named.values())):
                named["copy"] = True
            return func(*map(to_cpu, args), **named)

    for name in _OF_DEVICE_MODULES:
        setattr(torch.cpu, name, getattr(torch.cuda, name))
    set_default = torch.set_default_device
    torch.set_default_device = lambda device: set_default(to_cpu(device))
    CudaIsCpu().__enter__()
