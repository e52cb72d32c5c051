"""Global and const variables of a module: their bytes in device memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import ptx
from ptxlab.engine.lowering.functions import function_addresses
from ptxlab.engine.lowering.scope import variables
from ptxlab.engine.lowering.variable_layout import variable_alignment, variable_size
from ptxlab.isa.kinds import type_bits
from ptxlab.machine.memory.global_memory import DeviceMemory

__all__ = ["find_variables", "place_variables"]


def find_variables(module: ptx.Module) -> dict[str, ptx.Variable]:
    """The global and const variables of a module by name; a definition wins over a declaration."""
    declared = [item for item in module.items if isinstance(item, ptx.Variable)]
    bodies = [f.body for f in module.functions.values() if f.body is not None and ptx.may_declare(f.body)]
    declared += [v for body in bodies for v in variables(body)]
    defined: dict[str, ptx.Variable] = {}
    for variable in (v for v in declared if v.space in ("global", "const")):
        if variable.name not in defined or defined[variable.name].linkage == "extern":
            defined[variable.name] = variable
    return defined


def place_variables(memory: DeviceMemory, module: ptx.Module, defined: dict[str, ptx.Variable]) -> dict[str, int]:
    """Allocate and initialise the module's variables, which `find_variables` has found; returns their addresses by name."""
    places = {
        name: memory.allocate(
            variable_size(v), f".{v.space} variable {name}", alignment=variable_alignment(v), writable=v.space == "global"
        )
        for name, v in defined.items()
    }
    addresses = {name: allocation.base for name, allocation in places.items()}
    known = {**function_addresses(module), **addresses}
    for name, variable in defined.items():
        if variable.initialiser is not None:
            _encode(variable.initialiser, variable, variable.dims, known, places[name].data, 0)
    return addresses


def _encode(value: Any, variable: ptx.Variable, dims: tuple[int, ...], addresses: dict[str, int], data: NDArray[np.uint8], at: int) -> int:
    """Write an initialiser at a byte offset and return where it ends; a row shorter than its dimension leaves the rest zero."""
    size = type_bits(variable.type) // 8 or 1
    if isinstance(value, tuple):
        end = at
        for item in value:
            end = _encode(item, variable, dims[1:], addresses, data, end)
        row = size * variable.vector * math.prod(max(dim, 0) for dim in dims)
        return max(end, at + row) if dims else end
    raw = np.frombuffer(_element(value, variable.type, size, addresses), np.uint8)
    if at + size <= len(data):
        data[at : at + size] = raw
    return at + size


def _element(value: Any, kind: str, size: int, addresses: dict[str, int]) -> bytes:
    """The bytes of one initialised element."""
    if isinstance(value, ptx.Integer):
        number = value.value
        if kind in ("f32", "f64"):
            converted: bytes = np.array(number, f"<f{size}").tobytes()
            return converted
    elif isinstance(value, ptx.Float):
        number = value.bits
        if value.width == 64 and size == 4:
            with np.errstate(over="ignore"):
                narrowed: bytes = np.array(value.bits, np.uint64).view(np.float64).astype(np.float32).tobytes()
            return narrowed
    elif isinstance(value, ptx.SymbolValue):
        number = addresses.get(value.symbol, 0) + value.offset
        if value.mask is not None:
            shift = (value.mask & -value.mask).bit_length() - 1
            number = (number & value.mask) >> shift
    else:
        number = 0
    return (number & (1 << 8 * size) - 1).to_bytes(size, "little")
