"""Tensor maps in launch files: what they describe, the exact text of every refusal and its line; the example of the page."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from ptxlab.campaign.arrays import ArrayError, generate
from ptxlab.campaign.launch_file import LaunchFileError, read_launch_file

DOCS = Path(__file__).parents[2] / "docs"
ELEMENTS = "u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32.ftz, tf32, tf32.ftz, b4x16, b4x16_p64, b6x16_p32"
PACK = (
    "NumPy has a byte for each element: pack the codes into an array of uint8 (ptxlab.formats.pack), "
    "with dtype='b4x16' or 'b4x16_p64' and dims"
)
KEYS = "dims, dtype, element_strides, interleave, l2_promotion, oob_fill"


def read(folder: Path, table: str, dtype: str = "float16", shape: str = "256, 128") -> ptxlab.TensorMap:
    """The tensor map of a launch file with an array A. Its table is at line 8."""
    (folder / "launch.toml").write_text(f"""ptx = "k.ptx"

[[arrays]]
name = "A"
array = {{shape = [{shape}], dtype = "{dtype}"}}

# The only argument.
[[args]]    # a tensor map
tensor_map = {{{table}}}
""")
    launch = read_launch_file(folder / "launch.toml")
    (found,) = launch.args
    assert isinstance(found, ptxlab.TensorMap)
    assert found.base is launch.arrays["A"]
    return found


def test_what_a_map_describes(tmp_path: Path) -> None:
    found = read(tmp_path, 'array = "A", box = [64, 32], swizzle = "128B", l2_promotion = "256B", oob_fill = "nan"')
    assert (found.dims, found.strides, found.box, found.dtype) == ((128, 256), (256,), (64, 32), "f16")
    assert (found.swizzle, found.l2_promotion, found.oob_fill, found.interleave) == ("128B", "256B", "nan", "none")
    found = read(tmp_path, 'array = "A", box = [8, 4, 2], dims = [16, 8, 4], strides = [64, 1024], element_strides = [1, 2, 1]')
    assert (found.dims, found.strides, found.element_strides) == ((16, 8, 4), (64, 1024), (1, 2, 1))


@pytest.mark.parametrize(
    ("given", "dtype", "shown"),
    [("float32", "tf32", "tf32"), ("bfloat16", "bf16", "bf16"), ("uint16", "bfloat16", "bf16"), ("float8_e5m2", "uint8", "u8")],
)
def test_the_element_type(tmp_path: Path, given: str, dtype: str, shown: str) -> None:
    assert read(tmp_path, f'array = "A", box = [16, 8], dtype = "{dtype}"', given).dtype == shown


def test_packed_elements(tmp_path: Path) -> None:
    found = read(tmp_path, 'array = "A", box = [128, 8], dtype = "b4x16", dims = [256, 256]', "uint8")
    assert (found.dtype, found.dims, found.strides) == ("b4x16", (256, 256), (128,))


def test_im2col(tmp_path: Path) -> None:
    table = 'array = "A", lower = [-1, -1], upper = [-1, -1], channels = 64, pixels = 32, swizzle = "128B"'
    fields = read(tmp_path, table, shape="2, 8, 8, 64").fields
    assert (fields.im2col, fields.lower, fields.upper, fields.channels, fields.pixels) == (True, (-1, -1), (-1, -1), 64, 32)


REFUSALS = [
    ('array = "A"', "F103", "box must be a list, not nothing", ""),
    ('array = "A", box = 64', "F103", "box must be a list, not 64", ""),
    ("box = [64, 64]", "F103", "array must be a text, not nothing", ""),
    ('array = "B", box = [64, 64]', "F103", "no earlier argument and no table of arrays is named 'B'", ""),
    ('array = "A", box = [8, 8], boxes = 3', "F103", "unknown key 'boxes'", f"known keys: array, box, {KEYS}, strides, swizzle"),
    (
        'array = "A", box = [8, 8], pixels = 3',
        "F103",
        "unknown key 'box'",
        f"known keys: array, channels, {KEYS.replace('oob', 'lower, oob')}, pixels, strides, swizzle, upper",
    ),
    ('array = "A", channels = 3', "F103", "lower must be a list, not nothing", ""),
    ('array = "A", box = [64, 64.5]', "D732", "box: (64, 64.5) is not a sequence of integers", ""),
    ('array = "A", box = [64]', "D732", "box: 1 values for a tensor of 2 dimensions; 2 are needed", ""),
    ('array = "A", box = [64, 512]', "D732", "box[1]: the number is 512; it can be 1 to 256", ""),
    ('array = "A", box = [4, 64]', "D732", "box[0]: 4 elements of f16 are 8 bytes; they must be a multiple of 16 bytes", ""),
    (
        'array = "A", box = [128, 64], swizzle = "128B"',
        "D732",
        "box[0]: 128 elements of f16 are 256 bytes, more than the 128 bytes of 128B swizzling",
        "use at most 64 elements, or a wider swizzling mode",
    ),
    (
        'array = "A", box = [8, 8], swizzle = "128"',
        "D732",
        "swizzle: '128' is not one of none, 32B, 64B, 128B, 128B_32B, 128B_32B_flip_8B, 128B_64B",
        "",
    ),
    (
        'array = "A", box = [8, 8], swizzle = {a = 1}',
        "D732",
        "swizzle: {'a': 1} is not one of none, 32B, 64B, 128B, 128B_32B, 128B_32B_flip_8B, 128B_64B",
        "",
    ),
    ('array = "A", box = [8, 8], interleave = "8B"', "D732", "interleave: '8B' is not one of none, 16B, 32B", ""),
    ('array = "A", box = [8, 8], interleave = "32B"', "D732", "interleave: the last axis has 256 bytes; a slice of channels has 32", ""),
    ('array = "A", box = [8, 8], l2_promotion = "1B"', "D732", "l2_promotion: '1B' is not one of none, 64B, 128B, 256B", ""),
    ('array = "A", box = [8, 8], oob_fill = "ones"', "D732", "oob_fill: 'ones' is not one of none, nan", ""),
    ('array = "A", box = [8, 8], element_strides = [1, 9]', "D732", "element_strides[1]: the traversal stride is 9; it can be 1 to 8", ""),
    (
        'array = "A", box = [8, 8], element_strides = [1]',
        "D732",
        "element_strides: 1 values for a tensor of 2 dimensions; 2 are needed",
        "",
    ),
    ('array = "A", box = [8, 8], dims = [128, 0]', "D732", "dims[1]: the size is 0; it can be 1 to 2^32", ""),
    (
        'array = "A", box = [8, 8], strides = [8]',
        "D732",
        "strides[0]: the stride is 8 bytes; it must be a multiple of 16 below 2^40",
        "align the tensor and its rows to 16 bytes",
    ),
    ('array = "A", box = [8, 8], dtype = "int4"', "D732", f"dtype: int4 is not an element type of tensor maps; they are {ELEMENTS}", PACK),
    ('array = "A", box = [8, 8], dtype = 3', "D732", f"dtype: 3 is not an element type of tensor maps; they are {ELEMENTS}", ""),
    (
        'array = "A", box = [8, 8], dtype = "bf16"',
        "D732",
        "dtype: elements of bf16 over an array of float16: the same bits are other numbers",
        "leave out dtype, or convert the array; to take its bits as bf16, give array.view(np.uint16)",
    ),
    (
        'array = "A", box = [8, 8], dtype = "f32"',
        "D732",
        "dtype: elements of f32 have 4 bytes, those of the array 2; give dims (and strides)",
        "",
    ),
    ('array = "A", box = [8, 8], dtype = "b4x16"', "D732", "dims: elements of b4x16 have 4 bits; give dims (and strides)", ""),
]
OF_OTHER_ARRAYS = [
    ("float16", "256, 250", "strides[0]: the stride is 500 bytes; it must be a multiple of 16 below 2^40"),
    ("float16", "1, 1, 1, 1, 1, 8", "rank: the rank is 6; it can be 1 to 5"),
    ("float4_e2m1fn", "256, 128", f"dtype: float4_e2m1fn is not an element type of tensor maps; they are {ELEMENTS}"),
]


@pytest.mark.parametrize(("table", "code", "message", "fix"), REFUSALS, ids=[table for table, *_ in REFUSALS])
def test_refusals(tmp_path: Path, table: str, code: str, message: str, fix: str) -> None:
    with pytest.raises(LaunchFileError) as caught:
        read(tmp_path, table)
    found = caught.value.diagnostic
    assert (found.code, str(found.place)) == (code, f"{tmp_path / 'launch.toml'}:8:1")
    assert (found.message, found.fix) == (f"args[0]: tensor_map: {message}", fix)


@pytest.mark.parametrize(("dtype", "shape", "message"), OF_OTHER_ARRAYS, ids=[message for *_, message in OF_OTHER_ARRAYS])
def test_refused_arrays(tmp_path: Path, dtype: str, shape: str, message: str) -> None:
    box = ", ".join(["8"] * (shape.count(",") + 1))
    with pytest.raises(LaunchFileError) as caught:
        read(tmp_path, f'array = "A", box = [{box}]', dtype, shape)
    assert caught.value.diagnostic.message == f"args[0]: tensor_map: {message}"


def test_the_fix_for_packed_types(tmp_path: Path) -> None:
    """It names a type with which the map can be made: see `test_packed_elements`."""
    with pytest.raises(ptxlab.descriptors.TensorMapError) as caught:
        ptxlab.TensorMap(np.zeros((64, 64), ml_dtypes.float4_e2m1fn), box=(32, 8))
    assert caught.value.diagnostic.fix == PACK


def test_every_type_of_ml_dtypes() -> None:
    """An array may have each of them, as the page says. The types of 2 bits are the newest that the oldest supported version has."""
    known = {name for name in dir(ml_dtypes) if name.startswith(("bfloat", "float", "int", "uint"))}
    assert known >= {"bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "float6_e2m3fn", "float4_e2m1fn", "int2", "int4", "uint4"}
    for name in known:
        value = 0 if name == "int1" else 1  # int1 holds -1 and 0
        made = generate({"shape": [3], "dtype": name, "fill": "constant", "value": value})
        assert made.dtype == getattr(ml_dtypes, name)
        assert made.astype(np.float32).tolist() == [value] * 3
    for name, reason in (("complex64", "dtype 'complex64' holds no numbers"), ("finfo", "unknown dtype 'finfo'")):
        with pytest.raises(ArrayError, match=reason):
            generate({"shape": [3], "dtype": name})


def test_the_table_of_errors() -> None:
    """The page lists refusals as they are tested here."""
    page = (DOCS / "reference" / "launch-file.md").read_text().partition("### Errors")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+)` \| `(\w+)`: (.+) \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    tested = {(table, code, message) for table, code, message, _ in REFUSALS} | {
        (f"shape = [{s}]", "D732", m) for _, s, m in OF_OTHER_ARRAYS
    }
    assert [row for row in rows if row not in tested] == []
