"""The functions of the compiled library, and what `ptxlab.interop.torch` needs of a device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

__all__ = ["Count", "DeviceLibrary"]

_ERROR, _INT, _LONG, _HANDLE = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_CALL = ctypes.CFUNCTYPE(_INT, _LONG)

_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "use_driver": (_ERROR, (ctypes.c_char_p,)),
    "register": (_ERROR, (_INT, _LONG)),
    "device_count": (_INT, ()),
    "current_device": (_INT, ()),
    "set_device": (_ERROR, (_INT,)),
    "synchronize_device": (_ERROR, (_INT,)),
    "current_stream": (_LONG, (_INT,)),
    "set_stream": (_ERROR, (_INT, _LONG)),
    "milliseconds_between": (ctypes.c_double, (_HANDLE, _HANDLE)),
    "statistics": (None, (_INT, ctypes.POINTER(_LONG))),
    "reset_peaks": (None, (_INT,)),
    "new_graph": (_HANDLE, ()),
    "delete_graph": (None, (_HANDLE,)),
    "is_capturing": (_INT, ()),
    "begin_capture": (_ERROR, (_HANDLE,)),
    "end_capture": (_ERROR, ()),
    "replay": (_ERROR, (_HANDLE,)),
    "add_call": (_ERROR, (_CALL, _LONG)),
}
"""Result and parameters of each function; those that can fail return a text, or null."""


@dataclass(frozen=True, slots=True)
class Count:
    """How much there is now, was at most, was allocated and was released."""

    current: int
    peak: int
    allocated: int
    released: int


class DeviceLibrary:
    """The library, loaded; torch must not have been imported before."""

    def __init__(self, file: Path) -> None:
        library = ctypes.CDLL(str(file))
        self._functions: dict[str, Any] = {}
        for name, (result, parameters) in _PROTOTYPES.items():
            function = library[f"ptxlab_torch_{name}"]
            function.restype, function.argtypes = result, parameters
            self._functions[name] = function
        self._calls: dict[int, Callable[[], object]] = {}
        self._numbers = count(1)
        self._failed: BaseException | None = None
        self._callback = _CALL(self._called)

    def _call(self, name: str, *arguments: Any) -> Any:
        result = self._functions[name](*arguments)
        if _PROTOTYPES[name][0] is not _ERROR or result is None:
            return result
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        raise RuntimeError(result.decode())

    def use_driver(self, path: str) -> None:
        """Take memory, streams and events from a CUDA driver that the process has loaded."""
        self._call("use_driver", path.encode())

    def register(self, devices: int, memory: int) -> None:
        """Make torch find so many devices, with so many bytes each."""
        self._call("register", devices, memory)

    def device_count(self) -> int:
        return int(self._call("device_count"))

    def current_device(self) -> int:
        return int(self._call("current_device"))

    def set_device(self, device: int) -> None:
        self._call("set_device", device)

    def synchronize(self, device: int) -> None:
        self._call("synchronize_device", device)

    def current_stream(self, device: int) -> int:
        return int(self._call("current_stream", device))

    def set_stream(self, device: int, stream: int) -> None:
        self._call("set_stream", device, stream)

    def milliseconds_between(self, start: int, end: int) -> float:
        """Between two recorded events, given by their addresses."""
        return float(self._call("milliseconds_between", start, end))

    def statistics(self, device: int) -> tuple[Count, Count]:
        """Of bytes and of blocks."""
        numbers = (_LONG * 8)()
        self._call("statistics", device, numbers)
        return Count(*numbers[:4]), Count(*numbers[4:])

    def reset_peaks(self, device: int) -> None:
        self._call("reset_peaks", device)

    def generator(self, device: int) -> Any:
        import torch

        return torch.ops.ptxlab_cuda.default_generator(device)

    def new_graph(self) -> int:
        return int(self._call("new_graph"))

    def delete_graph(self, graph: int) -> None:
        self._call("delete_graph", graph)

    def is_capturing(self) -> bool:
        return bool(self._call("is_capturing"))

    def begin_capture(self, graph: int) -> None:
        self._call("begin_capture", graph)

    def end_capture(self) -> None:
        self._call("end_capture")

    def replay(self, graph: int) -> None:
        self._call("replay", graph)

    def add_call(self, function: Callable[[], object]) -> int:
        """Add a call to the graph that is being captured; returns its number, for `forget_call`."""
        number = next(self._numbers)
        self._calls[number] = function
        self._call("add_call", self._callback, number)
        return number

    def forget_calls(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._calls[number]

    def _called(self, number: int) -> int:
        try:
            self._calls[number]()
        except BaseException as error:  # it is raised again by what replays the graph
            self._failed = error
            return 1
        return 0
