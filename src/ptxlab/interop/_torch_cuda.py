"""The functions of ``torch.cuda`` for a device on which every call is synchronous: properties, streams and events."""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ptxlab.cuda.products import PRODUCTS, REGISTERS_PER_SM, WARP_SIZE, Product
from ptxlab.interop.session import current
from ptxlab.machine.launch.configuration import SHARED_PER_CTA, THREADS_PER_SM
from ptxlab.machine.launch.options import refuse

__all__ = ["FUNCTIONS", "product"]


def product() -> Product:
    """The device of the current session."""
    target = current().settings.target
    if target not in PRODUCTS:
        raise refuse("I303", f"Triton kernels cannot run for {target!r}", fix=f"take one of {', '.join(PRODUCTS)}")
    return PRODUCTS[target]


def _properties(device: Any = None) -> Any:
    found = product()
    return types.SimpleNamespace(
        name=found.name,
        major=found.capability[0],
        minor=found.capability[1],
        multi_processor_count=current().device.sms,
        total_memory=found.memory,
        warp_size=WARP_SIZE,
        shared_memory_per_block_optin=SHARED_PER_CTA,
        regs_per_multiprocessor=REGISTERS_PER_SM,
        max_threads_per_multi_processor=THREADS_PER_SM,
    )


class Event:
    """A point in time; the time between two is that of the simulation, or estimated."""

    def __init__(self, **_: Any) -> None:
        self.seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self.seconds = current().seconds

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds; never zero, because benchmarks divide by it."""
        return max((end.seconds - self.seconds) * 1e3, 1e-3)

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class Stream:
    """Launches run at once, in order."""

    cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


def _nothing(name: str) -> Callable[..., None]:
    """A function that does nothing: one object for each name, because torch's compiler tells functions apart by identity."""

    def does_nothing(*_: Any, **__: Any) -> None:
        pass

    does_nothing.__name__ = does_nothing.__qualname__ = name
    return does_nothing


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "get_device_capability": lambda device=None: product().capability,
    "get_device_name": lambda device=None: product().name,
    "get_device_properties": _properties,
    "device": lambda device: nullcontext(),
    "stream": lambda stream: nullcontext(),
    "current_stream": lambda device=None: Stream(),
    "default_stream": lambda device=None: Stream(),
    "Stream": Stream,
    "Event": Event,
    **{name: _nothing(name) for name in ("set_device", "set_stream", "empty_cache", "synchronize")},
}
"""The functions that scripts around kernels and Triton's benchmarks call."""
