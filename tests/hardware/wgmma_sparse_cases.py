"""What `record_wgmma_sparse` runs: sparse wgmma with both selectors, any descriptors, transposed operands, negation.

Shared memory, descriptors and registers are all a case says: nothing here knows which matrix element is where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxlab.silicon.parts import wgmma

from . import wgmma_cases as wild

__all__ = ["FORMS", "IMAGE", "Form", "inputs", "operands", "ptx"]

U32 = NDArray[np.uint32]
IMAGE = 1 << 15
THREADS = 128
CODES = (4, 6, 8, 9, 12, 13, 14)


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async.sp with N = 8. ``transposed`` and ``scale`` are the immediates for A and B."""

    d: str
    a: str
    b: str
    selector: int
    registers: bool
    transposed: tuple[int, int] = (0, 0)
    scale: tuple[int, int] = (1, 1)
    swizzles: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        flags = ("registers." if self.registers else "") + "".join(map(str, (*self.transposed, *self.swizzles)))
        return f"{self.d}.{self.a}.{self.b}.{self.selector}.{flags}.{self.scale[0]}.{self.scale[1]}"

    @property
    def count(self) -> int:
        """Registers of D in a thread."""
        return 2 if self.d == "f16" else 4


def _forms() -> list[Form]:
    found = []
    for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32")):
        for selector in (0, 1):
            for swizzle in range(4):
                found.append(Form(d, a, a, selector, False, swizzles=(swizzle, 3 - swizzle)))
            found.append(Form(d, a, a, selector, True, swizzles=(0, 1 + selector), scale=(-1, 1)))
            if a != "tf32":
                found += [Form(d, a, a, selector, False, t, (1, -1), (s, (s + 1) % 4)) for t in ((0, 1), (1, 0), (1, 1)) for s in range(4)]
                found += [Form(d, a, a, selector, True, (0, 1), swizzles=(0, s)) for s in range(4)]
    found += [
        Form("f32", a, b, 0, registers, swizzles=(1, 2)) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for registers in (False, True)
    ]
    found += [Form("s32", a, b, 0, registers, swizzles=(3, 0)) for a in ("s8", "u8") for b in ("s8", "u8") for registers in (False, True)]
    return found


FORMS = _forms()


def inputs() -> dict[str, NDArray[np.uint8] | U32]:
    """Shared memory for each type of A, A in registers, C, metadata, and two descriptors for each form without their start."""
    rng = np.random.default_rng(71)
    pools: dict[str, NDArray[np.uint8] | U32] = {}
    for fmt, bits in wild.BITS.items():
        for name, size in (("image", IMAGE), ("registers", 16 * THREADS)):
            codes = wild._codes(rng, fmt, (1, 8 * size // bits), 0)
            pools[f"{name}/{fmt}"] = np.ascontiguousarray(codes).view(np.uint8)[0]
    for fmt in ("f32", "f16"):
        pools[f"C/{fmt}"] = np.ascontiguousarray(wild._codes(rng, fmt, (1, 4 * THREADS * (1 if fmt == "f32" else 2)), 0)).view(np.uint32)
    pools["C/s32"] = rng.integers(0, 1 << 32, 4 * THREADS, dtype=np.uint64).astype(np.uint32)
    for name, choice in (("metadata", CODES), ("metadata/tf32", (4, 14))):
        nibbles = rng.choice(choice, (THREADS, 8)).astype(np.uint32)
        pools[name] = (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(axis=1, dtype=np.uint32)
    # Leading and stride byte offsets up to 1 KiB, starts in the first 8 KiB: no operand leaves the image.
    pools["descriptors"] = rng.integers(1, 64, (len(FORMS), 2, 3)).astype(np.uint32)
    return pools


def operands(form: Form, number: int, pools: Mapping[str, NDArray[np.uint8] | U32]) -> list[NDArray[np.uint8] | U32 | NDArray[np.uint64]]:
    """Image, descriptors relative to it, C, A in registers, metadata."""
    layout = {0: 0, 1: 3, 2: 2, 3: 1}
    rows = np.asarray(pools["descriptors"])[number].astype(np.uint64)
    codes = np.array([layout[s] for s in form.swizzles], np.uint64)
    made = rows[:, 0] * np.uint64(8) | rows[:, 1] << np.uint64(16) | rows[:, 2] << np.uint64(32) | codes << np.uint64(62)
    c = np.asarray(pools[f"C/{form.d}"]).ravel()[: form.count * THREADS]
    metadata = pools["metadata/tf32" if form.a == "tf32" else "metadata"]
    image = np.asarray(pools[f"image/{form.a}"])
    if form.b != form.a:
        image = np.where(np.arange(IMAGE) % 2, image, np.asarray(pools[f"image/{form.b}"])).astype(np.uint8)
    return [image, made, np.ascontiguousarray(c), np.asarray(pools[f"registers/{form.a}"]), metadata]


def ptx(form: Form) -> str:
    """One warpgroup: the image to shared memory, the registers of C, A and metadata, one multiplication, the registers of D."""
    made = wgmma.Form(form.d, form.a, form.b, 8, True, form.selector, form.registers, form.transposed, form.scale)
    return wgmma.kernel(made, IMAGE, ".version 8.4\n.target sm_90a\n.address_size 64\n")
