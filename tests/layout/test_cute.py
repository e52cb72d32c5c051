"""The algebra of layouts against its definitions, and against two other implementations where they are installed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ptxlab.layout import cute
from ptxlab.layout.cute import ComposedLayout, Layout, LayoutError, Swizzle, Symbol, parse_layout

BINARY = (
    "composition",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "logical_product",
    "zipped_product",
    "tiled_product",
)


def values(layout: Any, count: int | None = None) -> list[int]:
    return [layout(i) for i in range(layout.size if count is None else count)]


shapes = st.recursive(st.sampled_from([1, 2, 3, 4, 6, 8]), lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw: Any, strides: Any = (0, 1, 2, 3, 4, 8, 12, 16, 24)) -> Layout:
    shape = draw(shapes)
    return Layout(shape, cute._tuples.transform(shape, lambda _: draw(st.sampled_from(strides))))


@st.composite
def compact(draw: Any) -> Layout:
    """A layout whose offsets are 0 to size - 1: its modes in any order."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), 1
    for mode in order:
        strides[mode], step = step, step * sizes[mode]
    return Layout(tuple(sizes), tuple(strides))


@settings(deadline=None)
@given(layouts())
def test_coalesce_is_the_same_function(a: Layout) -> None:
    found = cute.coalesce(a)
    assert values(found) == values(a)
    assert all(size != 1 for size in cute.flatten(found.shape)) or found.size == 1


@settings(deadline=None)
@given(layouts())
def test_offsets_are_the_values(a: Layout) -> None:
    assert a.offsets().reshape(-1, order="F").tolist() == values(a)
    assert a.cosize == max(values(a)) + 1


@settings(deadline=None)
@given(compact(), compact())
def test_composition_is_composition(a: Layout, b: Layout) -> None:
    assume(b.cosize <= a.size)
    try:
        found = cute.composition(a, b)
    except LayoutError:
        assume(False)
    assert found.size == b.size
    assert values(found) == [a(b(i)) for i in range(b.size)]
    assert len(cute._tuples.as_tuple(found.shape)) == b.rank if isinstance(b.shape, tuple) else True


@settings(deadline=None)
@given(compact(), st.integers(1, 4))
def test_complement_fills_the_rest(a: Layout, factor: int) -> None:
    spread = Layout(a.shape, cute._tuples.transform(a.stride, lambda step: step * factor))
    size = spread.size * factor * 2
    rest = cute.complement(spread, size)
    both = sorted(x + y for x in values(spread) for y in values(rest))
    assert both == list(range(size))


@settings(deadline=None)
@given(compact())
def test_inverses(a: Layout) -> None:
    right, left = cute.right_inverse(a), cute.left_inverse(a)
    assert [a(right(i)) for i in range(right.size)] == list(range(a.size))
    assert [left(a(i)) for i in range(a.size)] == list(range(a.size))


@settings(deadline=None)
@given(compact(), st.sampled_from([1, 2, 4, 8]))
def test_division_and_product_keep_what_they_divide(a: Layout, tile: int) -> None:
    assume(a.size % tile == 0)
    try:
        divided = cute.logical_divide(a, tile)
    except LayoutError:
        assume(False)
    assert divided[0].size == tile
    assert sorted(values(divided)) == list(range(a.size))
    product = cute.logical_product(a, tile)
    assert sorted(values(product)) == list(range(a.size * tile))
    assert values(product[0]) == values(a)


def same(ours: Layout, theirs: Any) -> bool:
    """Equal as printed; the other writes spaces."""
    return str(ours).replace(",)", ")") == str(theirs).replace(" ", "").replace(",)", ")")


@pytest.mark.oracle
@settings(deadline=None, max_examples=50)
@given(layouts(), layouts(strides=(1, 2, 3, 4, 8)))
@example(Layout((3, 2, 2), (1, 1, 2)), Layout(1, 1))
def test_like_pycute(a: Layout, b: Layout) -> None:
    pycute = pytest.importorskip("pycute")
    first, second = (pycute.Layout(x.shape, x.stride) for x in (a, b))
    compare(pycute, a, b, first, second, exact=True)


