"""Mistakes after real ones, each a change of a correct kernel: found with the right code at the right line; the kernel itself is clean.

`COMPLAINTS` names the issues and pull requests that they follow.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import pytest

from tests.sweep_helpers import one_in, part

from .gemm_kernels import TEXT, launch
from .small_kernels import SCHEDULES

FULL, EMPTY, DONE = "WAIT_FULL:\n", "WAIT_EMPTY:\n", "WAIT_DONE:\n"
BARRIER_BEFORE_STORE = "fence.proxy.async.shared::cta;\n    bar.sync 0;"
STORE = "cp.async.bulk.tensor.2d.global"
LOAD_B = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r16]"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r17, %p6;"
COMMIT_DONE = "mov.u32 %r19, done;\n    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r19];"
WAIT_READ = "    @%p1 cp.async.bulk.wait_group.read 0;\n"
DEALLOC = "@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 64;"
LD = "tcgen05.ld.sync"


class Fault(NamedTuple):
    """What is wrong, the change (old text, new text), the code, and a text on the line that the finding names.

    ``follows``: what goes wrong after it, and may be reported besides, as codes and texts on their lines; ``ends``: the one of these that
    under some schedules ends the launch first.
    """

    name: str
    old: str
    new: str
    code: str
    line: str
    follows: tuple[tuple[str, str], ...] = ()
    ends: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012


def without_wait(label: str, barrier: str, parity: str, predicate: str) -> tuple[str, str]:
    wait = f"{label}    mbarrier.try_wait.parity.shared::cta.b64 {predicate}, [{barrier}], {parity};\n"
    return wait + f"    @!{predicate} bra {label.strip()[:-1]};\n", label


ANY_MMA, ANY_COPY, EXPECT, RELEASE = "tcgen05.mma", "cp.async.bulk.tensor.2d.shared", "mbarrier.arrive.expect_tx", "tcgen05.dealloc"
UNREADY = (
    ("X103", ANY_MMA),
    ("X103", ANY_COPY),
    ("X106", ANY_COPY),
    ("M411", ANY_MMA),
    ("X116", ANY_COPY),
    ("B505", EXPECT),
    ("B519", "try_wait"),
)
"""Products of what has not come: the copies overwrite it, and their stages are released too early."""
EARLY = (("T614", LD), ("X108", ANY_MMA), ("X105", LD), ("T612", RELEASE), ("H601", "[%r19], 1;"), ("B519", "try_wait"))
"""A result that is read, and released, before it is there."""

FAULTS = [
    Fault("no proxy fence before the copy to global memory", "fence.proxy.async.shared::cta;", "", "X102", STORE),
    Fault("no barrier between the stores and the copy", BARRIER_BEFORE_STORE, "fence.proxy.async.shared::cta;", "X112", STORE,
          (("X104", "st.shared.v4"), ("M411", STORE))),
    Fault("no wait for the copies", *without_wait(FULL, "%r12", "%r14", "%p4"), "X103", MMA, (*UNREADY, ("H601", "[%r13], %r14")),
          "X106"),
    Fault("no wait for a free stage", *without_wait(EMPTY, "%r13", "%r14", "%p4"), "X103", "bytes [%r15]",
          (("X103", ANY_COPY), ("H601", "[%r19], 0;"), ("B505", EXPECT)), "B505"),
    Fault("no wait for the product", *without_wait(DONE, "%r19", "0", "%p7"), "X105", LD, EARLY),
    Fault("stages are never released", "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13];\n", "",
          "H601", "%p4, [%r13]"),
    Fault("no commit behind the last product", COMMIT_DONE, "", "H601", "[%r19], 0;"),
    Fault("the producer's first parity", "xor.b32 %r14, %r14, 1;", "", "H601", "%p4, [%r13], %r14"),
    Fault("the consumer's parity", "[%r12], %r14;", "[%r12], 1;", "X103", "%r17, 1;", (*UNREADY, ("H601", "[%r13], %r14")),
          "H601 X106"),
    Fault("the wait for the product has the wrong parity", "[%r19], 0;", "[%r19], 1;", "X105", LD, EARLY),
    Fault("more bytes announced than copied", "_, [%r12], 24576", "_, [%r12], 24592", "H601", "%p4, [%r12], %r14"),
    Fault("fewer bytes announced than copied", "_, [%r12], 24576", "_, [%r12], 16384", "H601", "%p4, [%r12], %r14", UNREADY),
    Fault("no announcement at all", "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 24576;\n", "",
          "H601", "%p4, [%r12], %r14"),
    Fault("two arrivals where one is expected", "b64 _, [%r12], 24576;",
          "b64 _, [%r12], 24576; mbarrier.arrive.shared.b64 _, [%r12];", "B505", "mbarrier.arrive.shared.b64 _"),
    Fault("one copy missing", f"    {LOAD_B}, [%rd2, {{%r17, %r18}}], [%r12];\n", "", "H601", "%p4, [%r12], %r14"),
    Fault("no barrier behind the allocation", "before_thread_sync;\n    bar.sync 0;", "before_thread_sync;", "X101",
          "ld.shared.b32 %r4", (("X120", "try_wait"), ("M411", "ld.shared.b32 %r4"), ("B503", "try_wait")), "B503"),
    Fault("no allocation", "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;", "st.shared.b32 [slot], 0;",
          "T607", MMA),
    Fault("too few columns allocated", "b32 [slot], 64;", "b32 [slot], 32;", "T607", MMA),
    Fault("columns are never released", DEALLOC, "", "T605", "tcgen05.alloc"),
    Fault("released twice", DEALLOC, DEALLOC + " " + DEALLOC, "T604", "tcgen05.dealloc"),
    Fault("another size released", "sync.aligned.b32 %r4, 64;", "sync.aligned.b32 %r4, 32;", "T604", "tcgen05.dealloc"),
    Fault("released while other warps may still read", "    tcgen05.wait::ld.sync.aligned;\n", f"    bar.sync 1;\n    {DEALLOC}\n",
          "X108", "tcgen05.dealloc"),
    Fault("no wait before the CTA exits", WAIT_READ, "", "X119", STORE),
    Fault("the accumulator is used before it has a value", "%r17, %p6;", "%r17, 1;", "T614", "%r17, 1;"),
    Fault("the descriptor's fixed bits", "0x4000404000010000", "0x4000000000010000", "D702", MMA),
    Fault("an instruction descriptor for M = 48", "0x08100010", "0x03100010", "D703", MMA),
    Fault("single and pair granularity mixed", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13]",
          "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r13]", "T606", "tcgen05.commit.cta_group::2"),
    Fault("an mbarrier that nobody initialised", "    mbarrier.init.shared::cta.b64 [empty+8], 1;\n", "", "B503", "%p4, [%r13]"),
    Fault("the mbarrier is overwritten", "mov.u32 %r5, 0;\n", "mov.u32 %r5, 0;\n    @%p1 st.shared.b32 [full+4], 7;\n",
          "B515", "expect_tx"),
    Fault("the letter: no tcgen05.fence behind the wait", "@!%p7 bra WAIT_DONE;\n    tcgen05.fence::after_thread_sync;",
          "@!%p7 bra WAIT_DONE;", "X115", LD, options={"model": "spec"}),
    Fault("the letter: no tcgen05.fence before the release", "    tcgen05.fence::before_thread_sync;\n    cvt", "    cvt", "X115",
          "tcgen05.dealloc", options={"model": "spec"}),
    Fault("the letter: no tcgen05.wait::ld", "    tcgen05.wait::ld.sync.aligned;\n", "", "X108", "tcgen05.dealloc",
          options={"model": "spec"}),
]  # fmt: skip


COMPLAINTS = {
    "no proxy fence before the copy to global memory": "sglang#39124, facebookexperimental/triton#737",
    "no barrier between the stores and the copy": "triton#6061, facebookexperimental/triton#737",
    "no wait for the copies": "tilelang#2613",
    "no wait for a free stage": "facebookexperimental/triton#1724, tilelang#2613",
    "no wait for the product": "triton#9635",
    "stages are never released": "cutlass#2121",
    "no commit behind the last product": "cutlass#2121",
    "the producer's first parity": "cutlass#2121, tilelang#2566",
    "the consumer's parity": "tilelang#2613, tilelang#2301",
    "the wait for the product has the wrong parity": "triton#9635",
    "more bytes announced than copied": "cutlass#2121",
    "fewer bytes announced than copied": "tilelang#2613",
    "no announcement at all": "cutlass#2121",
    "two arrivals where one is expected": "flashinfer#4732",
    "one copy missing": "cutlass#2121",
    "no barrier behind the allocation": "DeepGEMM#292",
    "no allocation": "cutlass#2230",
    "too few columns allocated": "cutlass#2230",
    "columns are never released": "tilelang#2644",
    "released twice": "flashinfer#4611, flashinfer#4759",
    "another size released": "flashinfer#4611, flashinfer#4759",
    "released while other warps may still read": "flashinfer#5334, TIRx-kernels#19",
    "the accumulator is used before it has a value": "flashinfer#4704",
    "the descriptor's fixed bits": "cutlass#2968, triton#10309, cutlass#3089",
    "an instruction descriptor for M = 48": "TIRx-kernels#19",
    "single and pair granularity mixed": "tilelang#2287",
    "the mbarrier is overwritten": "Fuser#4142",
    "the letter: no tcgen05.wait::ld": "cutlass#2525",
}


@pytest.mark.parametrize("options", [{}, {"policy": "lazy"}, {"model": "spec"}, *({"policy": "random", "seed": s} for s in range(10))])
def test_the_correct_kernel_is_clean(options: dict[str, Any]) -> None:
    result, right = launch(TEXT, **options)
    assert (result.diagnostics, right) == ((), True)


def of_part(fault: Fault, schedule: dict[str, Any]) -> bool:
    """Half of the schedules of each fault, in turn."""
    return (FAULTS.index(fault) + SCHEDULES.index(schedule)) % 2 == 0


@pytest.mark.parametrize(
    ("fault", "schedule"), part(one_in(4, product(FAULTS, SCHEDULES)), of_part), ids=lambda x: x.name if type(x) is Fault else str(x)
)
def test_fault(fault: Fault, schedule: dict[str, Any]) -> None:
    """Under every schedule: this code at this line, and besides only what goes wrong after it."""
    assert TEXT.count(fault.old) == 1, TEXT.count(fault.old)
    text = TEXT.replace(fault.old, fault.new)
    if fault.new.count(DEALLOC) == 1 and fault.old != DEALLOC:
        text = text[: text.rindex(DEALLOC)] + text[text.rindex(DEALLOC) + len(DEALLOC) :]
    result, _ = launch(text, max_instructions=2_000_000, **fault.options, **schedule)
    lines = text.splitlines()
    found = {(d.code, d.place.line if d.place else 0) for d in result.diagnostics if d.code != "X123"}
    wanted = fault.code, text.count("\n", 0, text.index(fault.line)) + 1
    others = found - {wanted}
    assert wanted in found or any(code in fault.ends.split() for code, _ in others), result
    assert not [(c, n) for c, n in others if not any(c == code and part in lines[n - 1] for code, part in fault.follows)], result


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 30
    assert COMPLAINTS.keys() <= {fault.name for fault in FAULTS}
