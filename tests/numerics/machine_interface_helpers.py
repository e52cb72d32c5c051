"""Multiplications as the machine does them: on prepared operands."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ptxlab import numerics

from .wild_value_helpers import Case

__all__ = ["by_machine_interface"]


def force_general(operand: numerics.Prepared) -> None:
    """Flag every row of a B as special, which the fast path leaves to the general one."""
    flags = ctypes.c_int64.from_address(operand.address + (32 if operand.groups else 16)).value
    ctypes.memset(flags, 0xFF, 4 * operand.rows)


def by_machine_interface(given: Case, general: bool) -> Any:
    """What `Case.run` computes, through prepared operands and an accumulator of columns."""
    f, options = given.form, dict(given.options)
    scale_a, scale_b, metadata = (options.pop(name, None) for name in ("scale_a", "scale_b", "metadata"))
    scales = {name: options.pop(name, None) for name in ("scale", "block")}
    a = numerics.prepare(given.A, f.a, role="a", kind=f.kind, other=f.b, scales=scale_a, metadata=metadata, **scales)
    b = numerics.prepare(given.B, f.b, role="b", kind=f.kind, other=f.a, scales=scale_b, sparse=f.sparse, **scales)
    if general:
        force_general(b)
    m, n = a.rows, b.rows
    cells = np.full((n, m), 0xDEADBEEF, np.uint32)
    if given.C is not None:
        cells[...] = given.C.T
    numerics.mma_prepared(f.kind, f.d, a, b, cells, arch=f.arch, accumulate=given.C is not None, **options)
    return cells.T
