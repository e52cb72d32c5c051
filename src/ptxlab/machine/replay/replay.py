"""A launch as it was started, kept to be run again: for `Result.provenance`, and for bundles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.address_space import GLOBAL_BASE
from ptxlab.machine._device import Buffer, Device
from ptxlab.machine.launch.arguments import Arguments, array_extent, as_array
from ptxlab.machine.launch.configuration import LaunchConfiguration
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.memory.global_memory import DeviceMemory
from ptxlab.machine.observe.observer import tracing
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.machine._module import Kernel
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.launch.result import Provenance, Result
    from ptxlab.machine.observe.observer import Observer

__all__ = ["Expectation", "Placed", "Replay", "placed_arguments", "placed_buffer"]

Array = NDArray[Any]
ObserverT = TypeVar("ObserverT", bound="Observer")


@dataclass(frozen=True, slots=True)
class Placed:
    """An array argument: its name, where it lies in device memory, and the host's array, if there is one."""

    name: str
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    host: Array | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, name: str, array: Array, address: int | None = None) -> Placed:
        """An array of the host; it lies at its own address, if no other one is given."""
        return cls(name, address_of(array) if address is None else address, array.shape, array.dtype, array.strides, array)

    def view(self, memory: DeviceMemory) -> Array:
        """The array as it lies in device memory."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        allocation = memory.find(self.address)
        assert allocation is not None
        return np.ndarray(self.shape, self.dtype, allocation.data.data, self.address - allocation.base, self.strides)

    def holds(self, array: Array) -> bool:
        """Whether a host array begins inside this one."""
        if self.host is None or not array.size:
            return False
        low, high = array_extent(self.host)
        return low <= address_of(array) < high

    def part(self, array: Array) -> Placed:
        """A host array that begins inside this one, under this one's name."""
        assert self.host is not None
        return Placed.of(self.name, array, self.address + address_of(array) - address_of(self.host))


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the array ``name`` should hold after the launch: the same bits, or values within tolerances."""

    name: str
    value: Array
    rtol: float
    atol: float
    exact: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """Everything that a launch was started with.

    Attributes
    ----------
    kernel, options : what ran, and how
    parameters : the packed arguments
    memory : all device memory as it was; never written to
    variables : the addresses of the module's variables
    device : target, sms, ctas_per_sm and the number of launches before
    arrays : the arrays among the arguments
    expectations : what some of them should hold afterwards, if a launch file said so
    """

    kernel: Kernel
    options: LaunchConfiguration
    parameters: bytes
    memory: DeviceMemory
    variables: dict[str, int]
    device: tuple[str, int, int | None, int]
    arrays: tuple[Placed, ...]
    expectations: tuple[Expectation, ...] = ()

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        options: LaunchConfiguration,
        device: Device,
        values: list[Any],
        arguments: Arguments,
        variables: dict[str, int],
        memory: DeviceMemory,
    ) -> Replay:
        """The state before a launch, with a copy of the memory."""
        names = [p.name for p in kernel.parameters]
        about = (device.target or kernel.module.target, device.sms, device.ctas_per_sm, device.launches)
        arrays = tuple(placed_arguments(names, values, arguments))
        return cls(kernel, options, arguments.packed, memory, dict(variables), about, arrays)

    def run(
        self, observe: Callable[[Launch], Observer] | None = None, program: Program | None = None, events: bool = True, **changes: Any
    ) -> tuple[Result, DeviceMemory]:
        """Run the launch again on a copy of the memory, with another ``program`` and some options changed.

        ``events`` says whether an observer has an `EventBuffer`, for which compiled code records its accesses.

        Returns
        -------
        the result, and the memory afterwards
        """
        from ptxlab.engine import Executable
        from ptxlab.machine.launch.execution import execute
        from ptxlab.machine.launch.launch import Launch

        started = time.perf_counter()
        options = replace(self.options, **{"trace": None, "outside": None, "profile": False} | changes)
        device = self.restored()
        again = observe is None and program is None and options.confirms
        if program is not None:
            executable = Executable(program)
        else:
            recorded = (observe is not None and events) or "race" in options.checks
            followed = observe is not None or "operands" in options.checks
            program, executable = self.kernel.variant(options.contract, recorded, options.tracked, followed, options.profile)
        trace = tracing(options.trace)
        launch = Launch(device, self.kernel.module.ast, program, executable, options, self.parameters, self.variables, observe, trace)
        own = replace(self, options=options)
        return execute(launch, started, own, (lambda: own) if again else None), device.memory

    def restored(self) -> Device:
        """A device as it was before the launch, with a copy of the memory."""
        target, sms, ctas_per_sm, launches = self.device
        device = Device(target, sms, ctas_per_sm)
        device.launches = launches
        device.memory = self.memory.copy()
        return device

    def observe(
        self, make: Callable[[Launch], ObserverT], program: Program | None = None, events: bool = True, **changes: Any
    ) -> tuple[Result, ObserverT]:
        """Run the launch again, without checks, under an observer; the result, and the observer. For the rest see `run`."""
        made: list[ObserverT] = []

        def observer(launch: Launch) -> ObserverT:
            made.append(make(launch))
            return made[0]

        result, _ = self.run(observer, program, events, **{"check": "none", "progress": None} | changes)
        return result, made[0]

    def provenance(self, array: Any, index: Any, inputs: bool = False) -> Provenance:
        """Who wrote an element; see `Result.provenance`."""
        from ptxlab.machine.observe.contributions import with_contributions
        from ptxlab.machine.observe.provenance import trace

        placed = self.placed(array)
        found = trace(self, placed, index)
        return with_contributions(self, placed, found) if inputs else found

    def _attached(self, host: Array) -> Placed | None:
        """Return a host array whose memory was attached to the device at its own address."""
        allocation = self.memory.find(address_of(host)) if address_of(host) < GLOBAL_BASE else None
        if allocation is None or array_extent(host)[1] > allocation.base + allocation.size:
            return None
        return Placed.of(allocation.name, host)

    def placed(self, array: Any) -> Placed:
        """The array argument that a name, a host array, a part of one, or a device buffer means."""
        if isinstance(array, Placed):
            return array
        if isinstance(array, str):
            found = next((p for p in self.arrays if p.name == array), None)
        elif isinstance(array, Buffer):
            found = next((p for p in self.arrays if p.address == array.address and p.shape == array.shape), None)
            found = found or placed_buffer(repr(array), array)
        else:
            host = as_array(array, "array")
            held = None if host is None else next((p for p in self.arrays if p.holds(host)), None)
            found = None if host is None else held.part(host) if held is not None else self._attached(host)
        allocation = None if found is None else self.memory.find(found.address)
        if found is None or allocation is None or allocation.freed:
            names = ", ".join(p.name for p in self.arrays) or "none"
            shown = repr(array) if isinstance(array, (str, Buffer)) else f"this {type(array).__name__}"
            raise refuse(
                "A317", f"{shown} is no array of the launch", fix=f"its array arguments: {names}; give the same object or the name"
            )
        return found


def placed_arguments(names: Iterable[str], values: Iterable[Any], arguments: Arguments) -> Iterable[Placed]:
    """The arrays and buffers among bound arguments."""
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        base = getattr(value, "base", None)
        if i in arguments.arrays:
            array = arguments.arrays[i]
            yield Placed.of(name, array, arguments.address_of(array))
        elif isinstance(value, Buffer) or isinstance(base, Buffer):
            yield placed_buffer(name, value if isinstance(value, Buffer) else base)


def placed_buffer(name: str, buffer: Any) -> Placed:
    """A buffer, whose strides are those of a contiguous array."""
    sizes = tuple(accumulate(reversed(buffer.shape), mul, initial=buffer.dtype.itemsize))
    return Placed(name, buffer.address, tuple(buffer.shape), buffer.dtype, sizes[-2::-1])
