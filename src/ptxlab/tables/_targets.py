"""Which targets have which hardware."""

from __future__ import annotations

__all__ = ["TENSOR_MEMORY_TARGETS"]

TENSOR_MEMORY_TARGETS = frozenset(f"sm_{number}{suffix}" for number in (100, 101, 103, 107, 110) for suffix in "af")
"""The targets with tensor memory: section "Tensorcore 5th Generation Instructions"."""
