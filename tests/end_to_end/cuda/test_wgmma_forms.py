"""wgmma of all columns and types, dense and sparse, in kernels of CUDA C++: ``wgmma_forms.cu``, compiled here.

Places are written out from the tables of the ISA and products are of small integers, so that nothing of ptxlab is in what is expected.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc
from tests.end_to_end.schedule_helpers import Schedules, in_turn
from tests.isa.wgmma.test_sparse import CODES, metadata_words

FOLDER = Path(__file__).parent
IMAGE, BASE, B_START, MOST = 40 << 10, 0x400, 8 << 10, 128
FORM = re.compile(
    r'(?P<columns>\w+)_N\((?P<name>\w+), "(?P<sparse>[.sp]*)", "k\d+\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)(?P<saturate>\.satfinite)?[\w.]*",'
    r' \w+, A_(?P<place>\w+), [A-Z]+_?(?P<selector>\d?), "(?:, (?P<sign_a>-?1), (?P<sign_b>-?1))?'
)
FORMS = {m["name"]: m for m in map(FORM.match, (FOLDER / "wgmma_forms.inc").read_text().splitlines()) if m}
COLUMNS = {"EVERY": range(8, 257, 8), "INTEGER": (8, 16, 24, *range(32, 257, 16))}
DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "f32": np.float32,
    "s32": np.int32,
}
PAIRS = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3), 6: (2, 1)}
"""Code of a chunk of four -> the positions of the two elements that are stored."""

Array = NDArray[Any]


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(FOLDER / "wgmma_forms.cu", arch="sm_90a", fmad=False)


def integers(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Array:
    if kind == "b1":
        return rng.integers(0, 2, shape)
    return rng.integers(0 if kind == "u8" else -2, 3, shape)


def in_rows(matrix: Array, kind: str) -> NDArray[np.uint8]:
    """Rows of bytes."""
    if kind == "b1":
        return np.packbits(matrix.astype(np.uint8), axis=1, bitorder="little")
    return matrix.astype(DTYPES[kind]).view(np.uint8).reshape(len(matrix), -1)


def place(image: NDArray[np.uint8], rows: NDArray[np.uint8], start: int) -> int:
    """The rows, 128 bytes apart with 128B swizzling, and their descriptor: 16-byte piece c of row r stands at c ^ r % 8."""
    r, byte = np.meshgrid(np.arange(len(rows)), np.arange(rows.shape[1]), indexing="ij")
    image[start + 128 * r + 16 * (byte // 16 ^ r % 8) + byte % 16] = rows
    return (BASE + start) >> 4 | 1 << 16 | 1024 >> 4 << 32 | 1 << 62


def expand(stored: Array, codes: NDArray[np.uint8], kind: str) -> Array:
    """A sparse matrix in full: one element of two for tf32, two of four for the others."""
    full = np.zeros((len(stored), 2 * stored.shape[1]), stored.dtype)
    if kind == "tf32":
        position = 2 * np.arange(stored.shape[1]) + (codes == 14)
    else:
        pairs = np.array([PAIRS.get(code, (0, 0)) for code in range(16)])[codes]
        position = (4 * np.arange(codes.shape[1])[:, None] + pairs).reshape(stored.shape)
    np.put_along_axis(full, position, stored, axis=1)
    return full


def place_accumulators(held: NDArray[np.uint32], values: Array, d: str) -> None:
    """Write a matrix to the registers [thread, register]: those of f16 hold two elements."""
    thread, i = np.meshgrid(np.arange(128), np.arange(values.shape[1] // 2), indexing="ij")
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
    found = values[row, 8 * (i // 4) + 2 * (thread % 4) + i % 2]
    if d == "s32":
        held[thread, i] = found.astype(np.int64).astype(np.uint32)
    else:
        word = np.uint32 if d == "f32" else np.uint16
        held.view(word)[thread, i] = (found + 0.0).astype(DTYPES[d]).view(word)


def fragments(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The four registers of A in each thread."""
    thread, i = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i % 2)
    return np.ascontiguousarray(rows).view(np.uint32)[row, thread % 4 + 4 * (i // 2)]


def check(name: str, n: int, schedules: Schedules = in_turn) -> None:
    form = FORMS[name]
    a, b, d, sparse = form["a"], form["b"], form["d"], bool(form["sparse"])
    rng = np.random.default_rng(crc32(f"{name} {n}".encode()))
    stored = 256 if a == "b1" else 32 // np.dtype(DTYPES[a]).itemsize
    few, B = integers(rng, a, (64, stored)), integers(rng, b, (n, stored * (1 + sparse)))
    A, words = few, np.zeros(128, np.uint32)
    if sparse:
        codes = rng.choice([4, 14] if a == "tf32" else CODES, (64, stored if a == "tf32" else stored // 2)).astype(np.uint8)
        A, words = expand(few, codes, a), metadata_words(codes, 8 * np.dtype(DTYPES[a]).itemsize, int(form["selector"]), rng)
    C = rng.integers(-50, 50, (64, n))
    if d == "s32":
        C += rng.choice([0, 2**31 - 51, 50 - 2**31], C.shape)
    image = np.zeros(IMAGE, np.uint8)
    places = place(image, in_rows(few, a), 0), place(image, in_rows(B, b), B_START)
    if form["place"] == "REGISTERS":
        image[:B_START], places = rng.integers(0, 256, B_START), (0, places[1])
    held = rng.integers(0, 1 << 32, (128, MOST), np.uint64).astype(np.uint32)
    place_accumulators(held, C, d)
    accumulate = bool(rng.integers(4))
    D = (C if accumulate else 0) + int(form["sign_a"] or 1) * int(form["sign_b"] or 1) * (A @ B.T)
    if form["saturate"]:
        D = np.clip(D, -(2**31), 2**31 - 1)
    want = held.copy()
    place_accumulators(want, D, d)
    args = [n, image, np.array(places, np.uint64).tobytes(), fragments(in_rows(few, a)), words, int(accumulate)]
    for schedule in schedules(n // 8):
        found = held.copy()
        done = module()[name].launch(grid=1, block=128, shared_bytes=IMAGE, args=[*args, found], **schedule)
        assert not done.diagnostics
        assert np.array_equal(found, want), np.argwhere(found != want)[:4].tolist()


def some_columns(name: str) -> list[int]:
    """Of each kernel the fewest, the most or 24, and others that are no power of two; of all kernels together every number."""
    every = list(COLUMNS[FORMS[name]["columns"]])
    first = list(FORMS).index(name)
    return sorted({(8, 24, 256)[first % 3], every[first % len(every)], every[(first + len(every) // 2) % len(every)]})


@pytest.mark.parametrize("name", FORMS)
def test_some_columns(name: str, schedules: Schedules) -> None:
    for n in some_columns(name):
        check(name, n, schedules)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_all_columns(name: str) -> None:
    for n in COLUMNS[FORMS[name]["columns"]]:
        check(name, n)


def test_some_columns_are_all_columns_together() -> None:
    assert {n for name in FORMS for n in some_columns(name)} == set(COLUMNS["EVERY"])
