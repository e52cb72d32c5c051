"""What the text says of tensor maps that a kernel makes with tensormap.replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ptxlab.descriptors import TENSOR_MAP_BYTES, TensorMapError, decode_tensor_map, replace_field
from ptxlab.isa.bulk._tensormap import has_ordinal, replace
from ptxlab.isa.operands import Op

__all__ = ["box_bytes", "copies_box", "replaced_field"]

_MOST_DIMENSIONS = 5
Field = tuple[str, int | None]
"""The name of a field as in the opcode, and the dimension where it has one."""


def replaced_field(op: Op, values: Sequence[int | None]) -> tuple[Field, int | None] | None:
    """The field that an instruction replaces, and its new value, by the values of the operands; None for other instructions."""
    if op.row.semantics is not replace:
        return None
    name = op.q.field
    return ((name, values[1]), values[2]) if has_ordinal(name) else ((name, None), values[1])


def copies_box(op: Op) -> bool:
    """Whether a tensor copy moves one box of the map in tiled mode, with nothing replaced in the instruction."""
    q = op.q
    return q.get("mode") in (None, "tile") and not any(q.get(name) for name in ("address", "dim_only", "dim_stride"))


def box_bytes(fields: Mapping[Field, int | None]) -> int | None:
    """The bytes of a box by the fields that have been replaced; None if these do not say it.

    Examples
    --------
    >>> fields = {("rank", None): 1, ("elemtype", None): 6, ("box_dim", 0): 64, ("box_dim", 1): 8}
    >>> box_bytes(fields), box_bytes({**fields, ("rank", None): 2}), box_bytes({**fields, ("rank", None): 0xFFFFFFFF})
    (1024, None, None)
    """
    rank = fields.get(("rank", None))
    if rank is None or rank >= _MOST_DIMENSIONS:
        return None
    wanted: list[Field] = [("rank", None), ("elemtype", None), *(("box_dim", dimension) for dimension in range(rank + 1))]
    raw = bytearray(TENSOR_MAP_BYTES)
    for field in wanted:
        value = fields.get(field)
        if value is None:
            return None
        try:
            replace_field(raw, *field, value)
        except TensorMapError:
            return None
    made = decode_tensor_map(raw)
    bits = prod(made.box) * made.element.bits
    return None if made.element.padded or bits % 8 else bits // 8
