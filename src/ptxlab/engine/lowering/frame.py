"""Liveness of registers and their rows in the frame.

A register that stays inside one run of pure instructions has no row. Long runs are divided, so that they become several regions; what
is needed behind a cut has a row. Registers with rows share them when their live ranges,
taken as hulls over the scheduling order, do not overlap; lanes are independent and every write is masked, so groups of
converged lanes of a warp at different ops cannot disturb each other. What an asynchronous operation writes has a row of its own, since it
is written at no particular op.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from ptxlab.engine.lowering._accumulators import forget_unread
from ptxlab.engine.lowering.register_use import constant_operands, find_effects, is_inline, operand_registers, passes_undefined_bits
from ptxlab.engine.lowering.repeated_ops import repeated_runs
from ptxlab.engine.lowering.variable_layout import align_up
from ptxlab.engine.program import Program

__all__ = ["assign_frame", "find_liveness", "members", "mirrored", "row_bytes", "separate"]

_RUN_OPS = 2400
"""A run of pure instructions is divided after so many: what a region costs beside them is then 1 to 2 % of its compilation."""


def row_bytes(bits: int) -> int:
    """Size in bytes of the row of a register of this width."""
    return 4 if bits == 1 else 64 if bits <= 16 else 4 * bits


def assign_frame(program: Program) -> None:
    """Fill in the effects of ops, what lives across blocks, undefined registers, and the frame."""
    framed, live_in = find_liveness(program)
    _mark_undefined(program, live_in[0])
    _allocate(program, framed, live_in)


def find_liveness(program: Program) -> tuple[set[int], list[int]]:
    """Fill in the effects of ops and what lives across blocks; the registers that need a row, and those live at the start of each block."""
    find_effects(program)
    forget_unread(program)
    framed, exposed = _framed_and_exposed(program)
    return framed, _liveness(program, exposed)


def _framed_and_exposed(program: Program) -> tuple[set[int], list[tuple[set[int], set[int]]]]:
    """Registers that need a row; and for each block those it reads before writing, and those it surely writes. Sets ``cuts``."""
    home = [-1] * len(program.registers)
    framed: set[int] = set()
    exposed: list[tuple[set[int], set[int]]] = []
    segment = 0
    cuts: list[int] = []
    reads, writes, ops = program.reads, program.writes, program.ops
    for block in program.blocks:
        upward: set[int] = set()
        killed: set[int] = set()
        segment += 1
        length = 0
        runs = repeated_runs(ops[block.start : block.stop], program.registers)
        repeated = {place for start, stop in runs for place in range(block.start + start, block.start + stop)}
        for i in range(block.start, block.stop):
            op = ops[i]
            guard = op.guard
            inline = is_inline(program, op)
            if i in repeated:
                inline = False
            else:
                length = length + 1 if inline else 0
                if length > _RUN_OPS and block.stop - i > _RUN_OPS // 2:
                    cuts.append(i)
                    length = 1
                    segment += 1
            if not inline:
                segment += 1
            for register in (*reads[i], guard.index) if guard is not None else reads[i]:
                if register not in killed:
                    upward.add(register)
                if not inline or home[register] != segment:
                    framed.add(register)
            for register in writes[i]:
                if guard is not None:
                    if register not in killed:
                        upward.add(register)
                        framed.add(register)
                else:
                    killed.add(register)
                if not inline or home[register] not in (-1, segment):
                    framed.add(register)
                home[register] = segment
            if not inline:
                segment += 1
        exposed.append((upward, killed))
    program.cuts = frozenset(cuts)
    return framed, exposed


def _liveness(program: Program, exposed: list[tuple[set[int], set[int]]]) -> list[int]:
    """Registers live at the start of each block; sets ``live_out``. All are bit sets over the registers that cross blocks."""
    crossing = sorted(set().union(*(upward for upward, _ in exposed)))
    number = {register: i for i, register in enumerate(crossing)}
    blocks = program.blocks
    use = [_bits(upward, number) for upward, _ in exposed]
    keep = [~_bits(killed, number) for _, killed in exposed]
    live = list(use)
    out = [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for b in range(len(blocks) - 1, -1, -1):
            joined = 0
            for s in blocks[b].successors:
                joined |= live[s]
            if joined != out[b]:
                out[b] = joined
                new = use[b] | (joined & keep[b])
                if new != live[b]:
                    live[b] = new
                    changed = True
    program.live_out, program.crossing = out, crossing
    return live


def _bits(registers: set[int], number: dict[int, int]) -> int:
    data = bytearray(len(number) // 8 + 1)
    for register in registers:
        at = number.get(register)
        if at is not None:
            data[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(data, "little")


def members(bits: int, crossing: list[int]) -> list[int]:
    """The registers of a bit set."""
    raw = np.frombuffer(bits.to_bytes(len(crossing) // 8 + 1, "little"), np.uint8)
    return [crossing[i] for i in np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()]


def _mark_undefined(program: Program, live_in: int) -> None:
    """Give a shadow to registers that some path reads before writing, and to what is computed from them."""
    program.unwritten = [r for r in members(live_in, program.crossing) if not program.registers[r].special]
    tainted = set(program.unwritten)
    if not tainted:
        return
    readers: dict[int, list[int]] = {}
    for op in program.ops:
        if passes_undefined_bits(program, op):
            for register in program.reads[op.index]:
                readers.setdefault(register, []).append(op.index)
            if op.guard is not None:
                readers.setdefault(op.guard.index, []).append(op.index)
    work = list(tainted)
    while work:
        for i in readers.get(work.pop(), ()):
            for register in program.writes[i]:
                if register not in tainted:
                    tainted.add(register)
                    work.append(register)
    for register in tainted:
        program.registers[register].shadow = 0


def _intervals(program: Program, framed: set[int], live_in: list[int]) -> list[tuple[int, int, int]]:
    """First and last position at which each framed register matters, sorted by the first."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, op in enumerate(program.ops):
        guard = () if op.guard is None else (op.guard.index,)
        for register in (*guard, *program.reads[i], *program.writes[i]):
            first.setdefault(register, i)
            last[register] = i
    known = 0
    for block, entering, leaving in zip(program.blocks, live_in, program.live_out, strict=True):
        new = (entering | leaving) & ~known
        if new:
            known |= new
            for register in members(new, program.crossing):
                first[register] = min(first.get(register, block.start), block.start)
    known = 0
    for block, entering, leaving in zip(reversed(program.blocks), reversed(live_in), reversed(program.live_out), strict=True):
        new = (entering | leaving) & ~known
        if new:
            known |= new
            for register in members(new, program.crossing):
                last[register] = max(last.get(register, 0), block.stop)
    for register in members(live_in[0], program.crossing):
        first[register] = -1
    for op in program.ops:
        for operand in op.operands[: op.row.updates]:
            for register in operand_registers(operand):
                first[register], last[register] = -1, len(program.ops)
    return sorted((first[r], last[r], r) for r in framed)


