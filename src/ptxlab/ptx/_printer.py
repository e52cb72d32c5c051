"""From `Module` back to text, which parses to an equal module."""

from __future__ import annotations

from collections.abc import Iterator

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
        lines += _item(item)
    return "\n".join(lines) + "\n"


# ----------------------------------------------------------------------------------------- operands


def _operand(value: ast.Operand) -> str:
    match value:
        case ast.Name(text):
            return text
        case ast.Integer(number):
            return str(number)
        case ast.Float(bits, width):
            return f"0f{bits:08X}" if width == 32 else f"0d{bits:016X}"
        case ast.Offset(base, offset):
            return f"{base.text}+{offset}"
        case ast.Not(operand):
            return f"!{operand.text}"
        case ast.Negative(operand):
            return f"-{operand.text}"
        case ast.Sink():
            return "_"
        case ast.Pair(first, second):
            return f"{_operand(first)}|{_operand(second)}"
        case ast.Vector(items):
            return "{" + _join(items) + "}"
        case ast.Arguments(items):
            return f"({_join(items)})"
        case ast.Memory(base, offset, extra, unified):
            inner = [_operand(base) + _plus(offset), *map(_operand, extra)]
            return f"[{', '.join(inner)}]" + (".unified" if unified else "")


def _plus(offset: int) -> str:
    return f"+{offset}" if offset else ""


def _join(items: tuple[ast.Operand, ...]) -> str:
    return ", ".join(map(_operand, items))


# --------------------------------------------------------------------------------------- statements


def _statement(s: ast.Statement, indent: str) -> Iterator[str]:
    match s:
        case ast.Instruction():
            guard = f"@{'!' if s.guard.negated else ''}{s.guard.predicate} " if s.guard else ""
            operands = " " + _join(s.operands) if s.operands else ""
            yield f"{indent}{guard}{s.opcode}{operands};"
        case ast.Label():
            yield f"{s.name}:"
        case ast.RegisterDeclaration():
            names = ", ".join(name if count is None else f"{name}<{count}>" for name, count in s.names)
            yield f"{indent}.reg {_vector(s.vector)}.{s.type} {names};"
        case ast.Variable():
            yield indent + _variable(s)
        case ast.Location():
            function = f", function_name {s.function_name}{_plus(s.function_offset)}" if s.function_name else ""
            inlined = ", inlined_at {} {} {}".format(*s.inlined_at) if s.inlined_at else ""
            yield f"{indent}.loc {s.file} {s.line_number} {s.column_number}{function}{inlined}"
            if s.intermediate:
                yield "{}.loc_intermediate {} {} {}".format(indent, *s.intermediate)
        case ast.Pragma():
            yield f"{indent}.pragma {_strings(s.texts)};"
        case ast.Targets():
            yield f"{s.label}: .{s.kind} {', '.join(s.names)};"
        case ast.CallPrototype():
            returns = f"({_parameters(s.returns)}) " if s.returns else ""
            params = f" ({_parameters(s.params)})" if s.params else ""
            yield f"{s.label}: .callprototype {returns}_{params}{''.join(f' .{a}' for a in s.attributes)};"
        case ast.Block():
            yield indent + "{"
            for statement in s.statements:
                yield from _statement(statement, indent + "    ")
            yield indent + "}"


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


def _variable(v: ast.Variable) -> str:
    linkage = f".{v.linkage} " if v.linkage else ""
    value = f" = {_initialiser(v.initialiser)}" if v.initialiser is not None else ""
    return f"{linkage}{_declarator(v)}{value};"


def _initialiser(value: ast.Initialiser) -> str:
    match value:
        # A sampler's property is a pair that begins with its bare name.
        case (ast.SymbolValue(symbol, 0, False, None), ast.SymbolValue() | ast.Integer() | ast.Float() as setting) if symbol in _PROPERTIES:
            return f"{symbol} = {_initialiser(setting)}"
        case tuple():
            return "{" + ", ".join(map(_initialiser, value)) + "}"
        case ast.SymbolValue(symbol, offset, generic, mask):
            name = (f"generic({symbol})" if generic else symbol) + _plus(offset)
            return name if mask is None else f"0x{mask:X}({name})"
        case _:
            return _operand(value)


_PROPERTIES = frozenset(
    {"width", "height", "depth", "array_size", "num_mipmap_levels", "num_samples", "memory_layout"}
    | {"channel_data_type", "channel_order", "normalized_coords", "force_unnormalized_coords"}
    | {"filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2"}
)


# -------------------------------------------------------------------------------------------- items


def _item(item: ast.TopLevel) -> Iterator[str]:
    match item:
        case ast.Function():
            yield from _function(item)
        case ast.Variable() | ast.Pragma():
            yield from _statement(item, "")
        case ast.File():
            more = "".join(f", {v}" for v in (item.timestamp, item.size) if v is not None)
            yield f'.file {item.index} "{item.name}"{more}'
        case ast.Alias():
            yield f".alias {item.name}, {item.target};"
        case ast.Section("@@DWARF"):
            yield from (f"@@DWARF {line}" for line in item.lines)
        case ast.Section():
            yield (item.name if item.name.startswith(".nv_") else f".section {item.name}") + " {"
            yield from item.lines
            yield "}"


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
        yield from _statement(f.body, "")
        yield ""
