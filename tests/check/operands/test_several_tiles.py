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
from ptxlab.machine.warp import context_words
from ptxlab.numerics import MmaProgram
from tests.check.race import gemm_kernels
from tests.check.race.test_compiled_arrivals import both_ways, outcome
from tests.end_to_end.triton.cases import CASES
from tests.optimised_helpers import optimise_race_check

TABLE = "_table_of_repetitions"
TURNS, LATE = 16, 10
"""Turns of the loop, and the first one with a mistake."""


@pytest.fixture(autouse=True)
def products(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """The products that handlers have performed; functions are optimised from the start."""
    calls: list[None] = []
    optimise_race_check()
    run = MmaProgram.run

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
    return launch_text(changed, **options)


def launch_text(changed: str, **options: Any) -> Any:
    """What a kernel gives, and whether its product is right."""
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


def test_a_launch_without_checks_after_one_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not find the executions of the one before it, which call functions of observers that are gone."""
    found: list[bool] = []
    table = context_words._table_of_repetitions

    def noted(launch: Any) -> int:
        found.append(bool(launch.host_memory.repetitions._table.any()))
        return table(launch)

    monkeypatch.setattr(context_words, TABLE, noted)
    outcomes = [launch("none", check=check) for check in ("operands", "none", "none", "operands", "none")]
    assert all(each == outcomes[0] for each in outcomes)
    assert found[1:] == [False, True, True, False]


# ---------------------------------------------------------------------------------------------------------- A in tensor memory

CELLS = ", ".join(["%r30"] * 32)
STORED = f"""
    mov.u32 %r30, 0x3c003c00;
    shl.b32 %r31, %r3, 21; add.u32 %r31, %r31, %r4; add.u32 %r31, %r31, 64;
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r31], {{{CELLS}}};
    add.u32 %r31, %r31, 32;
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r31], {{{CELLS}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
"""
SLOT = "    ld.shared.b32 %r4, [slot];\n"
LAST = "[%r4], [%r35], %rd11, %r17, 1;"
COLUMNS = "add.u32 %r33, %r32, 8; add.u32 %r34, %r32, 16; add.u32 %r35, %r32, 24;"


def text_of_tensor_a() -> str:
    """The kernel, whose A are ones in tensor memory that no thread has loaded."""
    found = gemm_kernels.TEXT.replace(FIRST, "")
    found = found.replace(EXPECT, EXPECT.replace("24576", "8192")).replace("[slot], 64;", "[slot], 128;").replace("%r4, 64;", "%r4, 128;")
    found = found.replace(SLOT, SLOT + STORED).replace(DESCRIPTORS, f"{DESCRIPTORS}    add.u32 %r32, %r4, 64; {COLUMNS}\n")
    for number in range(4):
        found = found.replace("[%r4], %rd10, ", f"[%r4], [%r{32 + number}], ", 1)
    return found


ALTERNATE = "and.b32 %r36, %r5, 1; shl.b32 %r36, %r36, 2; " + " ".join(f"add.u32 %r{n}, %r{n}, %r36;" for n in range(32, 36))
MOVES: dict[str, tuple[list[tuple[str, str]], bool]] = {
    "none": ([], False),
    "overlap": ([(COLUMNS, f"{COLUMNS} {IS_LATE} @%p8 sub.u32 %r35, %r35, 4;")], True),
    "each other turn 4 columns further": ([(COLUMNS, f"{COLUMNS} {ALTERNATE}")], False),
    "overlap of products that are known": ([(COLUMNS, f"{COLUMNS} {ALTERNATE} {ONCE} @%p8 add.u32 %r33, %r33, 4;")], True),
    "step over": ([(COLUMNS, f"{COLUMNS} {IS_LATE} @%p8 add.u32 %r35, %r35, 16; @%p8 add.u32 %r34, %r34, 8;")], False),
    "other columns": ([(COLUMNS, f"{COLUMNS} {IS_LATE} @%p8 sub.u32 %r34, %r34, 16; @%p8 sub.u32 %r33, %r33, 8;")], False),
    "stride of B": ([(DESCRIPTORS, f"{DESCRIPTORS}{IS_LATE} @%p8 sub.u64 %rd11, %rd11, 0x400000000;\n")], True),
    "the same B again": ([(LAST, f"{LAST}\n{ONCE} @%p8 tcgen05.mma.cta_group::1.kind::f16 {LAST}")], False),
    "tcgen05.cp": (
        [(DESCRIPTORS, f"{DESCRIPTORS}{ONCE} add.u32 %r36, %r4, 96;\n@%p8 tcgen05.cp.cta_group::1.128x256b [%r36], %rd11;\n")],
        False,
    ),
}
"""What is replaced in the text, and whether the operand check finds something."""


@pytest.mark.parametrize("check", ["all", "operands"])
@pytest.mark.parametrize("name", MOVES)
def test_a_tensor_a(name: str, check: str, products: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    products.clear()
    changed = text_of_tensor_a()
    for old, new in MOVES[name][0]:
        assert changed.count(old) == 1
        changed = changed.replace(old, new)
    found = both_ways(lambda: launch_text(changed, check=check), monkeypatch, TABLE)
    if check == "operands":
        assert bool(found[0]) == MOVES[name][1]
    if name == "none":
        assert not found[0]
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
