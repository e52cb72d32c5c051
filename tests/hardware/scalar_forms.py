"""The scalar instruction forms that are recorded on silicon, and their PTX: one entry for each form, one thread for each case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ptxlab.isa import CATALOGUE, load_all
from ptxlab.isa.catalogue import Qualifiers, Row, match
from tests.hardware.scalar_inputs import WIDTH


@dataclass(frozen=True)
class Form:
    """An opcode, the type it gives, the types it takes; ``tail`` is literal text behind the operands.

    ``code`` stands for the instruction where more than one is needed: ``$d`` is the result, ``$a``, ``$b``, ``$c``, ``$e`` are the sources,
    ``$t`` is a spare register like the result. ``newer``: for an assembler from PTX ISA 9.3 on.
    """

    opcode: str
    result: str
    sources: tuple[str, ...]
    tail: str = ""
    code: str = ""
    newer: bool = False


def integer_forms() -> Iterator[Form]:
    for width in (16, 32, 64):
        wide = {16: 32, 32: 64}.get(width)
        for t in (f"u{width}", f"s{width}"):
            for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max", "div", "rem"):
                yield Form(f"{op}.{t}", t, (t, t))
            for op in ("mad.lo", "mad.hi", "sad"):
                yield Form(f"{op}.{t}", t, (t, t, t))
            if wide:
                yield Form(f"mul.wide.{t}", f"{t[0]}{wide}", (t, t))
                yield Form(f"mad.wide.{t}", f"{t[0]}{wide}", (t, t, f"{t[0]}{wide}"))
            yield Form(f"shr.{t}", t, (t, "u32"))
        s, b = f"s{width}", f"b{width}"
        yield from (Form(f"{op}.{s}", s, (s,)) for op in ("abs", "neg"))
        yield from (Form(f"{op}.{b}", b, (b, b)) for op in ("and", "or", "xor"))
        yield from (Form(f"{op}.{b}", b, (b,)) for op in ("not", "cnot"))
        yield Form(f"shl.{b}", b, (b, "u32"))
        yield Form(f"shr.{b}", b, (b, "u32"))
    yield from (Form(f"{op}.sat.s32", "s32", ("s32", "s32")) for op in ("add", "sub"))
    yield Form("mad.hi.sat.s32", "s32", ("s32", "s32", "s32"))
    for t in ("u32", "s32"):
        yield from (Form(f"{op}.{t}", t, (t, t)) for op in ("mul24.lo", "mul24.hi", "szext.wrap", "szext.clamp"))
        yield from (Form(f"mad24.{m}.{t}", t, (t, t, t)) for m in ("lo", "hi"))
    for width in (32, 64):
        yield from (Form(f"{op}.b{width}", "u32", (f"b{width}",)) for op in ("popc", "clz"))
        yield Form(f"brev.b{width}", f"b{width}", (f"b{width}",))
        yield Form(f"bfi.b{width}", f"b{width}", (f"b{width}", f"b{width}", "u32", "u32"))
        for t in (f"u{width}", f"s{width}"):
            yield Form(f"bfe.{t}", t, (t, "u32", "u32"))
            yield from (Form(f"bfind{m}.{t}", "u32", (t,)) for m in ("", ".shiftamt"))
    yield from (Form("lop3.b32", "b32", ("b32", "b32", "b32"), f", {lut}") for lut in (0x80, 0x96, 0xE8, 0x1B, 0xCA, 0))
    yield from (Form(f"shf.{d}.{m}.b32", "b32", ("b32", "b32", "u32")) for d, m in product("lr", ("wrap", "clamp")))
    yield from (Form(f"prmt.b32{m}", "b32", ("b32", "b32", "u32")) for m in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"))
    yield from (Form(f"bmsk.{m}.b32", "b32", ("u32", "u32")) for m in ("wrap", "clamp"))
    for a, b in product("us", "us"):
        t = "u32" if a + b == "uu" else "s32"
        yield Form(f"dp4a.{a}32.{b}32", t, (f"{a}32", f"{b}32", t))
        yield from (Form(f"dp2a.{h}.{a}32.{b}32", t, (f"{a}32", f"{b}32", t)) for h in ("lo", "hi"))


def float_forms() -> Iterator[Form]:
    roundings = ("rn", "rz", "rm", "rp")
    for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        for r in roundings:
            yield Form(f"{op}.{r}.f64", "f64", ("f64",) * count)
            yield from (Form(f"{op}.{r}{f}{s}.f32", "f32", ("f32",) * count) for f, s in product(("", ".ftz"), ("", ".sat")))
    for op, count in (("div", 2), ("rcp", 1), ("sqrt", 1)):
        for r in roundings:
            yield Form(f"{op}.{r}.f64", "f64", ("f64",) * count)
            yield from (Form(f"{op}.{r}{f}.f32", "f32", ("f32",) * count) for f in ("", ".ftz"))
    for f in ("", ".ftz"):
        for op in ("min", "max"):
            yield from (Form(f"{op}{f}{m}.f32", "f32", ("f32", "f32")) for m in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"))
        yield from (Form(f"{op}{f}.f32", "f32", ("f32",)) for op in ("abs", "neg"))
    yield from (Form(f"{op}.f64", "f64", ("f64", "f64")) for op in ("min", "max", "copysign"))
    yield from (Form(f"{op}.f64", "f64", ("f64",)) for op in ("abs", "neg"))
    yield Form("copysign.f32", "f32", ("f32", "f32"))
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        f16 = t.startswith("f")
        for op in ("add", "sub", "mul"):
            options = ("", ".rn", ".ftz", ".sat", ".ftz.sat") if f16 else ("", ".rn")
            yield from (Form(f"{op}{m}.{t}", t, (t, t)) for m in options)
        options = (".rn", ".rn.ftz", ".rn.sat", ".rn.ftz.sat", ".rn.relu", ".rn.ftz.relu") if f16 else (".rn", ".rn.relu")
        yield from (Form(f"fma{m}.{t}", t, (t, t, t)) for m in options)
        for op, m in product(("min", "max"), ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")):
            yield from (Form(f"{op}{f}{m}.{t}", t, (t, t)) for f in (("", ".ftz") if f16 else ("",)))
        yield from (Form(f"{op}{f}.{t}", t, (t,)) for op, f in product(("abs", "neg"), ("", ".ftz") if f16 else ("",)))


def approximate_forms() -> Iterator[Form]:
    for f in ("", ".ftz"):
        yield from (Form(f"{op}.approx{f}.f32", "f32", ("f32",)) for op in ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos"))
        yield from (Form(f"div.{m}{f}.f32", "f32", ("f32", "f32")) for m in ("approx", "full"))
    yield from (Form(f"tanh.approx.{t}", t, (t,)) for t in ("f32", "f16", "f16x2", "bf16", "bf16x2"))
    yield from (Form(f"ex2.approx.{t}", t, (t,)) for t in ("f16", "f16x2"))
    yield from (Form(f"ex2.approx.ftz.{t}", t, (t,)) for t in ("bf16", "bf16x2"))


def packed_forms() -> Iterator[Form]:
    for t in ("u16x2", "s16x2"):
        yield from (Form(f"{op}.{t}", "b32", ("b32", "b32")) for op in ("add", "min", "max"))
    yield from (Form(f"{op}.relu.{t}", t[:1] + "32", (t[:1] + "32",) * 2) for op in ("min", "max") for t in ("s16x2", "s32"))
    for m in ("", ".relu"):
        yield from (Form(f"fma.rn.oob{m}.{t}", "oob", ("oob",) * 3) for t in ("f16", "bf16"))
        yield from (Form(f"fma.rn.oob{m}.{t}", "oobx2", ("oobx2",) * 3) for t in ("f16x2", "bf16x2"))
    yield from (Form(f"clmad.{m}.u64", "u64", ("u64", "u64", "u64"), newer=True) for m in ("lo", "hi"))


def several_instructions() -> Iterator[Form]:
    """Predicates as results, and the carry flag from one instruction to the next."""
    flags = "selp.u32 $d, 1, 0, %p0; @%p1 add.u32 $d, $d, 2;"
    for t, op in product(("f32", "f64"), ("finite", "infinite", "number", "notanumber", "normal", "subnormal")):
        yield Form(f"testp.{op}.{t}", "u32", (t,), code=f"testp.{op}.{t} %p0, $a; selp.u32 $d, 1, 0, %p0;")
    for t, op, combine in product(("s32", "u64", "f32", "f64"), ("lt", "ge", "ne"), ("and", "or", "xor")):
        code = f"setp.lt.s32 %p2, $c, 0; setp.{op}.{combine}.{t} %p0|%p1, $a, $b, %p2; {flags}"
        yield Form(f"setp.{op}.{combine}.{t}", "u32", (t, t, "s32"), code=code)
        yield Form(
            f"set.{op}.{combine}.u32.{t}", "u32", (t, t, "s32"), code=f"setp.lt.s32 %p2, $c, 0; set.{op}.{combine}.u32.{t} $d, $a, $b, %p2;"
        )
    for t, op in product(("f16x2", "bf16x2"), ("lt", "neu", "num")):
        yield Form(f"setp.{op}.{t}", "u32", (t, t), code=f"setp.{op}.{t} %p0|%p1, $a, $b; {flags}")
        code = f"setp.lt.s32 %p2, $c, 0; setp.{op}.xor.{t} %p0|%p1, $a, $b, %p2; {flags}"
        yield Form(f"setp.{op}.xor.{t}", "u32", (t, t, "s32"), code=code)
        yield from (Form(f"set.{op}.{d}.{t}", d, (t, t)) for d in ("u32", "s32"))
    for op in ("or", "and"):
        code = f"setp.lt.s32 %p2, $d, 0; lop3.{op}.b32 $d|%p1, $a, $b, $c, 0x96, %p2; @%p1 not.b32 $d, $d;"
        yield Form(f"lop3.{op}.b32", "b32", ("b32", "b32", "b32"), code=code.replace("setp.lt.s32 %p2, $d", "setp.lt.s32 %p2, $a"))
    for t in (*(f"{letter}{width}" for letter, width in product("bus", (16, 32, 64))), "f32", "f64"):
        yield Form(f"selp.{t}", t, (t, t, "s32"), code=f"setp.lt.s32 %p2, $c, 0; selp.{t} $d, $a, $b, %p2;")
        yield Form(f"slct.{t}.s32", t, (t, t, "s32"))
        yield from (Form(f"slct{f}.{t}.f32", t, (t, t, "f32")) for f in ("", ".ftz"))
    for t in ("u32", "s32", "u64", "s64"):
        for op in ("add", "sub"):
            code = f"{op}.cc.{t} $t, $a, $b; {op}c.cc.{t} $d, $t, $a; {op}c.{t} $d, $d, $b;"
            yield Form(f"{op}.cc.{t}", t, (t, t), code=code)
        for m in ("lo", "hi"):
            code = f"mad.{m}.cc.{t} $t, $a, $b, $c; madc.{m}.cc.{t} $d, $t, $a, $c; madc.{m}.{t} $d, $d, $b, $a;"
            yield Form(f"mad.{m}.cc.{t}", t, (t, t, t), code=code)
    yield Form("fns.b32", "u32", ("u32", "u32", "s32"), code="and.b32 $t, $b, 31; fns.b32 $d, $a, $t, $c;")
    yield Form("mad24.hi.sat.s32", "s32", ("s32", "s32", "s32"))
    yield from (Form(f"{op}.approx{f}.f64", "f64", ("f64",)) for op, f in (("rcp", ".ftz"), ("rsqrt", ".ftz"), ("rsqrt", "")))


def more_comparisons() -> Iterator[Form]:
    """``set`` with every pair of types, and the forms of ``setp`` without a boolean operator."""
    flags = "selp.u32 $d, 1, 0, %p0; @%p1 add.u32 $d, $d, 2;"
    bits, integers = ("b16", "b32", "b64"), ("u16", "s16", "u32", "s32", "u64", "s64")
    pairs = [(d, t) for d in ("u32", "s32", "f32") for t in (*bits, *integers, "f32", "f64")]
    pairs += [(d, t) for d in ("f16", "bf16") for t in (*bits, *integers, "f16", "f32", "f64")]
    pairs += [(d, t) for d in ("u16", "s16", "u32", "s32") for t in ("f16", "bf16")]
    pairs += [("bf16", "bf16"), *((d, t) for t in ("f16x2", "bf16x2") for d in (t, "u32", "s32"))]
    for d, t in pairs:
        op = "ne" if t in bits else "ge" if t[0] in "us" else "geu"
        yield Form(f"set.{op}.{d}.{t}", d, (t, t))
        code = f"setp.lt.s32 %p2, $c, 0; set.{op}.xor.{d}.{t} $d, $a, $b, %p2;"
        yield Form(f"set.{op}.xor.{d}.{t}", d, (t, t, "s32"), code=code)
    yield from (Form(f"set.lt.ftz.{d}.{t}", d, (t, t)) for d in ("f16", "u32") for t in ("f16", "f32"))
    yield from (Form(f"set.lt.or.ftz.{d}.{t}", d, (t, t, "s32"), code=f"setp.lt.s32 %p2, $c, 0; set.lt.or.ftz.{d}.{t} $d, $a, $b, %p2;")
                for d, t in product(("f16", "u32"), ("f16", "f32")))  # fmt: skip
    for t in (*bits, "u16", "u32", "f32", "f64"):
        op = "eq" if t in bits else "le"
        yield Form(f"setp.{op}.{t}", "u32", (t, t), code=f"setp.{op}.{t} %p0|%p1, $a, $b; {flags}")
        code = f"setp.lt.s32 %p2, $c, 0; setp.{op}.or.{t} %p0|%p1, $a, $b, %p2; {flags}"
        yield Form(f"setp.{op}.or.{t}", "u32", (t, t, "s32"), code=code)
    for t in (*bits, "u64", "s16", "f16", "bf16", "f32", "f64"):
        op = "ne" if t in bits else "gt"
        yield Form(f"setp.{op}.{t}", "u32", (t, t), code=f"setp.{op}.{t} %p0, $a, $b; selp.u32 $d, 1, 0, %p0;")
        code = f"setp.lt.s32 %p2, $c, 0; setp.{op}.and.{t} %p0, $a, $b, %p2; selp.u32 $d, 1, 0, %p0;"
        yield Form(f"setp.{op}.and.{t}", "u32", (t, t, "s32"), code=code)
    yield from (Form(f"mad.{r}.{t}", t, (t, t, t)) for r in ("rn", "rz", "rm", "rp") for t in ("f32", "f64"))
    yield from (Form(f"mad.rn{m}.f32", "f32", ("f32",) * 3) for m in (".ftz", ".sat", ".ftz.sat"))


ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED = (*ORDERED, "lo", "ls", "hi", "hs")
UNORDERED = (*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
COMPARED = dict.fromkeys(("b16", "b32", "b64"), ("eq", "ne")) | dict.fromkeys(("s16", "s32", "s64"), ORDERED)
COMPARED |= dict.fromkeys(("u16", "u32", "u64"), UNSIGNED) | dict.fromkeys(("f16", "bf16", "f32", "f64", "f16x2", "bf16x2"), UNORDERED)


def comparisons_together() -> Iterator[Form]:
    """``setp`` with every comparison of a type, one bit of the result for each; of pairs the upper half's from bit 14 on."""
    for t, combine in product(COMPARED, ("", ".and", ".or", ".xor")):
        for flush in ("", ".ftz") if t in ("f16", "f32", "f16x2") else ("",):
            code, more = "mov.b32 $d, 0;", ", %p2" if combine else ""
            if combine:
                code = f"setp.lt.s32 %p2, $c, 0; {code}"
            for bit, op in enumerate(COMPARED[t]):
                pair = "|%p1" if t.endswith("x2") else ""
                code += f" setp.{op}{combine}{flush}.{t} %p0{pair}, $a, $b{more}; @%p0 or.b32 $d, $d, {1 << bit};"
                code += f" @%p1 or.b32 $d, $d, {1 << 14 + bit};" if pair else ""
            yield Form(f"setp.all{combine}{flush}.{t}", "u32", (t, t, *(["s32"] if combine else [])), code=code)


