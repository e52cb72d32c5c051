"""Special registers and predefined constants, with their types: section "Special Registers"."""

from __future__ import annotations

__all__ = ["CLOCKS", "CONSTANTS", "special_type"]

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_WORDS = [
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "cluster_ctarank",
    "cluster_nctarank",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "clock",
    "clock_hi",
    "globaltimer_lo",
    "globaltimer_hi",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
]

_TYPES: dict[str, str] = {f"%{name}.{axis}": "u32" for name in _VECTORS for axis in "xyz"}
_TYPES |= {f"%{name}": "u32" for name in _WORDS}
_TYPES |= {"%clock64": "u64", "%globaltimer": "u64", "%gridid": "u64", "%current_graph_exec": "u64", "%is_explicit_cluster": "pred"}
_TYPES |= {f"%envreg{i}": "b32" for i in range(32)} | {f"%pm{i}": "u32" for i in range(8)}
_TYPES |= {f"%pm{i}_64": "u64" for i in range(8)} | {f"%reserved_smem_offset_{i}": "b32" for i in range(2)}

CONSTANTS = {"WARP_SZ": 32}

CLOCKS = {
    "%clock": 0,
    "%clock_hi": 32,
    "%clock64": 0,
    "%globaltimer": 0,
    "%globaltimer_lo": 0,
    "%globaltimer_hi": 32,
}
"""Registers that advance while a thread runs: the number of bits by which the logical clock is shifted right."""


def special_type(name: str) -> str | None:
    """The type of a special register, or None.

    >>> special_type("%tid.x"), special_type("%clock64"), special_type("%r1")
    ('u32', 'u64', None)
    """
    return _TYPES.get(name)
