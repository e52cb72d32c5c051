"""tcgen05: tensor memory, its allocation, and what moves data to it and from it."""

from __future__ import annotations

from itertools import chain

from tests.check.race.order_table.frames import PAIR_OF_CTAS
from tests.check.race.order_table.pair import Pair

ALLOCATION = "Tensor Memory Allocation and Management Instructions"
WAIT = "tcgen05.wait instruction based completion mechanism"
COMMIT = "mbarrier based completion mechanism"
PROXY = "Shared Memory Accesses"
FENCE = "Specialized Inter-thread Synchronization for tcgen05 instructions"
BLOCK = {"block": 128}


def vector(count: int, register: str = "") -> str:
    """So many registers: %r0 and on, or one again and again."""
    return "{" + ", ".join(register or f"%r{i}" for i in range(count)) + "}"


# 512 columns, the first 384 of which have values; %at is the first column in the lanes of the warp. 16 KiB of shared memory have values.
INIT = "@%first mbarrier.init.shared::cta.b64 [%mbar], 1;\n"
ADDRESS = "ld.shared.b32 %tmem, [tensor_slot];\nand.b32 %at, %warp, 3;\nshl.b32 %at, %at, 21;\nadd.u32 %at, %at, %tmem;\n"
FILL_TENSOR = (
    "mov.b32 %r127, 0x44444444;\n"
    + "".join(f"add.u32 %t, %at, {at};\ntcgen05.st.sync.aligned.32x32b.x128.b32 [%t], {vector(128, '%r127')};\n" for at in (0, 128, 256))
    + "tcgen05.wait::st.sync.aligned;\n"
)
FILL_SHARED = "@%first st.bulk.shared::cta [%smem], 16384, 0;\nfence.proxy.async.shared::cta;\n"
MEET = "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n"
ALLOC = "@%warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tensor_slot], 512;\n"
DEALLOC = "@%warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 512;"
START = ALLOC + INIT + MEET + ADDRESS + FILL_TENSOR + MEET
END = "\n" + MEET + DEALLOC
MEET_PAIR = "tcgen05.fence::before_thread_sync;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\ntcgen05.fence::after_thread_sync;\n"