def predicate_logic() -> Iterator[Form]:
    signs = "setp.lt.s32 %p0, $a, 0; setp.lt.s32 %p1, $b, 0;"
    for op in ("and", "or", "xor"):
        yield Form(f"{op}.pred", "u32", ("s32", "s32"), code=f"{signs} {op}.pred %p2, %p0, %p1; selp.u32 $d, 1, 0, %p2;")
    yield Form("not.pred", "u32", ("s32",), code="setp.lt.s32 %p0, $a, 0; not.pred %p2, %p0; selp.u32 $d, 1, 0, %p2;")


def default_roundings() -> Iterator[Form]:
    """Forms that name no rounding, or name it besides ``.ftz`` and ``.sat``."""
    for op in ("add", "sub", "mul"):
        yield from (Form(f"{op}{m}.f32", "f32", ("f32", "f32")) for m in ("", ".ftz", ".sat", ".ftz.sat"))
        yield Form(f"{op}.f64", "f64", ("f64", "f64"))
        yield from (Form(f"{op}.rn{m}.{t}", t, (t, t)) for t in ("f16", "f16x2") for m in (".ftz", ".sat", ".ftz.sat"))
    yield from (Form(f"mad.{r}{m}.f32", "f32", ("f32",) * 3) for r in ("rz", "rm", "rp") for m in (".ftz", ".sat", ".ftz.sat"))


