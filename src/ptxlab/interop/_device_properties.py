"""What programs learn when they ask for the properties of a device."""

from __future__ import annotations

from dataclasses import dataclass

from ptxlab.machine import Device
from ptxlab.machine.launch.configuration import CTAS_PER_SM, SHARED_PER_CTA, SHARED_PER_SM, THREADS_PER_SM

__all__ = ["PRODUCTS", "REGISTERS_PER_SM", "WARP_SIZE", "Product", "attribute"]

WARP_SIZE = 32
REGISTERS_PER_SM = 64 << 10


@dataclass(frozen=True, slots=True)
class Product:
    """What differs between devices: capability, SMs, bytes of memory, clocks in kHz, width of the memory bus in bits."""

    name: str
    capability: tuple[int, int]
    sms: int
    memory: int
    clock: int
    memory_clock: int
    bus: int


PRODUCTS = {
    "sm_90a": Product("ptxlab sm_90a", (9, 0), 132, 80 << 30, 1_980_000, 2_619_000, 5120),
    "sm_100a": Product("ptxlab sm_100a", (10, 0), 148, 180 << 30, 1_965_000, 3_996_000, 8192),
    "sm_103a": Product("ptxlab sm_103a", (10, 3), 148, 270 << 30, 2_032_000, 3_996_000, 8192),
}
"""Devices as programs see them, by target."""

_ATTRIBUTES = {
    1: 1024,  # threads of a CTA
    2: 1024, 3: 1024, 4: 64,  # block dimensions
    5: (1 << 31) - 1, 6: 65535, 7: 65535,  # grid dimensions
    8: 48 << 10,  # shared memory of a CTA without opting in
    9: 64 << 10,  # constant memory
    10: WARP_SIZE,
    12: REGISTERS_PER_SM,  # registers of a CTA
    39: THREADS_PER_SM,
    81: SHARED_PER_SM,
    82: REGISTERS_PER_SM,
    95: 1,  # cooperative launch
    97: SHARED_PER_CTA,  # with opting in
    106: CTAS_PER_SM,
    111: 1 << 10,  # reserved shared memory of a CTA
    120: 1,  # cluster launch
    127: 1,  # tensor maps
}  # fmt: skip
"""The values of ``cudaDeviceAttr`` that are the same for all devices, by number."""
_SMS, _MAJOR, _MINOR = 16, 75, 76


def attribute(device: Device, number: int) -> int | None:
    """Return the value of a ``cudaDeviceAttr``; None if ptxlab does not know it."""
    capability = int("".join(filter(str.isdigit, device.target or "0")))
    return ({_SMS: device.sms, _MAJOR: capability // 10, _MINOR: capability % 10} | _ATTRIBUTES).get(number)
