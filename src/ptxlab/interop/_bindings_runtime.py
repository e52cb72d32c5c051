"""The functions of ``cuda.bindings.runtime`` over those of ``cuda.bindings.driver``: its own call a runtime library that is linked into it.

Types and enumerations stay those of the module; they need no driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["MODULE", "install"]

MODULE = "cuda.bindings.runtime"

_CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cudaDeviceSynchronize": ("cuCtxSynchronize", ()),
    "cudaMalloc": ("cuMemAlloc", ("int",)),
    "cudaMallocAsync": ("cuMemAllocAsync", ("int",)),
    "cudaFree": ("cuMemFree", ()),
    "cudaFreeAsync": ("cuMemFreeAsync", ()),
    "cudaMallocHost": ("cuMemAllocHost", ("int",)),
    "cudaFreeHost": ("cuMemFreeHost", ()),
    "cudaMemGetInfo": ("cuMemGetInfo", ("int", "int")),
    "cudaStreamCreateWithFlags": ("cuStreamCreate", ("cudaStream_t",)),
    "cudaStreamCreateWithPriority": ("cuStreamCreateWithPriority", ("cudaStream_t",)),
    "cudaStreamDestroy": ("cuStreamDestroy", ()),
    "cudaStreamSynchronize": ("cuStreamSynchronize", ()),
    "cudaStreamQuery": ("cuStreamQuery", ()),
    "cudaStreamWaitEvent": ("cuStreamWaitEvent", ()),
    "cudaStreamEndCapture": ("cuStreamEndCapture", ("cudaGraph_t",)),
    "cudaEventCreateWithFlags": ("cuEventCreate", ("cudaEvent_t",)),
    "cudaEventDestroy": ("cuEventDestroy", ()),
    "cudaEventRecord": ("cuEventRecord", ()),
    "cudaEventSynchronize": ("cuEventSynchronize", ()),
    "cudaEventQuery": ("cuEventQuery", ()),
    "cudaEventElapsedTime": ("cuEventElapsedTime", ("float",)),
    "cudaGraphInstantiate": ("cuGraphInstantiate", ("cudaGraphExec_t",)),
    "cudaGraphLaunch": ("cuGraphLaunch", ()),
    "cudaGraphDestroy": ("cuGraphDestroy", ()),
    "cudaGraphExecDestroy": ("cuGraphExecDestroy", ()),
    "cudaProfilerStart": ("cuProfilerStart", ()),
    "cudaProfilerStop": ("cuProfilerStop", ()),
}
"""By the name of the function: the driver's function with the same parameters, and the types of the results after the status."""


