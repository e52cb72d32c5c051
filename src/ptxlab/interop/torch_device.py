"""Programs that use ``device="cuda"``: torch's CUDA device becomes host memory, and kernels run in ptxlab."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ptxlab.diagnostics import diagnose
from ptxlab.interop._torch_cuda import FUNCTIONS
from ptxlab.interop.session import current

__all__ = ["install"]


def _is_cuda(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "cuda") or (isinstance(value, str) and value.split(":")[0] == "cuda")


def _to_cpu(value: Any) -> Any:
    if not _is_cuda(value):
        return value
    current().note(
        diagnose(
            "I307",
            "the program asks torch for a CUDA device and gets the memory of the computer; tensors say that they are on cpu",
            fix="ask for the device by triton.runtime.driver.active.get_active_torch_device()",
        )
    )
    return torch.device("cpu")


class _CudaIsCpu(TorchFunctionMode):  # type: ignore[misc]
    """Replaces CUDA devices in the arguments of torch's functions; copies between devices still copy."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            return args[0].clone()
        if func == torch.Tensor.is_cuda.__get__:
            return True
        named = {name: _to_cpu(value) for name, value in (kwargs or {}).items()}
        if func == torch.Tensor.to and any(isinstance(value, (torch.device, str)) for value in (*args[1:], *named.values())):
            named["copy"] = True
        return func(*map(_to_cpu, args), **named)


def install() -> None:
    """Redirect torch until the program ends.

    A program that asks Triton for its device finds the functions by ``getattr(torch, device.type)``, in ``torch.cpu``.
    """
    for name, function in FUNCTIONS.items():
        setattr(torch.cuda, name, function)
        setattr(torch.cpu, name, function)
    set_default = torch.set_default_device
    torch.set_default_device = lambda device: set_default(_to_cpu(device))
    _CudaIsCpu().__enter__()
