"""Every word of the vocabulary: both backends give the same bits, and what the contract says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.isa.form_helpers import WIDTH, Body, Compiled, body_of, cases, form, run_numpy

COUNT = 512
ENTRIES = tuple(number * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for number in range(1, 129))
INTEGERS = ("u8", "u16", "u32", "u64")
FLOATS = ("f32", "f64")
Word = Callable[..., Any]


def integer_bodies() -> dict[str, Body]:
    made: dict[str, Body] = {}
    two = [
        "add",
        "sub",
        "mul",
        "umulhi",
        "smulhi",
        "udiv",
        "urem",
        "sdiv",
        "srem",
        "smin",
        "smax",
        "umin",
        "umax",
        "and_",
        "or_",
        "xor",
        "shl",
        "lshr",
        "ashr",
    ]
    one = ["not_", "neg", "popc", "clz", "brev"]
    tests = ["eq", "ne", "ult", "ule", "slt", "sle"]
    for type in INTEGERS:
        for name in two:
            made[f"{name} {type}"] = Body(lambda x, a, b, name=name: getattr(x, name)(a, b), (type, type), (type,))
        for name in one:
            made[f"{name} {type}"] = Body(lambda x, a, name=name: getattr(x, name)(a), (type,), (type,))
        for name in tests:
            made[f"{name} {type}"] = Body(lambda x, a, b, name=name: getattr(x, name)(a, b), (type, type), ("pred",))
        for amount in (0, 1, 7, 8, 31, 32, 63, 64, 200):
            for name in ("shl", "lshr", "ashr"):

                def shifted(x: Any, a: Any, name: str = name, amount: int = amount, type: str = type) -> Any:
                    return getattr(x, name)(a, x.const(amount, f"i{type[1:]}"))

                made[f"{name} {type} by {amount}"] = Body(shifted, (type,), (type,))
        for wide in INTEGERS:
            to = f"i{wide[1:]}"
            if int(wide[1:]) > int(type[1:]):
                made[f"zext {type} {wide}"] = Body(lambda x, a, to=to: x.zext(a, to), (type,), (wide,))
                made[f"sext {type} {wide}"] = Body(lambda x, a, to=to: x.sext(a, to), (type,), (wide,))
                made[f"trunc {wide} {type}"] = Body(lambda x, a, to=f"i{type[1:]}": x.trunc(a, to), (wide,), (type,))
        made[f"select {type}"] = Body(lambda x, c, a, b: x.select(c, a, b), ("pred", type, type), (type,))
        made[f"flags {type}"] = Body(lambda x, c, to=f"i{type[1:]}": (x.zext(c, to), x.sext(c, to)), ("pred",), (type, type))
        made[f"low bit {type}"] = Body(lambda x, a: x.trunc(a, "i1"), (type,), ("pred",))
    made["predicates"] = Body(lambda x, a, b: x.or_(x.and_(a, x.not_(b)), x.xor(a, b)), ("pred", "pred"), ("pred",))
    for count, first in ((8, 0), (64, 0), (64, 26), (128, 17), (128, 25)):

        def table(x: Any, a: Any, count: int = count, first: int = first) -> Any:
            return x.table(a, first, ENTRIES[:count])

        def halves(x: Any, a: Any, count: int = count, first: int = first) -> Any:
            low, high = x.table_halves(a, first, [entry & 0xFFFFFFFF for entry in ENTRIES[:count]])
            return x.with_halves(x.add(low, x.low_half(a)), x.sub(high, x.high_half(a)))

        made[f"table of {count} from bit {first}"] = Body(table, ("u32",), ("u32", "u32"))
        made[f"halves of a table of {count} from bit {first}"] = Body(halves, ("u32",), ("u32",))
    made["dot"] = Body(lambda x, start, a, b: x.dot(start, a, b), ("u32",) * 3, ("u32",))

    def exchanged(x: Any, a: Any) -> Any:
        return x.with_halves(x.sub(x.high_half(a), x.low_half(a)), x.low_half(a))

    def rarely(x: Any, condition: Any, a: Any, b: Any) -> Any:
        def rare(x: Any, usual: Any, condition: Any, a: Any, b: Any) -> Any:
            return condition

        return x.rarely(rare, rare, lambda x, condition, a, b: x.sub(a, b), x.add(a, b), condition, a, b)

    def rarely_by_halves(x: Any, a: Any) -> Any:
        def rare(x: Any, usual: Any, a: Any) -> Any:
            return x.ult(a, x.const(9 << 15, "i32"))

        def some(x: Any, usual: Any, a: Any) -> Any:
            return x.ult(x.high_half(usual), x.const(5, "i16"))

        return x.rarely(some, rare, lambda x, a: x.not_(a), a, a)

    def moved(x: Any, a: Any) -> Any:
        return x.shl(x.with_low_half(x.mul(x.high_half(a), x.low_half(a))), x.const(16, "i32"))

    made["halves"] = Body(exchanged, ("u32",), ("u32",))
    made["a low half"] = Body(moved, ("u32",), ("u32",))
    made["rarely"] = Body(rarely, ("pred", "u32", "u32"), ("u32",))
    made["rarely, by halves"] = Body(rarely_by_halves, ("u32",), ("u32",))
    return made


def float_bodies() -> dict[str, Body]:
    """A NaN result has no defined payload: it is replaced."""
    made: dict[str, Body] = {}

    def clean(x: Any, a: Any) -> Any:
        return x.select(x.isnan(a), x.const(0.0, x.type(a)), a)

    for type in FLOATS:
        for name in ("fadd", "fsub", "fmul", "fdiv"):
            made[f"{name} {type}"] = Body(lambda x, a, b, name=name: clean(x, getattr(x, name)(a, b)), (type, type), (type,))
        for name in ("feq", "flt", "fle"):
            made[f"{name} {type}"] = Body(lambda x, a, b, name=name: getattr(x, name)(a, b), (type, type), ("pred",))
        for mode in ("rni", "rzi", "rmi", "rpi"):
            made[f"fround {mode} {type}"] = Body(lambda x, a, mode=mode: clean(x, x.fround(a, mode)), (type,), (type,))
        made[f"fma {type}"] = Body(lambda x, a, b, c: clean(x, x.fma(a, b, c)), (type,) * 3, (type,))
        made[f"fsqrt {type}"] = Body(lambda x, a: clean(x, x.fsqrt(a)), (type,), (type,))
        made[f"fneg {type}"] = Body(lambda x, a: (x.fneg(a), x.fabs(a)), (type,), (type, type))
        if type == "f32":

            def reciprocal(x: Any, a: Any) -> Any:
                usual = x.and_(x.fle(x.const(2.0**-126, "f32"), x.fabs(a)), x.fle(x.fabs(a), x.const(2.0**126, "f32")))
                return x.reciprocal_toward_zero(x.select(usual, a, x.const(3.0, "f32")))

            made["reciprocal toward zero"] = Body(reciprocal, (type,), (type,))

            def outside(x: Any, a: Any) -> Any:
                def rare(x: Any, usual: Any, a: Any) -> Any:
                    return x.not_(x.and_(x.fle(x.const(2.0**-126, "f32"), a), x.flt(a, x.bits(0x7F800000, "f32"))))

                def some(x: Any, usual: Any, a: Any) -> Any:
                    return x.outside_positive_normals(a)

                return x.rarely(some, rare, lambda x, a: x.const(-1.0, "f32"), x.const(1.0, "f32"), a)

            made["outside positive normals"] = Body(outside, (type,), (type,))
            made["subnormal or NaN"] = Body(lambda x, a: x.subnormal_or_nan(a), (type,), ("pred",))
        made[f"isnan {type}"] = Body(lambda x, a: x.isnan(a), (type,), ("pred",))
        for integer in INTEGERS:
            to = f"i{integer[1:]}"
            made[f"ftosi {type} {integer}"] = Body(lambda x, a, to=to: (x.ftosi(a, to), x.ftoui(a, to)), (type,), (integer,) * 2)
            made[f"sitof {integer} {type}"] = Body(lambda x, a, to=type: (x.sitof(a, to), x.uitof(a, to)), (integer,), (type,) * 2)
    made["fext"] = Body(lambda x, a: clean(x, x.fext(a)), ("f32",), ("f64",))
    made["fnarrow"] = Body(lambda x, a: clean(x, x.fnarrow(a)), ("f64",), ("f32",))
    made["half_to_f32"] = Body(lambda x, a: clean(x, x.half_to_f32(a)), ("f16",), ("f32",))
    made["f32_to_half"] = Body(lambda x, a: x.f32_to_half(clean(x, a)), ("f32",), ("f16",))
    made["constants"] = Body(
        lambda x, a: x.select(x.fle(x.const(1.5, "f32"), a), x.bits(0x7F800001, "f32"), x.bits(0x00000001, "f32")), ("f32",), ("f32",)
    )
    return made


BODIES = integer_bodies() | float_bodies()


def test_both_backends_give_the_same_bits() -> None:
    compiled = Compiled(list(BODIES.values()))
    for i, (name, body) in enumerate(BODIES.items()):
        words = [cases(type, COUNT, seed) for seed, type in enumerate(body.sources)]
        if words and len(words) == 2 and name.startswith(("shl", "lshr", "ashr")):
            words[1] %= 80
        for got, want in zip(compiled(i, words), run_numpy(body, words), strict=True):
            bad = np.flatnonzero(got != want)
            assert not bad.size, f"{name}({[hex(w[bad[0]]) for w in words]}): LLVM {got[bad[0]]:#x}, NumPy {want[bad[0]]:#x}"


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("udiv u32", (7, 0), 0xFFFFFFFF),
        ("urem u32", (7, 0), 7),
        ("sdiv u32", (0x80000000, 0xFFFFFFFF), 0x80000000),
        ("srem u32", (0x80000000, 0xFFFFFFFF), 0),
        ("sdiv u64", ((1 << 64) - 7, 2), (1 << 64) - 3),
        ("shl u8", (1, 8), 0),
        ("ashr u16", (0x8000, 300), 0xFFFF),
        ("clz u64", (0,), 64),
        ("brev u32", (1,), 0x80000000),
        ("smulhi u64", ((1 << 64) - 1, 1), (1 << 64) - 1),
        ("fma f32", (0x3F800001, 0x3F800001, 0xBF800002), 0x28800000),
    ],
)
def test_contract(name: str, operands: tuple[int, ...], result: int) -> None:
    body = BODIES[name]
    words = [np.array([v], cases(t, 1, 0).dtype) for v, t in zip(operands, body.sources, strict=True)]
    assert int(run_numpy(body, words)[0][0]) == result


def test_long_bodies_are_compiled_once() -> None:
    division = BODIES["udiv u64"]
    assert Compiled([division] * 5).text.count("udiv <") == 1


def test_functions_that_programs_share_are_not_compiled_with_each() -> None:
    reciprocal = body_of(form("rcp.approx.f32", 1))
    text = Compiled([reciprocal] * 3).text
    assert text.count(f"declare <{WIDTH} x float> @lanes_rcp_{WIDTH}(<{WIDTH} x float>)") == 1
    assert text.count(f"call <{WIDTH} x float> @lanes_rcp_{WIDTH}(") == 3
    assert "define internal" not in text


def test_constant_operands_take_the_short_way_to_the_same_bits() -> None:
    """Selectors and amounts that are known when code is made."""
    opcodes = [
        ("prmt.b32", 3),
        ("shf.l.wrap.b32", 3),
        ("shf.r.clamp.b32", 3),
        ("prmt.b32.rc16", 3),
        ("bfe.u32", 3),
        ("bfe.s32", 3),
        ("shl.b64", 2),
        ("shr.s16", 2),
    ]
    bodies = []
    for opcode, count in opcodes:
        chosen = form(opcode, count)
        for known in (0, 1, 3, 8, 15, 16, 31, 32, 40, 64, 255, 0x5410, 0x7632, 0x3210, 0xFEDC, 0x80000000):

            def function(x: Any, *values: Any, chosen: Any = chosen, known: int = known) -> Any:
                return chosen.row.semantics(x, chosen.q, *values, x.const(known, "i32"))

            bodies.append(Body(function, chosen.sources[:-1], chosen.results))
    compiled = Compiled(bodies)
    for i, body in enumerate(bodies):
        words = [cases(type, 64, seed) for seed, type in enumerate(body.sources)]
        assert np.array_equal(compiled(i, words)[0], run_numpy(body, words)[0])
