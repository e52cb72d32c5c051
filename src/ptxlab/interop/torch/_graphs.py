"""CUDA graphs: the class that ``torch.cuda.CUDAGraph`` is derived from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ptxlab.interop.torch._library import DeviceLibrary
from ptxlab.interop.torch._state import library
from ptxlab.machine.launch.options import refuse

__all__ = ["CudaGraph", "capture_call", "new_pool"]

_pools = count(1)


class Recording:
    """A graph of the library, with the calls in it; both end with this object."""

    def __init__(self, found: DeviceLibrary) -> None:
        self.library = found
        self.handle = found.new_graph()
        self.calls: list[int] = []

    def __del__(self) -> None:
        self.library.delete_graph(self.handle)
        self.library.forget_calls(self.calls)


_captured: list[Recording] = []
"""The graph that is being captured, if one is."""


def new_pool() -> tuple[int, int]:
    """A name for a pool of memory that no other pool has."""
    return (0, next(_pools))


def capture_call(function: Callable[[], object]) -> bool:
    """While a graph is captured, add a call to it and return true; the call is made at each replay."""
    if not _captured:
        return False
    _captured[-1].calls.append(_captured[-1].library.add_call(function))
    return True


class CudaGraph:
    """A graph: operators and kernels are recorded while it is captured, and done again at each replay."""

    def __new__(cls, keep_graph: bool = False) -> Any:
        graph = super().__new__(cls)
        graph._recording, graph._pool = None, new_pool()
        return graph

    _recording: Recording | None
    _pool: tuple[int, int]

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        found = library()
        if found is None:
            raise refuse("I309", "a CUDA graph cannot be captured from CPU tensors", fix="install a C++ compiler, g++ or clang++")
        self._recording, self._pool = Recording(found), pool or self._pool
        found.begin_capture(self._recording.handle)
        _captured.append(self._recording)

    def capture_end(self) -> None:
        _captured.pop().library.end_capture()

    def instantiate(self) -> None:
        """A graph needs no preparation."""

    def replay(self) -> None:
        if self._recording is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._recording.library.replay(self._recording.handle)

    def reset(self) -> None:
        self._recording = None

    def pool(self) -> tuple[int, int]:
        return self._pool

    def register_generator_state(self, generator: Any) -> None:
        """Generators advance at each replay."""

    def enable_debug_mode(self) -> None:
        """There is nothing to dump."""

    def debug_dump(self, debug_path: str) -> None:
        """There is nothing to dump."""
