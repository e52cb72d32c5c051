"""Triton's launcher: from the arguments of a Triton launch to those of a kernel."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from triton.backends.driver import expand_signature
from triton.backends.nvidia.driver import wrap_handle_tensordesc
from triton.runtime import _allocation

from ptxlab.interop._host_memory import attached, placed
from ptxlab.interop.session import current, launch_site
from ptxlab.interop.torch import capture_call

__all__ = ["Launcher"]

_FLOATS: dict[str, Callable[[float], bytes]] = {
    "fp16": lambda value: struct.pack("<e", value),
    "bf16": lambda value: np.float32(value).tobytes()[2:],  # Triton's launcher cuts the low half off
    "fp32": lambda value: np.float32(value).tobytes(),
    "f32": lambda value: np.float32(value).tobytes(),
    "fp64": lambda value: struct.pack("<d", value),
}


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory from an allocator, and how far into it the aligned part starts."""

    base: Any
    skip: int

    def data_ptr(self) -> int:
        return int(self.base.data_ptr()) + self.skip


class Launcher:
    """Launches one compiled kernel; Triton makes it from the source and the compiler's metadata."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.metadata = metadata
        self.names = list(src.signature)
        self.types = list(src.signature.values())
        maps = getattr(metadata, "tensordesc_meta", None)
        self.expanded_types = expand_signature(self.types, maps, "nvTmaDesc")
        self.expand = wrap_handle_tensordesc(lambda arguments: arguments, src.signature, maps)

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        kernel: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter: Callable[[Any], None] | None,
        exit: Callable[[Any], None] | None,
        *args: Any,
    ) -> None:
        if enter is not None:
            enter(launch_metadata)
        launch = partial(self._launch, (x, y, z), stream, kernel, args)
        if x * y * z > 0 and not capture_call(launch):
            launch()
        if exit is not None:
            exit(launch_metadata)

    def _launch(self, programs: tuple[int, int, int], stream: Any, kernel: Any, args: tuple[Any, ...]) -> None:
        session, found = current(), self.metadata
        scratch = self._scratch(programs[0] * programs[1] * programs[2], stream)
        named = [(name, value) for name, _, value in _leaves(self.names, self.types, args)]
        with attached(session.device, [*named, *scratch]):
            leaves = _leaves(repeat(""), self.expanded_types, self.expand(args))
            values = [_pack(parameter, kind, value) for parameter, (_, kind, value) in zip(kernel.parameters, leaves, strict=False)]
            session.launch(
                kernel,
                launch_site("triton"),
                placed(named) if session.keeps_inputs else (),
                grid=(programs[0] * found.num_ctas, programs[1], programs[2]),
                block=32 * found.num_warps,
                cluster=(found.num_ctas, 1, 1) if found.num_ctas > 1 else None,
                shared_bytes=found.shared,
                args=[*values, *(_pointer(value) for _, value in scratch)],
            )

    def _scratch(self, programs: int, stream: Any) -> list[tuple[str, Scratch | None]]:
        """The two pointers that follow the arguments, from the allocators that the program has set."""
        from triton.runtime import driver

        def memory(size: int, align: int, allocate: Callable[[int, int, Any], Any]) -> Scratch | None:
            size *= programs * self.metadata.num_ctas
            if size <= 0:
                return None
            owner = allocate(size, align, stream)
            if owner.data_ptr() % align:  # CPU memory may be less aligned than that of a device
                owner = allocate(size + align - 1, align, stream)
            return Scratch(owner, -owner.data_ptr() % align)

        found = self.metadata
        has_profiler = _allocation.has_profile_allocator()
        profile = _allocation._profile_allocator.get() if has_profiler else driver.active.allocate_default_profile_scratch
        return [
            ("global scratch", memory(found.global_scratch_size, found.global_scratch_align, _allocation._allocator.get())),
            ("profile scratch", memory(found.profile_scratch_size, found.profile_scratch_align, profile)),
        ]


def _leaves(names: Iterable[str], types: Iterable[Any], values: Iterable[Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield name, type and value of every argument that is no constant; tuples are flattened."""
    for name, kind, value in zip(names, types, values, strict=False):
        if isinstance(kind, tuple):
            yield from _leaves((f"{name}[{i}]" for i in range(len(kind))), kind, value)
        elif kind != "constexpr":
            yield name, kind, value


def _pointer(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else int(value.data_ptr())


def _pack(parameter: Any, kind: str, value: Any) -> Any:
    """The bytes of one parameter."""
    if isinstance(value, bytes):
        return value
    if kind.startswith("*"):
        return _pointer(value)
    raw = _FLOATS[kind](value) if kind in _FLOATS else (int(value) & (1 << 64) - 1).to_bytes(8, "little")
    return raw[: parameter.size]
