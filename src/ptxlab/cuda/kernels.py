"""Images that programs have loaded, and what the driver says about their kernels."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_uint32
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import Any

from ptxlab.cuda.core_types import KERNEL_ATTRIBUTES, KernelInfo
from ptxlab.cuda.images import Image
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine import Kernel
from ptxlab.ptx.ast import Variable

__all__ = ["LoadedKernel", "LoadedModule"]

_MAX_THREADS, _STATIC_SHARED, _LOCAL, _REGISTERS, _PTX_VERSION, _BINARY_VERSION = 0, 1, 3, 4, 5, 6
_DYNAMIC_SHARED, _CARVEOUT, _CLUSTER_MUST_BE_SET, _CLUSTER = 8, 9, 10, 11
"""Numbers of attributes of functions."""
_STATIC_UNIT = 16
"""Static shared memory comes in multiples of these bytes."""
_SHARED_WITHOUT_OPT_IN = 48 << 10
_REGISTERS_OF_PTX = 32
"""What is said of a kernel of which there is no machine code and no ``.maxnreg``."""
_MOST_THREADS = 1024


@dataclass(eq=False)
class LoadedKernel:
    """One kernel of an image: its name, the lowered kernel if there is PTX, and what the driver is told."""

    name: bytes
    kernel: Kernel | None
    info: KernelInfo | None = None
    parameters: Any = None


@dataclass(eq=False)
class LoadedModule:
    """An image that a program has loaded for a device.

    Attributes
    ----------
    image : what the device takes of it
    target, number : of the device for which it was loaded
    kernels : in the order of the image
    """

    image: Image
    target: str
    number: int
    kernels: list[LoadedKernel] = field(init=False)

    def __post_init__(self) -> None:
        module = self.image.module
        self.kernels = [LoadedKernel(n.encode(), None if module is None else module[n]) for n in self.image.kernel_names]

    def is_managed(self, name: str) -> bool:
        """Whether a variable of the PTX is managed memory, which programs reach without copies."""
        module = self.image.module
        items = () if module is None else module.ast.items
        return any(isinstance(item, Variable) and item.name == name and ".managed" in item.attributes for item in items)

    def info(self, index: int) -> KernelInfo:
        """Describe a kernel; PTX is lowered for it.

        Raises
        ------
        PtxlabError
            if the kernel cannot be lowered
        """
        found = self.kernels[index]
        if found.info is None:
            values, offsets, size = self._of_ptx(found.kernel) if found.kernel is not None else self._of_cubin(found.name.decode())
            found.parameters = (c_uint32 * max(len(offsets), 1))(*offsets)
            attributes = [values.get(number, 0) for number in range(KERNEL_ATTRIBUTES)]
            found.info = KernelInfo(
                found.name,
                ctypes.cast(found.parameters, POINTER(c_uint32)),
                len(offsets) // 2,
                size,
                (ctypes.c_int32 * KERNEL_ATTRIBUTES)(*attributes),
            )
        return found.info

    def _common(self, declared: int) -> dict[int, int]:
        static = -(-declared // _STATIC_UNIT) * _STATIC_UNIT
        version = int("".join(filter(str.isdigit, self.target or "0")))
        return {
            _STATIC_SHARED: static,
            _PTX_VERSION: version,
            _BINARY_VERSION: version,
            _DYNAMIC_SHARED: max(_SHARED_WITHOUT_OPT_IN - static, 0),
            _CARVEOUT: -1,
        }

    def _of_ptx(self, kernel: Kernel) -> tuple[dict[int, int], list[int], int]:
        """Attributes, pairs of offset and size of the parameters, and their bytes."""
        program = kernel.program
        directives = program.directives
        threads = next((directives[name] for name in ("reqntid", "maxntid") if name in directives), (_MOST_THREADS,))
        cubin = self.image.cubin.kernels.get(kernel.name) if self.image.cubin is not None else None
        registers = cubin.registers if cubin is not None else int(directives.get("maxnreg", (_REGISTERS_OF_PTX,))[0])
        cluster = tuple(map(int, directives.get("reqnctapercluster", ())))
        values = self._common(program.shared.static_end - SHARED_RESERVED) | {
            _MAX_THREADS: prod(map(int, threads)),
            _LOCAL: program.local_bytes,
            _REGISTERS: registers,
            _CLUSTER_MUST_BE_SET: int("explicitcluster" in directives),
        }
        if cluster:
            values |= {_CLUSTER + i: size for i, size in enumerate((*cluster, 1, 1)[:3])}
        offsets = chain.from_iterable((p.offset, p.size) for p in program.parameters)
        return values, list(offsets), program.param_bytes

    def _of_cubin(self, name: str) -> tuple[dict[int, int], list[int], int]:
        """The same of machine code."""
        assert self.image.cubin is not None
        found = self.image.cubin.kernels[name]
        values = self._common(found.static_shared) | {
            _MAX_THREADS: prod(found.required_threads or found.max_threads or (_MOST_THREADS,)),
            _LOCAL: found.local,
            _REGISTERS: found.registers,
        }
        offsets = chain.from_iterable((p.offset, p.size) for p in found.parameters)
        return values, list(offsets), found.parameter_bytes
