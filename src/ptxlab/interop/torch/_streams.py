"""The classes that ``torch.cuda.Stream`` and ``torch.cuda.Event`` are derived from."""

from __future__ import annotations

from typing import Any

from ptxlab.cuda import installed
from ptxlab.interop.session import current
from ptxlab.interop.torch._library import DeviceLibrary
from ptxlab.interop.torch._state import device, library

__all__ = ["bases"]

_CUDA = 1
"""The number of the device type."""
_PRIORITIES = (0, -5)
"""The lowest and the highest."""
_SHORTEST_TIME = 1e-3
"""Milliseconds; benchmarks divide by the time between two events."""


def bases(extension: Any) -> dict[str, type]:
    """Return both classes by the names that torch's extension module gives them."""
    found = library()
    if found is None:
        return {"_CudaStreamBase": HostStream, "_CudaEventBase": HostEvent}
    return {"_CudaStreamBase": _stream_class(extension.Stream), "_CudaEventBase": _event_class(extension.Event, found)}


def _stream_class(generic: Any) -> type:
    """The class for a library: torch's own class for streams of every device does the work."""

    class CudaStream(generic):  # type: ignore[misc]
        def __new__(cls, priority: int = 0, stream_id: int = 0, device_index: int = 0, device_type: int = 0, stream_ptr: int = 0) -> Any:
            if stream_ptr:
                stream_id, device_index, device_type = stream_ptr, device().current_device(), _CUDA
            if device_type:
                stream = generic.__new__(cls, stream_id=stream_id, device_index=device_index, device_type=device_type)
            else:
                stream = generic.__new__(cls, device="cuda", priority=priority)
            stream.priority = priority
            return stream

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return _PRIORITIES

    return CudaStream


def _event_class(generic: Any, found: DeviceLibrary) -> type:
    class CudaEvent(generic):  # type: ignore[misc]
        def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> Any:
            return generic.__new__(cls, device="cuda", enable_timing=enable_timing, blocking=blocking)

        @property
        def cuda_event(self) -> int:
            return int(self.event_id)

        def elapsed_time(self, end: Any) -> float:
            if not self.cuda_event or not end.cuda_event:
                raise RuntimeError("Both events must be recorded before calculating elapsed time.")
            return found.milliseconds_between(self.cuda_event, end.cuda_event)

    return CudaEvent


class HostStream:
    """A stream of the host device: calls end at once."""

    def __new__(cls, priority: int = 0, stream_id: int = 0, device_index: int = 0, device_type: int = _CUDA, stream_ptr: int = 0) -> Any:
        stream = super().__new__(cls)
        stream.stream_id = stream.cuda_stream = stream_id or stream_ptr
        stream.device_index, stream.device_type, stream.priority = device_index, _CUDA, priority
        return stream

    stream_id: int
    cuda_stream: int
    device_index: int
    device_type: int
    priority: int

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return _PRIORITIES

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing is queued."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostStream) and self.stream_id == other.stream_id

    def __hash__(self) -> int:
        return hash(self.stream_id)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """All streams are one."""


class HostEvent:
    """The end of what is queued; the time between two is that of the simulation, or estimated."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> Any:
        event = super().__new__(cls)
        event.cuda_event = 0
        event.seconds = 0.0
        return event

    cuda_event: int
    seconds: float

    def record(self, stream: Any = None) -> None:
        driver = installed()
        if driver is not None:
            driver.synchronize()
        self.seconds = current().seconds

    def wait(self, stream: Any = None) -> None:
        """Nothing is queued."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing is queued."""

    def elapsed_time(self, end: HostEvent) -> float:
        passed = (end.seconds - self.seconds) * 1e3
        return passed if passed > 0 else _SHORTEST_TIME
