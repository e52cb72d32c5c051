"""Native ops in the NumPy backend."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.reference._arithmetic import combine, redux
from ptxlab.engine.reference._host_memory import bytes_at
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
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_BASE, PARAM_WINDOW, SHARED_WINDOW
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
from ptxlab.isa.operands import Addr, Op, PairOf, Reg, Resolved, Unused
from ptxlab.layout import fragment

if TYPE_CHECKING:
    from ptxlab.engine.reference.warp import Warp

__all__ = ["Stop", "bytes_at", "drain_copies", "fault_at", "perform_native", "shuffled"]

_U64 = (1 << 64) - 1


class Stop(Exception):
    """The group of converged lanes stops with a status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def perform_native(warp: Warp, op: Op, native: Native, mask: int) -> None:
    """Execute a native op for the lanes of ``mask``."""
    perform = _PERFORM.get(type(native))
    if perform is not None:
        perform(warp, op, native, mask)


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def fault_at(warp: Warp, op: Op | None, fault: Fault, lane: int, address: int) -> Stop:
    """Note a fault."""
    warp.words[Word.FAULT], warp.words[Word.FAULT_LANE] = int(fault), lane
    warp.words[Word.FAULT_ADDRESS] = np.uint64(address & _U64)
    if op is not None:
        warp.words[Word.INFO] = op.index
    return Stop(Status.FAULT)


def _refuse(wrong: object, warp: Warp, op: Op | None, fault: Fault, lane: int, address: int) -> None:
    """Note a fault and stop, if something is wrong."""
    if wrong:
        raise fault_at(warp, op, fault, lane, address)


# ------------------------------------------------------------------------------------------------------------- addresses


def _addresses(warp: Warp, operand: Resolved) -> list[int]:
    """The address in each lane."""
    assert isinstance(operand, Addr)
    if operand.base is None:
        return [operand.offset & _U64] * 32
    if isinstance(operand.base, Reg):
        bits = warp.program.registers[operand.base.index].bits
        return [(int(v) + operand.offset) & ((1 << bits) - 1) for v in warp.bits(operand.base, bits)]
    return [(warp.symbol(operand.base) + operand.offset) & _U64] * 32


def _host(warp: Warp, op: Op | None, space: str, lane: int, address: int, size: int, align: int, write: bool) -> int:
    """The host address of an access, or a fault."""
    _refuse(address % align, warp, op, Fault.MISALIGNED, lane, address)
    if space == "generic":
        window = address >> 32
        for base, name in ((SHARED_WINDOW, "shared::cluster"), (LOCAL_WINDOW, "local"), (PARAM_WINDOW, "param")):
            if window == base >> 32:
                try:
                    return _host(warp, op, name, lane, address & 0xFFFFFFFF, size, align, write)
                except Stop:
                    warp.words[Word.FAULT_ADDRESS] = np.uint64(address)
                    raise
        space = "global"
    if space in ("shared", "shared::cta"):
        rank = warp.word(Word.SHARED_RANK)
        if address - rank >= 0 and address - rank + size <= warp.word(Word.SHARED_SIZE):
            return warp.word(Word.SHARED) + address - rank
        peer = address >> 24 < warp.word(Word.CLUSTER_SIZE) and address >> 24 != rank >> 24
        raise fault_at(warp, op, Fault.SHARED_PEER if peer else Fault.SHARED_RANGE, lane, address)
    if space == "shared::cluster":
        named, inside = address >> 24, address & 0xFFFFFF
        _refuse(named >= warp.word(Word.CLUSTER_SIZE), warp, op, Fault.SHARED_GONE, lane, address)
        base, total = (int(v) for v in bytes_at(warp.word(Word.CLUSTER) + 16 * named, 16).view(np.uint64))
        _refuse(not total, warp, op, Fault.SHARED_GONE, lane, address)
        _refuse(inside + size > total, warp, op, Fault.SHARED_RANGE, lane, address)
        return base + inside
    if space in ("global", "const"):
        count = warp.word(Word.ALLOCATION_COUNT)
        rows = bytes_at(warp.word(Word.ALLOCATIONS), 32 * count).view(np.uint64).reshape(count, 4)
        for base, total, data, flags in rows.tolist():
            need = 3 if write else 1
            if base <= address and address + size <= base + total and flags & need == need:
                return int(data) + address - int(base)
        if write and warp.word(Word.BEFORE_WRITE):
            host: int = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(warp.word(Word.BEFORE_WRITE))(address, size)
            if host:
                return host
        raise fault_at(warp, op, Fault.GLOBAL_WRITE if write else Fault.GLOBAL_READ, lane, address)
    if space == "local":
        total = warp.word(Word.LOCAL_SIZE)
        _refuse(address + size > total, warp, op, Fault.LOCAL_RANGE, lane, address)
        return warp.word(Word.LOCAL) + lane * total + address
    _refuse(write, warp, op, Fault.PARAM_WRITE, lane, address)
    _refuse(not 0 <= address - PARAM_BASE <= warp.word(Word.PARAM_SIZE) - size, warp, op, Fault.PARAM_RANGE, lane, address)
    return warp.word(Word.PARAM) + address - PARAM_BASE


