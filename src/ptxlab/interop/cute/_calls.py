"""One call of a host function: its launches run in ptxlab."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ptxlab.descriptors import encode_tensor_map
from ptxlab.interop.cute._cuda import CLUSTER_DIMENSION, LaunchConfig, current
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine import Device, Module, Result, Stats
from ptxlab.machine.launch.limits import SHARED_PER_CTA, SHARED_PER_SM, THREADS_PER_SM
from ptxlab.machine.launch.options import refuse

__all__ = ["HostCall"]

_STATIC_SHARED = 1
"""``CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES``."""


def _device_attributes(device: Device) -> dict[int, int]:
    """``cudaDeviceAttr`` -> value."""
    generation = int("".join(c for c in device.target or "" if c.isdigit()) or 0)
    return {
        1: 1024,  # maxThreadsPerBlock
        10: 32,  # warpSize
        16: device.sms,  # multiProcessorCount
        39: THREADS_PER_SM,  # maxThreadsPerMultiProcessor
        75: generation // 10,  # computeCapabilityMajor
        76: generation % 10,  # computeCapabilityMinor
        81: SHARED_PER_SM,  # maxSharedMemoryPerMultiprocessor
        95: 1,  # cooperativeLaunch
        97: SHARED_PER_CTA,  # maxSharedMemoryPerBlockOptin
    }


class HostCall:
    """What the CUDA functions do while a host function runs; see `Calls`.

    ``launch`` is called with the kernel, and by keyword with what the host function says: grid, block, cluster, shared_bytes, args.
    """

    def __init__(self, module: Module, device: Device, launch: Callable[..., Result]) -> None:
        self.module = module
        self.device = device
        self.launch_kernel = launch
        self.results: list[Result] = []
        self.error: BaseException | None = None

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Result:
        """Run a host function; what went wrong inside of it is raised here."""
        token = current.set(self)
        try:
            function(*args, **kwargs)
        except Exception as error:
            if self.error is None and all(result.ok for result in self.results):
                raise refuse("I106", f"the host function ended with {type(error).__name__}: {_message(error)}") from error
        finally:
            current.reset(token)
        if self.error is not None:
            raise self.error
        return self.result()

    def device_attribute(self, attribute: int) -> int:
        """Answer ``cudaDeviceGetAttribute``."""
        known = _device_attributes(self.device)
        if attribute not in known:
            self.refuse(f"cudaDeviceGetAttribute (attribute {attribute})")
        return known[attribute]

    def kernel_attribute(self, kernel: str, attribute: int) -> int:
        """Answer ``cuKernelGetAttribute``."""
        if attribute != _STATIC_SHARED:
            self.refuse(f"cuKernelGetAttribute (attribute {attribute})")
        return int(self.module[kernel].program.shared.static_end) - SHARED_RESERVED

    def encode_tensor_map(self, **arguments: Any) -> bytes:
        """Answer ``cuTensorMapEncodeTiled``."""
        return encode_tensor_map(**arguments, target=self.module.target)

    def refuse(self, function: str) -> None:
        """Answer any other function."""
        raise refuse("I105", f"the host function calls {function}, which ptxlab does not have", fix="do that outside the host function")

    def launch(self, kernel: str, config: LaunchConfig, parameters: Any) -> bool:
        """Answer ``cudaLaunchKernelExC``: whether the host function may go on."""
        found = self.module[kernel]
        attributes = [config.attributes[i] for i in range(config.count)]
        clusters = [tuple(a.value[:3]) for a in attributes if a.id == CLUSTER_DIMENSION]
        result = self.launch_kernel(
            found,
            grid=tuple(config.grid),
            block=tuple(config.block),
            cluster=clusters[-1] if clusters else None,
            shared_bytes=config.shared_bytes,
            args=[ctypes.string_at(parameters[i], p.size) for i, p in enumerate(found.parameters)],
        )
        self.results.append(result)
        return result.ok

    def result(self) -> Result:
        """What the launches together have given."""
        if len(self.results) == 1:
            return self.results[0]
        services: Counter[str] = Counter()
        total = Stats()
        for stats in (r.stats for r in self.results):
            services.update(stats.services)
            total = Stats(total.instructions + stats.instructions, dict(services), total.ctas + stats.ctas, total.seconds + stats.seconds)
        first = self.results[0] if self.results else Result((), total, completed=True)
        return replace(
            first,
            diagnostics=tuple(d for r in self.results for d in r.diagnostics),
            stats=total,
            completed=all(r.completed for r in self.results),
            stdout="".join(r.stdout for r in self.results),
        )


def _message(error: BaseException) -> str:
    """The first sentence of an error of CuTe DSL, which come with colours, a title and a stack."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return re.sub(r"^error\[\w+\]: ", "", lines[0]) if lines else "no message"