@pytest.mark.oracle
@settings(deadline=None, max_examples=50)
@given(layouts(), layouts(strides=(1, 2, 3, 4, 8)))
def test_like_tensor_layouts(a: Layout, b: Layout) -> None:
    other = pytest.importorskip("tensor_layouts")
    first, second = (other.Layout(x.shape, x.stride) for x in (a, b))
    compare(other, a, b, first, second, exact=False)


def compare(other: Any, a: Layout, b: Layout, first: Any, second: Any, exact: bool) -> None:
    assert check(other, lambda: cute.coalesce(a), lambda: other.coalesce(first), exact)
    check(other, lambda: cute.complement(b, 96), lambda: other.complement(second, 96), exact)
    for name in BINARY:
        theirs = getattr(other, "compose" if name == "composition" and not exact else name)
        check(other, lambda name=name: getattr(cute, name)(a, b), lambda theirs=theirs: theirs(first, second), exact)
    offsets = values(a)
    if exact:
        for name in ("right_inverse", "left_inverse"):
            check(other, lambda name=name: getattr(cute, name)(a), lambda name=name: getattr(other, name)(first), exact)
    elif len(set(offsets)) == len(offsets):
        # Inverses agree where the layout has values; beyond them they are free.
        assert check(other, lambda: cute.right_inverse(a), lambda: other.right_inverse(first), exact)
        try:
            ours, theirs = cute.left_inverse(a), other.left_inverse(first)
        except LayoutError:
            return
        assert [ours(x) for x in offsets] == [theirs(x) for x in offsets]


def check(other: Any, ours: Any, theirs: Any, exact: bool) -> bool:
    """Whether the two could be compared, and then they are equal."""
    try:
        expected = theirs()
        size = other.size(expected)
        wanted = [expected(i) for i in range(min(size, 1024))]
    except (AssertionError, ValueError, ZeroDivisionError, IndexError):
        return False
    try:
        found = ours()
    except LayoutError:
        # Ours refuse whatever does not divide, and the complement of what overlaps.
        return False
    assert found.size == size
    assert values(found, len(wanted)) == wanted
    if exact:
        assert same(found, expected)
    return True


PAIRS = [("(8,4):(1,8)", "(2,2):(1,4)"), ("(4,8):(8,1)", "4:2"), ("((2,4),8):((1,16),2)", "(2,4):(8,1)"), ("(6,4):(4,24)", "3:1")]
"""Layouts for which every operation is defined, here and elsewhere."""


@pytest.mark.oracle
@pytest.mark.parametrize("library", ["pycute", "tensor_layouts"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_pairs_that_all_can_compute(library: str, first: str, second: str) -> None:
    """Where the random ones above may be refused, these are compared for every operation."""
    other = pytest.importorskip(library)
    a, b = parse_layout(first), parse_layout(second)
    assert isinstance(a, Layout)
    assert isinstance(b, Layout)
    x, y = (other.Layout(one.shape, one.stride) for one in (a, b))
    exact = library == "pycute"
    for name in BINARY:
        theirs = other.compose if name == "composition" and not exact else getattr(other, name)
        assert check(other, lambda name=name: getattr(cute, name)(a, b), lambda theirs=theirs: theirs(x, y), exact), name
    assert check(other, lambda: cute.complement(b, 96), lambda: other.complement(y, 96), exact)
    assert check(other, lambda: cute.coalesce(a), lambda: other.coalesce(x), exact)


@pytest.mark.oracle
@pytest.mark.parametrize("library", ["pycute", "tensor_layouts"])
@pytest.mark.parametrize("text", ["(8,4):(1,8)", "(4,8):(8,1)", "((2,4),(8,3)):((3,48),(6,1))"])
def test_inverses_that_all_can_compute(library: str, text: str) -> None:
    """Of layouts without gaps; elsewhere libraries differ in what they leave free."""
    other = pytest.importorskip(library)
    a = parse_layout(text)
    assert isinstance(a, Layout)
    x = other.Layout(a.shape, a.stride)
    for name in ("right_inverse", "left_inverse"):
        exact = library == "pycute"
        assert check(other, lambda name=name: getattr(cute, name)(a), lambda name=name: getattr(other, name)(x), exact), name


@pytest.mark.oracle
@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 3), st.integers(0, 1 << 14))
def test_swizzle_like_pycute(bits: int, base: int, more: int, offset: int) -> None:
    pycute = pytest.importorskip("pycute")
    assert Swizzle(bits, base, bits + more)(offset) == pycute.Swizzle(bits, base, bits + more)(offset)