def spellings(row: Row) -> Iterator[tuple[str, Qualifiers]]:
    """Every opcode that a row stands for, with what its groups match."""
    for chosen in product(*(([""] if slot.optional else []) + [f".{c}" for c in slot.choices] for slot in row.slots)):
        opcode = row.base + "".join(chosen)
        yield from ((opcode, q) for found, q in match(opcode) if found is row)


def rows(base: str) -> list[Row]:
    """The rows of an instruction whose results are said to be known from silicon."""
    load_all()
    return [row for row in CATALOGUE[base] if row.fidelity == "hardware"]


def convert_forms() -> Iterator[Form]:
    """Every spelling in the catalogue."""
    for row in rows("cvt"):
        for opcode, q in spellings(row):
            d, *sources = (given if given in WIDTH else getattr(q, given) for _, given in row.operands)
            yield Form(opcode, d, tuple(sources))


def sets_together() -> Iterator[Form]:
    """Every spelling of ``set`` in the catalogue: those with the same types in one form, their results one after the other times 5."""
    codes: dict[tuple[str, str], str] = {}
    for row in rows("set"):
        for opcode, q in spellings(row):
            step = f"{opcode} $t, $a, $b{', %p2' if '(bool=' in row.pattern else ''};"
            codes[q.to, q.type] = codes.get((q.to, q.type), "") + f" {step} mad.lo.u{WIDTH[q.to]} $d, $d, 5, $t;"
    for (d, t), code in codes.items():
        yield Form(f"set.all.{d}.{t}", d, (t, t, "s32"), code=f"setp.lt.s32 %p2, $c, 0; mov.b{WIDTH[d]} $d, 0;{code}")


