"""The functions that Triton's runtime calls in a CUDA driver: loading, properties, tensor maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptxlab.descriptors import encode_tensor_map
from ptxlab.interop._device_properties import REGISTERS_PER_SM, WARP_SIZE
from ptxlab.interop._torch_cuda import product
from ptxlab.interop.session import current
from ptxlab.machine import loads
from ptxlab.machine.launch.configuration import SHARED_PER_CTA
from ptxlab.machine.launch.options import refuse

__all__ = ["Utils"]

L2_128B = 2
_REGISTERS_PER_THREAD = 64
"""The number that Triton gets for every kernel: PTX does not contain it."""


def _tensor_map(
    address: int,
    swizzle: int,
    element_bytes: int,
    element_type: int,
    block: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    padding: int,
    lower: Sequence[int] | None = None,
    upper: Sequence[int] = (),
    element_strides: Sequence[int] | None = None,
) -> bytes:
    """The 128 bytes of a tensor map, tiled without corners; dimensions outermost first, an im2col block is pixels and channels."""
    if lower is None:
        mode: dict[str, Any] = {"box": block[::-1]}
    else:
        pixels, channels = block
        mode = {"im2col": True, "lower": lower[::-1], "upper": upper[::-1], "channels": channels, "pixels": pixels}
    return encode_tensor_map(
        data_type=element_type,
        rank=len(shape),
        address=address,
        dims=list(shape)[::-1],
        strides=[element_bytes * step for step in list(strides)[-2::-1]],
        element_strides=[1] * len(shape) if element_strides is None else element_strides[::-1],
        swizzle=swizzle,
        l2_promotion=L2_128B,
        oob_fill=padding,
        target=current().settings.target,
        **mode,
    )


class Utils:
    """The functions of Triton's own driver module, by the names that its runtime and scripts use."""

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Module, kernel, registers per thread, spilled registers, threads per CTA at most."""
        if binary.startswith(b"\x7fELF"):
            raise refuse(
                "I304",
                f"kernel {name} was compiled to machine code before ptxlab was switched on",
                fix="compile it under `ptxlab exec`, or inside `with ptxlab.interop.triton.device(...)`",
            )
        module = loads(binary.decode(), file=f"{name}.ptx")
        kernel = module[name]
        registers = kernel.program.directives.get("maxnreg")
        return module, kernel, int(registers[0]) if registers else _REGISTERS_PER_THREAD, 0, 1024

    def unload_module(self, module: Any) -> None:
        pass

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return product().capability

    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        found = product()
        return {
            "max_shared_mem": SHARED_PER_CTA,
            "max_num_regs": REGISTERS_PER_SM,
            "multiprocessor_count": current().device.sms,
            "warpSize": WARP_SIZE,
            "sm_clock_rate": found.clock,
            "mem_clock_rate": found.memory_clock,
            "mem_bus_width": found.bus,
        }

    def set_printf_fifo_size(self, size: int) -> None:
        pass

    fill_tma_descriptor_tiled = staticmethod(_tensor_map)
    fill_tma_descriptor_im2col = staticmethod(_tensor_map)
