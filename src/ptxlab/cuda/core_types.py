"""The structures of ``library/core.h`` for ctypes."""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_ubyte,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ATTRIBUTES",
    "CALLBACKS",
    "KERNEL_ATTRIBUTES",
    "LOG_BYTES",
    "MOST_RANGES",
    "AccessRange",
    "Conflict",
    "Core",
    "DeviceDescription",
    "HeapChange",
    "KernelInfo",
    "LaunchRequest",
    "LoadedImage",
    "TensorMapRequest",
    "access_rows",
]

ATTRIBUTES, LOG_BYTES, KERNEL_ATTRIBUTES = 256, 4096, 16
MOST_RANGES = 4096


class DeviceDescription(Structure):
    """A device as programs see it."""

    _fields_ = [("name", c_char * 64), ("total_bytes", c_uint64), ("attributes", c_int32 * ATTRIBUTES), ("uuid", c_ubyte * 16)]


class LoadedImage(Structure):
    """An image that has been loaded."""

    _fields_ = [("id", c_uint64), ("kernels", c_uint32), ("reserved", c_uint32), ("log", c_char * LOG_BYTES)]


class KernelInfo(Structure):
    """A kernel, with the offset and size of each parameter."""

    _fields_ = [
        ("name", c_char_p),
        ("parameters", POINTER(c_uint32)),
        ("parameter_count", c_uint32),
        ("parameter_bytes", c_uint32),
        ("attributes", c_int32 * KERNEL_ATTRIBUTES),
        ("reserved", c_int32),
    ]


class LaunchRequest(Structure):
    """A launch with packed parameters."""

    _fields_ = [
        ("image", c_uint64),
        ("kernel", c_uint32),
        ("device", c_int32),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("cluster", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("cooperative", c_uint32),
        ("parameter_bytes", c_uint32),
        ("parameters", c_void_p),
    ]


class TensorMapRequest(Structure):
    """The arguments of the functions that encode tensor maps."""

    _fields_ = [
        ("address", c_uint64),
        *((name, c_int32) for name in ("type", "rank", "interleave", "swizzle", "promotion", "fill", "im2col", "reserved")),
        ("dims", c_uint64 * 5),
        ("strides", c_uint64 * 5),
        ("box", c_uint32 * 5),
        ("element_strides", c_uint32 * 5),
        ("lower", c_int32 * 5),
        ("upper", c_int32 * 5),
        ("channels", c_uint32),
        ("pixels", c_uint32),
    ]


class HeapChange(Structure):
    """A change of the map of memory; ``kind`` is negative for a range that is released."""

    _fields_ = [
        ("address", c_uint64),
        ("size", c_uint64),
        ("id", c_uint64),
        ("device", c_int32),
        ("kind", c_int32),
        ("file", c_int32),
        ("left", c_int32),
        ("place", c_uint64),
    ]


class Conflict(Structure):
    """Two operations that nothing orders, or one and a call that waits for it."""

    _fields_ = [
        ("kind", c_uint32),
        ("reserved", c_uint32),
        ("address", c_uint64),
        ("size", c_uint64),
        ("places", c_uint64 * 2),
        ("streams", c_uint64 * 2),
        ("what", (c_char * 96) * 2),
    ]


class AccessRange(Structure):
    """Bytes that an operation accesses."""

    _fields_ = [("low", c_uint64), ("high", c_uint64), ("how", c_uint32), ("reserved", c_uint32)]


def access_rows(ranges: NDArray[np.uint64]) -> Any:
    """Rows of `ptxlab.machine`, as an array of `AccessRange`."""
    return (AccessRange * max(len(ranges), 1)).from_buffer_copy(np.ascontiguousarray(ranges).tobytes() or bytes(sizeof(AccessRange)))


CALLBACKS: dict[str, Any] = {
    "load_image": CFUNCTYPE(c_int, c_uint64, c_uint64, c_int, POINTER(LoadedImage)),
    "unload_image": CFUNCTYPE(None, c_uint64),
    "kernel_name": CFUNCTYPE(c_int, c_uint64, c_uint32, POINTER(c_char_p)),
    "kernel_info": CFUNCTYPE(c_int, c_uint64, c_uint32, POINTER(KernelInfo)),
    "variable": CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint64)),
    "prepare_launch": CFUNCTYPE(c_int, POINTER(LaunchRequest), POINTER(c_uint64)),
    "run_launch": CFUNCTYPE(c_int, c_uint64, c_int),
    "encode_tensor_map": CFUNCTYPE(c_int, POINTER(TensorMapRequest), c_void_p),
    "link": CFUNCTYPE(c_int, c_uint32, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_void_p), POINTER(c_uint64), c_void_p),
    "report": CFUNCTYPE(None, c_int, c_char_p, c_uint64, c_char_p),
    "start_thread": CFUNCTYPE(c_int, c_void_p, c_void_p),
    "has_interpreter": CFUNCTYPE(c_int),
    "release_interpreter": CFUNCTYPE(c_void_p),
    "take_interpreter": CFUNCTYPE(None, c_void_p),
    "lock_interpreter": CFUNCTYPE(c_int),
    "unlock_interpreter": CFUNCTYPE(None, c_int),
    "handle_signals": CFUNCTYPE(c_int),
    "drop_exception": CFUNCTYPE(None),
    "interrupt_program": CFUNCTYPE(None),
    "interrupt_launch": CFUNCTYPE(None),
    "report_conflict": CFUNCTYPE(None, POINTER(Conflict)),
    "number_code": CFUNCTYPE(c_uint64, c_void_p),
    "thread_state": CFUNCTYPE(c_void_p),
    "frame_of_thread": CFUNCTYPE(c_void_p, c_void_p),
    "frame_before": CFUNCTYPE(c_void_p, c_void_p),
    "code_of_frame": CFUNCTYPE(c_void_p, c_void_p),
    "line_of_frame": CFUNCTYPE(c_int, c_void_p),
    "drop_object": CFUNCTYPE(None, c_void_p),
    "place": CFUNCTYPE(c_uint64),
}
"""The functions of the table, by name, with their types."""


class Core(Structure):
    """The functions that the library leaves to ptxlab."""

    _fields_ = [("size", c_uint32), ("devices", c_uint32), ("descriptions", POINTER(DeviceDescription)), *CALLBACKS.items()]
