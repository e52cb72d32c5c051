"""Launch files: what they make, and the exact text of every refusal."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptxlab.campaign.arrays import ArrayError, dtype_of, generate
from ptxlab.campaign.launch_file import LaunchFile, LaunchFileError, read_launch_file
from ptxlab.machine.launch.options import LaunchOptions


def read(folder: Path, text: str) -> LaunchFile:
    path = folder / "launch.toml"
    path.write_text(text)
    return read_launch_file(path)


def refusal(folder: Path, text: str) -> tuple[str, str]:
    with pytest.raises(LaunchFileError) as caught:
        read(folder, text)
    found = caught.value.diagnostic
    assert found.place is not None
    assert found.place.file == str(folder / "launch.toml")
    return found.code, found.message


def test_reads_every_kind_of_argument(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
    launch = read(
        tmp_path,
        """
        ptx = "k.ptx"
        kernel = "k"
        grid = [2, 3]
        block = 64
        cluster = [2, 1, 1]
        check = ["memory"]
        only = [[0, 0, 0]]
        args = [
          {name = "A", array = {shape = [2, 3], dtype = "bfloat16", fill = "arange"}},
          {name = "C", npy = "c.npy"},
          {value = -5, dtype = "i32"}, {value = 2, dtype = "f32"}, {bytes = "00ff"}, {null = true},
        ]
        expect = [{name = "C", equals = "C", exact = true}]
        """,
    )
    a, c, minus_five, two, raw, null = launch.args
    assert (launch.ptx, launch.kernel) == (tmp_path / "k.ptx", "k")
    assert launch.geometry == {"grid": (2, 3), "block": 64, "cluster": (2, 1, 1), "shared_bytes": 0}
    assert launch.options == LaunchOptions(check={"memory"}, only=[(0, 0, 0)])
    assert a.dtype.name == "bfloat16"
    assert a.astype(int).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert c is launch.arrays["C"]
    assert (minus_five, two, raw, null) == (-5, 2.0, b"\x00\xff", None)
    assert isinstance(two, float)


def test_matmul_expectation_is_float64(tmp_path: Path) -> None:
    launch = read(
        tmp_path,
        """
        ptx = "k.ptx"
        args = [
          {name = "A", array = {shape = [4, 8], dtype = "float16", fill = "normal", seed = 1}},
          {name = "B", array = {shape = [5, 8], dtype = "float16", fill = "normal", seed = 2}},
          {name = "C", array = {shape = [4, 5]}},
        ]
        expect = [{name = "C", matmul = ["A", "B"], transpose_b = true, rtol = 1e-3}]
        """,
    )
    (expected,) = launch.expectations
    exact = np.einsum("mk,nk->mn", launch.arrays["A"].astype(float), launch.arrays["B"].astype(float))
    np.testing.assert_allclose(expected.value, exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("ptx = ", "F102", "not TOML: Invalid value (at end of document)"),
        ("grid = 1", "F103", "launch file: ptx must be a text, not nothing"),
        ("ptx = 3", "F103", "launch file: ptx must be a text, not 3"),
        ("ptx = 'a'\nblok = 3", "F103", "launch file: unknown key 'blok'"),
        ("ptx = 'a'\ngrid = true", "F103", "launch file: grid must be a whole number or a list, not True"),
        ("ptx = 'a'\nargs = [3]", "F103", "args[0]: must be a table, not 3"),
        (
            "ptx = 'a'\nargs = [{}]",
            "F103",
            "args[0]: exactly one of array, npy, value, tensor_map, bytes, null says what it is; found none",
        ),
        ("ptx = 'a'\nargs = [{value = 300, dtype = 'u8'}]", "F104", "args[0]: value 300 does not fit u8"),
        ("ptx = 'a'\nargs = [{value = 1.5, dtype = 'i32'}]", "F104", "args[0]: value 1.5 is no whole number, as i32 wants"),
        ("ptx = 'a'\nargs = [{null = false}]", "F103", "args[0]: null can only be true"),
        ("ptx = 'a'\nargs = [{bytes = 'xy'}]", "F103", "args[0]: non-hexadecimal number found in fromhex() arg at position 0"),
        ("ptx = 'a'\nargs = [{npy = 'none.npy'}]", "F104", None),
        ("ptx = 'a'\nargs = [{array = {shape = [-1]}}]", "F104", "args[0]: shape must be a list of at most 16 sizes, not [-1]"),
        (
            "ptx = 'a'\nargs = [{array = {shape = [1000000, 1000000]}}]",
            "F104",
            "args[0]: an array of 4000000000000 bytes is over the limit of 8589934592",
        ),
        (
            "ptx = 'a'\nargs = [{array = {shape = [1], fill = 'gauss'}}]",
            "F104",
            "args[0]: unknown fill 'gauss'; known are normal, uniform, integers, constant, arange",
        ),
        ("ptx = 'a'\narrays = [3]", "F103", "arrays[0]: must be a table, not 3"),
        ("ptx = 'a'\narrays = [{name = 'A'}]", "F103", "arrays[0]: needs a name, and exactly one of array, npy"),
        ("ptx = 'a'\narrays = [{array = {shape = [1]}}]", "F103", "arrays[0]: name must be a text, not nothing"),
        ("ptx = 'a'\narrays = [{name = '', npy = 'x'}]", "F103", "arrays[0]: needs a name, and exactly one of array, npy"),
        ("ptx = 'a'\narrays = [{name = 'A', value = 3}]", "F103", "arrays[0]: needs a name, and exactly one of array, npy"),
        ("ptx = 'a'\narrays = [{name = 'A', npy = 'x', box = 1}]", "F103", "arrays[0]: unknown key 'box'"),
        ("ptx = 'a'\nexpect = [{name = 'C', npy = 'c'}]", "F103", "expect[0]: no argument is named 'C'"),
        ("ptx = 'a'\ncheck = [1]", "A310", "there is no check named '1'"),
        ("ptx = 'a'\nonly = [[1, 2.5]]", "A310", "only takes CTA coordinates (x, y, z), not [1, 2.5]"),
        ("ptx = 'a'\nonly = [[0, 0, 0, 1]]", "A310", "only takes CTA coordinates (x, y, z), not [0, 0, 0, 1]"),
    ],
)
def test_refusals(tmp_path: Path, text: str, code: str, message: str | None) -> None:
    found = refusal(tmp_path, text)
    assert found[0] == code
    assert message is None or found[1] == message


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LaunchFileError) as caught:
        read_launch_file(tmp_path / "none.toml")
    assert caught.value.diagnostic.message == "cannot read the launch file: No such file or directory"


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    args = "{name = 'A', array = {shape = [1]}}, {name = 'A', array = {shape = [1]}}"
    assert refusal(tmp_path, f"ptx = 'a'\nargs = [{args}]") == ("F103", "args[1]: the name 'A' is taken")


def test_expected_shape(tmp_path: Path) -> None:
    args = "{name = 'A', array = {shape = [2]}}, {name = 'B', array = {shape = [3]}}"
    text = f"ptx = 'a'\nargs = [{args}]\nexpect = [{{name = 'A', equals = 'B'}}]"
    assert refusal(tmp_path, text) == ("F104", "expect[0]: the expected shape (3,) is not that of 'A', (2,)")


def test_a_product_of_another_shape_is_not_computed(tmp_path: Path) -> None:
    """It would have 80 GB."""
    text = 'ptx = "k.ptx"\n[[args]]\nname = "A"\narray = {shape = [100000, 2], dtype = "float32"}\n'
    text += '[[expect]]\nname = "A"\nmatmul = ["A", "A"]\ntranspose_b = true\n'
    assert refusal(tmp_path, text) == ("F104", "expect[0]: the expected shape (100000, 100000) is not that of 'A', (100000, 2)")


def test_npy_with_a_type_of_ml_dtypes(tmp_path: Path) -> None:
    """As ``ptxlab run --save`` writes it."""
    array = np.array([0.5, -1.5, 448], ml_dtypes.float8_e4m3fn)
    np.save(tmp_path / "a.npy", array)
    (found,) = read(tmp_path, "ptx = 'a'\nargs = [{name = 'A', npy = 'a.npy', dtype = 'float8_e4m3fn'}]").args
    assert found.dtype == array.dtype
    assert found.tolist() == array.tolist()
    refused = refusal(tmp_path, "ptx = 'a'\nargs = [{npy = 'a.npy', dtype = 'float16'}]")
    assert refused == ("F104", "args[0]: a.npy has elements of 1 bytes, float16 has 2")


def test_npy_is_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([object()], dtype=object), allow_pickle=True)
    code, message = refusal(tmp_path, "ptx = 'a'\nargs = [{npy = 'o.npy'}]")
    assert code == "F104"
    assert "Object arrays cannot be loaded" in message


@pytest.mark.parametrize("name", ["complex64", "object", "U4", "f4,f4", "float128", 3, "nonsense"])
def test_dtypes_that_hold_no_numbers(name: object) -> None:
    with pytest.raises(ArrayError):
        dtype_of(name)


def test_generated_arrays_depend_on_the_seed_alone() -> None:
    spec = {"shape": [64], "dtype": "float16", "fill": "normal", "seed": 7, "scale": 0.5}
    first, second = generate(spec), generate(spec)
    assert (first == second).all()
    assert (first != generate(spec | {"seed": 8})).any()
    assert abs(float(first.astype(np.float64).std()) - 0.5) < 0.2
