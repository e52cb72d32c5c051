"""The values of special registers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine.warp._register_rows import ALL_LANES

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["cta_values", "fill_specials", "launch_values", "special_registers"]

_SHARED_UNIT = 128
"""Granularity in bytes of shared memory allocation (section "Special Registers: %total_smem_size")."""
_NOT_SET = frozenset({f"%envreg{i}" for i in range(32) if i not in (1, 2)} | {f"%pm{i}{half}" for i in range(8) for half in ("", "_64")})
"""Registers that are for the driver and for tools to set: 0."""

_LANE = np.arange(32, dtype=np.uint64)
_BIT = np.uint64(1) << _LANE
_LANE_VALUES: dict[str, NDArray[np.uint64]] = {
    "%laneid": _LANE,
    "%lanemask_eq": _BIT,
    "%lanemask_lt": _BIT - np.uint64(1),
    "%lanemask_le": (_BIT << np.uint64(1)) - np.uint64(1),
    "%lanemask_gt": ~((_BIT << np.uint64(1)) - np.uint64(1)) & np.uint64(ALL_LANES),
    "%lanemask_ge": ~(_BIT - np.uint64(1)) & np.uint64(ALL_LANES),
}


def _axes(name: str, values: tuple[int, ...]) -> dict[str, int]:
    return {f"{name}.{axis}": value for axis, value in zip("xyz", values, strict=True)}


def launch_values(launch: Launch) -> dict[str, int]:
    """Special registers that are the same in the whole launch."""
    o = launch.options
    shared = -(-(launch.shared_bytes - SHARED_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    return {
        **_axes("%ntid", o.block),
        **_axes("%nctaid", o.grid),
        **_axes("%nclusterid", launch.grid_of_clusters),
        **_axes("%cluster_nctaid", o.cluster),
        "%cluster_nctarank": launch.cluster_size,
        "%is_explicit_cluster": int(o.explicit_cluster),
        "%nwarpid": launch.warps_per_cta,
        "%nsmid": launch.device.sms,
        "%gridid": launch.device.launches,
        "%dynamic_smem_size": o.shared_bytes,
        "%total_smem_size": shared,
        "%aggr_smem_size": shared + SHARED_RESERVED,
        "%reserved_smem_offset_begin": 0,
        "%reserved_smem_offset_end": SHARED_RESERVED,
        "%reserved_smem_offset_cap": SHARED_RESERVED,
        "%reserved_smem_offset_0": 0,
        "%reserved_smem_offset_1": 0,
        "%current_graph_exec": 0,
        "%envreg1": o.grid_workspace >> 32,
        "%envreg2": o.grid_workspace & 0xFFFFFFFF,
    }


def cta_values(launch: Launch, cta: CtaState) -> dict[str, int]:
    """Special registers that are the same in a CTA."""
    c = launch.options.cluster
    inner = tuple(i % n for i, n in zip(cta.ctaid, c, strict=True))
    outer = tuple(i // n for i, n in zip(cta.ctaid, c, strict=True))
    return {
        **_axes("%ctaid", cta.ctaid),
        **_axes("%cluster_ctaid", inner),
        **_axes("%clusterid", outer),
        "%cluster_ctarank": cta.rank,
        "%smid": cta.sm.index,
    }


@lru_cache(maxsize=1024)
def _warp_value(name: str, block: tuple[int, int, int], warp: int) -> Any:
    """A special register that differs between the warps of a CTA or between their lanes."""
    if name in _LANE_VALUES:
        return _LANE_VALUES[name]
    x, y, _ = block
    thread = _LANE + np.uint64(warp * 32)
    return {"%warpid": warp, "%tid.x": thread % x, "%tid.y": thread // x % y, "%tid.z": thread // (x * y)}[name]


def special_registers(warp: Warp) -> dict[str, NDArray[np.uint64]]:
    """The special registers of a warp by name, in all lanes, whether the program reads them or not; without clocks and counters."""
    launch = warp.launch
    shared = launch_values(launch) | cta_values(launch, warp.cta)
    own = {name: _warp_value(name, launch.options.block, warp.warp_id) for name in (*_axes("%tid", (0, 0, 0)), "%warpid", *_LANE_VALUES)}
    return {name: np.broadcast_to(np.asarray(value, np.uint64), 32) for name, value in (own | shared).items()}


def fill_specials(launch: Launch, cta_table: dict[str, int], warp: int, frame: NDArray[np.uint8]) -> None:
    """Write the special registers that the program reads into a warp's frame; the engine itself takes clocks from the context."""
    for name, offset, bits in launch.specials:
        if name in CLOCKS:
            continue
        value: Any = 0 if name in _NOT_SET else cta_table.get(name, launch.special_values.get(name))
        if value is None:
            value = _warp_value(name, launch.options.block, warp)
        if bits == 1:
            frame[offset : offset + 4].view(np.uint32)[0] = ALL_LANES if value else 0
        elif bits <= 16:
            frame[offset : offset + 64].view(np.uint16)[:] = value
        elif bits == 32:
            frame[offset : offset + 128].view(np.uint32)[:] = value
        else:
            frame[offset : offset + 256].view(np.uint64)[:] = value
