"""The memory of a launch as service handlers reach it by addresses: kernel parameters, shared memory of the cluster, and device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.address_space import PARAM_BASE, PARAM_WINDOW, SHARED_RANK_SHIFT, SHARED_WINDOW
from ptxlab.isa.context import Misuse

if TYPE_CHECKING:
    from ptxlab.machine._device import Device
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.memory.journal import Journal

__all__ = ["AddressedMemory"]

_WINDOW = 1 << 32


class AddressedMemory:
    """What a launch has for `ptxlab.isa.Machine` of accesses by addresses."""

    device: Device
    journal: Journal | None
    parameter_bytes: NDArray[np.uint8]
    clipped: bool

    def shared_at(self, t: Any, address: int) -> tuple[CtaState, int]:
        """Return the CTA and the window offset of a shared-window or generic address in shared memory."""
        if address >= _WINDOW:
            address -= SHARED_WINDOW
        rank = address >> SHARED_RANK_SHIFT
        cta: CtaState = t.cta
        if rank == cta.rank:
            return cta, address & 0xFF_FFFF
        ctas = cta.group.ctas
        if not 0 <= rank < len(ctas):
            raise Misuse(
                "M407",
                f"the address {address:#x} names CTA rank {rank} of a cluster of {len(ctas)}"
                if 0 <= rank < 256
                else f"{address:#x} is not an address in shared memory",
                fix="give the address of a .shared variable, or what mapa makes of it for a CTA of the cluster",
            )
        if ctas[rank].exited:
            raise Misuse(
                "M407",
                f"the address {address:#x} names the shared memory of CTA rank {rank}, which has exited",
                fix="synchronise the CTAs of the cluster with barrier.cluster before they exit, or let CTA rank "
                f"{rank} wait on its mbarrier until the other CTAs no longer use its shared memory",
            )
        return ctas[rank], address & 0xFF_FFFF

    def global_view(self, t: Any, address: int, size: int, write: bool, most: int = 0) -> NDArray[np.uint8]:
        """Return bytes of one global allocation as a view."""
        found = self.device.memory.view(address, size, write, most)
        if write and self.journal is not None:
            self.journal.before_write(address, len(found))
        if write and len(found) < most:
            self.clipped = True
        return found

    def read_generic(self, t: Any, address: int, size: int, cta: CtaState) -> NDArray[np.uint8]:
        """Return the bytes at a generic, global or param address."""
        if PARAM_WINDOW <= address < PARAM_WINDOW + _WINDOW:
            start = address - PARAM_WINDOW - PARAM_BASE
            if start < 0 or start + size > len(self.parameter_bytes):
                raise Misuse("M409", f"read of {size} bytes at {address:#x}, outside the kernel parameters")
            return self.parameter_bytes[start : start + size]
        if SHARED_WINDOW <= address < SHARED_WINDOW + _WINDOW:
            where, offset = self.shared_at(t, address)
            if offset + size > len(where.shared):
                raise Misuse("M406", f"read of {size} bytes at {address:#x}, outside the {len(where.shared)} bytes of shared memory")
            return where.shared[offset : offset + size]
        return self.device.memory.view(address, size)

    def perform_copies(self, cta: CtaState, rows: NDArray[np.uint64]) -> None:
        """Perform deferred non-bulk copies: rows as in ``Word.PENDING``."""
        self.device.memory.copy_to_shared(cta.shared, rows)
