"""The devices: what programs learn when they ask for their attributes, and how many CTAs an SM holds.

The values of the H200 were read from one, with driver 580.159. Those of the B200 and B300 are the H200's, with the published differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine import Device
from ptxlab.machine.launch.configuration import CTAS_PER_SM, SHARED_PER_CTA, SHARED_PER_SM, THREADS_PER_CTA, THREADS_PER_SM

__all__ = ["PRODUCTS", "REGISTERS_PER_SM", "WARP_SIZE", "Product", "attribute"]

WARP_SIZE = 32
REGISTERS_PER_SM = 64 << 10

_THREADS_PER_CTA, _CLOCK, _SMS, _MEMORY_CLOCK, _BUS, _L2, _THREADS_PER_SM = 1, 13, 16, 36, 37, 38, 39
_REGISTERS_PER_CTA, _REGISTERS_PER_SM, _WARP_SIZE = 12, 82, 10
_MAJOR, _MINOR, _SHARED_PER_SM, _SHARED_OPT_IN, _CTAS_PER_SM, _PERSISTING_L2, _SHARED_RESERVED = 75, 76, 81, 97, 106, 108, 111
"""Numbers of attributes, as ``cuDeviceGetAttribute`` takes them."""

_SIMULATED = {
    _THREADS_PER_CTA: THREADS_PER_CTA,
    _WARP_SIZE: WARP_SIZE,
    _REGISTERS_PER_CTA: REGISTERS_PER_SM,
    _REGISTERS_PER_SM: REGISTERS_PER_SM,
    _THREADS_PER_SM: THREADS_PER_SM,
    _SHARED_PER_SM: SHARED_PER_SM,
    _SHARED_OPT_IN: SHARED_PER_CTA,
    _CTAS_PER_SM: CTAS_PER_SM,
    _SHARED_RESERVED: SHARED_RESERVED,
}
"""The limits that launches are held to, the same for all devices."""

_H200 = _SIMULATED | {
    2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 11: 2147483647,
    13: 1980000, 14: 512, 15: 1, 16: 132, 17: 0, 18: 0, 19: 1, 20: 0, 21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384,
    26: 16384, 27: 32768, 28: 32768, 29: 2048, 30: 512, 31: 1, 32: 1, 33: 0, 34: 6, 35: 0, 36: 3201000, 37: 6016, 38: 62914560,
    40: 3, 41: 1, 42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768, 50: 0, 51: 32,
    52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048,
    63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456, 70: 131072, 71: 65000, 72: 2097120, 73: 32768,
    74: 32768, 75: 9, 76: 0, 77: 32768, 78: 1, 79: 1, 80: 1, 83: 1, 84: 0, 85: 0, 86: 0, 87: 2, 88: 0, 89: 1,
    90: 1, 91: 1, 92: 0, 93: 0, 94: 0, 95: 1, 96: 1, 98: 0, 99: 1, 100: 0, 101: 0, 102: 1, 103: 1, 104: 0, 105: 0,
    107: 1, 108: 39321600, 109: 134217728, 110: 1, 112: 1, 113: 1, 114: 1, 115: 1, 116: 1, 117: 1, 118: 100,
    119: 9, 120: 1, 121: 1, 122: 1, 123: 1, 124: 1, 125: 1, 126: 4, 127: 1, 128: 1, 129: 1, 130: 0, 131: -1, 132: 0, 133: 0, 134: 0,
    135: 0, 136: 0, 137: 0, 138: 0, 139: 590680286, 140: 415174878, 141: 1, 142: 1, 143: 0, 144: 1, 145: 1, 146: 0, 147: 0,
}  # fmt: skip
_BLACKWELL = _H200 | {
    _MAJOR: 10,
    _SMS: 148,
    _CLOCK: 1_965_000,
    _MEMORY_CLOCK: 3_996_000,
    _BUS: 7680,
    _L2: 132_644_864,
    _PERSISTING_L2: 82_903_040,
}


@dataclass(frozen=True, slots=True)
class Product:
    """A device as programs see it.

    Attributes
    ----------
    name : what ``cuDeviceGetName`` gives
    memory : bytes of device memory
    attributes : by number
    """

    name: str
    memory: int
    attributes: Mapping[int, int]

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor number of the compute capability."""
        return self.attributes[_MAJOR], self.attributes[_MINOR]

    @property
    def sms(self) -> int:
        """The number of SMs."""
        return self.attributes[_SMS]

    @property
    def clock(self) -> int:
        """The clock of the SMs in kHz."""
        return self.attributes[_CLOCK]

    @property
    def memory_clock(self) -> int:
        """The clock of the memory in kHz."""
        return self.attributes[_MEMORY_CLOCK]

    @property
    def bus(self) -> int:
        """The width of the memory bus in bits."""
        return self.attributes[_BUS]


PRODUCTS: Mapping[str, Product] = {
    "sm_90a": Product("NVIDIA H200", 150_109_880_320, _H200),
    "sm_100a": Product("NVIDIA B200", int(178.35 * (1 << 30)), _BLACKWELL),
    "sm_103a": Product("NVIDIA B300", 270 << 30, _BLACKWELL | {_MINOR: 3, _CLOCK: 2_032_000}),
}
"""Devices by target."""


def attribute(device: Device, number: int) -> int | None:
    """Return the value of an attribute of a device; None if there is no such attribute.

    A device of a target without a product answers as a B200, but for its capability.
    """
    target = device.target or ""
    product = PRODUCTS.get(target, PRODUCTS["sm_100a"])
    digits = int("".join(filter(str.isdigit, target)) or 0)
    own = {_SMS: device.sms, _MAJOR: digits // 10, _MINOR: digits % 10}
    return own[number] if number in own else product.attributes.get(number)
