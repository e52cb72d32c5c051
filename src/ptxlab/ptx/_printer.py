"""From `Module` back to text, which parses to an equal module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ptxlab.ptx import ast

__all__ = ["to_text"]


def to_text(module: ast.Module) -> str:
    r"""Write a module as PTX text.

    Examples
    --------
    >>> from ptxlab.ptx import parse
    >>> print(to_text(parse(".version 9.0 .target sm_100a .address_size 64 .func f { @!%p bra L; L: ret; }")))
    .version 9.0
    .target sm_100a
    .address_size 64
    <BLANKLINE>
    .func f
    {
        @!%p bra L;
    L:
        ret;
    }
    <BLANKLINE>
    """
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.targets)}",
        f".address_size {module.address_size}",
        "",
    ]
    for item in module.items:
        lines += _ITEMS[type(item)](item)
    return "\n".join(lines) + "\n"


# ----------------------------------------------------------------------------------------- operands


def _float(value: ast.Float) -> str:
    return f"0f{value.bits:08X}" if value.width == 32 else f"0d{value.bits:016X}"


def _plus(offset: int) -> str:
    return f"+{offset}" if offset else ""


def _memory(value: ast.Memory) -> str:
    inner = [_operand(value.base) + _plus(value.offset), *map(_operand, value.extra)]
    return f"[{', '.join(inner)}]" + (".unified" if value.unified else "")


def _join(items: tuple[ast.Operand, ...]) -> str:
    return ", ".join(map(_operand, items))


_OPERANDS: dict[type, Callable[[Any], str]] = {
    ast.Name: lambda o: str(o.text),
    ast.Integer: lambda o: str(o.value),
    ast.Float: _float,
    ast.Offset: lambda o: f"{o.base.text}+{o.offset}",
    ast.Not: lambda o: f"!{o.operand.text}",
    ast.Negative: lambda o: f"-{o.operand.text}",
    ast.Sink: lambda o: "_",
    ast.Pair: lambda o: f"{_operand(o.first)}|{_operand(o.second)}",
    ast.Vector: lambda o: "{" + _join(o.items) + "}",
    ast.Memory: _memory,
    ast.Arguments: lambda o: f"({_join(o.items)})",
}


def _operand(value: ast.Operand) -> str:
    return _OPERANDS[type(value)](value)


# --------------------------------------------------------------------------------------- statements


def _instruction(s: ast.Instruction, indent: str) -> Iterator[str]:
    guard = f"@{'!' if s.guard.negated else ''}{s.guard.predicate} " if s.guard else ""
    operands = " " + _join(s.operands) if s.operands else ""
    yield f"{indent}{guard}{s.opcode}{operands};"


def _registers(s: ast.RegisterDeclaration, indent: str) -> Iterator[str]:
    names = ", ".join(name if count is None else f"{name}<{count}>" for name, count in s.names)
    yield f"{indent}.reg {_vector(s.vector)}.{s.type} {names};"


def _location(s: ast.Location, indent: str) -> Iterator[str]:
    text = f"{indent}.loc {s.file} {s.line_number} {s.column_number}"
    if s.function_name:
        text += f", function_name {s.function_name}{_plus(s.function_offset)}"
    if s.inlined_at:
        text += ", inlined_at {} {} {}".format(*s.inlined_at)
    yield text
    if s.intermediate:
        yield "{}.loc_intermediate {} {} {}".format(indent, *s.intermediate)


def _targets(s: ast.Targets, indent: str) -> Iterator[str]:
    yield f"{s.label}: .{s.kind} {', '.join(s.names)};"


def _prototype(s: ast.CallPrototype, indent: str) -> Iterator[str]:
    returns = f"({_parameters(s.returns)}) " if s.returns else ""
    params = f" ({_parameters(s.params)})" if s.params else ""
    attributes = "".join(f" .{a}" for a in s.attributes)
    yield f"{s.label}: .callprototype {returns}_{params}{attributes};"


def _block(s: ast.Block, indent: str) -> Iterator[str]:
    yield indent + "{"
    for statement in s.statements:
        yield from _STATEMENTS[type(statement)](statement, indent + "    ")
    yield indent + "}"


def _label(s: ast.Label, indent: str) -> Iterator[str]:
    yield f"{s.name}:"


def _pragma(s: ast.Pragma, indent: str = "") -> Iterator[str]:
    yield f"{indent}.pragma {_strings(s.texts)};"


def _strings(values: tuple[int | str, ...]) -> str:
    return ", ".join(f'"{v}"' if isinstance(v, str) else str(v) for v in values)


# ------------------------------------------------------------------------------------- declarations


def _vector(width: int) -> str:
    return f".v{width} " if width > 1 else ""


def _declarator(v: ast.Variable) -> str:
    words = [f".{v.space}"]
    if v.attributes:
        words.append(f".attribute({', '.join(v.attributes)})")
    if v.align is not None:
        words.append(f".align {v.align}")
    words.append(f"{_vector(v.vector)}.{v.type}")
    if v.ptr is not None:
        words.append(".ptr" + (f" .{v.ptr[0]}" if v.ptr[0] else "") + (f" .align {v.ptr[1]}" if v.ptr[1] else ""))
    words.append(v.name + "".join("[]" if d < 0 else f"[{d}]" for d in v.dims))
    return " ".join(words)


def _parameters(values: tuple[ast.Variable, ...]) -> str:
    return ", ".join(map(_declarator, values))


def _variable(v: ast.Variable, indent: str = "") -> Iterator[str]:
    linkage = f".{v.linkage} " if v.linkage else ""
    value = f" = {_initialiser(v.initialiser)}" if v.initialiser is not None else ""
    yield f"{indent}{linkage}{_declarator(v)}{value};"


def _initialiser(value: Any) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(map(_element, value)) + "}"
    if isinstance(value, ast.SymbolValue):
        name = f"generic({value.symbol})" if value.generic else value.symbol
        name += _plus(value.offset)
        return name if value.mask is None else f"0x{value.mask:X}({name})"
    return _operand(value)


def _element(value: Any) -> str:
    """An element of a list; a sampler's property is a pair that begins with its bare name."""
    match value:
        case (ast.SymbolValue(symbol, 0, False, None), ast.SymbolValue() | ast.Integer() | ast.Float() as setting) if symbol in _PROPERTIES:
            return f"{symbol} = {_initialiser(setting)}"
    return _initialiser(value)


