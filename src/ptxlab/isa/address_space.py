"""Where the state spaces lie in the generic address space of the simulated device.

The low 32 bits of a generic shared address are the address in the shared window itself: ``(%cluster_ctarank << 24) | offset``.
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
"""The first device allocation. All this is above 2^47: host memory, which may be attached at its own address, is never there."""

SHARED_RANK_SHIFT = 24
SHARED_RESERVED = 0x400
"""Offsets below are reserved by the system: the first static variable stands here."""

PARAM_BASE = 0x380
"""The offset of the first kernel parameter in the param space."""