def _shadow_rows(bits: int, start: int) -> tuple[int, int, int]:
    """Offsets of the rows for the undefined bits of a register and for their origins, and the offset after them."""
    shadow = align_up(start, 64)
    origin = align_up(shadow + row_bytes(bits), 64)
    return shadow, origin, origin + row_bytes(32)


def _computed(program: Program) -> set[int]:
    """The registers that only pure instructions write."""
    by_kind: dict[bool, set[int]] = {False: set(), True: set()}
    for op in program.ops:
        by_kind[op.row.kind == "pure"].update(program.writes[op.index])
    return by_kind[True] - by_kind[False]


def mirrored(program: Program, observed_loads: frozenset[int]) -> Program:
    """The same program, which follows the undefined bits of all registers, and those of memory. No compiled code of it is kept."""
    end = program.frame_bytes
    registers = []
    computed = _computed(program)
    for number, info in enumerate(program.registers):
        if info.shadow < 0 and not info.special:
            shadow, origin, end = _shadow_rows(info.bits, end)
            info = replace(info, shadow=shadow, origin=origin)
        if number in computed and info.bits in (32, 64) and info.offset >= 0:
            range_ = align_up(end, 64)
            end = range_ + 2 * row_bytes(info.bits)
            info = replace(info, range=range_)
        registers.append(info)
    zeros = align_up(end, 64)
    return replace(
        program,
        registers=registers,
        frame_bytes=zeros + 1024,
        zeros=zeros,
        observed_loads=observed_loads,
        mirrored=True,
        recorded=False,
        noted_ends=frozenset(),
        digest="",
    )


def separate(program: Program) -> Program:
    """The same program for a debugger: every register keeps its value, and compiled code can be left before every node.

    Rows are not shared, compiled code writes all of them, and notes which lanes have been written.
    """
    end = align_up(program.frame_bytes, 128)
    registers = []
    for info in program.registers:
        if not info.special:
            info, end = replace(info, offset=end), align_up(end + row_bytes(info.bits), 128)
        registers.append(info)
    return replace(
        program, registers=registers, frame_bytes=end, stepped=True, cuts=frozenset(), digest=program.digest and program.digest + " stepped"
    )


def _allocate(program: Program, framed: set[int], live_in: list[int]) -> None:
    free: dict[int, list[int]] = {}
    rows: dict[int, int] = {}
    chosen: dict[int, int] = {}
    ending: list[tuple[int, int]] = []
    for start, stop, register in _intervals(program, framed, live_in):
        while ending and ending[0][0] < start:
            done = heappop(ending)[1]
            heappush(free.setdefault(row_bytes(program.registers[done].bits), []), chosen[done])
        size = row_bytes(program.registers[register].bits)
        spare = free.get(size)
        if spare:
            row = heappop(spare)
        else:
            row = rows.get(size, 0)
            rows[size] = row + 1
        chosen[register] = row
        heappush(ending, (stop, register))
    base: dict[int, int] = {}
    end = 0
    for size in sorted(rows, reverse=True):
        base[size] = end
        end += size * rows[size]
    for register, row in chosen.items():
        size = row_bytes(program.registers[register].bits)
        program.registers[register].offset = base[size] + size * row
    for info in program.registers:
        if info.shadow >= 0:
            info.shadow, info.origin, end = _shadow_rows(info.bits, end)
    end = align_up(end, 64)
    for value, bits in sorted(constant_operands(program), key=lambda c: (-c[1], c[0])):
        program.constants[value, bits] = end
        end += row_bytes(bits)
    program.sink = align_up(end, 64)
    program.frame_bytes = program.sink + 512
