"""Registers and special registers of a warp, by lane and by type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.debug._points import refuse
from ptxlab.engine.program import Register
from ptxlab.machine.warp.special_values import special_registers

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.isa.operands import Op
    from ptxlab.machine.warp.warp import Warp

__all__ = ["RegisterValues", "dtype_of", "one_register", "registers_of", "special_values"]

_FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_SIGNED = {"s": "int", "u": "uint", "b": "uint"}


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy type of a PTX type (``f32``, ``b16``, ``s8``), or of a name that NumPy or ml_dtypes knows.

    >>> dtype_of("s16"), dtype_of("float32")
    (dtype('int16'), dtype('float32'))
    """
    import ml_dtypes

    known = _FLOATS.get(name)
    if known is None:
        known = f"{_SIGNED[name[0]]}{name[1:]}" if name[:1] in _SIGNED and name[1:] in ("8", "16", "32", "64") else name
    try:
        found = np.dtype(getattr(ml_dtypes, known, known))
    except TypeError:
        found = np.dtype(object)
    if found.hasobject or not found.itemsize:
        raise refuse(
            "G103", f"there is no type {name}", fix="types are b8 to b64, u8 to u64, s8 to s64, f16, bf16, f32, f64, float8_e4m3fn ..."
        )
    return found


@dataclass(frozen=True, slots=True)
class RegisterValues:
    """A register in all 32 lanes.

    Attributes
    ----------
    name, type, bits : as declared; predicates have one bit
    raw : the bits, as integers
    undefined : the bits that have no value, as integers: all of them before anything has written the register
    """

    name: str
    type: str
    bits: int
    raw: tuple[int, ...]
    undefined: tuple[int, ...]

    def value(self, lane: int, type: str | None = None) -> Any:
        """The value in a lane, as the register's type or another one; a list if several values of that type fit into the register."""
        raw, kind = self.raw[lane], type or self.type
        if kind == "pred" or (type is None and self.bits not in (8, 16, 32, 64)):
            return bool(raw) if kind == "pred" else raw
        if type is None and kind not in _FLOATS and not (kind[0] == "s" and kind[1:].isdigit()):
            return raw
        found = np.frombuffer(raw.to_bytes(max(self.bits // 8, 1), "little"), np.uint8)
        dtype = dtype_of(kind)
        if dtype.itemsize > found.size:
            raise refuse("G103", f"{self.name} has {self.bits} bits, too few for {kind}")
        values = found.view(dtype).tolist()
        return values[0] if len(values) == 1 else values

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: None in lanes where no bit has a value."""
        most = (1 << self.bits) - 1
        values = [None if undefined == most else self.value(lane) for lane, undefined in enumerate(self.undefined)]
        found = {"name": self.name, "type": self.type, "values": values}
        partly = {str(lane): hex(undefined) for lane, undefined in enumerate(self.undefined) if undefined not in (0, most)}
        return found | ({"undefined bits": partly} if partly else {})


def registers_of(execution: Execution, warp: Warp) -> list[RegisterValues]:
    """The registers that the kernel declares, in the order of first use; several may have the same name, in different scopes."""
    infos = execution.program.registers
    return [_values(execution, warp, index, info) for index, info in enumerate(infos) if not info.special]


def one_register(execution: Execution, warp: Warp, name: str, op: Op | None) -> RegisterValues | None:
    """A register by name; of several with this name the one that belongs to the function in which ``op`` stands. None if there is none."""
    found = [index for index, info in enumerate(execution.program.registers) if info.name == name and not info.special]
    if not found:
        return None
    program = execution.program
    here = None if op is None else op.calls
    used = (
        {r for o in program.ops if o.calls == here for r in (*program.reads[o.index], *program.writes[o.index])} if len(found) > 1 else ()
    )
    index = next((index for index in found if index in used), found[0])
    return _values(execution, warp, index, program.registers[index])


def _values(execution: Execution, warp: Warp, index: int, info: Register) -> RegisterValues:
    frame = warp.rows.reshape(-1).view(np.uint8)
    raw = _integers(info, frame)
    most = (1 << info.bits) - 1
    undefined = [0] * 32 if info.shadow < 0 else _integers(replace(info, offset=info.shadow), frame)
    lanes = int(execution.written[warp.context.address][index])
    shown = tuple(bits if lanes >> lane & 1 else most for lane, bits in enumerate(undefined))
    return RegisterValues(info.name, info.type, info.bits, tuple(raw), shown)


def _integers(info: Register, frame: NDArray[np.uint8]) -> list[int]:
    row = info.view(frame)
    if info.bits == 1:
        return [int(row[0]) >> lane & 1 for lane in range(32)]
    if info.bits == 128:
        return [int(low) | int(high) << 64 for low, high in zip(*row, strict=True)]
    return [int(value) & (1 << info.bits) - 1 for value in row]


def special_values(warp: Warp) -> dict[str, list[int]]:
    """The special registers of a warp by name, in all lanes."""
    return {name: [int(v) for v in values] for name, values in sorted(special_registers(warp).items())}
