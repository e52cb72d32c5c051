"""LLVM code that turns element codes into what the multiplying kernels read.

A prepared operand is a header and its arrays. A line of A holds all rows at one k, a line of B all k of one row. Values are float32, exact.
Exponents are those of the *unnormalised* significand, so that a subnormal number has the format's smallest; zero has one that no sum with
another brings into range. A flag is set for a row that holds an infinity or a NaN.

Exponents are bytes with a bias: the sum of one of A and one of B is the exponent field of a float32. Formats with a wide range have
exponents of 16 bits without a bias, and the bytes besides: they are right if all exponents of the operand are moderate.

Formats of at most eight bits have integers besides, of 16 bits, two neighbours along K in a word. The unit of a row's integers is the last
bit of its smallest element. The units of the rows, as exponents, and the bits that their largest integers need, follow the integers.
"""

from __future__ import annotations

from ptxlab.formats import Format
from ptxlab.native.builder import Function, Module, Value, vector

__all__ = [
    "BIASES",
    "CHUNK",
    "EXPONENTS",
    "FLAGGED",
    "FLAGS",
    "HEADER",
    "LEAST_FIELD",
    "MODERATE",
    "NAN_SCALE",
    "PADDED",
    "PAIRS",
    "SCALES",
    "SIGN",
    "SMALL_EXPONENTS",
    "VALUES",
    "absent_exponent",
    "dead_exponent",
    "has_pairs",
    "prepare_ir",
    "scale_rows_ir",
    "transposed",
]

CHUNK = 16
"""Elements that one pass of the loop handles; lines are padded to a multiple."""
HEADER = 64
"""Bytes of the header, a cache line."""
VALUES, EXPONENTS, FLAGS, PADDED, SCALES, MODERATE, FLAGGED, PAIRS = range(8)
"""Words of the header: addresses of values, exponents and flags; elements from one line to the next; the address of the rows' scale
exponents, if they have any; whether all exponents are moderate; whether any row is flagged; the address of the integers."""
SMALL_EXPONENTS = SCALES
"""Operands with a wide range, which have no scales: the address of the exponents as bytes."""
BIASES = {"a": 64, "b": 63}
"""What is added to exponents that are bytes."""
MOST_BITS = 15
"""Of the magnitude of an integer; a row that needs more has TOO_MANY_BITS."""
TOO_MANY_BITS = 1 << 10
FAR = 1 << 12
"""Beyond every exponent."""
LARGEST_UNIT = 64
"""Of a row of zeros; its integers are zero in every unit."""
LARGEST_MODERATE = 20
"""With exponents up to this in both operands, sums with the byte of zero stay below those of all products."""
LEAST_FIELD = sum(BIASES.values()) - 2 * LARGEST_MODERATE - 1
"""Below the exponent field of every product of bytes, and not below a sum with the byte of zero."""

SIGN = -(1 << 31)
NAN_SCALE = 1 << 20
"""The exponent that marks a scale that is NaN."""


def dead_exponent(wide: bool) -> int:
    """The exponent of zero: its sums with others stay below those of all products."""
    return -16384 if wide else 0


def has_pairs(row: Format) -> bool:
    """Whether operands of a format have integers."""
    return row.bits <= 8 and not row.is_integer


def absent_exponent(wide: bool) -> int:
    """The exponent of an element that a sparse matrix does not store; as far below every other as that of zero."""
    return dead_exponent(wide) + 1


def prepare_ir(row: Format, wide: bool) -> str:
    """The functions ``prepare_a`` and ``prepare_b`` of a format."""
    module = Module()
    for role in "ab":
        _function(module, row, wide, role)
    return module.finish()


