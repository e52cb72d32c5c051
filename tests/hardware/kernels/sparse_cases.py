"""The GEMMs of ``sparse.cu``: A [64, K / 2] of stored elements, metadata of every pattern that the instructions allow."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.hardware.kernels.case_helpers import case
from tests.hardware.kernels.gemm_cases import INF, NAN, SIZES
from tests.hardware.kernels.inputs import below_two, full, integers, ordinary, special
from tests.hardware.suite._kernel import Kernel

STEPS = 3
PATTERNS = {"tf32": (4, 14)}
"""Nibbles of metadata; of the other types those of two indices in ascending order."""
FORMS = (
    "f32_f16", "f16_f16", "f32_bf16", "f32_tf32", "f32_e4m3_e4m3", "f32_e5m2_e4m3", "f16_e4m3_e5m2", "f16_e5m2_e5m2", "s32_s8_s8",
    "s32_u8_s8_satfinite",
)  # fmt: skip


def sparse(form: str, registers: bool, inputs: str) -> Kernel:
    d, a, *others = form.removesuffix("_satfinite").split("_")
    b = others[0] if others else a
    wide: Any = full if form in ("f32_f16", "f32_e4m3_e4m3") else below_two  # so that not all sums are infinite
    make = wide if inputs == "full" else ordinary
    A = make(11, a, 64, STEPS * 64 // SIZES[a])
    B = make(12, b, 64, STEPS * 128 // SIZES[b])
    if inputs == "special":
        special(A, a, {(3, 5): NAN, (40, 7): INF if a != "e4m3" else NAN, (41, 9): 0.0})
        special(B, b, {(9, 3): NAN, (17, 7): 0.0, (30, 13): -INF if b != "e4m3" else NAN})
    nibbles = np.array(PATTERNS.get(a, (4, 8, 9, 12, 13, 14)), np.uint32)[integers(13, 0, 2 if a == "tf32" else 6, 2 * STEPS, 128, 8)]
    metadata = (nibbles << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    D = np.zeros((16 if d == "f16" else 32, 128), np.uint32)
    entry = f"sparse_{form}" + ("_registers" if registers else "")
    return case("sparse", entry, [A, B, metadata, D, STEPS], [D], inputs=inputs, block=128)


def kernels() -> list[Kernel]:
    kinds = {form: ("",) if re.search("8", form) else ("", "full", "special") for form in FORMS}
    return [sparse(form, registers, inputs) for form in FORMS for registers in (False, True) for inputs in kinds[form]]
