"""The functions of a CUDA build that the extension module ``torch._C`` lacks in a CPU build: one table.

``torch.cuda`` is written in Python over these names. With them it works as it is, for both kinds of device.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ptxlab.cuda.products import REGISTERS_PER_SM, WARP_SIZE, attribute
from ptxlab.interop.session import current
from ptxlab.interop.torch import _graphs, _streams
from ptxlab.interop.torch._library import Count
from ptxlab.interop.torch._state import device
from ptxlab.machine.launch.configuration import SHARED_PER_CTA, SHARED_PER_SM, THREADS_PER_SM

__all__ = ["RUNTIME_VERSION", "DeviceProperties", "names"]

_CUDA = 1
"""The number of the device type."""
RUNTIME_VERSION = 13000
_THREADS_PER_CTA, _SHARED_PER_CTA, _L2_BYTES = 1, 8, 38
"""Numbers of the driver's device attributes."""


@dataclass(frozen=True)
class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` returns."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    max_threads_per_block: int
    shared_memory_per_block: int
    L2_cache_size: int
    warp_size: int = WARP_SIZE
    max_threads_per_multi_processor: int = THREADS_PER_SM
    regs_per_multiprocessor: int = REGISTERS_PER_SM
    shared_memory_per_block_optin: int = SHARED_PER_CTA
    shared_memory_per_multiprocessor: int = SHARED_PER_SM
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    uuid: str = "00000000-0000-0000-0000-000000000000"
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0


def device_properties(index: int) -> DeviceProperties:
    """Of the product that the session runs kernels for."""
    found, machine = current().product, current().device
    return DeviceProperties(
        name=found.name,
        major=found.capability[0],
        minor=found.capability[1],
        multi_processor_count=machine.sms,
        total_memory=found.memory,
        clock_rate=found.clock,
        memory_clock_rate=found.memory_clock,
        memory_bus_width=found.bus,
        max_threads_per_block=attribute(machine, _THREADS_PER_CTA) or 0,
        shared_memory_per_block=attribute(machine, _SHARED_PER_CTA) or 0,
        L2_cache_size=attribute(machine, _L2_BYTES) or 0,
    )


def initialize() -> None:
    """Give ``torch.cuda`` what a CUDA build gives it when it is first used."""
    import torch

    torch.cuda.default_generators = tuple(device().generator(index) for index in range(device().device_count()))
    torch.cuda._get_device_properties = device_properties


def exchange_device(index: int) -> int:
    before = device().current_device()
    if index >= 0 and index != before:
        device().set_device(index)
    return before


def maybe_exchange_device(index: int) -> int:
    return exchange_device(index)


def current_stream(index: int) -> tuple[int, int, int]:
    """Number of the stream, its device, and the type of the device."""
    return device().current_stream(index), index, _CUDA


def default_stream(index: int) -> tuple[int, int, int]:
    return 0, index, _CUDA


def external_stream(pointer: int, index: int) -> tuple[int, int, int]:
    return pointer, index, _CUDA


def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
    device().set_device(device_index)
    device().set_stream(device_index, stream_id)


def synchronize() -> None:
    device().synchronize(device().current_device())


def _nested(count: Count) -> dict[str, dict[str, int]]:
    found = {"current": count.current, "peak": count.peak, "allocated": count.allocated, "freed": count.released}
    none = dict.fromkeys(found, 0)
    return {"all": found, "small_pool": none, "large_pool": dict(found)}


def memory_statistics(index: int) -> dict[str, Any]:
    """In the form of torch's caching allocator; nothing is cached, so what is reserved is what is allocated."""
    size, blocks = device().statistics(index)
    of_bytes = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    of_blocks = ("allocation", "segment", "active")
    nothing = _nested(Count(0, 0, 0, 0))
    return {
        **{name: _nested(size) for name in of_bytes},
        **{name: _nested(blocks) for name in of_blocks},
        "inactive_split": nothing,
        "inactive_split_bytes": nothing,
        "oversize_allocations": dict.fromkeys(("current", "peak", "allocated", "freed"), 0),
        "oversize_segments": dict.fromkeys(("current", "peak", "allocated", "freed"), 0),
        "num_alloc_retries": 0,
        "num_ooms": 0,
        "num_sync_all_streams": 0,
        "num_device_alloc": blocks.allocated,
        "num_device_free": blocks.released,
        "max_split_size": -1,
    }


def reset_peaks(index: int) -> None:
    device().reset_peaks(index)


def reset_accumulated(index: int) -> None:
    """The sums since the start are kept."""


def memory_information(index: int) -> tuple[int, int]:
    """Bytes that are free, and all."""
    total = current().product.memory
    return total - device().statistics(index)[0].current, total


def snapshot(*_: Any) -> dict[str, Any]:
    return {"segments": [], "device_traces": [], "allocator_settings": {}, "external_annotations": []}


def architectures() -> str:
    return current().settings.target


def nothing(name: str) -> Callable[..., None]:
    """A function that does nothing: one object for each name, because torch's compiler tells functions apart by identity."""

    def does_nothing(*_: Any, **__: Any) -> None:
        pass

    does_nothing.__name__ = does_nothing.__qualname__ = name
    return does_nothing


def constant(name: str, value: Any) -> Callable[..., Any]:
    """A function that returns the same value always."""

    def returns_a_constant(*_: Any, **__: Any) -> Any:
        return value

    returns_a_constant.__name__ = returns_a_constant.__qualname__ = name
    return returns_a_constant


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_cuda_init": initialize,
    "_cuda_getDeviceCount": lambda: device().device_count(),
    "_cuda_getDevice": lambda: device().current_device(),
    "_cuda_setDevice": lambda index: device().set_device(index),
    "_cuda_exchangeDevice": exchange_device,
    "_cuda_maybeExchangeDevice": maybe_exchange_device,
    "_cuda_getCurrentStream": current_stream,
    "_cuda_getDefaultStream": default_stream,
    "_cuda_getStreamFromExternal": external_stream,
    "_cuda_getCurrentRawStream": lambda index: device().current_stream(index),
    "_cuda_setStream": set_stream,
    "_cuda_synchronize": synchronize,
    "_cuda_isCurrentStreamCapturing": lambda: device().is_capturing(),
    "_graph_pool_handle": _graphs.new_pool,
    "_cuda_canDeviceAccessPeer": lambda index, peer: index != peer,
    "_cuda_getArchFlags": architectures,
    "_cuda_memoryStats": memory_statistics,
    "_cuda_resetPeakMemoryStats": reset_peaks,
    "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
    "_cuda_memorySnapshot": snapshot,
}
"""What depends on the device."""

_CONSTANTS: dict[str, Any] = {
    "_cuda_isInBadFork": False,
    "_cuda_hasPrimaryContext": True,
    "_cuda_getCompiledVersion": RUNTIME_VERSION,
    "_cuda_getCurrentBlasHandle": 0,
    "_cuda_getCurrentSolverHandle": 0,
    "_cuda_getAllocatorBackend": "native",
    "_cuda_getMemoryFraction": 1.0,
    "_cuda_get_sync_debug_mode": 0,
    "_cuda_cudaCachingAllocator_is_enabled": False,
    "_cuda_isHistoryEnabled": False,
    "_cuda_hostMemoryStats": {},
    "_cuda_getMemoryMetadata": "",
    "_cuda_tunableop_is_enabled": False,
    "_cuda_tunableop_tuning_is_enabled": False,
    "_cuda_record_untuned_is_enabled": False,
    "_cuda_checkPoolLiveAllocations": True,
}
"""What functions return that have one answer."""

_NOTHING = (
    "_cuda_sleep",
    "_cuda_ipc_collect",
    "_cuda_emptyCache",
    "_host_emptyCache",
    "_cuda_setMemoryFraction",
    "_cuda_set_sync_debug_mode",
    "_cuda_clearCublasWorkspaces",
    "_cuda_cudaCachingAllocator_enable",
    "_cuda_setMemoryMetadata",
    "_cuda_resetPeakHostMemoryStats",
    "_cuda_resetAccumulatedHostMemoryStats",
    "_cuda_record_memory_history",
    "_cuda_record_memory_history_legacy",
    "_cuda_attach_out_of_memory_observer",
    "_cuda_beginAllocateToPool",
    "_cuda_beginAllocateCurrentThreadToPool",
    "_cuda_beginAllocateCurrentStreamToPool",
    "_cuda_endAllocateToPool",
    "_cuda_releasePool",
    "_cuda_tunableop_enable",
    "_cuda_tunableop_tuning_enable",
    "_activate_gpu_trace",
)
"""Functions that change nothing here: nothing is cached, and work is not timed."""


class MemPool:
    """A name for a pool; all memory comes from one heap."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        pool = super().__new__(cls)
        pool.id = _graphs.new_pool()
        return pool

    id: tuple[int, int]

    def use_count(self) -> int:
        return 1


class Allocator:
    """The allocator, as an object that programs hand back."""


class _CudaError(int):
    success: int = 0


def _runtime() -> Any:
    """The functions of ``torch.cuda.cudart()``."""
    module: Any = types.ModuleType("torch._C._cudart")
    module.cudaError = _CudaError
    module.cudaGetErrorString = lambda code: "no error" if code == _CudaError.success else "unknown error"
    module.cudaMemGetInfo = memory_information
    for name in ("cudaProfilerStart", "cudaProfilerStop", "cudaHostRegister", "cudaHostUnregister"):
        setattr(module, name, constant(name, _CudaError.success))
    return module


class _Ranges:
    """Ranges of NVTX: only their depth is counted."""

    def __init__(self) -> None:
        self.depth = 0

    def rangePushA(self, message: str) -> int:
        self.depth += 1
        return self.depth - 1

    def rangePop(self) -> int:
        self.depth = max(0, self.depth - 1)
        return self.depth

    def rangeStartA(self, message: str) -> int:
        return 0

    def rangeEnd(self, number: int) -> None:
        """Nothing is recorded."""

    def markA(self, message: str) -> None:
        """Nothing is recorded."""


def names(extension: Any) -> dict[str, Any]:
    """Return the table: what is set in torch's extension module, by name."""
    return {
        **_FUNCTIONS,
        **{name: constant(name, value) for name, value in _CONSTANTS.items()},
        **{name: nothing(name) for name in _NOTHING},
        **_streams.bases(extension),
        "_CUDAGraph": _graphs.CudaGraph,
        "_CudaDeviceProperties": DeviceProperties,
        "_MemPool": MemPool,
        "_cuda_CUDAAllocator": Allocator,
        "_cudart": _runtime(),
        "_nvtx": _Ranges(),
        "_has_cuda": True,
    }
