"""What the time model knows about a target: latencies in cycles of an SM, rates for each cycle, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ptxlab.isa.operations.products import Rate
from ptxlab.isa.pipes import Pipe

__all__ = ["TARGETS", "Parameters", "parameters_of"]

_MICRO = "micro-benchmark on an H200 (tests/profile/data/micro_h200.json)"
_MICRO_PIPES = f"{_MICRO}; assumed for division and for shuffles, whose micro-benchmarks did not measure them"
_KERNELS = "fitted to the half of the timed kernels that is not held out (tests/profile/data/kernels_h200.json)"
_CARRIED = "as sm_90a: not measured"
_PUBLISHED = "NVIDIA's published rates"


def _known(source: str, value: float | tuple[int, ...]) -> Any:
    return field(default=value, metadata={"source": source})


def _table(source: str, values: Mapping[Any, float]) -> Any:
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


_PEAKS_HOPPER = MappingProxyType({"f64": 256.0, "tf32": 2048.0, "f16": 4096.0, "f8": 8192.0, "int8": 8192.0})
_PEAKS_BLACKWELL = MappingProxyType({"f64": 128.0, "tf32": 4096.0, "f16": 8192.0, "f8": 16384.0, "f4": 32768.0, "int8": 16384.0})
_PEAKS_BLACKWELL_ULTRA = MappingProxyType({**_PEAKS_BLACKWELL, "f64": 4.4, "f4": 49152.0, "int8": 512.0})
_PEAK_SOURCES = {
    "sm_90a": "NVIDIA H200 Tensor Core GPU datasheet: dense peaks of 67 (f64), 495 (tf32), 989 (f16) and 1,979 (8 bits) T/s, by 132 SMs "
    f"and 1.83 GHz (1.98 for f64), rounded to a power of two; tf32, f16, f8 and int8 equal the {_MICRO}",
    "sm_100a": "NVIDIA's peaks of HGX B200, dense: 37 T/s (f64), 1.1 P/s (tf32), 2.25 P/s (f16), 4.5 P/s (8 bits), 9 P/s (f4), by 148 "
    "SMs and 1.85 GHz, rounded to a power of two (as listed in https://verda.com/blog/gb300-nvl72-architecture; f64 in "
    "https://glennklockwood.com/garden/processors/B300)",
    "sm_103a": "NVIDIA's peaks of HGX B300, dense: 1.25 T/s (f64), 1.1 P/s (tf32), 2.25 P/s (f16), 4.5 P/s (f8), 0.15 P/s (int8), 14 P/s "
    "(f4), by 148 SMs and 1.92 GHz, rounded (as listed in https://verda.com/blog/gb300-nvl72-architecture; f64 in "
    "https://glennklockwood.com/garden/processors/B300)",
}
"""Of `Parameters.tensor_peaks`, by target."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a target. Cycles are those of an SM."""

    target: str
    costs: Mapping[Pipe, float] = _table(_MICRO_PIPES, _COSTS)
    """Cycles for which an instruction of a warp occupies its pipe in one of the four sub-partitions."""
    latencies: Mapping[Pipe, float] = _table(_MICRO_PIPES, _LATENCIES)
    """Cycles until an instruction that depends on it can issue."""
    clock: float = _known("ncu on an H200: cycles by duration of kernels that are bound by memory", 1.98)
    """Cycles in a nanosecond."""
    launch: float = _known("empty kernels on an H200, one after the other in a graph", 1260.0)
    """From the end of a kernel to the begin of the next one."""
    cta_interval: float = _known("empty kernels on an H200: 132,000 CTAs", 158.0)
    """Between the starts of two CTAs on an SM."""
    cluster_interval: float = _known("empty kernels on an H200: 13,200 CTAs in clusters of 2, 4 and 8 (empty.c2.13200x128.shared0)", 160.0)
    """The same more between two clusters: by the number of their CTAs more between two CTAs."""
    l2_latency: float = _known(_MICRO, 275.0)
    dram_latency: float = _known(_MICRO, 640.0)
    shared_latency: float = _known(_MICRO, 23.0)
    l2_bytes: float = _known(_KERNELS, 60.0)
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
    gpcs: tuple[int, ...] = _known(
        "assumed, as it differs from chip to chip: 132 SMs, of which clusters of 8 use 120 on an H100 "
        "(https://github.com/accel-sim/gpu-app-collection/pull/87); 64 clusters of 4 take three waves of an H200 "
        "(tests/profile/data/kernels_h200.json)",
        (18, 18, 18, 16, 16, 16, 16, 14),
    )
    """SMs of each group of SMs; a cluster lies in one of them."""
    cluster_barrier: float = _known(f"{_MICRO}: cluster.barrier.relaxed", 60.0)
    """From the last arrival at the barrier of a cluster to the end of the wait; a release before the arrival is a `fence`."""
    remote_latency: float = _known(f"{_MICRO}: half of what ld.dsmem takes longer than a load of the CTA's own shared memory", 83.0)
    """Of an access of the shared memory of another CTA of the cluster, one way."""
    remote_arrival: float = _known(f"{_MICRO}: half of mbarrier.round_trip, less mbarrier.arrive_wait", 133.0)
    """Until an arrival is seen in another CTA of the cluster; the bytes of a multicast copy are seen there as soon as in its own."""
    fence: float = _known(f"{_MICRO}: fence.acq_rel.cluster and fence.gpu", 273.0)
    """Of a fence, or of a release, at the scope of the cluster or a wider one, when nothing else uses L2."""
    fence_beside_copies: float = _known(_KERNELS, 620.0)
    """The same in a CTA whose shared memory bulk copies use."""
    cta_fence: float = _known(f"{_MICRO}: fence.cta and fence.proxy.async.shared::cta", 10.0)
    proxy_fence: float = _known(f"{_MICRO}: fence.proxy.async of all memory", 152.0)
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
    tensor_peaks: Mapping[str, float] = _table("", _PEAKS_HOPPER)
    """Multiplications and additions of dense products in a cycle of an SM, by `ptxlab.isa.operations.products.Rate.types`."""

    def peak(self, rate: Rate) -> float:
        """Operations in a cycle of an SM, of a sparse product as if it were dense; types that are not listed are as fast as ``int8``."""
        return self.tensor_peaks.get(rate.types, self.tensor_peaks["int8"]) * (2 if rate.sparse else 1)

    def clusters(self, size: int, sms: int) -> int:
        """How many clusters of so many CTAs, one on each SM, run side by side on a device with so many SMs.

        Examples
        --------
        >>> [parameters_of("sm_90a").clusters(size, 132) for size in (1, 2, 4, 8)]
        [132, 66, 31, 15]
        """
        groups = self.gpcs if sum(self.gpcs) == sms else (sms,)
        return max(sum(group // size for group in groups), 1)

    def source(self, name: str) -> str:
        """Where a parameter comes from."""
        if name == "tensor_peaks":
            return _PEAK_SOURCES[self.target]
        if name == "l2_size" and self.target != "sm_90a":
            return "assumed: 126 MB, of which as large a part is kept as on an H200"
        found = type(self).__dataclass_fields__[name].metadata.get("source", "")
        return f"{_CARRIED}; {found}" if self.target != "sm_90a" and name not in _OWN else _PUBLISHED if self.target != "sm_90a" else found


_OWN = ("clock", "dram_bytes", "dram_write_bytes")
"""The parameters of targets without measurements that are published."""
_HOPPER = Parameters("sm_90a")
_BLACKWELL = replace(_HOPPER, target="sm_100a", clock=1.85, l2_size=95e6, tensor_peaks=_PEAKS_BLACKWELL)
_ULTRA = replace(_BLACKWELL, target="sm_103a", clock=1.92, tensor_peaks=_PEAKS_BLACKWELL_ULTRA)
TARGETS = {
    known.target: known
    for known in (
        _HOPPER,
        *(replace(known, dram_bytes=8000 / known.clock, dram_write_bytes=8000 / known.clock) for known in (_BLACKWELL, _ULTRA)),
    )
}
"""By the simulated architecture. Those of Blackwell are published rates, and for the rest what an H200 shows."""


def parameters_of(target: str) -> Parameters:
    """The parameters of a target, or of the nearest architecture."""
    if target in TARGETS:
        return TARGETS[target]
    return TARGETS["sm_103a" if target.startswith("sm_103") else "sm_100a" if target.startswith("sm_1") else "sm_90a"]