def _function(module: Module, row: Format, wide: bool, role: str) -> None:
    parameters = "ptr codes, i64 line_stride, i64 stride, i64 lines, i64 count, i64 padded, ptr out, i32 flip"
    code = Function(module, f"prepare_{role}", "void", parameters)
    lines, padded, out = code["lines"], code["padded"], code["out"]
    narrow = "i16" if wide else "i8"
    elements = lines * padded
    values = out.at(HEADER)
    exponents = values.at(elements, "float")
    flags = exponents if row.is_integer else exponents.at(elements, narrow)
    small = flags.at(padded if role == "a" else lines, "i32")
    words = {VALUES: values, EXPONENTS: exponents, FLAGS: flags, PADDED: padded}
    for index, word in (words | ({SMALL_EXPONENTS: small} if wide else {})).items():
        out.store(word, index)
    rows = padded if role == "a" else lines
    pairs = flags.at(rows + rows, "i32")
    units = pairs.at(elements, "i16")
    bits = units.at(rows, "i32")
    zeros = code.const(vector("i32", CHUNK), 0)
    if has_pairs(row):
        out.store(pairs, PAIRS)
    flip = code["flip"].splat(CHUNK)
    size = row.dtype.itemsize
    some = vector(f"i{size * 8}", CHUNK)
    flagged, immoderate = zeros.variable(), zeros.variable()
    found = zeros.variable()
    least, largest = zeros.variable(), zeros.variable()

    def store(raw: Value, place: Value) -> None:
        """Store what codes are, and note which of them are infinite or NaN, and the range of their exponents."""
        raw = raw if raw.type == zeros.type else raw.convert("sext" if row.name == "s8" else "zext", "i32")
        if row.is_integer:
            values.store(raw.convert("sitofp", "float"), place)
            return
        value, exponent, is_zero, special = _decode(row, raw, flip)
        values.store(value, place)
        if special is not None:
            found.set(found.get() | special)
        biased = is_zero.select(exponent.constant(dead_exponent(False)), exponent + BIASES[role]).convert("trunc", "i8")
        if has_pairs(row):
            least.set(least.get().min(is_zero.select(exponent.constant(FAR), exponent)))
            largest.set(largest.get().max(is_zero.select(exponent.constant(-FAR), exponent)))
        if not wide:
            exponents.store(biased, place)
            return
        exponents.store(is_zero.select(exponent.constant(dead_exponent(True)), exponent).convert("trunc", narrow), place)
        small.store(biased, place)
        outside = (exponent + LARGEST_MODERATE).ugt(2 * LARGEST_MODERATE)
        immoderate.set(immoderate.get() | is_zero.select(zeros, outside.sext("i32")))

    def begin() -> None:
        """Begin a row, or CHUNK rows of A."""
        found.set(0)
        least.set(FAR)
        largest.set(-FAR)

    if role == "a":
        panel = code.stack(f"[{CHUNK} x {some}]", 64)
        with code.loop(padded, CHUNK) as i:
            begin()
            with code.loop(lines, CHUNK) as first:
                count = (first + CHUNK).min(lines) - first
                _fetch_panel(code, code["codes"].at(first * code["line_stride"]), i, count, panel, size)
                with code.loop(count) as line:
                    store(panel.at(line, some).load(some), (first + line) * padded + i)
            flags.store(found.get(), i)
            flagged.set(flagged.get() | found.get())
            if has_pairs(row):
                unit, needed = _unit(row, least.get(), largest.get())
                units.store(unit, i)
                bits.store(needed, i)
                scale = _power(unit.constant(0) - unit)
                with code.loop(lines >> 1) as pair:
                    one, other = (
                        (values.load(scale.type, (pair + pair + neighbour) * padded + i) * scale).convert("fptosi", "i32")
                        for neighbour in (0, 1)
                    )
                    pairs.store((one & 0xFFFF) | (other << 16), pair * padded + i)
    else:
        buffer = code.variable(some, 0)
        with code.loop(lines) as line:
            source = code["codes"].at(line * code["line_stride"])
            first = line * padded
            begin()
            with code.loop(padded, CHUNK) as i:
                _fetch(code, source, i, buffer.address, size)
                store(buffer.get(), first + i)
            flags.store(found.get().reduce("or"), line)
            flagged.set(flagged.get() | found.get())
            if has_pairs(row):
                unit, needed = _unit(row, least.get().reduce("smin"), largest.get().reduce("smax"))
                units.store(unit, line)
                bits.store(needed, line)
                scale = _power(unit.constant(0) - unit).splat(CHUNK)
                with code.loop(padded, CHUNK) as i:
                    number = (values.load(scale.type, first + i) * scale).convert("fptosi", "i32")
                    pairs.store(number.convert("trunc", "i16"), first + i)
    out.set_word(MODERATE, immoderate.get().reduce("or").eq(0).to("i64"))
    out.set_word(FLAGGED, flagged.get().reduce("or").to("i64"))