# ------------------------------------------------------------------------------------------------------------ tcgen05.ld and .st
SHAPES = {"32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32), "16x32bx2": (1, 128)}
"""Registers of x1, and the most repetitions."""


def repeats(shape: str) -> list[int]:
    return [2**i for i in range(8) if 2**i <= SHAPES[shape][1]]


def load(shape: str, repeat: int, pack: str = "") -> str:
    split = ", 64" if shape == "16x32bx2" else ""
    return f"tcgen05.ld.sync.aligned.{shape}.x{repeat}{pack}.b32 {vector(SHAPES[shape][0] * repeat)}, [%at]{split};"


def store(shape: str, repeat: int, unpack: str = "") -> str:
    split = ", 64" if shape == "16x32bx2" else ""
    return f"tcgen05.st.sync.aligned.{shape}.x{repeat}{unpack}.b32 [%at]{split}, {vector(SHAPES[shape][0] * repeat, '%tid')};"


def load_reduce(shape: str, repeat: int, operation: str) -> str:
    split = ", 64" if shape == "16x32bx2" else ""
    return f"tcgen05.ld.red.sync.aligned.{shape}.x{repeat}.{operation} {vector(repeat)}, %r128, [%at]{split};"


LOADS = (*(load(s, r) for s in SHAPES for r in repeats(s)), load("32x32b", 2, ".pack::16b"))
STORES = (*(store(s, r) for s in SHAPES for r in repeats(s)), store("32x32b", 2, ".unpack::16b"))
REDUCED = tuple(
    load_reduce(s, r, operation) for s in ("32x32b", "16x32bx2") for r in repeats(s)[1:] for operation in ("min.u32", "max.NaN.f32")
)
SOME_LOADS, SOME_STORES = (tuple(move(s, repeats(s)[i]) for i, s in enumerate(SHAPES)) for move in (load, store))
SOME_REDUCED = (load_reduce("32x32b", 4, "max.s32"), load_reduce("16x32bx2", 8, "min.abs.f32"))
LD, ST = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%at];", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%at], {%tid};"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
BOTH_WAITS = f"\n{WAIT_LD}\n{WAIT_ST}"
STORE_THEN = START + ST + "\nORDER\nFORM" + BOTH_WAITS + END
THEN_STORE = START + "FORM\nORDER\n" + ST + BOTH_WAITS + END
LOAD_THEN = START + LD + "\nORDER\nFORM" + BOTH_WAITS + END
THEN_LOAD = START + "FORM\nORDER\n" + LD + BOTH_WAITS + END
THEN_RELEASE = START + "FORM" + BOTH_WAITS + "\nORDER\n" + DEALLOC
REDUCING = BLOCK | {"target": "sm_103a"}
MOVES = (
    Pair(SOME_LOADS, "reads tensor memory", STORE_THEN, WAIT_ST, WAIT, "X107", options=BLOCK),
    Pair(LOADS, "reads tensor memory", THEN_STORE, WAIT_LD, WAIT, "X108", options=BLOCK),
    Pair(SOME_LOADS, "reads tensor memory", THEN_RELEASE, MEET, ALLOCATION, "X113", ("T621",), options=BLOCK),
    Pair(STORES, "writes tensor memory", THEN_LOAD, WAIT_ST, WAIT, "X107", options=BLOCK),
    Pair(SOME_STORES, "writes tensor memory", LOAD_THEN, WAIT_LD, WAIT, "X108", options=BLOCK),
    Pair(SOME_STORES, "writes tensor memory", THEN_RELEASE, MEET, ALLOCATION, "X113", ("T621",), options=BLOCK),
    Pair(SOME_REDUCED, "reads tensor memory", STORE_THEN, WAIT_ST, WAIT, "X107", options=REDUCING),
    Pair(REDUCED, "reads tensor memory", THEN_STORE, WAIT_LD, WAIT, "X108", options=REDUCING),
    Pair(SOME_REDUCED, "reads tensor memory", THEN_RELEASE, MEET, ALLOCATION, "X113", ("T607",), options=REDUCING),
    Pair(
        (WAIT_ST,),
        "completes the stores of the warp",
        STORE_THEN.replace("FORM", LD),
        "FORM",
        WAIT,
        "X107",
        options=BLOCK,
    ),
    Pair(
        (WAIT_LD,),
        "completes the loads of the warp",
        THEN_STORE.replace("FORM", LD),
        "FORM",
        WAIT,
        "X108",
        options=BLOCK,
    ),
)

# -------------------------------------------------------------------------------------------------------------- allocation
ALLOCATED = "FORM\nORDER\n" + ADDRESS + "st.global.b32 [%out+64], %at;\n" + MEET
PAIR_BLOCK = PAIR_OF_CTAS | BLOCK
ALLOCATIONS = (
    Pair(
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tensor_slot], 512;",),
        "writes the address to shared memory, weakly",
        "@%warp0 " + ALLOCATED + DEALLOC,
        "bar.sync 0;",
        ALLOCATION,
        "X101",
        ("M411",),
        options=BLOCK,
    ),
    Pair(
        ("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [tensor_slot], 512;",),
        "writes the address to shared memory, weakly",
        "@%warp0 " + ALLOCATED + MEET_PAIR + DEALLOC.replace("::1", "::2"),
        "bar.sync 0;",
        ALLOCATION,
        "X101",
        ("M411",),
        options=PAIR_BLOCK,
    ),
    Pair(
        ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%generic], 512;",),
        "writes the address to shared memory, weakly",
        "st.shared.b32 [%smem], %zero;\nbar.sync 0;\n@%warp0 FORM\nORDER\nld.shared.b32 %tmem, [%smem];\n"
        "st.global.b32 [%out+64], %tmem;\n" + MEET + DEALLOC,
        "bar.sync 0;",
        ALLOCATION,
        "X101",
        options=BLOCK,
    ),
    Pair(
        ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 512;",),
        "releases the columns",
        START + ST + "\n" + WAIT_ST + "\nORDER\n@%warp0 FORM",
        MEET,
        ALLOCATION,
        "X113",
        ("T621",),
        options=BLOCK,
    ),
)
TABLE: tuple[Pair, ...] = tuple(chain(MOVES, ALLOCATIONS))
