"""Constant expressions against a plain evaluator and the examples of the specification."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.ptx import Float, Integer, PtxSyntaxError
from ptxlab.ptx._cursor import Cursor
from ptxlab.ptx._expressions import constant

M = (1 << 64) - 1


def fold(text: str) -> Integer | Float:
    c = Cursor(text)
    value = constant(c)
    assert c.kind == "end"
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("0123", 83),
        ("0x1234U", 0x1234),
        ("0xfabc123400000000", 0xFABC123400000000),
        ("-(-42)", 42),
        ("-1U", M),
        ("-0xfabc123400000000", 2**64 - 0xFABC123400000000),
        ("!0", 1),
        ("!7", 0),
        ("~0", M),
        ("(.s64)~0", -1),
        ("(.u64)-1", M),
        ("-(.s64)(.u64)-1", 1),
        ("7 / -2", -3),
        ("-7/2", -3),
        ("-7 / 2U", (2**64 - 7) // 2),
        ("-1 % 10", M % 10),
        ("5 %3", 2),
        ("5%3", 2),
        ("1 << 63", -(2**63)),
        ("1U << 63", 2**63),
        ("1 << 64", 0),
        ("-8 >> 1", -4),
        ("-8 >> 1000", -1),
        ("0x8000000000000000 >> 63", 1),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("1 << 2 + 1", 8),
        ("1 | 6 & 3 ^ 8", 11),
        ("1 < 2 == 1", 1),
        ("-1 < 0U", 0),
        ("-1 < 0", 1),
        ("2 && 0 || 3", 1),
        ("1 || 0 && 0", 1),
        ("1 ? 2 : 3", 2),
        ("0 ? 1 : 0 ? 2 : 3", 3),
        ("1 ? -1 : 0U", M),
        ("1.5 < 2.0", 1),
        ("WARP_SZ * 4", 128),
        ("9223372036854775807 + 1", -(2**63)),
        ("18446744073709551615 + 1", 0),
        ("- - ! ~ + 0", 0),
    ],
)
def test_integers(text: str, value: int) -> None:
    assert fold(text) == Integer(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5 + 0.25", 1.75),
        ("-(1.0 / 4.0)", -0.25),
        ("1 ? 2.0 : 3.0", 2.0),
        ("1.0 / 0.0", math.inf),
        ("1.0 / -0.0", -math.inf),
        ("-1.0 / 0.0", -math.inf),
        ("2.0 * 3.0 - 1.0", 5.0),
        ("+.5e1", 5.0),
        ("1e400", math.inf),
    ],
)
def test_floats(text: str, value: float) -> None:
    assert fold(text) == Float(struct.unpack("<Q", struct.pack("<d", value))[0], 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "division by zero in a constant expression"),
        ("1 % (2 - 2)", "division by zero in a constant expression"),
        ("1 + 1.0", "operator '+' takes two integers, or (but for bits and logic) two floats"),
        ("1.0 << 2.0", "operator '<<' takes two integers, or (but for bits and logic) two floats"),
        ("~1.0", "operator '~' takes an integer"),
        ("0f3F800000 + 0f3F800000", "a 0f constant cannot be used in an expression"),
        ("1 ? 1 : 1.0", "a conditional takes an integer, then two integers or two .f64 values"),
        ("18446744073709551616", "this integer does not fit in 64 bits"),
        ("0x1ffffffffffffffff", "this integer does not fit in 64 bits"),
        ("12abc", "malformed number '12abc'"),
        ("0x", "malformed number '0x'"),
        ("0f3F80", "malformed number '0f3F80'"),
        ("08", "malformed number '08'"),
        ("1..2", "malformed number '1..2'"),
        ("(1 + 2", "expected ')', found the end of the text"),
        ("1 +", "expected a constant, found the end of the text"),
        ("1 ? 2", "expected ':', found the end of the text"),
        ("x", "expected a constant, found 'x'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as error:
        fold(text)
    assert error.value.diagnostic.message == message


# An evaluator over (value, is unsigned) that shares nothing with the parser: it never sees the text.
Typed = tuple[int, bool]


def typed(value: int, unsigned: bool) -> Typed:
    value &= M
    return (value if unsigned or value < 2**63 else value - 2**64), unsigned


def leaf(value: int, suffix: bool) -> tuple[str, Typed]:
    return f"{value}{'U' if suffix else ''}", (value, suffix or value >= 2**63)


def binary(a: tuple[str, Typed], symbol: str, b: tuple[str, Typed]) -> tuple[str, Typed]:
    (s, (x, xu)), (t, (y, yu)) = a, b
    text = f"({s}) {symbol} ({t})"
    unsigned = xu or yu
    p, q = (x & M, y & M) if unsigned else (x, y)
    if symbol in ("<<", ">>"):
        n = min(y & M, 64)
        return text, typed(x << n if symbol == "<<" else x >> n, xu)
    if symbol in ("&&", "||"):
        return text, (int(bool(x) and bool(y)) if symbol == "&&" else int(bool(x) or bool(y)), False)
    if symbol in ("<", ">", "<=", ">=", "==", "!="):
        return text, (int(eval(f"{p} {symbol} {q}")), False)
    return text, typed(eval(f"({p}) {symbol} ({q})"), unsigned)


leaves = st.builds(leaf, st.integers(0, M) | st.integers(0, 70), st.booleans())
symbols = st.sampled_from(["+", "-", "*", "&", "|", "^", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&&", "||"])
trees = st.recursive(leaves, lambda inner: st.builds(binary, inner, symbols, inner), max_leaves=12)


@given(trees)
def test_against_an_evaluator(tree: tuple[str, Typed]) -> None:
    text, (value, _) = tree
    assert fold(text) == Integer(value)


@given(st.lists(st.integers(1, 99), min_size=2, max_size=12), st.data())
def test_precedence_is_that_of_c(numbers: list[int], data: st.DataObject) -> None:
    """Python shares C's precedence for these operators."""
    symbol = st.sampled_from(["+", "-", "*", "|", "^", "&", "<<"])
    text = str(numbers[0])
    for n in numbers[1:]:
        s = data.draw(symbol)
        text += f" {s} {n % 7 if s == '<<' else n}"
    # operators below the shift may make a shift count negative or huge in Python; leave those out
    try:
        value = eval(text)
    except (ValueError, OverflowError):
        return
    if abs(value) < 2**62 and "<<" not in text:
        assert fold(text) == Integer(value)