def scale_rows_ir() -> str:
    """``void scale_rows(scales, prepared, rows, flagged)``: give each row of an operand, of which so many have flags, its ue8m0 scale.

    A NaN flags its row.
    """
    module = Module()
    code, (scales, prepared, rows, flagged) = module.define("void scale_rows(ptr scales, ptr prepared, i64 rows, i64 flagged)")
    flags = prepared.pointer(FLAGS)
    exponents = flags.at(flagged, "i32")
    prepared.store(exponents, SCALES)
    with code.loop(rows) as row:
        scale = scales.load("i8", row).to("i32")
        is_nan = scale.eq(0xFF)
        exponents.store(is_nan.select(NAN_SCALE, scale - 127), row)
        flags.store(flags.load("i32", row) | is_nan.to("i32"), row)
    with code.loop(flagged, start=rows) as row:
        exponents.store(code.const("i32", 0), row)
    return module.finish()


def _unit(row: Format, least: Value, largest: Value) -> tuple[Value, Value]:
    """The unit of rows whose elements that are not zero have exponents in this range, and the bits of their integers."""
    unit = least.min(LARGEST_UNIT) - row.mantissa
    needed = (largest - least) + (row.mantissa + 1)
    return unit, needed.gt(MOST_BITS).select(needed.constant(TOO_MANY_BITS), needed)


def _power(exponents: Value) -> Value:
    """Two to the power of i32 values, as float32."""
    return ((exponents + 127) << 23).bits("float")


def _fetch(code: Function, source: Value, i: Value, buffer: Value, size: int) -> None:
    """Read up to CHUNK codes of a line, from the i-th, into the buffer; what is beyond the last one is zero."""
    element = f"i{size * 8}"
    end = i + CHUNK
    short = end.gt(code["count"])
    with code.when(short | code["stride"].ne(size)) as otherwise:
        buffer.store(code.const(vector(element, CHUNK), 0))
        with code.loop(short.select(code["count"], end), start=i) as j:
            buffer.store(source.at(j * code["stride"]).load(element), j - i)
        otherwise()
        buffer.store(source.load(vector(element, CHUNK), i))


def _fetch_panel(code: Function, source: Value, i: Value, count: Value, panel: Value, size: int) -> None:
    """Read ``count`` lines of codes of CHUNK rows of A, from the i-th, into the panel; rows beyond the last one are zero."""
    some = vector(f"i{size * 8}", CHUNK)
    over_lines, over_rows = code["line_stride"], code["stride"]
    end = i + CHUNK
    whole = end.le(code["count"])
    with code.when(whole & over_lines.eq(size) & count.eq(CHUNK)) as otherwise:
        for number, raw in enumerate(transposed([source.at((i + j) * over_rows).load(some) for j in range(CHUNK)])):
            panel.at(number, some).store(raw)
        otherwise()
        with code.loop(count) as line:
            _fetch(code, source.at(line * over_lines), i, panel.at(line, some), size)


def transposed(rows: list[Value]) -> list[Value]:
    """The columns of as many vectors as they have lanes.

    Each step has a basic block of its own: in one block LLVM looks, for each shuffle, through those of the steps before.
    """
    half = len(rows) // 2
    for step in range(half.bit_length()):
        if step:
            rows[0].function.divide(0)
        rows = [each for i in range(half) for each in rows[i].interleave(rows[i + half])]
    return rows


def _decode(row: Format, raw: Value, flip: Value) -> tuple[Value, Value, Value, Value | None]:
    """Bits of the float32 value, exponent, which are zero, and a mask of the infinite and NaN ones if there can be any."""
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
    return value | sign, exponent, magnitude.eq(0), special
