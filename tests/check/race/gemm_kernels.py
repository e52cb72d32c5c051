"""The kernel of ``gemm.ptx`` with its long vectors written out, and a launch of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import ptxlab

LOADED = ", ".join(f"%f{i}" for i in range(64))
CONVERTED = " ".join(f"cvt.rn.f16x2.f32 %o{i}, %f{2 * i + 1}, %f{2 * i};" for i in range(32))
STORED = " ".join(f"st.shared.v4.b32 [%r21+{16 * i}], {{{', '.join(f'%o{4 * i + k}' for k in range(4))}}};" for i in range(8))
TEXT = (Path(__file__).parent / "gemm.ptx").read_text().replace("LOADED", LOADED).replace("CONVERTED", CONVERTED).replace("STORED", STORED)
STEPS = 4
BOX, SWIZZLE = 64, "128B"
"""Columns of the boxes of A and B, and how they are placed."""


def launch(text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    generator = np.random.default_rng(5)
    a, b = (generator.integers(-4, 5, (rows, 64 * STEPS)).astype(np.float16) for rows in (128, 64))
    c = np.zeros((128, 64), np.float16)
    maps = [ptxlab.TensorMap(x, box=(BOX, len(x)), swizzle=SWIZZLE) for x in (a, b)]
    kernel = ptxlab.loads(text, file="gemm.ptx").kernel()
    result = kernel.launch(args=[*maps, ptxlab.TensorMap(c, box=(64, 128)), STEPS], shared_bytes=66560, **options)
    return result, bool((c == (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)).all())