def _hosts(warp: Warp, op: Op, space: str, operand: Resolved, size: int, write: bool, mask: int) -> dict[int, NDArray[np.uint8]]:
    """The bytes of each executing lane's access; all are checked before any is used."""
    addresses = _addresses(warp, operand)
    return {lane: bytes_at(_host(warp, op, space, lane, addresses[lane], size, size, write), size) for lane in _lanes(mask)}


# -------------------------------------------------------------------------------------------------------------- accesses


def _integers(warp: Warp, operand: Resolved, bits: int) -> list[int]:
    """A source in all lanes as Python integers."""
    value = warp.bits(operand, bits)
    if bits == 128:
        return [int(low) | int(high) << 64 for low, high in zip(*value, strict=True)]
    return [int(v) for v in value]


def _put(warp: Warp, operand: Resolved, values: dict[int, int]) -> None:
    """Write a destination register in the lanes given."""
    if not isinstance(operand, Reg):
        return
    bits = warp.program.registers[operand.index].bits
    lanes = np.zeros(32, np.bool_)
    lanes[list(values)] = True
    new = [values.get(lane, 0) & ((1 << bits) - 1) for lane in range(32)]
    if bits == 128:
        made: Any = (np.array([v & _U64 for v in new], np.uint64), np.array([v >> 64 for v in new], np.uint64))
    else:
        made = np.array(new, np.bool_ if bits == 1 else f"u{max(bits, 16) // 8}")
    warp.put(operand.index, made, lanes)


def _lane_access(warp: Warp, op: Op, native: LaneAccess, mask: int) -> None:
    step = native.bits // 8
    hosts = _hosts(warp, op, native.space, op.operands[native.address], step * native.count, native.write, mask)
    if op.index in warp.program.loaded.stores and warp.word(Word.COPIED):
        note_store(warp, op, hosts, min(step, 4))
    elif op.index in warp.program.loaded.shared:
        if native.bits < 32:
            note_elements(warp, op, hosts, step, mask)
        else:
            note_words(warp, op, hosts, mask)
    elif op.index in warp.program.loaded.rows:
        note_load(warp, op, _addresses(warp, op.operands[native.address]), mask)
    for k, item in enumerate(flatten(op.operands[native.value])):
        part = slice(k * step, (k + 1) * step)
        if native.write:
            values = _integers(warp, item, native.bits)
            for lane in (i ^ store_order(step * native.count) for i in range(32)):
                if lane in hosts:
                    hosts[lane][part] = np.frombuffer(values[lane].to_bytes(step, "little"), np.uint8)
        else:
            loaded = {lane: int.from_bytes(data[part].tobytes(), "little", signed=native.signed) for lane, data in hosts.items()}
            _put(warp, item, loaded)


def _atomic(warp: Warp, op: Op, native: Atomic, mask: int) -> None:
    bits = TYPE_BITS[native.type]
    step = bits // 8
    hosts = _hosts(warp, op, native.space, op.operands[native.address], step * native.count, True, mask)
    sources = [[_integers(warp, item, bits) for item in flatten(op.operands[p])] for p in native.sources]
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
            _put(warp, item, values)


