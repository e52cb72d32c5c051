"""Arguments of host functions: arrays become tensors of CuTe DSL, at the addresses that they have, and calls tell their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from weakref import WeakValueDictionary

from ptxlab.formats.dlpack import DeviceArray, strided_view
from ptxlab.interop._host_memory import HostArray
from ptxlab.interop.session import replace_attribute
from ptxlab.machine import Buffer, Device
from ptxlab.machine.launch.arguments import as_array, buffer_address
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.replay.replay import Placed, placed_buffer

__all__ = ["example", "passed", "surround_calls"]

ALIGNMENT = 16
"""What host functions may assume of the address of an array, in bytes: what TMA needs."""


def _place(value: Any, name: str) -> Placed | None:
    """An array or buffer, where it lies; None for any other argument."""
    if hasattr(value, "__c_pointers__") or hasattr(value, "__get_mlir_types__"):
        return None
    if isinstance(value, Buffer):
        return placed_buffer(name, value)
    array = as_array(value, name)
    return None if array is None else Placed.of(name, array)


def _tensor(place: Placed, address: int) -> Any:
    """The tensor that CuTe DSL passes for an array at an address: code is compiled for its element type, shape and strides."""
    from cutlass.cute.runtime import from_dlpack

    what = fix = ""
    if any(stride % place.dtype.itemsize for stride in place.strides):
        what = f"the strides {place.strides} are no multiples of the {place.dtype.itemsize} bytes of an element"
    elif address % ALIGNMENT:
        what = f"the array starts {address % ALIGNMENT} bytes after a multiple of {ALIGNMENT}"
        fix = "copy it, or pass from_dlpack(array)"
    else:
        try:
            owner = DeviceArray(address, place.shape, place.strides, place.dtype)
            tensor: Any = from_dlpack(owner, assumed_align=ALIGNMENT)
            tensor.element_type = tensor.element_type  # which CuTe DSL looks up when it is asked for
        except (BufferError, RuntimeError):
            what = f"CuTe DSL has no element type for {place.dtype}"
            fix = "pass the bytes as uint8 and give them their type in the host function (cute.recast_tensor)"
    if what:
        raise refuse("I103", f"argument {place.name}: {what}", fix=fix)
    tensor.ptxlab_owner = owner
    return tensor


def example(value: Any, name: str) -> Any:
    """Return what a host function is compiled with in place of an array."""
    found = _place(value, name)
    return value if found is None else _tensor(found, 0)


def passed(values: Mapping[str, Any], device: Device) -> tuple[dict[str, Any], list[Placed]]:
    """What the host function takes, by the names of the arguments, and the arrays among these."""
    for position, (name, value) in enumerate(values.items()):
        if isinstance(value, Buffer):
            buffer_address(value, device, f"{position} ({name})")
    arrays = [found for name, value in values.items() if (found := _place(value, name)) is not None]
    return {**values, **{place.name: _tensor(place, place.address) for place in arrays}}, arrays


def surround_calls(stack: ExitStack, surround: Callable[[list[tuple[str, Any]]], AbstractContextManager[object]]) -> None:
    """Make every call of a host function happen inside what ``surround`` gives for its memory, until the stack is closed.

    ``surround`` is called with the memory that tensors lie in and pointers point to, as arrays of the host or as addresses, by the names
    of the arguments, or by positions if an argument has several parts. It is called without any when the kernels are loaded.
    """
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Pointer, _Tensor
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction

    load_library, run_program = CudaDialectJitCompiledFunction._load_cuda_library, JitExecutor.run_compiled_program
    owners: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def noted(pointers: Callable[[Any], list[int]]) -> Callable[[Any], list[int]]:
        def note(self: Any) -> list[int]:
            found = pointers(self)
            owners.update(dict.fromkeys(found, self))
            return found

        return note

    def load(self: Any) -> Any:
        with surround([]):
            return load_library(self)

    def run(self: Any, parts: list[Any]) -> Any:
        names = list(self.jit_module.execution_args.signature.parameters)
        named = zip(names if len(names) == len(parts) else map(str, range(len(parts))), parts, strict=True)
        owned = [(name, owners.get(part)) for name, part in named if isinstance(part, int)]
        with surround([(name, _memory(owner)) for name, owner in owned if owner is not None]):
            return run_program(self, parts)

    for owner in (_Tensor, _Pointer):
        replace_attribute(stack, owner, "__c_pointers__", noted(owner.__c_pointers__))
    replace_attribute(stack, CudaDialectJitCompiledFunction, "_load_cuda_library", load)
    replace_attribute(stack, JitExecutor, "run_compiled_program", run)


def _memory(value: Any) -> HostArray | int:
    """The memory of a tensor or pointer of CuTe DSL."""
    from cutlass.cute import AddressSpace
    from cutlass.cute.runtime import _Pointer

    if type(value) is _Pointer:
        return int(value._pointer)
    if value.memspace == AddressSpace.gmem:
        return int(value.data_ptr)
    size = value._dltensor_wrapper.dtype.width // 8
    steps = [int(step) * size for step in value.stride]
    return HostArray(strided_view(value.data_ptr, tuple(map(int, value.shape)), steps, f"u{size}"))