_PROPERTIES = frozenset(
    {"width", "height", "depth", "array_size", "num_mipmap_levels", "num_samples", "memory_layout"}
    | {"channel_data_type", "channel_order", "normalized_coords", "force_unnormalized_coords"}
    | {"filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2"}
)


def _function(f: ast.Function) -> Iterator[str]:
    attributes = f.directive("attribute")
    words = [f".{f.linkage}"] if f.linkage else []
    words.append(f".{f.kind}")
    if attributes:
        words.append(f".attribute({', '.join(map(str, attributes))})")
    if f.returns:
        words.append(f"({_parameters(f.returns)})")
    words.append(f.name)
    yield " ".join(words) + ("(" if f.params else "")
    if f.params:
        yield ",\n".join("    " + _declarator(p) for p in f.params)
        yield ")"
    for name, values in f.directives:
        if name != "attribute":
            yield f".{name} {_strings(values)}".rstrip() + (";" if name == "pragma" and f.body is not None else "")
    if f.body is None:
        yield ";"
    else:
        yield from _block(f.body, "")
        yield ""


def _file(f: ast.File) -> Iterator[str]:
    more = "".join(f", {v}" for v in (f.timestamp, f.size) if v is not None)
    yield f'.file {f.index} "{f.name}"{more}'


def _alias(a: ast.Alias) -> Iterator[str]:
    yield f".alias {a.name}, {a.target};"


def _section(s: ast.Section) -> Iterator[str]:
    if s.name == "@@DWARF":
        yield from (f"@@DWARF {line}" for line in s.lines)
        return
    yield (s.name if s.name.startswith(".nv_") else f".section {s.name}") + " {"
    yield from s.lines
    yield "}"


_STATEMENTS: dict[type, Callable[[Any, str], Iterator[str]]] = {
    ast.Instruction: _instruction,
    ast.Label: _label,
    ast.RegisterDeclaration: _registers,
    ast.Variable: _variable,
    ast.Location: _location,
    ast.Pragma: _pragma,
    ast.Targets: _targets,
    ast.CallPrototype: _prototype,
    ast.Block: _block,
}
_ITEMS: dict[type, Callable[[Any], Iterator[str]]] = {
    ast.Function: _function,
    ast.Variable: _variable,
    ast.File: _file,
    ast.Alias: _alias,
    ast.Section: _section,
    ast.Pragma: _pragma,
}
