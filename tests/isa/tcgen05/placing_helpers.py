"""Operands of tcgen05 placed in shared and tensor memory with the functions of `ptxlab.layout`, element by element."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.layout import Major, operand_addresses
from ptxlab.tables import MMA_KINDS, SWIZZLES, TYPE_BITS
from tests.isa.tcgen05.tcgen05_helpers import BASE, IMAGE

Codes = NDArray[Any]
HALF = IMAGE // 2
"""Room for one operand in shared memory."""


@dataclass(frozen=True)
class Layout:
    """How an operand lies in shared memory: its descriptor, and what the instruction adds to it."""

    descriptor: SharedMemoryDescriptor
    major: Major = "k"
    bits: int = 16
    padded: bool = False

    def addresses(self, rows: int, k: int) -> NDArray[np.int64]:
        """Bit addresses of the elements."""
        found = operand_addresses(self.descriptor, rows, k, self.bits, self.major, self.padded)
        return found if self.bits < 8 else 8 * found

    def span(self, rows: int, k: int) -> tuple[int, int]:
        """First byte and end."""
        at = self.addresses(rows, k)
        return int(at.min()) // 8, (int(at.max()) + self.bits + 7) // 8


def put_bits(memory: NDArray[np.uint8], at: NDArray[np.int64], codes: Codes, bits: int) -> None:
    """Write codes of ``bits`` at bit addresses of a memory of bytes."""
    everything = np.unpackbits(memory, bitorder="little")
    codes = codes.astype(np.uint64)
    for i in range(bits):
        everything[at + i] = codes >> np.uint64(i) & np.uint64(1)
    memory[:] = np.packbits(everything, bitorder="little")


def put_cells(cells: NDArray[np.uint32], place: tuple[Any, ...], bit: Any, codes: Codes, bits: int) -> None:
    """Write codes into bit fields of cells [..., column, lane]; ``place`` indexes the cells, and all broadcast."""
    at = np.ravel_multi_index(np.broadcast_arrays(*place), cells.shape) * 32 + bit
    put_bits(cells.reshape(-1).view(np.uint8), at, np.broadcast_to(codes, at.shape), bits)


def write(image: NDArray[np.uint8], layout: Layout, codes: Codes) -> None:
    """Write a matrix [rows, k] into a CTA's shared memory, whose first byte is `BASE`."""
    put_bits(image, layout.addresses(*codes.shape) - 8 * BASE, codes, layout.bits)


def modes(kind: str, type: str, major: Major, k_bytes: int, absolute: bool = False) -> list[str]:
    """Swizzling modes that an operand can have whose rows take ``k_bytes`` of one instruction."""
    bits = TYPE_BITS[type]
    if absolute:
        return ["128B"]
    if major == "mn":
        return ["128B_32B"] if bits == 32 else [name for name in SWIZZLES if name != "128B_32B"]
    return [name for name, mode in SWIZZLES.items() if name == "none" or mode.width >= k_bytes]


def arrange(
    rng: np.random.Generator,
    kind: str,
    type: str,
    rows: int,
    k: int,
    base: int,
    major: Major = "k",
    swizzle: str = "",
    shifted: bool = False,
) -> Layout:
    """A random legal layout inside `HALF` bytes from ``base``; ``shifted``: the swizzle pattern begins off its boundary."""
    container = MMA_KINDS[kind].container
    bits = TYPE_BITS[type]
    packed = container == 4
    bytes_of_k = k * container // 8
    swizzle = swizzle or str(rng.choice(modes(kind, type, major, bytes_of_k)))
    mode = SWIZZLES[swizzle]
    gap = 16 * int(rng.integers(0, 3))
    start, base_offset = base, 0
    if major == "k" and not mode.bits:
        slots = -(-bytes_of_k // 16)
        leading, stride = (128, 128 * slots + gap) if rng.integers(2) else (-(-rows // 8) * 128 + gap, 128)
        start += gap
    elif major == "k":
        leading, stride = 16 * int(rng.integers(0, 9)), 8 * mode.width * int(rng.integers(1, 3 if mode.width < 128 else 2))
        start += 16 * int(rng.integers(0, (mode.width - bytes_of_k) // 16 + 1)) if mode.width > bytes_of_k else 0
    elif not mode.bits:
        leading, stride = 128, 128 * -(-k // 8) + gap
        start += gap
    else:
        lines = mode.width * mode.lines
        leading, stride = lines * -(-k // mode.lines) + lines * int(rng.integers(0, 2)), lines
    if shifted and mode.bits and swizzle != "128B_32B":
        base_offset = int(rng.integers(1, 8))
        start += 128 * base_offset
    descriptor = SharedMemoryDescriptor(start=start, leading=leading, stride=stride, swizzle=swizzle, base_offset=base_offset)
    layout = Layout(descriptor, major, bits, padded=bits < 8 and not packed)
    low, high = layout.span(rows, k)
    assert base <= low, (layout, rows, k)
    assert high <= base + HALF, (layout, rows, k)
    return layout


def absolute(layout: Layout, start: int, next_buffer: int) -> Layout:
    """The same rows of 128 bytes, begun at ``start``; what leaves them lies in the next buffer."""
    descriptor = replace(layout.descriptor, start=start, leading=next_buffer, leading_mode="absolute")
    return replace(layout, descriptor=descriptor)
