"""Addresses of the state spaces in the generic address space of the simulated device.

The low 32 bits of a generic shared address are the address in the shared window: ``(%cluster_ctarank << 24) | offset``.
"""

from __future__ import annotations

__all__ = [
    "GLOBAL_BASE",
    "LOCAL_WINDOW",
    "PARAM_BASE",
    "PARAM_WINDOW",
    "SHARED_RANK_SHIFT",
    "SHARED_RESERVED",
    "SHARED_WINDOW",
]

SHARED_WINDOW = 0x8001_0000_0000
LOCAL_WINDOW = 0x8002_0000_0000
PARAM_WINDOW = 0x8003_0000_0000
GLOBAL_BASE = 0x8010_0000_0000
"""The first device allocation. All windows are above 2^47, so they never overlap host memory that keeps its own address."""

SHARED_RANK_SHIFT = 24
SHARED_RESERVED = 0x400
"""Offsets below this are reserved by the system; the first static variable has this offset."""

PARAM_BASE = 0x380
"""The offset of the first kernel parameter in the param space."""
