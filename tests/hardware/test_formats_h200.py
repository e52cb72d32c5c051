"""`formats` against the conversions of an H200: every recorded ``cvt`` to and from the types of the tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.formats import decode, encode

from .scalar_forms import Form, forms
from .test_scalar_h200 import record, recorded

TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
SOURCES = ("f32", "f64", "f16", "bf16")
ROUNDINGS = ("rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")


def parts(form: Form) -> tuple[list[str], str, str]:
    """Modifiers, destination and source, of single elements."""
    words = form.opcode.split(".")
    return words[1:-2], *(word.removesuffix("x2") for word in words[-2:])  # type: ignore[return-value]


def halves(words: NDArray[Any], bits: int) -> NDArray[Any]:
    return np.stack([words >> np.uint64(bits), words & np.uint64((1 << bits) - 1)], axis=-1)


def is_encoding(form: Form) -> bool:
    if not form.opcode.startswith("cvt."):
        return False
    modifiers, to, source = parts(form)
    # Between the same types it rounds to an integral value.
    return (
        to in TYPES and source in SOURCES and to != source and modifiers[:1] != [] and modifiers[0] in ROUNDINGS and "ftz" not in modifiers
    )


def is_decoding(form: Form) -> bool:
    return form.opcode in ("cvt.rn.f16x2.e4m3x2", "cvt.rn.f16x2.e5m2x2", "cvt.f32.f16", "cvt.f32.bf16")


def source_values(form: Form, source: str) -> NDArray[np.float64]:
    """Values in the order of the destination's elements, the high one first."""
    columns = []
    for position, kind in enumerate(form.sources):
        raw = record()[f"in_{kind}_{position}"].astype(np.uint64)
        columns += list(halves(raw, 16).T) if kind.endswith("x2") else [raw]
    raw = np.stack(columns, axis=-1)
    if source == "f64":
        return raw.view(np.float64)
    with np.errstate(invalid="ignore"):
        return decode(raw.astype(np.uint32 if source == "f32" else np.uint16), source).astype(np.float64)


@pytest.mark.parametrize("form", [form for form in forms() if is_encoding(form)], ids=lambda form: form.opcode)
def test_encode(form: Form) -> None:
    modifiers, to, source = parts(form)
    x = source_values(form, source)
    saturation: Any = "finite" if "satfinite" in modifiers else "unit" if "sat" in modifiers and to not in ("s8", "u8") else False
    ours = encode(x, to, modifiers[0], saturation, relu="relu" in modifiers)  # type: ignore[arg-type]
    words = dict(recorded())[form].astype(np.uint64)
    bits = {"tf32": 32, "f16": 16, "bf16": 16}.get(to, 8)
    expected = halves(words, bits) if x.shape[-1] == 2 else words[:, None] & np.uint64((1 << bits) - 1)
    # Values have no payload: of a NaN in f64, and in cvt.rna, which adds to the bits, silicon keeps some of it.
    same = ~np.isnan(x) if source == "f64" or "rna" in modifiers else np.ones(x.shape, np.bool_)
    assert np.array_equal(ours[same], expected[same])
    assert same.mean() > 0.9


@pytest.mark.parametrize("form", [form for form in forms() if is_decoding(form)], ids=lambda form: form.opcode)
def test_decode(form: Form) -> None:
    _, to, source = parts(form)
    raw = record()[f"in_{form.sources[0]}_0"].astype(np.uint64)
    codes = halves(raw, 8).astype(np.uint8) if source in ("e4m3", "e5m2") else raw.astype(np.uint16)
    words = dict(recorded())[form].astype(np.uint64)
    with np.errstate(invalid="ignore"):
        expected = decode(halves(words, 16).astype(np.uint16) if to == "f16" else words.astype(np.uint32), to)
        assert np.array_equal(decode(codes, source), expected, equal_nan=True)
