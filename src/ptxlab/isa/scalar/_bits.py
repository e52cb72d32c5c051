"""Logic, shifts, bit fields, counting bits, byte permutation."""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.isa._vocabulary import Value, Vocabulary
from ptxlab.isa.catalogue import Qualifiers, pure
from ptxlab.isa.kinds import Typed
from ptxlab.isa.operands import Const
from ptxlab.isa.requirements import needs

_LOGIC = "Logic and Shift Instructions: {base}"
_BYTE = Typed("u32", range(256))
_FIELDS = "Integer Arithmetic Instructions: {base}"
_B = ".(type=pred|b16|b32|b64)"


def _int(type: str) -> str:
    return f"i{type[1:]}"


def boolean(x: Vocabulary, name: str) -> Callable[[Value, Value], Value]:
    """The operation of the name and, or or xor."""
    return {"and": x.and_, "or": x.or_, "xor": x.xor}[name]


# ------------------------------------------------------------------------------------------------ logic


@pure("and|or|xor" + _B, d="type", a="type", b="type", section=_LOGIC, fidelity="hardware")
def logic(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    return boolean(x, q.base)(a, b)


@pure("not" + _B, d="type", a="type", section=_LOGIC, fidelity="hardware")
def not_(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return x.not_(a)


@pure("cnot.(type=b16|b32|b64)", d="type", a="type", section=_LOGIC, fidelity="hardware")
def cnot(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return x.zext(x.eq(a, x.const(0, _int(q.type))), _int(q.type))


def _of_two(x: Vocabulary, table: int, a: Value, b: Value) -> Value:
    """The boolean function of two words whose results for (a, b) = 00, 01, 10, 11 are bits 0..3 of ``table``."""
    zero = x.const(0, "i32")
    functions: dict[int, Callable[[], Value]] = {
        0: lambda: zero,
        1: lambda: x.not_(x.or_(a, b)),
        2: lambda: x.and_(x.not_(a), b),
        3: lambda: x.not_(a),
        4: lambda: x.and_(a, x.not_(b)),
        5: lambda: x.not_(b),
        6: lambda: x.xor(a, b),
        7: lambda: x.not_(x.and_(a, b)),
        8: lambda: x.and_(a, b),
        9: lambda: x.not_(x.xor(a, b)),
        10: lambda: b,
        11: lambda: x.or_(x.not_(a), b),
        12: lambda: a,
        13: lambda: x.or_(a, x.not_(b)),
        14: lambda: x.or_(a, b),
        15: lambda: x.not_(zero),
    }
    return functions[table]()


def _of_three(x: Vocabulary, table: int, a: Value, b: Value, c: Value) -> Value:
    """A bit of ``table`` for each a, b, c: bit 4a + 2b + c."""
    without = sum((table >> 2 * i & 1) << i for i in range(4))
    with_c = sum((table >> 2 * i + 1 & 1) << i for i in range(4))
    if without == with_c:
        return _of_two(x, without, a, b)
    if without == with_c ^ 15:
        return x.xor(_of_two(x, without, a, b), c)
    if without == 0:
        return x.and_(_of_two(x, with_c, a, b), c)
    if with_c == 15:
        return x.or_(_of_two(x, without, a, b), c)
    if with_c == 0:
        return x.and_(_of_two(x, without, a, b), x.not_(c))
    if without == 15:
        return x.or_(_of_two(x, with_c, a, b), x.not_(c))
    f, g = _of_two(x, without, a, b), _of_two(x, with_c, a, b)
    return x.xor(f, x.and_(x.xor(f, g), c))


@pure("lop3.b32", d="b32", a="b32", b="b32", c="b32", lut="any", section=_LOGIC, fidelity="hardware")
@pure(
    "lop3.(bool=or|and).b32",
    d="b32|pred",
    a="b32",
    b="b32",
    c="b32",
    lut="any",
    p="pred",
    requires=needs("8.2", "sm_70"),
    section=_LOGIC,
    fidelity="hardware",
)
def lop3(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value, lut: Const, *p: Value) -> Value | tuple[Value, Value]:
    result = _of_three(x, lut.value & 0xFF, a, b, c)
    return (result, boolean(x, q.bool)(x.ne(result, x.const(0, "i32")), *p)) if p else result


# ------------------------------------------------------------------------------------------------ shifts


@pure("shl.(type=b16|b32|b64)", d="type", a="type", b="u32", section=_LOGIC, fidelity="hardware")
@pure("shr.(type=b16|u16|s16|b32|u32|s32|b64|u64|s64)", d="type", a="type", b="u32", section=_LOGIC, fidelity="hardware")
def shift(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    signed = q.type[0] == "s"
    right = x.ashr if signed else x.lshr
    moved = x.shl if q.base == "shl" else right
    match q.type[1:]:
        case "16":
            return x.trunc(moved(x.sext(a, "i32") if signed else x.zext(a, "i32"), b), "i16")
        case "64":
            return moved(a, x.zext(b, "i64"))
    return moved(a, b)


def _bounded(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    """At most 32 (clamp), or modulo 32 (wrap)."""
    full = x.const(32, "i32")
    return x.and_(a, x.const(31, "i32")) if q.bound == "wrap" else x.select(x.ult(a, full), a, full)


@pure(
    "shf.(mode=l|r).(bound=clamp|wrap).b32",
    d="b32",
    a="b32",
    b="b32",
    c="u32",
    section=_LOGIC,
    fidelity="hardware",
)
def shf(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    """Shift the 64 bits with low half a and high half b; left gives the high half, right the low half."""
    full, known = x.const(32, "i32"), x.known(c)
    if known is not None:
        amount = known & 31 if q.bound == "wrap" else min(known, 32)
        n, rest = x.const(amount, "i32"), x.const(32 - amount, "i32")
    else:
        n = _bounded(x, q, c)
        rest = x.sub(full, n)
    if q.mode == "l":
        return x.or_(x.shl(b, n), x.lshr(a, rest))
    return x.or_(x.lshr(a, n), x.shl(b, rest))


# ------------------------------------------------------------------------------------------------ counting


@pure("popc|clz.(type=b32|b64)", d="u32", a="type", section=_FIELDS, fidelity="hardware")
def count(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return _to32(x, x.popc(a) if q.base == "popc" else x.clz(a))


def _to32(x: Vocabulary, a: Value) -> Value:
    return x.trunc(a, "i32") if x.type(a) == "i64" else a


@pure("brev.(type=b32|b64)", d="type", a="type", section=_FIELDS, fidelity="hardware")
def brev(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    return x.brev(a)


@pure("bfind{.shiftamt}.(type=u32|s32|u64|s64)", d="u32", a="type", section=_FIELDS, fidelity="hardware")
def bfind(x: Vocabulary, q: Qualifiers, a: Value) -> Value:
    bits, integer = int(q.type[1:]), _int(q.type)
    if q.type[0] == "s":
        a = x.xor(a, x.ashr(a, x.const(bits - 1, integer)))
    zeros = x.clz(a)
    none = x.eq(a, x.const(0, integer))
    found = zeros if q.shiftamt else x.sub(x.const(bits - 1, integer), zeros)
    return _to32(x, x.select(none, x.const(-1, integer), found))


@pure("fns.b32", d="b32", mask="b32", base="b32", offset="s32", section=_FIELDS, fidelity="hardware")
def fns(x: Vocabulary, q: Qualifiers, mask: Value, base: Value, offset: Value) -> Value:
    return x.call(_fns, mask, base, offset)


def _fns(x: Vocabulary, mask: Value, base: Value, offset: Value) -> Value:
    zero, one, last = x.const(0, "i32"), x.const(1, "i32"), x.const(31, "i32")
    down = x.slt(offset, zero)
    # Searching down is searching up in the reversed word.
    word = x.select(down, x.brev(mask), mask)
    start = x.select(down, x.sub(last, base), base)
    word = x.shl(x.lshr(word, start), start)
    wanted = x.sub(x.select(down, x.neg(offset), offset), one)
    wanted = x.select(x.eq(offset, zero), zero, wanted)
    exists = x.ult(wanted, x.popc(word))
    place = zero
    for width in (16, 8, 4, 2, 1):
        below = x.popc(x.and_(x.lshr(word, place), x.const((1 << width) - 1, "i32")))
        further = x.ule(below, wanted)
        wanted = x.select(further, x.sub(wanted, below), wanted)
        place = x.select(further, x.add(place, x.const(width, "i32")), place)
    exists = x.and_(exists, x.or_(x.ne(offset, zero), x.eq(place, base)))
    found = x.select(exists, x.select(down, x.sub(last, place), place), x.const(-1, "i32"))
    return x.select(x.eq(offset, x.const(-(1 << 31), "i32")), zero, found)  # as on an H200: there is no such positive count


# ------------------------------------------------------------------------------------------------ bit fields


def _low_bits(x: Vocabulary, count: Value) -> Value:
    """A mask of ``count`` low bits, all from the width on."""
    one = x.const(1, x.type(count))
    return x.sub(x.shl(one, count), one)


def _place(x: Vocabulary, a: Value, integer: str) -> Value:
    """A position or length. The ISA restricts it to 0..255; beyond, silicon takes the low byte for 32 bits only."""
    return x.zext(a, "i64") if integer == "i64" else x.and_(a, x.const(0xFF, "i32"))


@pure("bfe.(type=u32|s32|u64|s64)", d="type", a="type", b=_BYTE, c=_BYTE, section=_FIELDS, fidelity="hardware")
def bfe(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    integer = _int(q.type)
    place, length = _place(x, b, integer), _place(x, c, integer)
    if q.type[0] == "u":
        return x.and_(x.lshr(a, place), _low_bits(x, length))
    bits, zero = x.const(int(q.type[1:]), integer), x.const(0, integer)
    end = x.add(place, length)
    spare = x.select(x.ult(end, bits), x.sub(bits, end), zero)
    field = x.ashr(x.shl(a, spare), x.add(spare, place))
    return x.select(x.eq(length, zero), zero, field)


@pure("bfi.(type=b32|b64)", d="type", a="type", b="type", c=_BYTE, e=_BYTE, section=_FIELDS, fidelity="hardware")
def bfi(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value, e: Value) -> Value:
    integer = _int(q.type)
    place, length = _place(x, c, integer), _place(x, e, integer)
    mask = x.shl(_low_bits(x, length), place)
    return x.or_(x.and_(b, x.not_(mask)), x.and_(x.shl(a, place), mask))


@pure(
    "szext.(bound=clamp|wrap).(type=u32|s32)",
    d="type",
    a="type",
    b="u32",
    requires=needs("7.6", "sm_70"),
    section=_FIELDS,
    fidelity="hardware",
)
def szext(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    zero, full = x.const(0, "i32"), x.const(32, "i32")
    length = _bounded(x, q, b)
    if q.type == "u32":
        return x.and_(a, _low_bits(x, length))
    spare = x.sub(full, length)
    return x.select(x.eq(length, zero), zero, x.ashr(x.shl(a, spare), spare))


@pure("bmsk.(bound=clamp|wrap).b32", d="b32", a="u32", b="u32", requires=needs("7.6", "sm_70"), section=_FIELDS, fidelity="hardware")
def bmsk(x: Vocabulary, q: Qualifiers, a: Value, b: Value) -> Value:
    if q.bound == "wrap":
        a, b = x.and_(a, x.const(31, "i32")), x.and_(b, x.const(31, "i32"))
    return x.shl(_low_bits(x, b), a)


# ------------------------------------------------------------------------------------------------ prmt

_MODES = {
    "f4e": lambda n: [n, n + 1, n + 2, n + 3],
    "b4e": lambda n: [n, n + 7, n + 6, n + 5],
    "rc8": lambda n: [n, n, n, n],
    "ecl": lambda n: [max(i, n) for i in range(4)],
    "ecr": lambda n: [min(i, n) for i in range(4)],
    "rc16": lambda n: [2 * n % 4, 2 * n % 4 + 1, 2 * n % 4, 2 * n % 4 + 1],
}


def _permuted(x: Vocabulary, a: Value, b: Value, selector: int) -> Value:
    """The four bytes that the nibbles of a known selector choose; bytes that move equally far move together."""
    moves: dict[tuple[int, int], int] = {}
    signs: list[tuple[int, int]] = []
    for to in range(4):
        nibble = selector >> 4 * to & 15
        if nibble & 8:
            signs.append((to, nibble & 7))
        else:
            source, place = divmod(nibble, 4)
            moves[source, to - place] = moves.get((source, to - place), 0) | 0xFF << 8 * to
    result = None
    for (source, distance), mask in moves.items():
        part = b if source else a
        amount = x.const(8 * abs(distance), "i32")
        if distance:
            part = x.shl(part, amount) if distance > 0 else x.lshr(part, amount)
        if mask != 0xFFFFFFFF:
            part = x.and_(part, x.const(mask, "i32"))
        result = part if result is None else x.or_(result, part)
    for to, place in signs:
        word = x.shl(b if place > 3 else a, x.const(24 - 8 * (place & 3), "i32"))
        part = x.and_(x.ashr(word, x.const(31, "i32")), x.const(0xFF << 8 * to, "i32"))
        result = part if result is None else x.or_(result, part)
    return result


def _permute(x: Vocabulary, a: Value, b: Value, c: Value) -> Value:
    both = x.or_(x.zext(a, "i64"), x.shl(x.zext(b, "i64"), x.const(32, "i64")))
    result = x.const(0, "i32")
    for to in range(4):
        nibble = x.lshr(c, x.const(4 * to, "i32"))
        place = x.zext(x.and_(nibble, x.const(7, "i32")), "i64")
        byte = x.trunc(x.lshr(both, x.shl(place, x.const(3, "i64"))), "i8")
        sign = x.ashr(byte, x.const(7, "i8"))
        copies = x.ne(x.and_(nibble, x.const(8, "i32")), x.const(0, "i32"))
        result = x.or_(result, x.shl(x.zext(x.select(copies, sign, byte), "i32"), x.const(8 * to, "i32")))
    return result


@pure("prmt.b32", d="b32", a="b32", b="b32", c="b32", section="Data Movement: prmt", fidelity="hardware")
def prmt(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    known = x.known(c)
    return x.call(_permute, a, b, c) if known is None else _permuted(x, a, b, known & 0xFFFF)


@pure(
    "prmt.b32.(mode=f4e|b4e|rc8|ecl|ecr|rc16)",
    d="b32",
    a="b32",
    b="b32",
    c="b32",
    section="Data Movement: prmt",
    fidelity="hardware",
)
def prmt_mode(x: Vocabulary, q: Qualifiers, a: Value, b: Value, c: Value) -> Value:
    selectors = tuple(sum((place & 7) << 4 * i for i, place in enumerate(_MODES[q.mode](n))) for n in range(4))
    known = x.known(c)
    if known is not None:
        return _permuted(x, a, b, selectors[known & 3])
    two = x.and_(c, x.const(3, "i32"))
    choice = x.const(selectors[0], "i32")
    for n in (1, 2, 3):
        choice = x.select(x.eq(two, x.const(n, "i32")), x.const(selectors[n], "i32"), choice)
    return x.call(_permute, a, b, choice)
