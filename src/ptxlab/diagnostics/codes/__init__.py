"""All diagnostic codes: one table for each area."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ptxlab.diagnostics.codes import (
    _barriers,
    _bulk_copies,
    _interop,
    _launch_files,
    _launches,
    _legality,
    _lowering,
    _races,
    _syntax,
    _tensor_memory,
    _values,
    _warp_matrix,
    _warpgroups,
)
from ptxlab.diagnostics.codes._info import CodeInfo, Severity

__all__ = ["CODES", "CodeInfo", "Severity"]

_AREAS = (
    _barriers,
    _bulk_copies,
    _interop,
    _launch_files,
    _launches,
    _legality,
    _lowering,
    _races,
    _syntax,
    _tensor_memory,
    _values,
    _warp_matrix,
    _warpgroups,
)

CODES: Mapping[str, CodeInfo] = MappingProxyType({info.code: info for area in _AREAS for info in area.CODES})
"""Every code with what it stands for."""
