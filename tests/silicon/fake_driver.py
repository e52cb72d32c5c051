"""A driver for ``record.py --driver``: its own class on a library in which ptxlab is the GPU.

``FAKE_*`` in the environment makes it another GPU, or a bad one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any
from unittest import mock

import numpy as np

import ptxlab
from __main__ import Driver as Recorded  # type: ignore[attr-defined]
from ptxlab.descriptors import TensorMapError, encode_tensor_map

INVALID_VALUE, LAUNCH_FAILED = 1, 719


class Library:
    """The functions of ``libcuda.so.1`` that the script calls."""

    def __init__(self) -> None:
        self.device = ptxlab.Device(os.environ["FAKE_TARGET"])
        self.buffers: dict[int, ptxlab.machine.Buffer] = {}
        self.modules: list[ptxlab.Module] = []
        self.functions: list[ptxlab.machine.Kernel] = []
        self.error = b""

    def cuInit(self, flags: int) -> int:
        return INVALID_VALUE if "FAKE_NONE" in os.environ else 0

    def nothing(self, *arguments: Any) -> int:
        return 0

    cuDeviceGet = cuDevicePrimaryCtxRetain = cuCtxSetCurrent = cuFuncSetAttribute = nothing

    def cuGetErrorName(self, error: int, name: Any) -> int:
        name._obj.value = self.error or b"CUDA_ERROR_NO_DEVICE"
        return 0

    def cuModuleLoadDataEx(self, module: Any, text: bytes, *options: Any) -> int:
        self.modules.append(ptxlab.loads(text.rstrip(b"\0").decode()))
        module._obj.value = len(self.modules)
        return 0

    def cuModuleGetFunction(self, function: Any, module: ctypes.c_void_p, name: bytes) -> int:
        self.functions.append(self.modules[(module.value or 0) - 1][name.decode()])
        function._obj.value = len(self.functions)
        return 0

    def cuMemAlloc_v2(self, address: Any, size: ctypes.c_size_t) -> int:
        buffer = self.device.array(np.zeros(size.value, np.uint8))
        self.buffers[buffer.address] = buffer
        address._obj.value = buffer.address
        return 0

    def cuMemFree_v2(self, address: ctypes.c_uint64) -> int:
        self.buffers.pop(address.value).free()
        return 0

    def cuMemcpyHtoD_v2(self, address: ctypes.c_uint64, data: bytes, size: ctypes.c_size_t) -> int:
        buffer = self.buffers[address.value]
        buffer.write(np.frombuffer(data[: size.value].ljust(buffer.nbytes, b"\0"), np.uint8))
        return 0

    def cuMemcpyDtoH_v2(self, data: Any, address: ctypes.c_uint64, size: ctypes.c_size_t) -> int:
        ctypes.memmove(data, self.buffers[address.value].numpy().tobytes(), size.value)
        return 0

    def cuTensorMapEncodeTiled(
        self, to: Any, data_type: int, rank: int, address: Any, dims: Any, strides: Any, box: Any, *more: Any
    ) -> int:
        return self.encode(to, data_type, rank, address, dims, strides, *more, box=list(box)[:rank])

    def cuTensorMapEncodeIm2col(self, to: Any, kind: int, rank: int, address: Any, dims: Any, strides: Any, *more: Any) -> int:
        lower, upper, channels, pixels, *rest = more
        corners = {"lower": list(lower)[: rank - 2], "upper": list(upper)[: rank - 2]}
        return self.encode(to, kind, rank, address, dims, strides, *rest, im2col=True, **corners, channels=channels, pixels=pixels)

    def encode(
        self, to: Any, data_type: int, rank: int, address: Any, dims: Any, strides: Any, steps: Any, *modes: int, **more: Any
    ) -> int:
        tensor = {"dims": list(dims)[:rank], "strides": list(strides)[: rank - 1], "element_strides": list(steps)[:rank]}
        named = dict(zip(("interleave", "swizzle", "l2_promotion", "oob_fill"), modes, strict=True))
        target = os.environ["FAKE_TARGET"]
        try:
            raw = encode_tensor_map(data_type=data_type, rank=rank, address=address.value, **tensor, **named, **more, target=target)
        except TensorMapError:
            self.error = b"CUDA_ERROR_INVALID_VALUE"
            return INVALID_VALUE
        assert to.value % 64 == 0
        ctypes.memmove(to, raw, len(raw))
        return 0

    def cuLaunchKernel(self, function: ctypes.c_void_p, *given: Any) -> int:
        *dims, shared_bytes, _stream, pointers, _extra = given
        kernel = self.functions[(function.value or 0) - 1]
        args = [ctypes.string_at(pointer, parameter.size) for pointer, parameter in zip(pointers, kernel.parameters, strict=True)]
        args = [int.from_bytes(raw, "little") if len(raw) == 8 else raw for raw in args]
        result = kernel.launch(grid=tuple(dims[:3]), block=tuple(dims[3:]), shared_bytes=shared_bytes, args=args, device=self.device)
        self.error = b"" if result.ok else b"CUDA_ERROR_" + result.diagnostics[0].code.encode()
        return 0

    def cuCtxSynchronize(self) -> int:
        return LAUNCH_FAILED if self.error else 0


class Driver(Recorded):  # type: ignore[misc]
    """What `Driver` of ``record.py`` is for a GPU."""

    def __init__(self) -> None:
        library = Library()
        with mock.patch.object(ctypes, "CDLL", return_value=library):
            super().__init__()

    def describe(self) -> dict[str, Any]:
        major, minor = map(int, os.environ.get("FAKE_CAPABILITY", "9.0").split("."))
        return {"gpu": "NVIDIA Nothing", "driver": "1.2", "cuda": 13000, "major": major, "minor": minor}

    def run(self, text: bytes, case: dict[str, Any], inputs: list[bytes]) -> list[bytes]:
        if case["kernel"] == os.environ.get("FAKE_HANG"):
            time.sleep(600)
        if case["kernel"] == os.environ.get("FAKE_CRASH"):
            print("first line\nsecond line", file=sys.stderr, flush=True)
            os._exit(11)
        found: list[bytes] = super().run(text, case, inputs)
        return found