def compare_forms() -> Iterator[Form]:
    for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
        yield from (Form(f"set.{op}.u32.{t}", "u32", (t, t)) for op in ("eq", "ne", "lt", "le", "gt", "ge"))
    yield from (Form(f"set.{op}.u32.{t}", "u32", (t, t)) for op, t in product(("lo", "ls", "hi", "hs"), ("u16", "u32", "u64")))
    for t, f in (("f32", ""), ("f32", ".ftz"), ("f64", ""), ("f16", ""), ("bf16", "")):
        for op in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            yield Form(f"set.{op}{f}.u32.{t}", "u32", (t, t))
    yield from (Form(f"set.lt.f32.{t}", "f32", (t, t)) for t in ("s32", "f32"))
    yield from (Form(f"set.{op}.{t}.{t}", t, (t, t)) for op, t in product(("lt", "geu"), ("f16x2", "bf16x2")))


def forms() -> list[Form]:
    """All forms, each once."""
    found = [*integer_forms(), *float_forms(), *approximate_forms(), *convert_forms(), *compare_forms()]
    found += [*packed_forms(), *several_instructions(), *more_comparisons()]
    found += [*comparisons_together(), *sets_together(), *predicate_logic(), *default_roundings()]
    return list({form.opcode + form.tail: form for form in found}.values())


