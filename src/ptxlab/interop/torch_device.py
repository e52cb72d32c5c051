"""Programs that use ``device="cuda"``: torch's CUDA device becomes host memory, and kernels run in ptxlab."""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ptxlab.diagnostics import diagnose
from ptxlab.interop import _events as events
from ptxlab.interop._device_properties import PRODUCTS, REGISTERS_PER_SM, WARP_SIZE
from ptxlab.interop.session import current
from ptxlab.machine.launch.configuration import SHARED_PER_CTA, THREADS_PER_SM

__all__ = ["install"]

_CPU = torch.device("cpu")


def _is_cuda(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "cuda") or (isinstance(value, str) and value.split(":")[0] == "cuda")


def _note() -> None:
    current().note(
        diagnose(
            "I307",
            "the program asks torch for a CUDA device and gets the memory of the computer; tensors say that they are on cpu",
            fix="ask for the device by triton.runtime.driver.active.get_active_torch_device()",
        )
    )


def _to_cpu(value: Any) -> Any:
    if not _is_cuda(value):
        return value
    _note()
    return _CPU


class _CudaIsCpu(TorchFunctionMode):  # type: ignore[misc]
    """Replaces CUDA devices in the arguments of torch's functions; copies between devices still copy."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if func in _COPIES:
            return args[0].clone()
        if func == _IS_CUDA:
            return True
        moves = func == torch.Tensor.to and any(_is_device(value) for value in (*args[1:], *named.values()))
        placed = [_to_cpu(value) for value in args]
        named = {name: _to_cpu(value) for name, value in named.items()}
        return func(*placed, **({**named, "copy": True} if moves else named))


def _is_device(value: Any) -> bool:
    return isinstance(value, (torch.device, str))


_COPIES = {torch.Tensor.cuda, torch.Tensor.cpu}
_IS_CUDA = torch.Tensor.is_cuda.__get__


def _properties(device: Any = None) -> Any:
    product = PRODUCTS[current().settings.target]
    return types.SimpleNamespace(
        name=product.name,
        major=product.capability[0],
        minor=product.capability[1],
        multi_processor_count=current().settings.sms or product.sms,
        total_memory=product.memory,
        warp_size=WARP_SIZE,
        shared_memory_per_block_optin=SHARED_PER_CTA,
        regs_per_multiprocessor=REGISTERS_PER_SM,
        max_threads_per_multi_processor=THREADS_PER_SM,
    )


def _nothing(*_: Any, **__: Any) -> None:
    pass


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "get_device_capability": lambda device=None: PRODUCTS[current().settings.target].capability,
    "get_device_name": lambda device=None: PRODUCTS[current().settings.target].name,
    "get_device_properties": _properties,
    "device": lambda device: nullcontext(),
    "stream": lambda stream: nullcontext(),
    "set_device": _nothing,
    "empty_cache": _nothing,
    "synchronize": _nothing,
    "current_stream": events.current_stream,
    "default_stream": events.default_stream,
    "Stream": events.Stream,
    "Event": events.Event,
}
"""The functions of ``torch.cuda`` that scripts around kernels call."""


def install() -> None:
    """Redirect torch until the program ends."""
    for name, function in _FUNCTIONS.items():
        setattr(torch.cuda, name, function)
    set_default = torch.set_default_device
    torch.set_default_device = lambda device: set_default(_to_cpu(device))
    _CudaIsCpu().__enter__()
