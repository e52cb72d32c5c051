"""LLVM code that turns element codes into what the multiplying kernels read.

A prepared operand is a header (addresses of values, exponents and flags; elements from one line to the next) and three arrays. A line of A
holds all rows at one k, a line of B all k of one row. Values are float32, exact. Exponents are those of the *unnormalised* significand, so
that a subnormal number has the format's smallest; zero has one that no sum with another brings into range. A flag is set for a row that
holds an infinity or a NaN. A fifth word of the header is the address of the rows' scale exponents, if they have any.
"""

from __future__ import annotations

from ptxlab.formats import Format
from ptxlab.native.builder import Function, Module, Value, vector

__all__ = ["CHUNK", "HEADER", "NAN_SCALE", "SIGN", "absent_exponent", "dead_exponent", "prepare_ir"]

CHUNK = 16
"""Elements that one pass of the loop handles; lines are padded to a multiple."""
HEADER = 64
"""Bytes of the header, a cache line."""

SIGN = -(1 << 31)
NAN_SCALE = 1 << 20
"""The exponent that marks a scale that is NaN."""


def dead_exponent(wide: bool) -> int:
    """The exponent of zero: in int16 sums stay far below every other, in int8 sums saturate."""
    return -16384 if wide else -128


def absent_exponent(wide: bool) -> int:
    """The exponent of an element that a sparse matrix does not store; as far below every other as that of zero."""
    return dead_exponent(wide) + 1


def prepare_ir(row: Format, wide: bool) -> str:
    """The functions ``prepare_a`` and ``prepare_b`` of a format."""
    module = Module()
    for role in "ab":
        _function(module, row, wide, role)
    return module.text()


def _function(module: Module, row: Format, wide: bool, role: str) -> None:
    parameters = "ptr codes, i64 line_stride, i64 stride, i64 lines, i64 count, i64 padded, ptr out, i32 flip"
    code = Function(module, f"prepare_{role}", "void", parameters)
    lines, padded, out = code["lines"], code["padded"], code["out"]
    narrow = "i16" if wide else "i8"
    elements = lines * padded
    values = out.at(HEADER)
    exponents = values.at(elements, "float")
    flags = exponents if row.is_integer else exponents.at(elements, narrow)
    for index, word in enumerate((values, exponents, flags, padded)):
        out.store(word, index)
    zeros = code.const(vector("i32", CHUNK), 0)
    if role == "a":
        with code.loop(padded, CHUNK) as i:
            flags.store(zeros, i)
    flip = code["flip"].splat(CHUNK)
    buffer = code.variable(vector(f"i{row.dtype.itemsize * 8}", CHUNK), 0)
    with code.loop(lines) as line:
        source = code["codes"].at(line * code["line_stride"])
        first = line * padded
        found = zeros.variable()
        with code.loop(padded, CHUNK) as i:
            buffer.set(0)
            _fetch(code, source, i, buffer.address, row.dtype.itemsize)
            raw = buffer.get()
            if raw.type != zeros.type:
                raw = raw.convert("sext" if row.name == "s8" else "zext", "i32")
            if row.is_integer:
                values.store(raw.convert("sitofp", "float"), first + i)
            else:
                value, exponent, special = _decode(row, raw, flip, dead_exponent(wide))
                values.store(value, first + i)
                exponents.store(exponent.convert("trunc", narrow), first + i)
                if special is not None and role == "a":
                    flags.store(flags.load(vector("i32", CHUNK), i) | special, i)
                elif special is not None:
                    found.set(found.get() | special)
        if role == "b":
            flags.store(found.get().reduce("or"), line)


def _fetch(code: Function, source: Value, i: Value, buffer: Value, size: int) -> None:
    """Read up to CHUNK codes of a line, from the i-th, into the buffer."""
    element = f"i{size * 8}"
    end = i + CHUNK
    short = end.gt(code["count"])
    with code.when(short | code["stride"].ne(size)) as otherwise:
        with code.loop(short.select(code["count"], end), start=i) as j:
            buffer.store(source.at(j * code["stride"]).load(element), j - i)
        otherwise()
        buffer.store(source.load(vector(element, CHUNK), i))


def _decode(row: Format, raw: Value, flip: Value, dead: int) -> tuple[Value, Value, Value | None]:
    """Bits of the float32 value, exponent, and a mask of the infinite and NaN ones if there can be any."""
    shift = row.mantissa + row.dropped
    magnitude = raw & row.magnitude_mask
    field = magnitude >> shift
    subnormal = field.eq(0)
    value = magnitude << (23 - shift)
    if row.bias != 127:
        small = magnitude.convert("uitofp", "float") * 2.0 ** (row.emin - shift)
        value = subnormal.select(small.bits("i32"), value + ((127 - row.bias) << 23))
    special = None
    if row.nan is not None:
        is_special = magnitude.gt((row.nan if row.inf is None else row.inf) - 1)
        kind = magnitude.gt(row.nan - 1).select(raw.constant(0x7FC00000), 0x7F800000)
        value = is_special.select(kind, value)
        special = is_special.convert("sext", "i32")
    sign = ((raw << (32 - row.bits)) ^ flip) & SIGN
    exponent = subnormal.select(raw.constant(1), field) - row.bias
    return value | sign, magnitude.eq(0).select(raw.constant(dead), exponent), special
