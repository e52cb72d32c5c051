"""Products of pixels that copies in im2col mode bring: compiled code that repeats them finds what the handlers find.

The mistakes are in late turns of a loop, when compiled code repeats its products and copies.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.bulk import _tensor
from tests.check.race import gemm_kernels
from tests.check.race.test_compiled_arrivals import both_ways, outcome
from tests.check.race.test_compiled_waits import calls_of

from .test_several_tiles import DESCRIPTORS, FIRST, IS_LATE, LATE, ONCE, TABLE, TURNS, products

__all__ = ["products"]

COLUMNS = """
    shr.u32 %r27, %r17, 7; shl.b32 %r27, %r27, 6; bfe.u32 %r28, %r17, 6, 1; mov.u32 %r29, 0;
    cvt.u16.u32 %h1, %r28;
    cp.async.bulk.tensor.RANKd.shared::cta.global.MODE.mbarrier::complete_tx::bytes
        [%r15], [%rd1, {%r27, %r29, ZEROS}], [%r12], {OFFSETS};
"""
"""A filter of two pixels in a line: one turn for the first one and one for the second one, for each 64 channels."""
IMAGES, WIDTH = 4, 32

MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str]]] = {
    "none": ([], set()),
    "stride": ([(DESCRIPTORS, f"{DESCRIPTORS}{IS_LATE} @%p8 add.u64 %rd10, %rd10, 0x400000000;\n")], {"O101"}),
    "swizzle": ([(DESCRIPTORS, f"{DESCRIPTORS}{IS_LATE} @%p8 xor.b64 %rd10, %rd10, 0x8000000000000000;\n")], {"O101"}),
    "another pixel": ([("cvt.u16.u32 %h1", f"{ONCE} @%p8 xor.b32 %r28, %r28, 1; cvt.u16.u32 %h1")], set()),
    "other channels": ([("cvt.u16.u32 %h1", f"{ONCE} @%p8 add.u32 %r27, %r27, 64; cvt.u16.u32 %h1")], set()),
    "an offset of 40": ([("cvt.u16.u32 %h1", f"{ONCE} @%p8 mov.u32 %r28, 40; cvt.u16.u32 %h1")], set()),
    "a begin outside the bounding box": ([("mov.u32 %r29, 0;", f"mov.u32 %r29, 0; {ONCE} @%p8 mov.u32 %r29, {WIDTH};")], {"D724"}),
}
"""What is replaced in the text, and how the codes begin that are found; with `both_ways` the rest is compared."""


@cache
def kernel(name: str, rank: int, mode: str) -> ptxlab.Kernel:
    text = gemm_kernels.TEXT
    assert text.count(FIRST) == 1
    columns = COLUMNS.replace("RANK", str(rank)).replace("ZEROS", ", ".join(["0"] * (rank - 2))).replace("MODE", mode)
    columns = columns.replace("OFFSETS", f"%h1{', 0' * (rank - 3)}" if mode == "im2col" else "0, %h1")
    text = text.replace(FIRST, columns).replace(".reg .pred", ".reg .b16 %h<2>;\n.reg .pred", 1)
    for old, new in MISTAKES[name][0]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return ptxlab.loads(text, file="convolution.ptx").kernel()


def launch(name: str, rank: int, mode: str, **options: Any) -> Any:
    """What a kernel gives, and whether its product is right."""
    generator = np.random.default_rng(5)
    a = generator.integers(-4, 5, (IMAGES, WIDTH + 1, 32 * TURNS)).astype(np.float16)
    b = generator.integers(-4, 5, (64, 64 * TURNS)).astype(np.float16)
    c = np.zeros((128, 64), np.float16)
    images = a.reshape(IMAGES, *[1] * (rank - 3), *a.shape[1:])
    others = (0,) * (rank - 3)
    columns = ptxlab.TensorMap.im2col(images, lower=(0, *others), upper=(-1, *others), channels=64, pixels=IMAGES * WIDTH, swizzle="128B")
    args = [columns, ptxlab.TensorMap(b, box=(64, 64), swizzle="128B"), ptxlab.TensorMap(c, box=(64, 128)), TURNS]
    result = kernel(name, rank, mode).launch(args=args, shared_bytes=66560, max_instructions=100_000, **options)
    taps = [a[:, tap : tap + WIDTH].reshape(128, -1, 64) for tap in range(2)]
    matrix = np.stack(taps, axis=2).reshape(128, -1)
    return *outcome(result, c.tobytes()), bool((c == (matrix.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)).all())


@pytest.mark.parametrize("check", ["all", "operands", "race", "none"])
@pytest.mark.parametrize(("rank", "mode"), [(3, "im2col"), (5, "im2col"), (4, "im2col::w")])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_convolution(name: str, rank: int, mode: str, check: str, products: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    products.clear()
    handled = calls_of(monkeypatch, _tensor, "_prepare")
    texts, *_, is_right = both_ways(lambda: launch(name, rank, mode, check=check), monkeypatch, TABLE)
    if check == "all":
        too_large = rank == 5 or mode != "im2col"
        codes = {"D724"} if name == "an offset of 40" and too_large else MISTAKES[name][1]
        assert {code for text in texts for code in ("O101", "X103", "D724") if code in text} == codes
    assert is_right is (name == "none")
    if name == "none":
        assert not texts
        assert len(products) < 4 * (TURNS + 6)
        assert len(handled) < 2 * (TURNS + LATE)
