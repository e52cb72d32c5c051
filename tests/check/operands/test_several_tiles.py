"""Products of operands that lie in several tiles, and of CTA pairs: compiled code that repeats them finds what the handlers find.

The mistakes are in late turns of a loop, when compiled code repeats its products and copies.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.check.race.shadow import shadow
from ptxlab.numerics import MmaProgram
from tests.check.race import gemm_kernels
from tests.check.race.test_compiled_arrivals import both_ways, outcome
from tests.end_to_end.triton.cases import CASES

TABLE = "_table_of_repetitions"
TURNS, LATE = 16, 10
"""Turns of the loop, and the first one with a mistake."""


@pytest.fixture(autouse=True)
def products(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """The products that handlers have performed; functions are optimised from the start."""
    calls: list[None] = []
    functions, run = shadow._functions(), MmaProgram.run
    if functions.are_quick:
        functions.optimise()

    def counted(*given: Any) -> Any:
        calls.append(None)
        return run(*given)

    monkeypatch.setattr(MmaProgram, "optimised", True)
    monkeypatch.setattr(MmaProgram, "run", counted)
    return calls


# ------------------------------------------------------------------------------------------------------------- A in two boxes

BOX_A = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [{to}], [%rd{map}, {{%r17, %r{row}}}], [%r12];"
FIRST, SECOND = BOX_A.format(to="%r15", map=1, row=18), BOX_A.format(to="%r24", map=1, row=25)
IS_LATE = f"setp.ge.u32 %p8, %r5, {LATE};"
ONCE = f"setp.eq.u32 %p8, %r5, {LATE};"
WAIT_FULL = "    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r12], %r14;\n    @!%p4 bra WAIT_FULL;\n"
RELAXED = f"RELAXED:\n{WAIT_FULL.replace('parity', 'parity.relaxed.cta').replace('WAIT_FULL', 'RELAXED')}"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 24576;"
LESS = f"{ONCE} mov.u32 %r26, 24576; @%p8 mov.u32 %r26, 16384; {EXPECT.replace('24576', '%r26')}"
DESCRIPTORS = "    mov.u32 %r17, 0x08100010;\n"


def text() -> str:
    """The kernel, whose A comes in two boxes of 64 rows."""
    found = gemm_kernels.TEXT
    assert found.count(FIRST) == 1
    return found.replace(FIRST, f"{FIRST}\n    add.u32 %r24, %r15, 8192; mov.u32 %r25, 64;\n    {SECOND}")


MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str]]] = {
    "none": ([], set()),
    "stride": ([(DESCRIPTORS, f"{DESCRIPTORS}{IS_LATE} @%p8 add.u64 %rd10, %rd10, 0x400000000;\n")], {"O101"}),
    "swizzle": ([(DESCRIPTORS, f"{DESCRIPTORS}{IS_LATE} @%p8 xor.b64 %rd10, %rd10, 0x8000000000000000;\n")], {"O101"}),
    "begins in the second tile": ([(DESCRIPTORS, f"{DESCRIPTORS}{IS_LATE} @%p8 add.u64 %rd10, %rd10, 512;\n")], set()),
    "waits without an order": ([(WAIT_FULL, f"{ONCE} @%p8 bra RELAXED;\n{WAIT_FULL}bra GO;\n{RELAXED}GO:\n")], {"X103"}),
    "only one is copied": ([(SECOND, f"@!%p8 {SECOND}"), (EXPECT, LESS)], {"O101"}),
    "other rows": ([(SECOND, f"{ONCE} @%p8 mov.u32 %r25, 0;\n{SECOND}")], set()),
    "another k": ([(SECOND, f"{ONCE} @%p8 add.u32 %r17, %r17, 64;\n{SECOND}")], {"O101"}),
    "exchanged": ([(SECOND, f"{ONCE} @%p8 sub.u32 %r24, %r24, 8192;\n{SECOND}")], {"X103", "O101"}),
    "another array": ([(SECOND, f"{ONCE} @!%p8 bra OWN;\n{BOX_A.format(to='%r24', map=2, row=18)}\nbra GO;\nOWN: {SECOND}\nGO:")], set()),
    "a box over both": ([(SECOND, f"{ONCE} @%p8 sub.u32 %r24, %r24, 1024;\n{SECOND}")], {"X103"}),
}
"""What is replaced in the text, and how the codes begin that are found; with `both_ways` the rest is compared."""


def launch(name: str, **options: Any) -> Any:
    changed = text()
    for old, new in MISTAKES[name][0]:
        assert changed.count(old) == 1
        changed = changed.replace(old, new)
    generator = np.random.default_rng(5)
    a, b = (generator.integers(-4, 5, (rows, 64 * TURNS)).astype(np.float16) for rows in (128, 64))
    c = np.zeros((128, 64), np.float16)
    maps = [ptxlab.TensorMap(x, box=(64, 64), swizzle="128B") for x in (a, b)]
    args = [*maps, ptxlab.TensorMap(c, box=(64, 128)), TURNS]
    result = kernel_of(changed).launch(args=args, shared_bytes=66560, max_instructions=100_000, **options)
    return *outcome(result, c.tobytes()), bool((c == (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)).all())


@cache
def kernel_of(changed: str) -> ptxlab.Kernel:
    return ptxlab.loads(changed, file="gemm.ptx").kernel()


@pytest.mark.parametrize("check", ["all", "operands", "race"])
@pytest.mark.parametrize("name", MISTAKES)
def test_an_operand_in_two_tiles(name: str, check: str, products: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    products.clear()
    texts, *_, is_right = both_ways(lambda: launch(name, check=check), monkeypatch, TABLE)
    if check == "all":
        assert {code for text in texts for code in ("O101", "X103") if code in text} == MISTAKES[name][1]
    if name == "none":
        assert is_right
        assert not texts
        assert len(products) < 4 * (TURNS + 6)


# ---------------------------------------------------------------------------------------------------------------- CTA pairs

NAME = "gl_mm_2cta_fp16"
PTX = Path(__file__).parents[2] / "end_to_end" / "triton" / f"{NAME}.ptx"
PRODUCT = "mov.b32 \t%r408, 270598160;"
COPY_B = "@%p33 cp.async.bulk.tensor"
IS_LATE_K, ONCE_K = f"setp.ge.s32 %p2, %r410, {64 * LATE};", f"setp.eq.s32 %p2, %r410, {64 * LATE};"
ONE_CTA = "setp.ne.b32 %p3, %r5, 0; and.pred %p2, %p2, %p3;"
PAIRS: dict[str, tuple[list[tuple[str, str]], bool]] = {
    "none": ([], False),
    "stride": ([(PRODUCT, f"{PRODUCT} {IS_LATE_K} @%p2 add.u64 %rd8, %rd8, 0x400000000;")], True),
    "swizzle": ([(PRODUCT, f"{PRODUCT} {IS_LATE_K} @%p2 xor.b64 %rd11, %rd11, 0x8000000000000000;")], True),
    "the same again": ([(PRODUCT, f"{PRODUCT} {IS_LATE_K} @%p2 mov.b64 %rd8, %rd6; @%p2 mov.b64 %rd9, %rd7;")], False),
    "another place in one CTA": ([(COPY_B, f"{ONCE_K} {ONE_CTA} @%p2 sub.u32 %r24, %r24, 4096;\n{COPY_B}")], True),
    "another k in one CTA": ([(COPY_B, f"{ONCE_K} {ONE_CTA} @%p2 add.u32 %r36, %r36, 64;\n{COPY_B}")], False),
}
"""What is replaced in the text, and whether something is found."""


@pytest.mark.parametrize("check", ["all", "operands"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_cta_pair(name: str, check: str, products: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    family, changed = CASES[NAME], PTX.read_text()
    for old, new in PAIRS[name][0]:
        assert changed.count(old) == 1
        changed = changed.replace(old, new)
    kernel = ptxlab.loads(changed).kernel()
    case = family.make(**next(iter(family.sizes.values())) | {"k": 64 * TURNS})
    before = {each: array.copy() for each, array in case.outputs.items()}

    def run(workers: int = 1) -> Any:
        for each, array in case.outputs.items():
            array[...] = before[each]
        result = kernel.launch(**case.geometry(), args=[*case.args, *case.scratch()], check=check, workers=workers)
        return outcome(result, [array.tobytes() for array in case.outputs.values()])

    products.clear()
    texts, *_ = found = both_ways(run, monkeypatch, TABLE)
    assert bool(texts) == PAIRS[name][1]
    clusters = int(np.prod(case.programs))
    if name == "none":
        assert len(products) < clusters * 4 * (TURNS + 8)
    if check == "all":
        assert run(workers=2) == found
