"""Triton's backend entry point, driver half: the device as Triton's runtime sees it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from triton.backends import driver as triton_driver
from triton.backends.compiler import GPUTarget

from ptxlab.cuda.products import REGISTERS_PER_SM, WARP_SIZE
from ptxlab.descriptors import encode_tensor_map
from ptxlab.interop._host_memory import HostArray
from ptxlab.interop._torch_cuda import FUNCTIONS, product
from ptxlab.interop.session import current, require_triton
from ptxlab.interop.torch import has_cuda_tensors
from ptxlab.machine import loads
from ptxlab.machine.launch.configuration import SHARED_PER_CTA
from ptxlab.machine.launch.options import refuse

__all__ = ["PtxlabDriver"]


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


class PtxlabDriver(triton_driver.DriverBase):  # type: ignore[misc]
    """A CUDA device without CUDA: memory is the computer's, kernels run in ptxlab.

    Triton makes it when ``TRITON_DEFAULT_BACKEND`` is ``ptxlab``; `ptxlab.interop.triton.device` makes one for its context.
    """

    def __init__(self) -> None:
        require_triton()
        from ptxlab.interop.triton import runtime
        from ptxlab.interop.triton._launcher import Launcher

        self.utils = Utils()
        self.launcher_cls = Launcher
        runtime.install()

    @staticmethod
    def is_active() -> bool:
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "ptxlab"

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.get_current_device(), 32)

    def get_current_device(self) -> int:
        """A number for each target, because Triton keeps compiled kernels by device."""
        major, minor = self.get_device_capability()
        return 10 * major + minor

    def set_current_device(self, device: Any) -> None:
        pass

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.utils.get_device_capability(device)

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", torch.cuda.current_device()) if has_cuda_tensors() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda if has_cuda_tensors() else SimpleNamespace(**FUNCTIONS)

    def get_benchmarker(self) -> Callable[..., Any]:
        from ptxlab.interop.triton._benchmark import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """There is no cache to flush."""

    def clear_cache(self, cache: Any) -> None:
        pass

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        return HostArray.zeros(size)

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))
