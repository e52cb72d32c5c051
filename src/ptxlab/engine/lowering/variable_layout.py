"""Where parameters, shared and local variables lie: natural alignment, in the order of the text."""

from __future__ import annotations

from collections.abc import Iterable

from ptxlab.engine.program import Parameter, SharedLayout
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.kinds import type_bits
from ptxlab.ptx import ast

__all__ = ["align_up", "local_layout", "parameter_layout", "shared_layout", "variable_alignment", "variable_size"]


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-value // alignment) * alignment


def variable_size(variable: ast.Variable) -> int:
    """Size in bytes; 0 for an unsized array."""
    size = type_bits(variable.type) // 8 * variable.vector
    for dim in variable.dims:
        size *= max(dim, 0)
    return size


def variable_alignment(variable: ast.Variable) -> int:
    """The declared alignment, or that of the element (a vector's is its size)."""
    natural = max(type_bits(variable.type) // 8 * variable.vector, 1)
    return max(variable.align or 1, 1) if variable.align else min(natural, 128)


def is_dynamic(variable: ast.Variable) -> bool:
    """``.extern .shared`` arrays without a size share the dynamic shared memory."""
    return variable.linkage == "extern" or any(dim < 0 for dim in variable.dims)


def parameter_layout(params: Iterable[ast.Variable]) -> tuple[list[Parameter], int]:
    """Parameters with their offsets, and the bytes that all of them take."""
    laid: list[Parameter] = []
    end = 0
    for param in params:
        align = max(variable_alignment(param), 1)
        size = variable_size(param)
        offset = align_up(end, align)
        end = offset + size
        pointer = param.ptr is not None or (not param.dims and param.type in ("u64", "b64", "s64"))
        laid.append(Parameter(param.name, param.type, offset, size, align, pointer, bool(param.dims)))
    return laid, end


def shared_layout(variables: Iterable[ast.Variable]) -> tuple[SharedLayout, dict[int, int]]:
    """Static variables from the first free offset on, dynamic shared memory after them; and the offsets by identity."""
    end = SHARED_RESERVED
    offsets: dict[str, int] = {}
    places: dict[int, int] = {}
    dynamic: list[ast.Variable] = []
    for variable in variables:
        if is_dynamic(variable):
            dynamic.append(variable)
            continue
        end = align_up(end, variable_alignment(variable))
        offsets[variable.name] = places[id(variable)] = end
        end += variable_size(variable)
    start = align_up(end, max([16, *(variable_alignment(v) for v in dynamic)]))
    offsets.update((v.name, start) for v in dynamic)
    places.update((id(v), start) for v in dynamic)
    return SharedLayout(offsets, end, start), places


def local_layout(variables: Iterable[ast.Variable]) -> tuple[list[int], int]:
    """Offsets of local variables in a thread's local memory, and its size."""
    offsets: list[int] = []
    end = 0
    for variable in variables:
        end = align_up(end, variable_alignment(variable))
        offsets.append(end)
        end += variable_size(variable)
    return offsets, align_up(end, 16)
