"""Undefined bits through scalar instructions: what the shadow calls defined never depends on an undefined bit of an operand."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from ptxlab.engine.lowering.scope import TYPE_BITS
from ptxlab.engine.undefined.vocabulary import Shadowed, ShadowVocabulary
from tests.sweep_helpers import one_in, part

from .form_helpers import Body, Compiled, Form, Words, as_words, body_of, cases, form, forms, pure_rows, run_numpy, size_of

COUNT = 256
FILLINGS = 64
BATCH = 100

FAMILIES: dict[str, list[Form]] = defaultdict(list)
for _row in pure_rows():
    FAMILIES[_row.semantics.__module__.rsplit(".", 1)[1]] += [f for f in forms(_row, 12) if "b128" not in f.sources and f.sources]

EXACT = {
    "mov.b32": 1,
    "not.b64": 1,
    "xor.b32": 2,
    "and.b32": 2,
    "or.b64": 2,
    "brev.b32": 1,
    "cvt.u64.u32": 1,
    "cvt.s64.s32": 1,
    "selp.b32": 3,
}
"""Instructions -> their sources: here every bit that is called undefined does depend on an undefined bit of an operand."""


def masks(type: str, seed: int) -> Words:
    """Masks of undefined bits: none, one bit, a byte, a half, or all, with some random ones."""
    rng = np.random.default_rng([seed, *type.encode()])
    bits = TYPE_BITS[type]
    kind = rng.integers(0, 6, COUNT)
    one = np.uint64(1) << rng.integers(0, bits, COUNT).astype(np.uint64)
    byte = np.uint64(0xFF) << (8 * rng.integers(0, max(bits // 8, 1), COUNT)).astype(np.uint64)
    half = np.uint64((1 << max(bits // 2, 1)) - 1) << (bits // 2 * rng.integers(0, 2, COUNT)).astype(np.uint64)
    random = rng.integers(0, 1 << 63, COUNT, dtype=np.uint64) * np.uint64(2) & rng.integers(0, 1 << 63, COUNT, dtype=np.uint64)
    found = np.choose(kind, [np.zeros(COUNT, np.uint64), one, byte, half, random, np.full(COUNT, (1 << 64) - 1, np.uint64)])
    return (found & np.uint64((1 << bits) - 1)).astype(f"u{size_of(type)}")


def shadow_of(body: Body) -> Body:
    """The masks of the results, as a function of the operands and their masks."""
    count = len(body.sources)

    def function(x: Any, *given: Any) -> Any:
        inner = ShadowVocabulary(x)
        result = body.function(inner, *map(Shadowed, given[:count], given[count:]))
        return tuple(map(inner.mask, result)) if isinstance(result, tuple) else inner.mask(result)

    def integer(type: str) -> str:
        return type if type == "pred" else f"b{TYPE_BITS[type]}"

    return Body(function, (*body.sources, *map(integer, body.sources)), tuple(map(integer, body.results)))


def evaluate(form: Form) -> tuple[list[Words], list[Words], list[Words], list[Words]]:
    """Operands, their masks, the masks of the results, and the bits of the results that differ between fillings."""
    body = body_of(form)
    words = [cases(type, COUNT, seed) for seed, type in enumerate(body.sources)]
    unknown = [masks(type, seed) for seed, type in enumerate(body.sources)]
    with np.errstate(all="ignore"):
        found = run_numpy(shadow_of(body), [*words, *unknown])
        first = run_numpy(body, words)
        differ = [np.zeros_like(result) for result in first]
        for seed in range(FILLINGS):
            rng = np.random.default_rng([seed, 7])
            filled = [w & ~u | np.frombuffer(rng.bytes(w.nbytes), w.dtype) & u for w, u in zip(words, unknown, strict=True)]
            for result, wanted, change in zip(run_numpy(body, filled), first, differ, strict=True):
                change |= result ^ wanted
    return words, unknown, found, differ


SIXTHS = [(family, number) for family in sorted(FAMILIES) for number in range(6)]


def of_part(family: str, number: int) -> bool:
    """Half of the forms of a family."""
    return (sorted(FAMILIES).index(family) + number) % 2 == 0


@pytest.mark.parametrize(("family", "number"), part(one_in(18, SIXTHS), of_part))
def test_a_defined_bit_never_differs(family: str, number: int) -> None:
    for each in FAMILIES[family][number::6]:
        words, unknown, found, differ = evaluate(each)
        for result, mask, change in zip(each.results, found, differ, strict=True):
            wrong = np.flatnonzero(change & ~mask & np.array((1 << TYPE_BITS[result]) - 1, mask.dtype))
            assert not wrong.size, (
                f"{each.opcode} {[hex(w[wrong[0]]) for w in words]} with {[hex(u[wrong[0]]) for u in unknown]} undefined: "
                f"{mask[wrong[0]]:#x} is called undefined, {change[wrong[0]]:#x} differs"
            )


@pytest.mark.sweep
def test_half_of_the_forms_have_every_opcode() -> None:
    for family, listed in FAMILIES.items():
        half = [each for number in range(6) if of_part(family, number) for each in listed[number::6]]
        assert {each.opcode.partition(".")[0] for each in half} == {each.opcode.partition(".")[0] for each in listed}


@pytest.mark.parametrize("opcode", EXACT)
def test_exact_where_bits_are_independent(opcode: str) -> None:
    *_, found, differ = evaluate(form(opcode, EXACT[opcode]))
    for mask, change in zip(found, differ, strict=True):
        assert np.array_equal(mask, change)


def shadow(opcode: str, *operands: tuple[int, int]) -> int:
    """The mask of a result of one destination, from operands with their masks."""
    made = form(opcode, len(operands))
    words = [np.array([value], f"u{size_of(type)}") for (value, _), type in zip(operands, made.sources, strict=True)]
    unknown = [np.array([mask], f"u{size_of(type)}") for (_, mask), type in zip(operands, made.sources, strict=True)]
    return int(as_words(run_numpy(shadow_of(body_of(made)), [*words, *unknown])[0], 1)[0])


HIGH = 0xFFFF0000
BOUNDED = {
    "a carry goes up to the first defined zeros": (("add.u32", (0, 0xF), (0xF0, 0)), 0xF),
    "a carry ripples through ones": (("add.u32", (1, 1), (0x00FF, 0)), 0x1FF),
    "a product of a low half that is defined": (("mul.lo.u32", (3, HIGH), (5, 0)), HIGH),
    "a shift": (("shr.u32", (0, HIGH), (16, 0)), 0xFFFF),
    "a shift by one of two amounts": (("shl.b32", (1, 0), (0, 1)), 3),
    "a shift by any amount": (("shr.s32", (0x00FF0000, 0), (0, 0xFFFFFFFF)), 0x00FFFFFF),
    "a multiple of eight": (("mul.lo.u32", (0, 1), (8, 0)), 8),
    "a multiple of a power of two that is too wide": (("mul.lo.u32", (0xC0000001, 0x80000002), (4, 0)), 8),
    "a product between 0 and 30": (("mul.lo.u32", (0, 3), (10, 0)), 0x1E),
    "a product between 2880 and 3069": (("mul.lo.u32", (1000, 0x3F), (3, 0)), 0xFF),
    "products of which some are too wide": (("mul.lo.u32", (0x40000000, 0x20000000), (6, 0)), 0xC0000000),
    "an offset": (("mad.wide.u32", (0x10, 3), (4, 0), (0x7F0000000000, 0)), 0xC),
    "an offset below zero": (("mul.wide.s32", (0xFFFFFFF0, 3), (8, 0)), 0x18),
    "the high half of a product": (("mul.hi.u32", (0x100, 0xFF), (0x01000000, 0)), 0),
    "a quotient by ten": (("mul.hi.u32", (96, 3), (0x1999999A, 0)), 0),
    "the high half of products of one sign": (("mul.hi.s32", (0xFFFFFF00, 0xFF), (0x01000000, 0)), 0),
    "the high half of products of two signs": (("mul.hi.s32", (0, 0x80000000), (0x40000000, 0)), 0xFFFFFFFF),
    "the negative of one of two numbers": (("neg.s32", (0x10, 1)), 0x1F),
    "floats that defined bits order": (("setp.lt.f32", (0x3F800000, 0xFFFF), (0x40000000, 0xFFFF)), 0),
    "floats that undefined bits order": (("setp.lt.f32", (0x3F800000, 0xFFFF), (0x3F808000, 0)), 1),
    "a number below another or a NaN": (("setp.lt.f32", (0xFF800000, 1), (0x40000000, 0)), 1),
    "a number above another or a NaN": (("setp.lt.f32", (0x7F800000, 1), (0x40000000, 0)), 0),
    "no number is above infinity": (("setp.gt.f32", (0, 0xFFFFFFFF), (0x7F800000, 0)), 0),
    "a NaN is not below any number": (("setp.lt.f32", (0x7FC00000, 0xFFFF), (0, 0xFFFFFFFF)), 0),
    "a NaN makes an unordered comparison true": (("setp.gtu.f64", (0x7FF8 << 48, 0xFFFF), (0, (1 << 64) - 1)), 0),
    "equal to any number": (("setp.eq.f32", (0, 0xFFFFFFFF), (0x40000000, 0)), 1),
    "floats that differ in a defined bit": (("setp.eq.f32", (0x3F800001, 0xFF0000), (0x3F800000, 0)), 0),
    "floats without a common number": (("setp.neu.f32", (0x3F800000, 0xFFFF), (0x40000000, 0xFFFF)), 0),
    "zeros of two signs": (("setp.eq.f32", (0, 1), (0x80000000, 0)), 1),
    "a NaN equals no number": (("setp.eq.f32", (0, 0xFFFFFFFF), (0xFFFFFFFF, 0)), 0),
    "a sum with a NaN": (("add.rn.f32", (0, 0xFFFFFFFF), (0x7FC00000, 0)), 0),
    "a product with a NaN, in f16": (("mul.rn.f16", (0, 0xFFFF), (0x7E00, 0)), 0),
    "a fused product with a NaN": (("fma.rn.f32", (0, 0xFFFFFFFF), (0, 0xFFFFFFFF), (0xFFC00000, 0xFFFF)), 0),
    "a float that is no NaN": (("testp.notanumber.f32", (0x3F800000, 0x807FFFFF)), 0),
    "a comparison that the high bits decide": (("setp.lt.u32", (0x10000, 0xFF), (0x20000, 0xFF)), 0),
    "a comparison that undefined bits decide": (("setp.lt.u32", (0x10000, 0xFF), (0x10080, 0)), 1),
    "signs decide": (("setp.gt.s32", (1, 0x7FFFFFFF), (0x80000000, 0x7FFFFFFF)), 0),
    "unequal in a defined bit": (("setp.eq.s32", (0x10, 0xF), (0x20, 0)), 0),
    "a permutation of defined bytes": (("prmt.b32", (0, 0xFFFF0000), (0, 0), (0x4410, 0)), 0),
    "a permutation of undefined bytes": (("prmt.b32", (0, 0xFF000000), (0, 0), (0x0003, 0)), 0xFF),
    "a field": (("bfe.u32", (0, HIGH), (4, 0), (8, 0)), 0),
    "a field with undefined bits": (("bfe.u32", (0, HIGH), (12, 0), (8, 0)), 0xF0),
    "a half of a packed sum": (("add.rn.f16x2", (0x3C003C00, 0x8000), (0x3C003C00, 0)), 0xFFFF),
    "a maximum of halves": (("ex2.approx.f16x2", (0x3C003C00, 0x10000)), HIGH),
    "a sum between 0 and 1": (("add.rn.sat.f32", (0, 0xFFFFFFFF), (0x3F800000, 0)), 0x3FFFFFFF),
    "a sum of halves between 0 and 1": (("add.rn.sat.f16x2", (0, 0xFFFF), (0x3C003C00, 0)), 0x3FFF),
    "a fused product of halves between 0 and 1": (("fma.rn.sat.f16", (0, 0xFFFF), (0x3C00, 0), (0x3C00, 0)), 0x3FFF),
    "a fused product that is not negative": (("fma.rn.relu.bf16", (0, 0xFFFF), (0x3F80, 0), (0x3F80, 0)), 0x7FFF),
    "a float between 0 and 1": (("cvt.sat.f32.f32", (0, 0xFFFFFFFF)), 0x3FFFFFFF),
    "any number, but at least 0": (("max.s32", (0, 0xFFFFFFFF), (0, 0)), 0x7FFFFFFF),
    "any number, but at most 7": (("min.u32", (0, 0xFFFFFFFF), (7, 0)), 7),
    "4 or 7": (("min.u64", (4, (1 << 64) - 8), (7, 0)), 3),
    "any number between -8 and -1": (("min.s16", (0xFFF8, 7), (0xFFFF, 0)), 7),
    "the larger of two numbers": (("max.s32", (0x100, 1), (0x10, 0)), 1),
    "the lowest bits of both": (("max.u32", (0x10, 0x40), (0x30, 0)), 0x60),
    "a half that is at least 0": (("max.f16", (0, 0xFFFF), (0, 0)), 0x7FFF),
    "a half that is at most 1": (("min.bf16", (0, 0x7FFF), (0x3F80, 0)), 0x3FFF),
    "leading zeros": (("clz.b32", (0x00010000, 0xFF)), 0),
    "the sign of a float": (("abs.f32", (0, 0x80000000)), 0),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bits_stay_apart(name: str) -> None:
    given, wanted = BOUNDED[name]
    assert shadow(*given) == wanted  # type: ignore[arg-type]


BATCHES = [
    (f"{family}-{start // BATCH}", listed[start : start + BATCH])
    for family, listed in sorted(FAMILIES.items())
    for start in range(0, len(listed), BATCH)
]


@pytest.mark.slow
@pytest.mark.parametrize("batch", [b for _, b in BATCHES], ids=[name for name, _ in BATCHES])
def test_compiled_masks_are_the_same(batch: list[Form]) -> None:
    bodies = [shadow_of(body_of(each)) for each in batch]
    compiled = Compiled(bodies)
    for i, each in enumerate(batch):
        sources = body_of(each).sources
        words = [*(cases(type, COUNT, seed) for seed, type in enumerate(sources)), *(masks(t, seed) for seed, t in enumerate(sources))]
        with np.errstate(all="ignore"):
            wanted = run_numpy(bodies[i], words)
        for got, want in zip(compiled(i, words), wanted, strict=True):
            assert np.array_equal(got, want), each.opcode


ONE, INFINITE, MINUS_ONE, FRACTION, WHOLE = 0x3F800000, 0x7F800000, 0xBF800000, 0x007FFFFF, 0xFFFFFFFF
NO_SIGN = 0x7FFFFFFF


@pytest.mark.parametrize(
    ("opcode", "operands", "mask"),
    [
        ("add.rn.f32", ((ONE, FRACTION), (ONE, 0)), NO_SIGN),
        ("add.rn.f32", ((MINUS_ONE, FRACTION), (ONE, 0)), WHOLE),
        ("add.rn.f32", ((ONE, 1 << 31), (ONE, 0)), WHOLE),
        ("mul.rn.f32", ((ONE, FRACTION), (ONE, FRACTION)), NO_SIGN),
        ("mul.rn.f32", ((MINUS_ONE, FRACTION), (MINUS_ONE, 0)), NO_SIGN),
        ("mul.rn.f32", ((MINUS_ONE, FRACTION), (ONE, 0)), WHOLE),
        ("div.rn.f32", ((MINUS_ONE, FRACTION), (MINUS_ONE, FRACTION)), NO_SIGN),
        ("sub.rn.f32", ((ONE, FRACTION), (MINUS_ONE, FRACTION)), NO_SIGN),
        ("sub.rn.f32", ((ONE, FRACTION), (ONE, 0)), WHOLE),
        ("add.rn.f32", ((ONE, FRACTION), (1 << 31, 0)), NO_SIGN),
        ("add.rn.f32", ((0, FRACTION), (1 << 31, 1)), WHOLE),
        ("fma.rn.f32", ((MINUS_ONE, FRACTION), (MINUS_ONE, 0), (1 << 31, 0)), NO_SIGN),
        ("fma.rn.f32", ((MINUS_ONE, FRACTION), (MINUS_ONE, 0), (MINUS_ONE, 0)), WHOLE),
        ("mul.rn.f32", ((0, NO_SIGN), (INFINITE, 0)), WHOLE),
        ("mul.rn.f64", ((0, (1 << 63) - 1), (0x7FF << 52, 0)), (1 << 64) - 1),
        ("fma.rn.f32", ((ONE, FRACTION), (ONE, 0), (ONE, 0)), NO_SIGN),
        ("fma.rn.f16", ((0xBC00, 0x3FF), (0xBC00, 0), (0x8000, 0)), 0x7FFF),
        ("fma.rn.bf16", ((0x3F80, 0x7FFF), (0xBF80, 0), (0x8000, 0)), 0xFFFF),
        ("fma.rn.bf16", ((0xBF80, 0x7F), (0xBF80, 0), (0x8000, 0)), 0x7FFF),
        ("mul.rn.bf16", ((0x3F80, 0x7FFF), (0x3F80, 0)), 0x7FFF),
        ("mul.rn.bf16", ((0x3F80, 0x7FFF), (0xBF80, 0)), 0xFFFF),
        ("cvt.rn.bf16.f32", ((0, NO_SIGN),), 0x7FFF),
        ("div.full.f32", ((ONE, FRACTION), (ONE, FRACTION)), NO_SIGN),
        ("ex2.approx.ftz.f32", ((MINUS_ONE, WHOLE),), NO_SIGN),
        ("rcp.approx.ftz.f32", ((ONE, FRACTION),), NO_SIGN),
        ("rsqrt.approx.ftz.f32", ((ONE, FRACTION),), NO_SIGN),
        ("sqrt.approx.ftz.f32", ((ONE, FRACTION),), NO_SIGN),
    ],
)
def test_the_sign_of_what_has_no_sign_is_defined(opcode: str, operands: tuple[tuple[int, int], ...], mask: int) -> None:
    """0 times infinity is a NaN, whose sign is another one before it is replaced by that of the GPU."""
    assert shadow(opcode, *operands) & ~mask == 0
    assert shadow(opcode, *operands) >> (mask.bit_length() - 1) & 1 == 1


@pytest.mark.parametrize(("opcode", "bits"), [("dp4a.s32.s32", 19), ("dp4a.u32.s32", 19), ("dp4a.u32.u32", 19), ("dp2a.hi.s32.s32", 26)])
def test_a_sum_of_small_products_leaves_upper_bits_defined(opcode: str, bits: int) -> None:
    """The products may have either sign; what they are added to is not near a carry into the upper bits."""
    found = shadow(opcode, (0, WHOLE), (0xFF817F01, 0), (0x12345678, 0))
    assert found >> bits == 0
    assert found & 1