def register(kind: str, form: Form) -> str:
    """Beside bf16, the assembler takes 8-bit registers only for 8-bit integers."""
    narrow = "b" if "bf16" in (form.result, *form.sources) else "r"
    return {8: narrow, 16: "h", 32: "r", 64: "d"}[WIDTH[kind]]


def entry(index: int, form: Form) -> str:
    """The entry ``form_INDEX``: pointers to the sources, one element for each thread, then to the result."""
    lines = [
        f"// {form.opcode}",
        f".visible .entry form_{index}(" + ", ".join(f".param .u64 p{i}" for i in range(len(form.sources) + 1)) + ")",
    ]
    lines += ["{", "    .reg .pred %p<3>; .reg .b8 %b<3>; .reg .b16 %h<7>; .reg .b32 %r<9>; .reg .b64 %d<12>;", "    mov.u32 %r8, %tid.x;"]
    names = []
    for i, kind in enumerate(form.sources):
        size = WIDTH[kind] // 8
        name = f"%{register(kind, form)}{i + 1}"
        lines += [f"    ld.param.u64 %d8, [p{i}]; mad.wide.u32 %d8, %r8, {size}, %d8;"]
        lines += [f"    ld.global.{'u' if size == 1 else 'b'}{size * 8} {name}, [%d8];"]
        names.append(name)
    size = WIDTH[form.result] // 8
    out = f"%{register(form.result, form)}0"
    code = form.code or f"{form.opcode} $d, {', '.join('$' + letter for letter, _ in zip('abce', names, strict=False))}{form.tail};"
    for letter, name in (("d", out), ("t", f"%{register(form.result, form)}6"), *zip("abce", names, strict=False)):
        code = code.replace(f"${letter}", name)
    lines += [
        f"    {code}",
        f"    ld.param.u64 %d8, [p{len(names)}]; mad.wide.u32 %d8, %r8, {size}, %d8;",
    ]
    lines += [f"    st.global.{'u' if size == 1 else 'b'}{size * 8} [%d8], {out};", "    ret;", "}"]
    return "\n".join(lines)


def module(numbered: list[tuple[int, Form]]) -> str:
    version = "9.3" if any(form.newer for _, form in numbered) else "8.6"
    return f".version {version}\n.target sm_90a\n.address_size 64\n" + "\n".join(entry(i, form) for i, form in numbered) + "\n"
