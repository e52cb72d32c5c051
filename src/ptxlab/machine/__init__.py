"""The machine: device memory, launches, the scheduler."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.machine._device import Buffer, Device, UndefinedValueWarning
from ptxlab.machine._module import Kernel, Module, load, loads, warmup_parts
from ptxlab.machine.launch.options import CHECKS, LaunchError
from ptxlab.machine.launch.result import KernelError, Provenance, Result, Stats, Writer

if TYPE_CHECKING:
    from ptxlab.machine.launch.contributions import Contribution, OperandLine
    from ptxlab.machine.launch.mma_records import MmaMatrices, MmaRecord, MmaRecords
    from ptxlab.machine.replay.bundle import is_bundle, read_bundle
    from ptxlab.machine.replay.replay import Replay
else:
    _HOMES = {
        "launch.contributions": ("Contribution", "OperandLine"),
        "launch.mma_records": ("MmaMatrices", "MmaRecord", "MmaRecords"),
        "replay.bundle": ("is_bundle", "read_bundle"),
        "replay.replay": ("Replay",),
    }
    __getattr__ = deferred(__name__, _HOMES)

__all__ = [
    "CHECKS",
    "Buffer",
    "Contribution",
    "Device",
    "Kernel",
    "KernelError",
    "LaunchError",
    "MmaMatrices",
    "MmaRecord",
    "MmaRecords",
    "Module",
    "OperandLine",
    "Provenance",
    "Replay",
    "Result",
    "Stats",
    "UndefinedValueWarning",
    "Writer",
    "is_bundle",
    "load",
    "loads",
    "read_bundle",
    "warmup_parts",
]
