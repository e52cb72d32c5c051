"""Real mistakes, each as a kernel: the first line on the screen names the cause, and the report is no longer than a screen.

The kernels are those of `test_faults`, `test_complaints` and `tests/check/operands`, which say under every schedule what is found. Here
is the table of which mistake is which kernel, with the line that a person reads first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.diagnostics import render_report
from tests.check.operands import scaled_kernels, word_kernels

from . import test_complaints, test_faults
from .small_kernels import launch as launch_small

MISSING = "no warp can continue: the mbarrier at shared offset {} of CTA rank 0 is missing "
ARRIVAL = MISSING + "1 of 1 arrivals in phase 0 (parity 0); {} groups of converged lanes wait; 0 of 1 CTAs have ended"

FIRST = {
    # kernel of test_faults: (issues that report the mistake, the first line)
    "no proxy fence before the copy to global memory": (
        "sglang#39124, facebookexperimental/triton#737",
        "error[X102]: cp.async.bulk.tensor reads shared memory bytes 0xc800-0xc81f, 0xc880-0xc89f, 0xc900-0xc91f and 29 more of "
        "CTA (0, 0, 0), which st.shared at line 116 writes, and no proxy fence stands between",
    ),
    "no barrier between the stores and the copy": (
        "triton#6061",
        "error[X112]: cp.async.bulk.tensor reads shared memory bytes 0xd800-0xd81f, 0xd880-0xd89f, 0xd900-0xd91f and 29 more of "
        "CTA (0, 0, 0), which st.shared at line 116 writes, and nothing orders the two",
    ),
    "no wait for the copies": (
        "tilelang#2613",
        "error[X103]: tcgen05.mma reads shared memory bytes 0x4800-0x481f, 0x4880-0x489f, 0x4920-0x493f and 54 more of CTA (0, 0, 0), "
        "which cp.async.bulk.tensor at line 63 writes, and nothing has waited for the copy",
    ),
    "no wait for a free stage": (
        "facebookexperimental/triton#1724",
        "error[X103]: cp.async.bulk.tensor writes shared memory bytes 0x800-0x47ff of CTA (0, 0, 0), which cp.async.bulk.tensor at "
        "line 60 writes, and nothing has waited for the copy",
    ),
    "no wait for the product": (
        "triton#9635",
        "error[X105]: tcgen05.ld reads tensor memory columns 0-63, lanes 64-95, which tcgen05.mma at line 85 writes, and nothing has "
        "waited for its completion",
    ),
    "stages are never released": ("cutlass#2121", "error[H601]: " + ARRIVAL.format("0x410", 6)),
    "no commit behind the last product": ("cutlass#2121, PR#2172", "error[H601]: " + ARRIVAL.format("0x420", 4)),
    "the producer's first parity": ("tilelang#2566", "error[H601]: " + ARRIVAL.format("0x410", 6)),
    "more bytes announced than copied": (
        "cutlass#2121",
        "error[H601]: " + MISSING.format("0x400") + "16 bytes; 6 groups of converged lanes wait; 0 of 1 CTAs have ended",
    ),
    "one copy missing": (
        "cutlass#2121",
        "error[H601]: " + MISSING.format("0x400") + "8192 bytes; 6 groups of converged lanes wait; 0 of 1 CTAs have ended",
    ),
    "fewer bytes announced than copied": (
        "tilelang#2613",
        "error[X103]: tcgen05.mma reads shared memory bytes 0x4800-0x481f, 0x4880-0x489f, 0x4920-0x493f and 54 more of CTA (0, 0, 0), "
        "which cp.async.bulk.tensor at line 63 writes, and the phase of its mbarrier is over before the copy: "
        "8192 bytes of the copies are not announced",
    ),
    "two arrivals where one is expected": (
        "flashinfer#4732",
        "error[B505]: 1 arrivals on the mbarrier at shared offset 0x400, but only 0 of 1 are pending in phase 0",
    ),
    "no barrier behind the allocation": (
        "DeepGEMM#292",
        "error[X101]: ld.shared reads shared memory bytes 0x428-0x42b of CTA (0, 0, 0), which tcgen05.alloc at line 34 writes, and "
        "nothing orders the two threads",
    ),
    "no allocation": (
        "cutlass#2230",
        "error[T607]: D occupies columns 0 to 63 of tensor memory, but CTA (0, 0, 0) has allocated nothing",
    ),
    "released twice": (
        "flashinfer#4611, #4759",
        "error[T604]: tcgen05.dealloc of 64 columns at 0x0: no allocation starts at column 0",
    ),
    "released while other warps may still read": (
        "flashinfer#5334, TIRx-kernels#19",
        "error[X108]: tcgen05.dealloc releases tensor memory columns 0-63, lanes 0-31, which tcgen05.ld at line 108 reads, and its "
        "registers are neither consumed nor awaited",
    ),
    "the accumulator is used before it has a value": (
        "flashinfer#4704",
        "error[T614]: tcgen05.mma reads tensor memory columns 0-63, lanes 0-127, which nothing has written",
    ),
    "the descriptor's fixed bits": (
        "cutlass#2968, triton#10309",
        "error[D702]: the shared memory descriptor 0x4000000000010080 of A is not legal: bits 46-48 of the shared memory descriptor must "
        "be 0b001, not 0b000",
    ),
    "an instruction descriptor for M = 48": (
        "TIRx-kernels#161",
        "error[D703]: the instruction descriptor 0x03100010 is not legal: M = 48 for .kind::f16, cta_group::1, dense; M must be 64 or 128",
    ),
    "single and pair granularity mixed": (
        "tilelang#2287",
        "error[T606]: tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 follows tcgen05 instructions with "
        ".cta_group::1 in the same kernel",
    ),
    "the mbarrier is overwritten": (
        "Fuser#4142",
        "error[B515]: the mbarrier object at shared offset 0x400 of CTA rank 0 was overwritten by an ordinary store or a copy",
    ),
}

SMALL = {
    # kernel of test_complaints, whose name begins with the issue: code and end of the first line
    "tilelang#2644, #2634: no fence.proxy.async before wgmma": ("X102", "and no proxy fence stands between"),
    "Fuser#3561: the operand is overwritten, wgmma not awaited": ("X110", "and nothing has waited for it"),
    "Fuser#3561: the result is used, wgmma not awaited": (
        "R805",
        "st.global.f32 uses %f0 while a wgmma.mma_async that has not been waited for may still write to it",
    ),
    "DeepGEMM#343: the tensor map is changed under a copy": ("X118", "and nothing has waited for the copy"),
    "flashinfer#4732: two bar.arrive where one is meant": ("B520", ""),
}


OPERANDS = {
    # mistake of word_kernels: (issues that report it, the first line, what its fix says)
    "no swizzle": (
        "MatmulTutorial#10, #14",
        "warning[O102]: A[1, 0] and A[0, 8] of matrix A are the same bytes of shared memory",
        "set the swizzling mode to 128B",
    ),
    "swizzle 64B": (
        "cutlass#1396, #1688",
        "warning[O101]: matrix A is not an image of the rows that were copied: it has no equal steps; A[2, 0] is a[1, 0], but A[0, 0] is "
        "a[0, 0]",
        "set the swizzling mode to 128B",
    ),
    "stride 512": (
        "SageAttention#178, hopper-gemm#2",
        "warning[O102]: A[8, 0] and A[4, 0] of matrix A are the same bytes of shared memory",
        "set the stride dimension byte offset to 1024",
    ),
    "M of 64": (
        "tilelang#2877, DeepGEMM#291",
        "warning[O107]: matrix A has 64 rows, and the tile that was copied has 128: no instruction multiplies the others, but tcgen05.ld "
        "loads all lanes",
        "set M to 128",
    ),
    "K step of 16 bytes": (
        "cutlass#2902",
        "warning[O105]: between two instructions that add to the same D k of A moves by 8, where an instruction takes 16 elements of k; "
        "the start address of A changes by 16 bytes",
        "advance the start address of A by 32 bytes",
    ),
}


def report(result: ptxlab.Result) -> list[str]:
    return render_report(result.diagnostics).split("\n")


@pytest.mark.parametrize("name", FIRST)
def test_the_first_line(name: str) -> None:
    (fault,) = (each for each in test_faults.FAULTS if each.name == name)
    text = test_faults.TEXT.replace(fault.old, fault.new)
    if fault.new.count(test_faults.DEALLOC) == 1 and fault.old != test_faults.DEALLOC:
        last = text.rindex(test_faults.DEALLOC)
        text = text[:last] + text[last + len(test_faults.DEALLOC) :]
    result, _ = test_faults.launch(text, max_instructions=2_000_000, **fault.options)
    lines = report(result)
    assert lines[0] == FIRST[name][1]
    assert len(lines) <= 75


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_bytes_that_are_not_announced(policy: str) -> None:
    """Whether the copy behind the phase has performed or not: the announcement is short of its bytes."""
    (fault,) = (each for each in test_faults.FAULTS if each.name == "fewer bytes announced than copied")
    result, _ = test_faults.launch(test_faults.TEXT.replace(fault.old, fault.new), max_instructions=2_000_000, policy=policy, seed=3)
    races = [d for d in result.diagnostics if d.code == "X103"]
    assert races
    assert all(d.fix == "let expect_tx announce 8192 bytes more in the phase that line 76 waits for" for d in races)


def test_a_stage_that_is_written_again() -> None:
    """The wait that is missing is the one for the readers of the stage."""
    (fault,) = (each for each in test_faults.FAULTS if each.name == "no wait for a free stage")
    result, _ = test_faults.launch(test_faults.TEXT.replace(fault.old, fault.new), max_instructions=2_000_000)
    assert result.diagnostics[0].fix == (
        "wait with mbarrier.try_wait before line 60 until what line 60 has brought has been read, on an mbarrier on which the readers "
        "arrive: tcgen05.commit behind tcgen05.mma, else mbarrier.arrive"
    )


@pytest.mark.parametrize("name", SMALL)
def test_the_first_line_of_small_kernels(name: str) -> None:
    (complaint,) = (each for each in test_complaints.COMPLAINTS if each.name == name)
    args = (ptxlab.TensorMap(np.zeros((8, 64), np.float16), box=(64, 8)),) if "map" in complaint.options.get("more", "") else ()
    options: dict[str, Any] = {**complaint.options, "args": args}
    result = launch_small(complaint.body.replace("HERE", complaint.wrong), **options)
    first = report(result)[0]
    code, end = SMALL[name]
    assert first.startswith((f"error[{code}]: ", f"warning[{code}]: "))
    assert first.endswith(end)


@pytest.mark.parametrize("name", OPERANDS)
def test_the_first_line_of_descriptors(name: str) -> None:
    """Legal descriptors that do not fit what was copied."""
    _, first, fix = OPERANDS[name]
    result, right = word_kernels.launch(word_kernels.mistaken(name)[0])
    assert not right
    lines = report(result)
    assert lines[0] == first
    assert fix in next(line for line in lines if line.startswith("  fix: "))


def test_the_first_line_of_scale_factors() -> None:
    """DeepGEMM#289: the second instruction takes the scale factors of the first one."""
    text = scaled_kernels.TEXT.replace(scaled_kernels.IDS, f"setp.ne.u32 %p7, %r15, 0;\n    @%p7 {scaled_kernels.IDS}")
    result, right = scaled_kernels.launch(text)
    assert not right
    assert report(result)[0] == (
        "warning[O108]: two instructions that add to the same D take the same scale factors of A, byte 0 of columns 64 to 67, and other "
        "scale factors are taken less often"
    )


