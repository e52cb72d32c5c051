"""What the time model knows about a target: latencies in cycles of an SM, rates for each cycle, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ptxlab.isa.pipes import Pipe

__all__ = ["TARGETS", "Parameters", "parameters_of"]

_MICRO = "micro-benchmark on an H200 (tests/profile/data/micro_h200.json)"
_MICRO_PIPES = f"{_MICRO}; assumed for division and for shuffles, whose micro-benchmarks did not measure them"
_KERNELS = "fitted to the half of the timed kernels that is not held out (tests/profile/data/kernels_h200.json)"
_CARRIED = "as sm_90a: not measured"
_PUBLISHED = "NVIDIA's published rates"


def _known(source: str, value: float) -> Any:
    return field(default=value, metadata={"source": source})


def _by_pipe(source: str, values: Mapping[Pipe, float]) -> Any:
    return field(default_factory=lambda: values, metadata={"source": source})


_COSTS = MappingProxyType(
    {
        Pipe.NONE: 0.0,
        Pipe.ADD: 1.2,
        Pipe.LOGIC: 2.0,
        Pipe.MULTIPLY: 2.0,
        Pipe.FLOAT: 1.05,
        Pipe.HALF: 1.4,
        Pipe.DOUBLE: 2.2,
        Pipe.CONVERT: 1.1,
        Pipe.CONVERT_INTEGER: 8.0,
        Pipe.SPECIAL: 8.0,
        Pipe.DIVIDE: 16.0,
        Pipe.BRANCH: 2.0,
        Pipe.EXCHANGE: 4.0,
        Pipe.REDUCE: 8.0,
        Pipe.MEMORY: 1.0,
        Pipe.MATRIX: 8.0,
        Pipe.ISSUE: 1.0,
    }
)
_LATENCIES = MappingProxyType(
    {
        Pipe.NONE: 0.0,
        Pipe.ADD: 5.0,
        Pipe.LOGIC: 5.0,
        Pipe.MULTIPLY: 4.0,
        Pipe.FLOAT: 4.0,
        Pipe.HALF: 8.0,
        Pipe.DOUBLE: 8.0,
        Pipe.CONVERT: 5.0,
        Pipe.CONVERT_INTEGER: 17.0,
        Pipe.SPECIAL: 17.0,
        Pipe.DIVIDE: 45.0,
        Pipe.BRANCH: 8.0,
        Pipe.EXCHANGE: 17.0,
        Pipe.REDUCE: 44.0,
        Pipe.MEMORY: 23.0,
        Pipe.MATRIX: 24.0,
        Pipe.ISSUE: 4.0,
    }
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a target. Cycles are those of an SM."""

    target: str
    costs: Mapping[Pipe, float] = _by_pipe(_MICRO_PIPES, _COSTS)
    """Cycles for which an instruction of a warp occupies its pipe in one of the four sub-partitions."""
    latencies: Mapping[Pipe, float] = _by_pipe(_MICRO_PIPES, _LATENCIES)
    """Cycles until an instruction that depends on it can issue."""
    clock: float = _known("ncu on an H200: cycles by duration of kernels that are bound by memory", 1.98)
    """Cycles in a nanosecond."""
    launch: float = _known("empty kernels on an H200, one after the other in a graph", 1260.0)
    """From the end of a kernel to the begin of the next one."""
    cta_interval: float = _known("empty kernels on an H200: 132,000 CTAs", 158.0)
    """Between the starts of two CTAs on an SM."""
    l2_latency: float = _known(_MICRO, 275.0)
    dram_latency: float = _known(_MICRO, 640.0)
    shared_latency: float = _known(_MICRO, 23.0)
    l2_bytes: float = _known(_KERNELS, 72.0)
    """Between an SM and L2 in a cycle, when all SMs use it."""
    dram_bytes: float = _known(_KERNELS, 2270.0)
    """Read from DRAM in a cycle, for all SMs."""
    dram_write_bytes: float = _known(_KERNELS, 1740.0)
    """Written to DRAM in a cycle: less, because the memory turns from reads to writes and back."""
    l2_size: float = _known("attribute of the device (60 MB), less what is not kept", 45e6)
    copy_latency: float = _known(_MICRO, 330.0)
    """Of a bulk copy of a few bytes, from its issue to the observation of its mbarrier."""
    copy_issue: float = _known(_MICRO, 42.0)
    copy_bytes: float = _known(_MICRO, 109.0)
    """Of bulk copies in a cycle, for one SM alone."""
    barrier: float = _known(_MICRO, 14.0)
    mbarrier: float = _known(_MICRO, 25.0)
    wgmma_latency: float = _known(_MICRO, 50.0)
    """From the issue of a wgmma to its wait, without the product itself."""
    operand_bytes: float = _known(_MICRO, 128.0)
    """Of shared memory that the tensor core reads in a cycle."""
    operand_share: float = _known(_KERNELS, 1.0)
    """The part of these reads that other accesses of shared memory wait for."""
    copy_wavefronts: float = _known(_KERNELS, 1.5)
    """Wavefronts of cp.async, by those of its words in shared memory."""
    l2_total: float = _known(_KERNELS, 3600.0)
    """Different bytes that L2 gives to all SMs in a cycle; SMs that want the same bytes share them."""
    tensor_operations: float = _known(_MICRO, 4096.0)
    """Multiplications and additions of 16-bit floats in a cycle of an SM; other types by the bits of their operands."""

    def source(self, name: str) -> str:
        """Where a parameter comes from."""
        found = type(self).__dataclass_fields__[name].metadata.get("source", "")
        return f"{_CARRIED}; {found}" if self.target != "sm_90a" and name not in _OWN else _PUBLISHED if self.target != "sm_90a" else found


_OWN = ("clock", "dram_bytes", "dram_write_bytes", "tensor_operations")
"""The parameters of targets without measurements that are published."""
_HOPPER = Parameters("sm_90a")
TARGETS = {
    "sm_90a": _HOPPER,
    "sm_100a": replace(
        _HOPPER, target="sm_100a", clock=1.85, dram_bytes=8000 / 1.85, dram_write_bytes=8000 / 1.85, tensor_operations=8192.0, l2_size=100e6
    ),
    "sm_103a": replace(
        _HOPPER, target="sm_103a", clock=1.92, dram_bytes=8000 / 1.92, dram_write_bytes=8000 / 1.92, tensor_operations=8192.0, l2_size=100e6
    ),
}
"""By the simulated architecture. Those of Blackwell are published rates, and for the rest what an H200 shows."""


def parameters_of(target: str) -> Parameters:
    """The parameters of a target, or of the nearest architecture."""
    if target in TARGETS:
        return TARGETS[target]
    return TARGETS["sm_103a" if target.startswith("sm_103") else "sm_100a" if target.startswith("sm_1") else "sm_90a"]