@settings(deadline=None)
@given(layouts())
def test_notation_round_trips(a: Layout) -> None:
    assert parse_layout(str(a)) == a
    composed = ComposedLayout(Swizzle(2, 4, 3), a, 64)
    assert parse_layout(str(composed)) == composed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", "8:1"),
        (" ( 8 , 2 ) : ( 1 , 16 ) ", "(8,2):(1,16)"),
        ("(_8,(_2,_4)):(_1,(_64,_8))", "(8,(2,4)):(1,(64,8))"),
        ("S<3,4,3> o 0 o (8,64):(64,1)", "Swizzle<3,4,3> o (8,64):(64,1)"),
        ("Swizzle<3, 4, 3> o 16 o (8,64):(64,1)", "Swizzle<3,4,3> o 16 o (8,64):(64,1)"),
        ("((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))", "((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))"),
    ],
)
def test_forms_of_the_notation(text: str, expected: str) -> None:
    assert str(parse_layout(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(8,2", "column 5 of '(8,2': expected ',' or ')', found the end"),
        ("(8,2):(1,2) 3", "column 13 of '(8,2):(1,2) 3': expected the end, found '3'"),
        ("(8,2)-", "column 6 of '(8,2)-': expected ':' or the end, found '-'"),
        ("", "column 1 of '': expected an integer, a symbol or '(', found the end"),
        ("(8,2):(1,(2,3))", "shape (8,2) and stride (1,(2,3)) are not nested alike"),
    ],
)
def test_text_that_is_no_layout(text: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(text)
    assert caught.value.diagnostic.message == message


def test_symbols() -> None:
    a = parse_layout("((8,m),(T,2k)):((1T,SBO),(1,LBO))")
    assert isinstance(a, Layout)
    assert a.symbols == {"T", "m", "k", "LBO", "SBO"}
    assert Symbol("T", 1, written=True) == Symbol("T")
    half = a.substitute(T=4, k=2)
    assert str(half) == "((8,m),(4,4)):((4,SBO),(1,LBO))"
    with pytest.raises(LayoutError, match="the layout contains the symbol m"):
        _ = half.size


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda: cute.composition(Layout((6, 2), (8, 2)), Layout(4, 4)), "stride 4 and shape 6 do not divide each other"),
        (lambda: cute.complement(Layout((4, 4), (1, 2)), 64), "has no complement: stride 2 is not a multiple of 4"),
        (lambda: cute.logical_divide(Layout(8), (2, 2)), "2 tilers for the 1 modes of 8:1"),
        (lambda: Layout((8, 2))((1, 2, 3)), "the coordinate (1,2,3) has 3 parts, the layout 2 modes"),
        (lambda: Swizzle(3, 4, 3).recast(6), "elements of 6 bits do not divide the units of a swizzle"),
        (lambda: Swizzle(3, 4, 2), "Swizzle<3,4,2>: bits and base are not negative, and shift is at least bits"),
    ],
)
def test_what_is_not_defined(operation: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        operation()
    assert message in caught.value.diagnostic.message


def rows_of(html: str) -> list[list[str]]:
    return [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_notebooks_show_offsets() -> None:
    html = Layout((4, 3), (1, 10))._repr_html_()
    assert html.startswith("<p><code>(4,3):(1,10)</code></p>")
    assert rows_of(html) == [["", "0", "1", "2"], *([str(i), str(i), str(10 + i), str(20 + i)] for i in range(4))]
    assert rows_of(Layout(3, 5)._repr_html_()) == [["", "0"], ["0", "0"], ["1", "5"], ["2", "10"]]
    swizzled = rows_of(ComposedLayout(Swizzle(1, 2, 3), Layout((8, 8), (8, 1)))._repr_html_())
    assert swizzled[5][1] == "36", "32 ^ 4"
    large = Layout((40, 20), (1, 40))._repr_html_()
    assert rows_of(large)[16][-2:] == ["615", "..."]
    assert large.endswith("<p>40 x 20 coordinates; the first 16 x 16</p>")
    assert "<table>" not in parse_layout("(8,m):(1,SBO)")._repr_html_()
    assert "<table>" not in Layout((2, 2, 2))._repr_html_()
