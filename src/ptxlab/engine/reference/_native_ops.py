"""Native ops in the NumPy backend."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.reference._arithmetic import combine
from ptxlab.engine.reference._exchanges import need_all_lanes, perform_collective
from ptxlab.engine.reference._host_memory import bytes_at
from ptxlab.engine.reference._lane_accesses import addresses_of, fault_at, host_address, host_bytes, integers, lanes_in, put_lanes, refuse
from ptxlab.engine.reference._loaded_values import (
    note_cell,
    note_columns,
    note_elements,
    note_load,
    note_matrix,
    note_rows,
    note_store,
    note_words,
)
from ptxlab.engine.word_sources import FIRST_CELL, NO_SOURCE
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import (
    Atomic,
    Collective,
    CopyAsync,
    LaneAccess,
    MatrixAccess,
    Native,
    TensorAccess,
    matrix_layout,
    store_order,
)
from ptxlab.isa.operands import Addr, Op, Unused
from ptxlab.layout import fragment

if TYPE_CHECKING:
    from ptxlab.engine.reference.warp import Warp

__all__ = ["drain_copies", "perform_native"]


def perform_native(warp: Warp, op: Op, native: Native, mask: int) -> None:
    """Execute a native op for the lanes of ``mask``."""
    perform = _PERFORM.get(type(native))
    if perform is not None:
        perform(warp, op, native, mask)


# -------------------------------------------------------------------------------------------------------------- accesses


def _lane_access(warp: Warp, op: Op, native: LaneAccess, mask: int) -> None:
    step = native.bits // 8
    hosts = host_bytes(warp, op, native.space, op.operands[native.address], step * native.count, native.write, mask)
    if op.index in warp.program.loaded.stores and warp.word(Word.COPIED):
        note_store(warp, op, hosts, min(step, 4))
    elif op.index in warp.program.loaded.shared:
        if native.bits < 32:
            note_elements(warp, op, hosts, step, mask)
        else:
            note_words(warp, op, hosts, mask)
    elif op.index in warp.program.loaded.rows:
        note_load(warp, op, addresses_of(warp, op.operands[native.address]), mask)
    for k, item in enumerate(flatten(op.operands[native.value])):
        part = slice(k * step, (k + 1) * step)
        if native.write:
            values = integers(warp, item, native.bits)
            for lane in (i ^ store_order(step * native.count) for i in range(32)):
                if lane in hosts:
                    hosts[lane][part] = np.frombuffer(values[lane].to_bytes(step, "little"), np.uint8)
        else:
            loaded = {lane: int.from_bytes(data[part].tobytes(), "little", signed=native.signed) for lane, data in hosts.items()}
            put_lanes(warp, item, loaded)


def _atomic(warp: Warp, op: Op, native: Atomic, mask: int) -> None:
    bits = TYPE_BITS[native.type]
    step = bits // 8
    hosts = host_bytes(warp, op, native.space, op.operands[native.address], step * native.count, True, mask)
    sources = [[integers(warp, item, bits) for item in flatten(op.operands[p])] for p in native.sources]
    old: list[dict[int, int]] = [{} for _ in range(native.count)]
    for lane, data in hosts.items():
        for k in range(native.count):
            part = slice(k * step, (k + 1) * step)
            before = int.from_bytes(data[part].tobytes(), "little")
            old[k][lane] = before
            after = combine(native.operation, native.type, before, *(s[k][lane] for s in sources), in_global=native.adds_in_global)
            data[part] = np.frombuffer(after.to_bytes(step, "little"), np.uint8)
    if native.destination >= 0:
        for item, values in zip(flatten(op.operands[native.destination]), old, strict=False):
            put_lanes(warp, item, values)


def _matrix(warp: Warp, op: Op, native: MatrixAccess, mask: int) -> None:
    need_all_lanes(warp, op, mask)
    rows = mask & ((1 << 8 * native.registers) - 1)
    hosts = host_bytes(warp, op, native.space, op.operands[native.address], native.row, native.write, rows)
    if op.index in warp.program.loaded.stores and warp.word(Word.COPIED):
        (note_columns if native.transposed else note_rows)(warp, op, hosts)
    elif op.index in warp.program.loaded.shared:
        note_matrix(warp, op, native, hosts, mask)
    bits = 16 if native.element == "b16" else 8
    for i, item in enumerate(flatten(op.operands[native.value])):
        values = integers(warp, item, 32) if native.write else [0] * 32
        loaded: dict[int, int] = {}
        for lane in lanes_in(mask):
            for part in range(32 // bits):
                value = i * (32 // bits) + part
                row, column = _matrix_places(native.write, native.element, native.transposed, value)[lane]
                if native.write:
                    hosts[row].view(f"u{bits // 8}")[column] = values[lane] >> bits * part & ((1 << bits) - 1)
                else:
                    loaded[lane] = loaded.get(lane, 0) | _matrix_element(hosts[row], native.element, column) << bits * part
        if not native.write:
            put_lanes(warp, item, loaded)


@lru_cache(maxsize=256)
def _matrix_places(write: bool, element: str, transposed: bool, value: int) -> list[tuple[int, int]]:
    """For each lane the row and the column of a value."""
    layout, lanes = matrix_layout(write, element, transposed), np.arange(32)
    rows, columns = (np.broadcast_to(layout.coefficients(name)(lanes, value), 32).tolist() for name in ("R", "C"))
    return list(zip(rows, columns, strict=True))


def _matrix_element(row: Any, element: str, index: int) -> int:
    width = int(element[1:])
    word = int.from_bytes(row.tobytes(), "little") >> width * index & ((1 << width) - 1)
    return word | 0xF0 if element == "s4" and word & 8 else word


# -------------------------------------------------------------------------------------------------- tensor memory, copies


def _tensor(warp: Warp, op: Op, native: TensorAccess, mask: int) -> None:
    if not mask:
        return
    need_all_lanes(warp, op, mask)
    lanes = lanes_in(mask)
    operand = op.operands[native.address]
    addresses = addresses_of(warp, operand) if isinstance(operand, Addr) else integers(warp, operand, 32)
    address = addresses[lanes[0]]
    for lane in lanes:
        if addresses[lane] != address:
            offset = operand.offset if isinstance(operand, Addr) else 0
            raise fault_at(warp, op, Fault.TENSOR_UNEQUAL, lane, address - offset)
    refuse(not warp.word(Word.TENSOR), warp, op, Fault.TENSOR_NONE, lanes[0], address)
    refuse(warp.word(Word.LIVE) & 0xFFFFFFFF != 0xFFFFFFFF, warp, op, Fault.TENSOR_PARTIAL, lanes[0], address)
    lane0, column0, quadrant = address >> 16, address & 0xFFFF, warp.word(Word.QUADRANT)
    inner = lane0 & 31
    other = lane0 >> 5 != quadrant and (lane0 >> 5 or warp.word(Word.OWN_LANES))
    wrong = other or (inner if native.shape == "32x32b" else inner & 15)
    refuse(wrong, warp, op, Fault.TENSOR_QUADRANT, lanes[0], address)
    items = flatten(op.operands[native.value])
    half = integers(warp, op.operands[native.split], 32)[0] if native.split >= 0 else 0
    parts = 2 if native.pack else 1
    width = int(fragment(native.shape, native.repeat, native.pack).column.max()) + parts
    starts = [column0, column0 + half] if native.split >= 0 else [column0]
    for start in starts:
        refuse(start + width > 512, warp, op, Fault.TENSOR_RANGE, lanes[0], address)
    owned = bytes_at(warp.word(Word.TENSOR_OWNED), 512)
    for start in starts:
        for column in range(start, start + width):
            refuse(not owned[column], warp, op, Fault.TENSOR_UNALLOCATED, lanes[0], column)
    note_load(warp, op, [each + FIRST_CELL for each in addresses], mask)
    words = bytes_at(warp.word(Word.TENSOR), 512 * 128 * 4).view(f"u{4 // parts}").reshape(512, 128, parts)
    cells = fragment(native.shape, native.repeat, native.pack, half)
    for r, item in enumerate(items):
        values = integers(warp, item, 32) if native.write else []
        loaded: dict[int, int] = {}
        for t in lanes:
            # A register holds one cell, or the low halves of two.
            at = column0 + int(cells.column[t, r]), 32 * quadrant + inner + int(cells.lane[t, r])
            for part in range(parts):
                shift = 16 * part
                cell = (at[0] + part, at[1], 0)
                if native.write:
                    words[cell] = values[t] >> shift & (1 << 32 // parts) - 1
                    note_cell(warp, op, at[0] + part, at[1], r if parts == 1 else -1, t)
                else:
                    loaded[t] = loaded.get(t, 0) | int(words[cell]) << shift
        if not native.write:
            put_lanes(warp, item, loaded)


def _copy(warp: Warp, op: Op, native: CopyAsync, mask: int) -> None:
    hosts = host_bytes(warp, op, "shared", op.operands[native.destination], native.size, True, mask)
    addresses = addresses_of(warp, op.operands[native.source])
    sized = native.source_size >= 0 and not isinstance(op.operands[native.source_size], Unused)
    sizes = integers(warp, op.operands[native.source_size], 32) if sized else [native.size] * 32
    ignored = warp.bits(op.operands[native.ignore], 1) if native.ignore >= 0 else np.zeros(32, np.bool_)
    for lane in lanes_in(mask):
        read = 0 if ignored[lane] else min(sizes[lane], native.size)
        refuse(read and addresses[lane] % native.size, warp, op, Fault.MISALIGNED, lane, addresses[lane])
        count = warp.word(Word.PENDING_COUNT)
        if warp.word(Word.DEFERRED) and count < warp.word(Word.PENDING_CAPACITY):
            if read:
                host_address(warp, op, "global", lane, addresses[lane], read, 1, False)
            row = bytes_at(warp.word(Word.PENDING) + 24 * count, 24).view(np.uint64)
            row[:] = hosts[lane].ctypes.data - warp.word(Word.SHARED), addresses[lane], native.size | read << 8 | lane << 16
            warp.words[Word.PENDING_COUNT] = count + 1
        else:
            _perform(warp, op, lane, hosts[lane], addresses[lane], read)


def _perform(warp: Warp, op: Op | None, lane: int, target: NDArray[np.uint8], address: int, read: int) -> None:
    if warp.word(Word.COPIED):
        first = int(target.ctypes.data) - warp.word(Word.SHARED)
        noted = bytes_at(warp.word(Word.COPIED) + 2 * first, 2 * len(target)).view(np.uint64)
        noted[:] = [address + i if i < read else NO_SOURCE for i in range(0, len(target), 4)]
    if read:
        target[:read] = bytes_at(host_address(warp, op, "global", lane, address, read, 1, False), read)
    target[read:] = 0


def drain_copies(warp: Warp, first: int, count: int, lanes: int) -> None:
    """Perform pending copies ``first .. first+count-1`` of some lanes."""
    rows = bytes_at(warp.word(Word.PENDING) + 24 * first, 24 * count).view(np.uint64).reshape(count, 3)
    for offset, address, packed in rows.tolist():
        lane = packed >> 16
        if lanes >> lane & 1:
            target = bytes_at(warp.word(Word.SHARED) + offset, packed & 0xFF)
            _perform(warp, None, lane, target, address, packed >> 8 & 0xFF)


_PERFORM: dict[type[Native], Callable[[Warp, Op, Any, int], None]] = {
    LaneAccess: _lane_access,
    Atomic: _atomic,
    Collective: perform_collective,
    MatrixAccess: _matrix,
    TensorAccess: _tensor,
    CopyAsync: _copy,
}
"""What a native op does, by its type; others only order memory."""
