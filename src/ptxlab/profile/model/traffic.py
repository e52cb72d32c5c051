"""What a launch moves between its SMs, L2 and DRAM, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.native_ops import Atomic, LaneAccess
from ptxlab.profile.counters.columns import COLUMNS
from ptxlab.profile.model.memory import Extent
from ptxlab.profile.model.parameters import Parameters

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.profile.model.trace import TraceRecorder

__all__ = ["Sample", "Traffic", "traffic_of"]

_NAMES = [column.name for column in COLUMNS]
_SECTOR = 32


@dataclass(frozen=True, eq=False)
class Sample:
    """What the estimate needs of a launch that has ended.

    ``table[op, column]``: counters of all CTAs that ran; ``grid``: CTAs of the grid; ``bytes_held``: that the grid accesses, or those of
    all arrays if not all CTAs ran; ``extents``: what instructions of threads access of shared or tensor memory.
    """

    launch: Launch
    recorder: TraceRecorder
    table: NDArray[np.int64]
    grid: int
    bytes_held: int
    extents: dict[int, Extent]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a grid.

    Attributes
    ----------
    moved, from_dram : bytes between the SMs and L2, and between L2 and DRAM
    dram_rate, l2_rate : bytes in a cycle that DRAM, with these parts of reads and writes, and L2 can move at most
    rate : bytes in a cycle for one SM while all that are used move some
    latency : of a load, on average
    """

    moved: float
    from_dram: float
    dram_rate: float
    l2_rate: float
    rate: float
    latency: float


def traffic_of(sample: Sample, known: Parameters, resident: int, ctas: int) -> Traffic:
    """The traffic of a launch.

    Parameters
    ----------
    sample : what ran of it
    known : of the target
    resident : CTAs on an SM at once
    ctas : of the fullest SM; SMs with fewer leave their part of L2 and DRAM to the others
    """
    grid = sample.grid
    whole = sample.table.sum(axis=0) * (grid / max(sample.launch.done_ctas, 1))
    count = dict(zip(_NAMES, whole.tolist(), strict=True))
    moved = count["global_least"] * _SECTOR + count["bytes_to_shared"] - count["multicast_saved"] + count["bytes_from_shared"]
    held = min(moved, sample.bytes_held)
    used = grid / ctas
    at_once = held / grid * min(resident * used, grid)
    again = min(max(at_once / known.l2_size - 1.0, 0.0), 1.0) * min(moved - held, held / 2)
    from_dram = 0.0 if held < known.l2_size else held + again
    written = min(_written(sample) / from_dram, 1.0) if from_dram else 0.0
    dram_rate = 1.0 / ((1.0 - written) / known.dram_bytes + written / known.dram_write_bytes)
    needed = 1.0 / known.l2_bytes
    if moved:
        needed = max(needed, from_dram / dram_rate / moved * used, held / moved * used / known.l2_total)
    l2_rate = min(known.l2_bytes * sample.launch.device.sms, known.l2_total * moved / held if held else np.inf)
    latency = known.l2_latency + (from_dram / moved if moved else 0.0) * (known.dram_latency - known.l2_latency)
    return Traffic(moved, from_dram, dram_rate, l2_rate, 1.0 / needed, latency)


def _written(sample: Sample) -> float:
    """Bytes of global memory that the grid writes."""
    natives = sample.launch.program.natives
    stores = [index for index, native in natives.items() if isinstance(native, Atomic) or (isinstance(native, LaneAccess) and native.write)]
    sectors = sample.table[stores, _NAMES.index("global_least")].sum()
    copied = sample.table[:, _NAMES.index("bytes_from_shared")].sum()
    return (int(sectors) * _SECTOR + int(copied)) * (sample.grid / max(sample.launch.done_ctas, 1))