def test_there_are_twenty() -> None:
    assert len(FIRST) + len(SMALL) + len(OPERANDS) >= 30


MASKED = """.version 9.0
.target sm_100a
.address_size 64
.file 1 "add.py"
.visible .entry add(.param .u64 a, .param .u64 c, .param .u32 n) .reqntid 32
{{
.reg .pred %p<66>; .reg .b32 %r<80>; .reg .b64 %rd<9>; .reg .f32 %f<130>;
.loc 1 5 1
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [c]; ld.param.u32 %r3, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
{}
ret;
}}
"""
ONE = """.loc 1 7 5
add.u32 %r{r}, %r1, {first};
setp.lt.u32 %p{i}, %r{r}, %r3;
@%p{i} ld.global.f32 %f{i}, [%rd4+{at}];
.loc 1 8 5
add.f32 %f{o}, %f{i}, %f{i};
st.global.f32 [%rd5+{at}], %f{o};"""


def test_a_wrong_mask() -> None:
    """Loads are masked and stores are not, 64 times: the store behind the array comes first, the undefined values are one group."""
    body = "\n".join(ONE.format(i=i, r=i + 10, o=i + 64, first=32 * i, at=128 * i) for i in range(64))
    result = ptxlab.loads(MASKED.format(body), file="add.ptx").kernel().launch(
        grid=1, args=[np.ones(2048, np.float32), np.zeros(2040, np.float32), 16]
    )  # fmt: skip
    lines = report(result)
    assert len(lines) <= 40
    assert lines[0].startswith("error[M402]: write of 4 bytes")
    assert "  elements: c[2040], which does not exist; c is float32[2040]" in lines
    assert "".join(lines).count("error[R808]") == 1
    assert len([d for d in result.diagnostics if d.code == "R808"]) == 64
    assert any(line.startswith("  more like this: 63 at lines ") and "(63 instructions, 1 CTA, 63 occurrences)" in line for line in lines)