def _matrix(warp: Warp, op: Op, native: MatrixAccess, mask: int) -> None:
    _together(warp, op, mask)
    rows = mask & ((1 << 8 * native.registers) - 1)
    hosts = _hosts(warp, op, native.space, op.operands[native.address], native.row, native.write, rows)
    if op.index in warp.program.loaded.stores and warp.word(Word.COPIED):
        (note_columns if native.transposed else note_rows)(warp, op, hosts)
    elif op.index in warp.program.loaded.shared:
        note_matrix(warp, op, native, hosts, mask)
    bits = 16 if native.element == "b16" else 8
    for i, item in enumerate(flatten(op.operands[native.value])):
        values = _integers(warp, item, 32) if native.write else [0] * 32
        loaded: dict[int, int] = {}
        for lane in _lanes(mask):
            for part in range(32 // bits):
                value = i * (32 // bits) + part
                row, column = _matrix_places(native.write, native.element, native.transposed, value)[lane]
                if native.write:
                    hosts[row].view(f"u{bits // 8}")[column] = values[lane] >> bits * part & ((1 << bits) - 1)
                else:
                    loaded[lane] = loaded.get(lane, 0) | _matrix_element(hosts[row], native.element, column) << bits * part
        if not native.write:
            _put(warp, item, loaded)


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


# ------------------------------------------------------------------------------------------------------------ exchanges


def _converge(warp: Warp, op: Op, mask: int) -> Stop:
    warp.words[Word.ACTIVE], warp.words[Word.INFO], warp.words[Word.PC] = mask, op.index, op.index
    return Stop(Status.CONVERGE)


def _together(warp: Warp, op: Op, mask: int) -> None:
    if mask and warp.word(Word.LIVE) & ~mask:
        raise _converge(warp, op, mask)


def _collective(warp: Warp, op: Op, native: Collective, mask: int) -> None:
    operands = op.operands
    lanes = _lanes(mask)
    if native.name == "activemask":
        _put(warp, operands[0], dict.fromkeys(lanes, mask))
        return
    members = _integers(warp, operands[native.member], 32)
    for lane in lanes:
        _refuse(not members[lane] >> lane & 1, warp, op, Fault.NOT_MEMBER, lane, members[lane])
    for lane in lanes:
        if members[lane] & warp.word(Word.LIVE) & ~mask:
            raise _converge(warp, op, mask)
    if native.name == "warpsync":
        return
    first = operands[0].first if isinstance(operands[0], PairOf) else operands[0]
    second: Resolved = operands[0].second if isinstance(operands[0], PairOf) else Unused()
    groups = {lane: members[lane] & mask for lane in lanes}
    result: dict[int, int] = {}
    flags: dict[int, int] = {}
    if native.name == "elect":
        leaders = {lane: (g & -g).bit_length() - 1 for lane, g in groups.items()}
        result, flags = leaders, {lane: int(leader == lane) for lane, leader in leaders.items()}
    elif native.name == "shfl":
        a, b, c = (_integers(warp, o, 32) for o in operands[1:4])
        for lane in lanes:
            source, inside = _shfl_source(native.mode, lane, b[lane] & 31, c[lane] >> 8 & 31, c[lane] & 31)
            result[lane], flags[lane] = a[source if inside else lane], int(inside)
    elif native.name == "vote":
        yes = sum(1 << i for i, v in enumerate(warp.bits(operands[1], 1)) if v)
        for lane, group in groups.items():
            agree = yes & group
            modes = {"ballot": agree, "all": agree == group, "any": agree != 0, "uni": agree in (0, group)}
            result[lane] = int(modes[native.mode])
    elif native.name == "match":
        values = _integers(warp, operands[1], TYPE_BITS[native.type])
        for lane, group in groups.items():
            same = sum(1 << i for i in _lanes(group) if values[i] == values[lane])
            flags[lane] = int(same == group)
            result[lane] = same if native.mode == "any" else group if same == group else 0
    else:
        values = _integers(warp, operands[1], 32)
        result = {lane: redux(native, [values[i] for i in _lanes(group)]) for lane, group in groups.items()}
    _put(warp, first, result)
    if flags:
        _put(warp, second, flags)


def shuffled(warp: Warp, op: Op, native: Collective, mask: int) -> NDArray[np.intp]:
    """The lane whose value each lane gets from shfl."""
    b, c = (_integers(warp, o, 32) for o in op.operands[2:4])
    found = np.arange(32)
    for lane in _lanes(mask):
        source, inside = _shfl_source(native.mode, lane, b[lane] & 31, c[lane] >> 8 & 31, c[lane] & 31)
        found[lane] = source if inside else lane
    return found


def _shfl_source(mode: str, lane: int, amount: int, segment: int, limit: int) -> tuple[int, bool]:
    lowest = lane & segment
    highest = lowest | limit & ~segment & 31
    if mode == "up":
        return lane - amount, lane - amount >= highest
    source = {"down": lane + amount, "bfly": lane ^ amount, "idx": lowest | amount & ~segment & 31}[mode]
    return source, source <= highest


# -------------------------------------------------------------------------------------------------- tensor memory, copies


def _tensor(warp: Warp, op: Op, native: TensorAccess, mask: int) -> None:
    if not mask:
        return
    _together(warp, op, mask)
    lanes = _lanes(mask)
    operand = op.operands[native.address]
    addresses = _addresses(warp, operand) if isinstance(operand, Addr) else _integers(warp, operand, 32)
    address = addresses[lanes[0]]
    for lane in lanes:
        if addresses[lane] != address:
            offset = operand.offset if isinstance(operand, Addr) else 0
            raise fault_at(warp, op, Fault.TENSOR_UNEQUAL, lane, address - offset)
    _refuse(not warp.word(Word.TENSOR), warp, op, Fault.TENSOR_NONE, lanes[0], address)
    _refuse(warp.word(Word.LIVE) & 0xFFFFFFFF != 0xFFFFFFFF, warp, op, Fault.TENSOR_PARTIAL, lanes[0], address)
    lane0, column0, quadrant = address >> 16, address & 0xFFFF, warp.word(Word.QUADRANT)
    inner = lane0 & 31
    other = lane0 >> 5 != quadrant and (lane0 >> 5 or warp.word(Word.OWN_LANES))
    wrong = other or (inner if native.shape == "32x32b" else inner & 15)
    _refuse(wrong, warp, op, Fault.TENSOR_QUADRANT, lanes[0], address)
    items = flatten(op.operands[native.value])
    half = _integers(warp, op.operands[native.split], 32)[0] if native.split >= 0 else 0
    parts = 2 if native.pack else 1
    width = int(fragment(native.shape, native.repeat, native.pack).column.max()) + parts
    starts = [column0, column0 + half] if native.split >= 0 else [column0]
    for start in starts:
        _refuse(start + width > 512, warp, op, Fault.TENSOR_RANGE, lanes[0], address)
    owned = bytes_at(warp.word(Word.TENSOR_OWNED), 512)
    for start in starts:
        for column in range(start, start + width):
            _refuse(not owned[column], warp, op, Fault.TENSOR_UNALLOCATED, lanes[0], column)
    note_load(warp, op, [each + FIRST_CELL for each in addresses], mask)
    words = bytes_at(warp.word(Word.TENSOR), 512 * 128 * 4).view(f"u{4 // parts}").reshape(512, 128, parts)
    cells = fragment(native.shape, native.repeat, native.pack, half)
    for r, item in enumerate(items):
        values = _integers(warp, item, 32) if native.write else []
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
            _put(warp, item, loaded)


def _copy(warp: Warp, op: Op, native: CopyAsync, mask: int) -> None:
    hosts = _hosts(warp, op, "shared", op.operands[native.destination], native.size, True, mask)
    addresses = _addresses(warp, op.operands[native.source])
    sized = native.source_size >= 0 and not isinstance(op.operands[native.source_size], Unused)
    sizes = _integers(warp, op.operands[native.source_size], 32) if sized else [native.size] * 32
    ignored = warp.bits(op.operands[native.ignore], 1) if native.ignore >= 0 else np.zeros(32, np.bool_)
    for lane in _lanes(mask):
        read = 0 if ignored[lane] else min(sizes[lane], native.size)
        _refuse(read and addresses[lane] % native.size, warp, op, Fault.MISALIGNED, lane, addresses[lane])
        count = warp.word(Word.PENDING_COUNT)
        if warp.word(Word.DEFERRED) and count < warp.word(Word.PENDING_CAPACITY):
            if read:
                _host(warp, op, "global", lane, addresses[lane], read, 1, False)
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
        target[:read] = bytes_at(_host(warp, op, "global", lane, address, read, 1, False), read)
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
    Collective: _collective,
    MatrixAccess: _matrix,
    TensorAccess: _tensor,
    CopyAsync: _copy,
}
"""What a native op does, by its type; others only order memory."""
