"""The operators: what can be wrong with descriptors and tensor maps. Each value is legal by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from ptxlab.descriptors import (
    DescriptorError,
    InstructionDescriptor,
    SharedMemoryDescriptor,
    TensorMapError,
    WgmmaDescriptor,
    decode_tensor_map,
    replace_field,
)
from ptxlab.engine.program import Program
from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Addr, Const, Op
from ptxlab.tables import TENSOR_MAP_SWIZZLES

from .taken import INSTRUCTION, METADATA, SCALES_A, SCALES_B, SOURCE, A, B, Taken, changed, copies, products, tensor_copies, with_handler

__all__ = ["Mutant", "map_change", "mutants"]

_NAMES = {A: "A", B: "B"}
_CHUNK = 16
_START = 0x3FFF
_LARGEST_STEP = 4096
_NEXT_COLUMNS = 8
_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
"""Shape of tcgen05.ld -> registers for each repetition."""
_OTHER_SHAPES = {"32x32b": "16x64b", "16x64b": "32x32b", "16x128b": "16x256b", "16x256b": "16x128b"}
_NEXT_SCALES = 4
"""Columns with scale factors of 128 rows."""
_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s8", "u8")
_OTHER_TYPES = {"f16": "bf16", "bf16": "f16", "e4m3": "e5m2", "e5m2": "e4m3", "s8": "u8", "u8": "s8"}
_Kind = type[WgmmaDescriptor] | type[SharedMemoryDescriptor]
_STRIDES = {"stride": "stride dimension byte offset", "leading": "leading dimension byte offset"}


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes
    ----------
    operator, how : what is changed, and from what to what
    lines : of the instructions
    proposal : what a fix says that names the original value
    of : makes the change in a program of these instructions
    """

    operator: str
    how: str
    lines: tuple[int, ...]
    proposal: str
    of: Callable[[Program], Program] = field(compare=False, repr=False)


def mutants(program: Program, taken: Taken) -> Iterator[Mutant]:
    """All mutants of a kernel that has taken these values."""
    found = products(program)
    for position in (A, B):
        yield from _of_matrix(found, taken, position)
        yield from _steps(found, taken, position)
    for raw, ops in _groups(found, taken, INSTRUCTION, lambda raw: raw).items():
        yield from _of_instruction(raw, ops)
    yield from _of_modifiers([op for op in found if _by_warpgroup(op)])
    yield from _of_scales(program, found, taken)
    yield from _of_metadata(found)
    yield from _of_maps(copies(program), taken)
    yield from _of_loads(program)


def _by_warpgroup(op: Op) -> bool:
    return isinstance(op.effects, Asynchronous) and op.effects.unit is Unit.WARPGROUP


def _has(op: Op, position: int) -> bool:
    """Whether a matrix is in shared memory."""
    names = {name for name, _ in op.row.operands}
    return position == B or not any(name in names for name in ("a-tmem", "a"))


def _groups(ops: list[Op], taken: Taken, position: int, key: Callable[[int], int]) -> dict[int, list[Op]]:
    """Instructions that take alike values, which a source computes by one expression."""
    found: dict[int, list[Op]] = {}
    for op in ops:
        if position == INSTRUCTION and _by_warpgroup(op):
            continue
        for raw in dict.fromkeys(key(value) for value in taken.distinct(op.index, position)):
            found.setdefault(raw, []).append(op)
    return found


def _lines(ops: list[Op]) -> tuple[int, ...]:
    return tuple(op.line for op in ops)


def _replacing(ops: list[Op], position: int, of: Callable[[int], int], program: Program) -> Program:
    return changed(program, ops, lambda _, values: {**values, **({position: of(values[position])} if position in values else {})})


# ------------------------------------------------------------------------------------------------------ matrix descriptors


