"""Expressions of sizes in launch files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.campaign._sizes import SizeError, evaluate
from ptxlab.campaign.launch_file import LaunchFileError, read_launch_file
from tests.campaign.campaign_helpers import LAUNCH, write

numbers = st.integers(-(1 << 20), 1 << 20)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Sums, products and quotients of M, N and numbers, in parentheses."""
    leaves = st.one_of(st.sampled_from(["M", "N"]), numbers.map(str))
    operators = st.sampled_from(["+", "-", "*", "//", "%"])
    return draw(st.recursive(leaves, lambda e: st.tuples(e, operators, e).map("({0[0]} {0[1]} {0[2]})".format)))


@given(expressions(), numbers, numbers)
def test_expressions_have_the_values_of_python(text: str, m: int, n: int) -> None:
    try:
        expected = eval(text, {"__builtins__": {}}, {"M": m, "N": n})
    except ZeroDivisionError:
        expected = None
    try:
        assert evaluate(text, {"M": m, "N": n}) == expected
    except SizeError as error:
        assert expected is None or len(text) > 200 or "64 bits or larger" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "value"), [("cdiv(300, 128)", 3), ("cdiv(256, 128)", 2), ("max(M, 7)", 7), ("min(M, 7)", 5), ("-M + 8", 3), (" M ", 5)]
)
def test_functions(text: str, value: int) -> None:
    assert evaluate(text, {"M": 5}) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("K", "there is no size named 'K'; the file has M"),
        ("M / 2", "'M / 2': sizes are computed with + - * // % and cdiv, min, max of two values"),
        ("M ** 9", "'M ** 9': sizes are computed with + - * // % and cdiv, min, max of two values"),
        ("__import__('os')", "\"__import__('os')\": sizes are computed with + - * // % and cdiv, min, max of two values"),
        ("max(1, 2, 3)", "'max(1, 2, 3)': sizes are computed with + - * // % and cdiv, min, max of two values"),
        ("True", "'True': sizes are computed with + - * // % and cdiv, min, max of two values"),
        ("M //", "'M //' is no expression of sizes"),
        ("M % (M - 5)", "'M % (M - 5)' divides by zero"),
        ("99999999999 * 99999999999", "'99999999999 * 99999999999' is 64 bits or larger"),
        ("1+" * 100 + "1", "the expression has more than 200 characters"),
    ],
)
def test_refused_expressions(text: str, message: str) -> None:
    with pytest.raises(SizeError) as caught:
        evaluate(text, {"M": 5})
    assert str(caught.value) == message


def test_sizes_of_a_launch_file(tmp_path: Path) -> None:
    path = write(tmp_path) / "double.toml"
    own, given = read_launch_file(path), read_launch_file(path, sizes={"N": 1000}, seed=1)
    assert (own.geometry["grid"], own.arrays["x"].shape, own.args[2]) == (2, (256,), 256)
    assert (given.geometry["grid"], given.arrays["x"].shape, given.args[2]) == (8, (1000,), 1000)
    assert not (own.arrays["x"] == given.arrays["x"][:256]).any()
    assert given.launch().ok
    assert (given.arrays["y"] == 2 * given.arrays["x"]).all()


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        (LAUNCH.replace("cdiv(N", "cdiv(M"), {}, "grid: there is no size named 'M'; the file has N"),
        (LAUNCH.replace("{N = 256}", "{N = 1.5}"), {}, "sizes: N must be a whole number, not 1.5"),
        (LAUNCH.replace("{N = 256}", "{'N N' = 1}"), {}, "sizes: 'N N' cannot be the name of a size"),
        (LAUNCH, {"M": 1}, "sizes: unknown key 'M'"),
    ],
)
def test_refused_sizes(text: str, sizes: dict[str, int], message: str, tmp_path: Path) -> None:
    path = tmp_path / "double.toml"
    path.write_text(text)
    with pytest.raises(LaunchFileError) as caught:
        read_launch_file(path, sizes=sizes)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("F103", message)