class _Runtime:
    """The functions, over a module of driver functions."""

    def __init__(self, runtime: ModuleType, driver: ModuleType) -> None:
        self.runtime, self.driver = runtime, driver

    def functions(self) -> dict[str, Callable[..., tuple[Any, ...]]]:
        """All functions by name."""
        own = (name for name in dir(self) if name.startswith("cuda"))
        return {name: partial(self._same, *call) for name, call in _CALLS.items()} | {name: getattr(self, name) for name in own}

    def _call(self, name: str, *args: Any) -> tuple[Any, ...]:
        """Call a driver function; the status becomes that of the runtime API, which has the same numbers."""
        status, *values = getattr(self.driver, name)(*map(self._driver_value, args))
        return self._status(status), *values

    def _same(self, name: str, kinds: tuple[str, ...], *args: Any) -> tuple[Any, ...]:
        """Call a driver function with the parameters of the runtime's."""
        failed = self._context()
        if failed is not None:
            return failed, *(None for _ in kinds)
        status, *values = self._call(name, *args)
        if status != self.runtime.cudaError_t.cudaSuccess:
            return status, *(None for _ in kinds)
        return status, *(self._result(kind, value) for kind, value in zip(kinds, values, strict=True))

    def _context(self) -> Any:
        """Make the primary context of the first device current if none is; the status if that fails."""
        status, context = self.driver.cuCtxGetCurrent()
        if int(status) == 0 and int(context):
            return None
        (status,) = self.cudaSetDevice(0)
        return None if status == self.runtime.cudaError_t.cudaSuccess else status

    def _status(self, status: Any) -> Any:
        errors = self.runtime.cudaError_t
        try:
            return errors(int(status))
        except ValueError:
            return errors.cudaErrorUnknown

    def _driver_value(self, value: Any) -> Any:
        """Handles and enumerations of the runtime API become numbers."""
        return int(value) if type(value).__module__ == MODULE and hasattr(value, "__int__") else value

    def _result(self, kind: str, value: Any) -> Any:
        if kind == "float":
            return float(value)
        return int(value) if kind == "int" else getattr(self.runtime, kind)(int(value))

    def cudaGetDeviceCount(self) -> tuple[Any, ...]:
        self.driver.cuInit(0)
        status, count = self._call("cuDeviceGetCount")
        return status, count

    def cudaGetDevice(self) -> tuple[Any, ...]:
        return self._same("cuCtxGetDevice", ("int",))

    def cudaSetDevice(self, device: int) -> tuple[Any, ...]:
        for name, *args in (("cuInit", 0), ("cuDeviceGet", device)):
            status, *values = self._call(name, *args)
            if status != self.runtime.cudaError_t.cudaSuccess:
                return (status,)
        status, context = self._call("cuDevicePrimaryCtxRetain", values[0])
        return self._call("cuCtxSetCurrent", context) if status == self.runtime.cudaError_t.cudaSuccess else (status,)

    def cudaLibraryUnload(self, library: Any) -> tuple[Any, ...]:
        """It makes no context: collected objects unload their libraries at any time."""
        return self._call("cuLibraryUnload", library)

    def cudaDriverGetVersion(self) -> tuple[Any, ...]:
        return self._call("cuDriverGetVersion")

    def cudaMemset(self, address: Any, value: int, count: int) -> tuple[Any, ...]:
        return self._same("cuMemsetD8", (), address, value & 0xFF, count)

    def cudaMemsetAsync(self, address: Any, value: int, count: int, stream: Any) -> tuple[Any, ...]:
        return self._same("cuMemsetD8Async", (), address, value & 0xFF, count, stream)

    def cudaMemcpy(self, target: Any, source: Any, count: int, kind: Any) -> tuple[Any, ...]:
        return self._same("cuMemcpy", (), target, source, count)

    def cudaMemcpyAsync(self, target: Any, source: Any, count: int, kind: Any, stream: Any) -> tuple[Any, ...]:
        return self._same("cuMemcpyAsync", (), target, source, count, stream)

    def cudaStreamCreate(self) -> tuple[Any, ...]:
        return self._same("cuStreamCreate", ("cudaStream_t",), 0)

    def cudaEventCreate(self) -> tuple[Any, ...]:
        return self._same("cuEventCreate", ("cudaEvent_t",), 0)

    def cudaStreamBeginCapture(self, stream: Any, mode: Any) -> tuple[Any, ...]:
        return self._same("cuStreamBeginCapture", (), stream, self.driver.CUstreamCaptureMode(int(mode)))

    def cudaDeviceGetAttribute(self, attribute: Any, device: int) -> tuple[Any, ...]:
        return self._same("cuDeviceGetAttribute", ("int",), self.driver.CUdevice_attribute(int(attribute)), device)

    def cudaGraphGetNodes(self, graph: Any, numNodes: int = 0) -> tuple[Any, ...]:
        status, nodes, count = self._call("cuGraphGetNodes", graph, numNodes)
        return status, None if nodes is None else [self._result("cudaGraphNode_t", node) for node in nodes], count


def install() -> None:
    """Replace the functions of the module, which has been imported."""
    runtime, driver = import_module(MODULE), import_module("cuda.bindings.driver")
    for name, function in _Runtime(runtime, driver).functions().items():
        setattr(runtime, name, function)