def _of_matrix(ops: list[Op], taken: Taken, position: int) -> Iterator[Mutant]:
    name = _NAMES[position]
    for fields, alike in _groups([op for op in ops if _has(op, position)], taken, position, lambda raw: raw & ~_START).items():
        kind: _Kind = WgmmaDescriptor if _by_warpgroup(alike[0]) else SharedMemoryDescriptor
        given = kind.decode(fields)
        starts = sorted({(raw & _START) << 4 for op in alike for raw in taken.distinct(op.index, position)})
        make = partial(Mutant, lines=_lines(alike))
        modes = next(field.values for field in kind.FORMAT.fields if field.name == "swizzle")
        for mode in modes or ():
            if mode != given.swizzle and not replace(given, swizzle=mode).findings():
                yield make(
                    "swizzle",
                    f"{name}: {given.swizzle} -> {mode}",
                    proposal=rf"set the swizzling mode to {given.swizzle}(?!\w)",
                    of=partial(_replacing, alike, position, partial(_with, kind, fields, {"swizzle": mode})),
                )
        for attribute, text in _STRIDES.items():
            value = getattr(given, attribute)
            for other in dict.fromkeys((value // 32 * 16, 2 * value, value + _CHUNK, 0)):
                if other != value and other < 1 << 18:
                    yield make(
                        attribute,
                        f"{name}: {value} -> {other}",
                        proposal=rf"{text} to {value}\b",
                        of=partial(_replacing, alike, position, partial(_with, kind, fields, {attribute: other})),
                    )
        for more in dict.fromkeys((_CHUNK, 2 * _CHUNK, given.stride)):
            if more:
                yield make(
                    "start",
                    f"{name}: {more} bytes later",
                    proposal="|".join(rf"start address to {start:#x}\b" for start in starts),
                    of=partial(_replacing, alike, position, partial(_later, fields, more)),
                )


def _with(kind: _Kind, fields: int, new: dict[str, Any], raw: int) -> int:
    return raw if raw & ~_START != fields else int(replace(kind.decode(raw), **new))


def _later(fields: int, more: int, raw: int) -> int:
    return raw if raw & ~_START != fields else (raw & ~_START) | ((raw & _START) + more // _CHUNK & _START)


def _steps(ops: list[Op], taken: Taken, position: int) -> Iterator[Mutant]:
    """Another K step: the most frequent distance between the starts of instructions that one warp issues one after the other."""
    name = _NAMES[position]
    chains: dict[Any, list[int]] = {}
    for agent, _, values in taken.values:
        if position in values:
            chains.setdefault((agent, values.get(0)), []).append((values[position] & _START) << 4)
    distances = Counter(b - a for chain in chains.values() for a, b in pairwise(chain) if 0 < b - a <= _LARGEST_STEP)
    if not distances:
        return
    step = distances.most_common(1)[0][0]
    for other in dict.fromkeys((step // 32 * 16, 2 * step, _CHUNK, 1024)):
        if other != step:
            yield Mutant(
                "K step",
                f"{name}: {step} -> {other}",
                _lines(ops),
                rf"start address of {name} by {step}\b|start address to|address of {name} by {step // _CHUNK} columns",
                partial(_stepping, ops, position, step, other),
            )


def _stepping(ops: list[Op], position: int, step: int, other: int, program: Program) -> Program:
    last: dict[Any, tuple[int, int]] = {}

    def change(warp: Any, values: dict[int, int]) -> dict[int, int]:
        if position not in values:
            return values
        raw = values[position]
        agent = (warp.cta.ctaid, warp.warp_id, values.get(0))
        start = (raw & _START) << 4
        before, moved = last.get(agent, (start, start))
        to = moved + other if start - before == step else start
        last[agent] = start, to
        return {**values, position: raw & ~_START | to >> 4 & _START}

    return changed(program, ops, change)


# --------------------------------------------------------------------------------------------------- instruction descriptors


def _of_instruction(raw: int, ops: list[Op]) -> Iterator[Mutant]:
    q = ops[0].q
    kind = q.kind[6:]
    names = {name for name, _ in ops[0].row.operands}
    group, ws, sparse = (2 if q.cta_group == "cta_group::2" else 1), ".ws" in ops[0].opcode, "sp-meta-tmem" in names
    given = InstructionDescriptor.decode(raw, kind)
    vector = q.scale_vectorsize if "scale-A-tmem" in names else None

    def legal(**new: Any) -> int | None:
        try:
            found = replace(given, **new)
            return None if found.findings(group, ws, sparse, vector) or found.k != given.k else int(found)
        except DescriptorError:
            return None

    def made(operator: str, how: str, proposal: str, **new: Any) -> Iterator[Mutant]:
        value = legal(**new)
        if value is not None and value != raw:
            of = partial(_replacing, ops, INSTRUCTION, lambda old: value if old == raw else old)
            yield Mutant(operator, how, _lines(ops), proposal, of)

    for matrix in ("a", "b"):
        name, of = matrix.upper(), getattr(given, matrix)
        for other in _TYPES:
            yield from made("type", f"{name}: {of} -> {other}", f"give {of} as the element type of {name}", **{matrix: other})
        if _has(ops[0], A if matrix == "a" else B):
            field, was = f"transpose_{matrix}", getattr(given, f"transpose_{matrix}")
            text = f"{'set' if was else 'clear'} the transpose bit"
            yield from made("major", f"{name} transposed: {was} -> {not was}", text, **{field: not was})
        field = f"scale_{matrix}_id"
        for number in range(4):
            how = f"{name}: {getattr(given, field)} -> {number}"
            text = rf"scale factor ID of {name} to {getattr(given, field)}\b"
            yield from made("scale factor id", how, text, **{field: number})
    for number in range(2) if sparse else ():
        yield from made("sparsity selector", f"{given.selector} -> {number}", "and the sparsity selector", selector=number)
    for other in ("f16", "f32"):
        yield from made("type of D", f"{given.d} -> {other}", f"give {given.d} as the type of D", d=other)
    for size in ("m", "n"):
        of = getattr(given, size)
        for count in (of // 2, 2 * of):
            yield from made(size.upper(), f"{of} -> {count}", rf"set {size.upper()} to {of}\b", **{size: count})


# ------------------------------------------------------------------------------------------------------- scale factors


def _of_scales(program: Program, ops: list[Op], taken: Taken) -> Iterator[Mutant]:
    """Where scale factors are in tensor memory, and how they are copied there."""
    scaled = [op for op in ops if any(name == "scale-A-tmem" for name, _ in op.row.operands)]
    if not scaled:
        return
    for name, position in (("A", SCALES_A), ("B", SCALES_B)):
        yield Mutant(
            "scale factor column",
            f"{name}: {_NEXT_SCALES} columns later",
            _lines(scaled),
            f"scale factors of {name}|their own scale factors",
            partial(_replacing, scaled, position, lambda value: value + _NEXT_SCALES),
        )
    for fields, alike in _groups(tensor_copies(program), taken, SOURCE, lambda raw: raw & ~_START).items():
        given = SharedMemoryDescriptor.decode(fields)
        for attribute, text in _STRIDES.items():
            value = getattr(given, attribute)
            for other in dict.fromkeys((value // 32 * 16, 2 * value, value + _CHUNK, 0)):
                if other != value:
                    yield Mutant(
                        "scale factor layout",
                        f"{attribute}: {value} -> {other}",
                        _lines(alike),
                        rf"{text} to {value}\b",
                        partial(_replacing, alike, SOURCE, partial(_with, SharedMemoryDescriptor, fields, {attribute: other})),
                    )


def _of_metadata(ops: list[Op]) -> Iterator[Mutant]:
    """Where the metadata of a sparse A is in tensor memory."""
    sparse = [op for op in ops if any(name == "sp-meta-tmem" for name, _ in op.row.operands)]
    for columns in (1, 2) if sparse else ():
        yield Mutant(
            "metadata column",
            f"{columns} columns later",
            _lines(sparse),
            "address of the metadata",
            partial(_replacing, sparse, METADATA, partial(int.__add__, columns)),
        )


# -------------------------------------------------------------------------------------------------------------- wgmma


def _of_modifiers(ops: list[Op]) -> Iterator[Mutant]:
    """wgmma has element types in its opcode, and transposes as immediates."""
    groups: dict[tuple[str, tuple[int, ...]], list[Op]] = {}
    for op in ops:
        groups.setdefault((op.q.types, _transposes(op)), []).append(op)
    for (types, transposes), alike in groups.items():
        d, a, b = types.split(".")
        other_a, other_b = (_OTHER_TYPES.get(each, each) for each in (a, b))
        pairs = {(other_a, other_b)} if a in ("f16", "bf16") else {(other_a, b), (a, other_b)}
        for pair in sorted(pairs - {(a, b)}):
            was = a if pair[0] != a else b
            yield Mutant(
                "type",
                f"{a}.{b} -> {'.'.join(pair)}",
                _lines(alike),
                f"give {was} as the element type of [AB]",
                partial(_typed, alike, ".".join((d, *pair))),
            )
        for number, value in enumerate(transposes):
            name = "AB"[number + 2 - len(transposes)]
            text = f"{'set' if value else 'clear'} the transpose bit"
            how = f"{name} transposed: {value} -> {1 - value}"
            yield Mutant("major", how, _lines(alike), text, partial(_transposed, alike, number))


def _transposes(op: Op) -> tuple[int, ...]:
    pairs = zip(op.row.operands, op.operands, strict=False)
    return tuple(value.value for (name, _), value in pairs if "trans" in name and isinstance(value, Const))


def _typed(ops: list[Op], types: str, program: Program) -> Program:
    made = list(program.ops)
    for op in ops:
        made[op.index] = with_handler(op, _same, q=Qualifiers({**vars(op.q), "types": types}))
    return replace(program, ops=made)


def _transposed(ops: list[Op], number: int, program: Program) -> Program:
    made = list(program.ops)
    for op in ops:
        position = [i for i, (name, _) in enumerate(op.row.operands) if "trans" in name][number]
        operands, value = list(op.operands), op.operands[position]
        assert isinstance(value, Const)
        operands[position] = Const(1 - value.value)
        made[op.index] = with_handler(op, _same, operands=tuple(operands))
    return replace(program, ops=made)


def _same(_: Any, values: dict[int, int]) -> dict[int, int]:
    return values


# ----------------------------------------------------------------------------------------------------------- tcgen05.ld


def _of_loads(program: Program) -> Iterator[Mutant]:
    """The shape and the column of tcgen05.ld; another shape has as many registers."""
    groups: dict[tuple[str, int], list[Op]] = {}
    for index, native in program.natives.items():
        if isinstance(native, TensorAccess) and not native.write and not native.pack and native.shape in _REGISTERS:
            groups.setdefault((native.shape, native.repeat), []).append(program.ops[index])
    for (shape, repeat), alike in groups.items():
        make = partial(Mutant, lines=_lines(alike), proposal=rf"tcgen05\.ld.*\.{shape}\.x{repeat}\b")
        how = f"{shape}.x{repeat}: {_NEXT_COLUMNS} columns later"
        yield make("tcgen05.ld column", how, of=partial(_loading, alike, _NEXT_COLUMNS, shape, repeat))
        other = _OTHER_SHAPES[shape]
        count, rest = divmod(repeat * _REGISTERS[shape], _REGISTERS[other])
        if count and not rest:
            yield make("tcgen05.ld shape", f"{shape}.x{repeat} -> {other}.x{count}", of=partial(_loading, alike, 0, other, count))


def _loading(ops: list[Op], columns: int, shape: str, repeat: int, program: Program) -> Program:
    made, natives = list(program.ops), dict(program.natives)
    for op in ops:
        native = natives[op.index]
        assert isinstance(native, TensorAccess)
        natives[op.index] = replace(native, shape=shape, repeat=repeat)
        operands, address = list(op.operands), op.operands[native.address]
        assert isinstance(address, Addr)
        operands[native.address] = replace(address, offset=address.offset + columns)
        made[op.index] = Op(op.index, op.opcode, op.row, op.q, tuple(operands), op.guard, op.line, op.column, op.targets)
    return replace(program, ops=made, natives=natives, digest="")


# ---------------------------------------------------------------------------------------------------------- tensor maps


def _of_maps(ops: list[Op], taken: Taken) -> Iterator[Mutant]:
    groups: dict[bytes, list[Op]] = {}
    for op in ops:
        for raw in taken.maps.get(op.index, ()):
            groups.setdefault(raw, []).append(op)
    for number, (raw, alike) in enumerate(groups.items()):
        fields = decode_tensor_map(raw)
        make = partial(Mutant, lines=_lines(alike))
        mode = fields.swizzle_mode
        for other in TENSOR_MAP_SWIZZLES.values():
            fits = not other.bits or fields.box[0] * fields.element.bits <= other.width * 8
            if other.mode != mode.mode and not other.atomicity and fits:
                new = _map_with(raw, "swizzle_mode", None, other.mode)
                yield make(
                    "swizzle of the map",
                    f"map {number}: {mode.name} -> {other.name}",
                    proposal=rf"encode the tensor map with swizzling mode {re.escape(mode.name)}(?!\w)",
                    of=partial(_mapped, alike, raw, new),
                )
        if fields.rank > 1:
            for inner in (fields.box[0] // 2, fields.box[0] * 2):
                outer = fields.box[0] * fields.box[1] // max(inner, 1)
                row = inner * fields.element.bits // 8
                if row % _CHUNK or not row or outer > 256 or not outer or (mode.bits and row > mode.width) or inner > 256:
                    continue
                new = _map_with(_map_with(raw, "box_dim", 0, inner), "box_dim", 1, outer)
                yield make(
                    "box of the map",
                    f"map {number}: {fields.box} -> {(inner, outer, *fields.box[2:])}",
                    proposal=r"encode the tensor map with a box of " + re.escape(" x ".join(map(str, reversed(fields.box)))),
                    of=partial(_mapped, alike, raw, new),
                )


def _map_with(raw: bytes, name: str, ordinal: int | None, value: int) -> bytes:
    made = bytearray(raw)
    try:
        replace_field(made, name, ordinal, value)
    except TensorMapError:
        return raw
    return bytes(made)


def _mapped(ops: list[Op], raw: bytes, new: bytes, program: Program) -> Program:
    return changed(program, ops, of_map=map_change(raw, new))


def map_change(raw: bytes, new: bytes) -> Callable[[int, bytes], bytes]:
    """What puts a map in the place of another one, which may have another address and other bytes without meaning in another launch."""
    wanted = replace(decode_tensor_map(raw), address=0)

    def of_map(_: int, found: bytes) -> bytes:
        fields = decode_tensor_map(found)
        return _map_with(new, "global_address", None, fields.address) if replace(fields, address=0) == wanted else found

    return of_map
