"""What tcgen05.mma, cp and commit refuse: the exact text."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from ptxlab.machine import KernelError
from tests.isa.tcgen05.tcgen05_helpers import BASE, execute, launch

MMA = "tcgen05.mma.cta_group::1.kind::f16 [da], ad, bd, id, e"
FROM_TENSOR = "tcgen05.mma.cta_group::1.kind::f16 [da], [at], bd, id, e"
ASHIFT = FROM_TENSOR.replace(" [", ".ashift [", 1)
WS = "tcgen05.mma.ws.cta_group::1.kind::f16 [da], ad, bd, id, e, zd"
SHIFT = "tcgen05.shift.cta_group::1.down [da]"
F8 = "tcgen05.mma.cta_group::1.kind::f8f6f4 [da], ad, bd, id, e"
A = int(SharedMemoryDescriptor(start=BASE, leading=16, stride=1024, swizzle="128B"))
IDESC = int(InstructionDescriptor(kind="f16", m=128, n=64, a="f16", b="f16", d="f32"))


def idesc(**fields) -> int:
    return int(InstructionDescriptor(**{"kind": "f16", "m": 128, "n": 64, "a": "f16", "b": "f16", "d": "f32", **fields}))


def refusal(instruction=MMA, **fields):
    image = np.ones((1, 1 << 17), np.uint8)
    before = np.zeros((1, 512, 128), np.uint32)
    with pytest.raises(KernelError) as error:
        execute(instruction, image, before, **{"a": A, "b": A, "idesc": IDESC, **fields})
    return error.value.diagnostic


CASES = {
    "reserved bit of idesc": (
        {"idesc": IDESC | 1 << 6},
        "D701",
        "the instruction descriptor 0x08100050 is not legal: bit 6 of the instruction descriptor must be 0b0, not 0b1",
    ),
    "zero idesc": (
        {"idesc": 0},
        "D703",
        "the instruction descriptor 0x00000000 is not legal: M = 0 for .kind::f16, cta_group::1, dense; M must be 64 or 128",
    ),
    "sparse": (
        {"idesc": IDESC | 4},
        "D701",
        "the instruction descriptor 0x08100014 is not legal: the instruction descriptor says sparse, the instruction is tcgen05.mma",
    ),
    "M of a pair": (
        {"idesc": idesc(m=256)},
        "D703",
        "the instruction descriptor 0x10100010 is not legal: M = 256 for .kind::f16, cta_group::1, dense; M must be 64 or 128",
    ),
    "types": (
        {"idesc": idesc(a="bf16", d="f16")},
        "D701",
        "the instruction descriptor 0x08100080 is not legal: matrix D of type .f16 needs matrix A of type .f16, not .bf16",
    ),
    "fixed bits of the descriptor": (
        {"a": A & ~(1 << 46)},
        "D702",
        "the shared memory descriptor 0x4000004000010040 of A is not legal: bits 46-48 of the shared memory descriptor must be 0b001, "
        "not 0b000",
    ),
    "swizzling mode": (
        {"b": A | 1 << 61},
        "D702",
        "the shared memory descriptor 0x6000404000010040 of B is not legal: The swizzling mode has the invalid code 3; "
        "the codes are 0 = none, 6 = 32B, 4 = 64B, 2 = 128B, 1 = 128B_32B",
    ),
    "transposed with 32-byte atoms": (
        {"b": int(SharedMemoryDescriptor(start=BASE, leading=512, stride=512, swizzle="128B_32B")), "idesc": idesc(transpose_b=True)},
        "D705",
        "the shared memory descriptor 0x2000402000200040 of B is not legal: a transposed (MN-major) operand of 16-bit elements with 128B "
        "swizzling of 32B atomicity is not supported",
    ),
    "outside shared memory": (
        {"a": int(SharedMemoryDescriptor(start=0x3FC00, leading=16, stride=1024, swizzle="128B"))},
        "D704",
        "A reads shared memory from 0x3fc00 to 0x43bff; the CTA has 0x400 to 0x2040f",
    ),
    "reserved shared memory": (
        {"b": int(SharedMemoryDescriptor(start=0, leading=16, stride=1024, swizzle="128B"))},
        "D704",
        "B reads shared memory from 0x0 to 0x1fff; the CTA has 0x400 to 0x2040f",
    ),
    "lane of D": (
        {"d": 16 << 16},
        "T611",
        "D starts at lane 16; with M = 128 and .cta_group::1 it must start at lane 0",
    ),
    "columns of D": (
        {"d": 480},
        "T607",
        "D occupies columns 480 to 543 of tensor memory, but CTA (0, 0, 0) has allocated columns 0-511",
    ),
    "lanes of A and D": (
        {"instruction": FROM_TENSOR, "a": 16 << 16, "idesc": idesc(m=64)},
        "T611",
        "A starts at lane 16 and D at lane 0; they must be the same",
    ),
    "transposed A in tensor memory": (
        {"instruction": FROM_TENSOR, "a": 128, "idesc": idesc(transpose_a=True)},
        "D705",
        "A in tensor memory cannot be transposed",
    ),
    "lane of shift": (
        {"instruction": SHIFT, "d": 16 << 16},
        "T611",
        "tcgen05.shift begins at lane 16; it must be 0, 32, 64 or 96",
    ),
    "columns of shift": (
        {"instruction": SHIFT, "d": 505},
        "T607",
        "the matrix occupies columns 505 to 512 of tensor memory, but CTA (0, 0, 0) has allocated columns 0-511",
    ),
    "M of ashift": (
        {"instruction": ASHIFT, "a": 128, "idesc": idesc(m=64)},
        "D703",
        "M = 64 with .ashift; M must be 128 or 256",
    ),
    "K = 96 on another target": (
        {"instruction": "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [da], ad, bd, id, [sa], [sb], e", "idesc": 1 << 31 | 0x08900480},
        "D703",
        "the instruction descriptor 0x88900480 is not legal: K = 96 needs sm_103a, not sm_100a",
    ),
    "shift of the zero-column mask": (
        {"instruction": WS, "zero_columns": 9 << 56, "idesc": idesc(max_shift=8)},
        "D702",
        "the zero-column mask descriptor 0x0900000000000000 is not legal: the column shift is 9, the instruction descriptor allows 8",
    ),
    "shifted columns outside shared memory": (
        {"instruction": WS, "zero_columns": 32 << 56, "idesc": idesc(max_shift=32), "b": A + (0x1E000 >> 4)},
        "D704",
        "B reads shared memory from 0x1e400 to 0x213ff; the CTA has 0x400 to 0x2040f",
    ),
    "type of another kind": (
        {"instruction": F8, "idesc": int(InstructionDescriptor(kind="f8f6f4", m=128, n=64, a="e4m3", b="e4m3", d="f32")) | 2 << 7},
        "D701",
        "the instruction descriptor 0x08100110 is not legal: atype of .kind::f8f6f4 has the invalid code 2; "
        "the codes are 0 = e4m3, 1 = e5m2, 3 = e2m3, 4 = e3m2, 5 = e2m1",
    ),
    "scale-input-d": (
        {"instruction": MMA + ", 16"},
        "D706",
        "scale-input-d must be an immediate from 0 to 15",
    ),
    "lane of cp": (
        {"instruction": "tcgen05.cp.cta_group::1.128x256b [da], ad", "d": 32 << 16},
        "T611",
        "tcgen05.cp.128x256b writes from lane 32; it must be 0",
    ),
    "formats of cp": (
        {"instruction": "tcgen05.cp.cta_group::1.128x128b.b8x16 [da], ad"},
        "D706",
        "tcgen05.cp.cta_group::1.128x128b.b8x16 names only one of the destination format .b8x16 and a source format",
    ),
    "columns of cp": (
        {"instruction": "tcgen05.cp.cta_group::1.128x256b [da], ad", "d": 508},
        "T607",
        "the destination occupies columns 508 to 515 of tensor memory, but CTA (0, 0, 0) has allocated columns 0-511",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_text_of_refusals(case):
    fields, code, message = CASES[case]
    found = refusal(**fields)
    assert (found.code, found.message) == (code, message)
    assert found.reason
    assert found.fix
    assert found.place is not None
    assert found.excerpt


COLLECTORS = {
    "without a fill": (
        [".collector::a::use"],
        "T631",
        ".collector::a::use: collector buffer a holds no matrix A: nothing has filled it",
    ),
    "after lastuse": (
        [".collector::a::fill", ".collector::a::lastuse", ".collector::a::use"],
        "T631",
        ".collector::a::use: collector buffer a holds no matrix A: the instruction at line 82 discarded its contents",
    ),
    "after an instruction without a qualifier": (
        [".collector::a::fill", "", ".collector::a::lastuse"],
        "T631",
        ".collector::a::lastuse: collector buffer a holds no matrix A: the instruction at line 82 discarded its contents",
    ),
    "with another matrix": (
        [".collector::a::fill", ".collector::a::use other"],
        "T632",
        ".collector::a::use: collector buffer a was filled with another matrix A, at line 81",
    ),
    "of another buffer": (
        ["ws.collector::b1::fill", "ws.collector::b2::use"],
        "T631",
        ".collector::b2::use: collector buffer b2 holds no matrix B: nothing has filled it",
    ),
    "with another matrix B": (
        ["ws.collector::b3::fill", "ws.collector::b3::lastuse other"],
        "T632",
        ".collector::b3::lastuse: collector buffer b3 was filled with another matrix B, at line 81",
    ),
}


def with_collector(usage: str) -> str:
    ws, other = usage.startswith("ws"), usage.endswith("other")
    usage = usage.removeprefix("ws").removesuffix(" other")
    swapped = "bd, ad" if other else "ad, bd"
    return f"tcgen05.mma{'.ws' * ws}.cta_group::1.kind::f16{usage} [da], {swapped}, id, e"


@pytest.mark.parametrize("case", COLLECTORS)
def test_collector_buffers(case):
    """A finding, not the end: values do not depend on collector buffers."""
    usages, code, message = COLLECTORS[case]
    image, before = np.zeros((1, 1 << 17), np.uint8), np.zeros((1, 512, 128), np.uint32)
    with pytest.raises(KernelError) as error:
        execute(";\n@p ".join(map(with_collector, usages)), image, before, a=A, b=A + 1024, idesc=IDESC)
    found = error.value.diagnostics
    assert [(d.code, d.message) for d in found] == [(code, message)]
    assert found[0].fix
    assert found[0].reason


@pytest.mark.parametrize("usages", [[".collector::a::fill", ".collector::a::use", ".collector::a::lastuse", ""], [".collector::a::discard"],
    ["ws.collector::b0::fill", "ws", "ws.collector::b1::fill", "ws.collector::b1::use", "ws.collector::b1::lastuse"],
    [".collector::a::fill", "ws.collector::b0::fill", "ws.collector::b0::use", ".collector::a::use"]])  # fmt: skip
def test_legal_sequences_of_collector_buffers(usages):
    image, before = np.zeros((1, 1 << 17), np.uint8), np.zeros((1, 512, 128), np.uint32)
    execute(";\n@p ".join(map(with_collector, usages)), image, before, a=A, b=A, idesc=IDESC)


def test_metadata_that_selects_nothing():
    text = MMA.replace(".mma.", ".mma.sp.").replace("bd, ", "bd, [sp], ")
    found = refusal(text, idesc=idesc(sparse=True), metadata=300)
    assert (found.code, found.message) == ("D707", "the sparsity metadata of row 0, chunk 0 is 0b0000, which selects nothing")
    assert found.fix == "write 0b0100, 0b0110, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110; check the address and the sparsity selector"


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize(("columns", "codes"), [(512, {"D707"}), (300, {"D707", "T614"})])
def test_metadata_that_nothing_has_written(policy, columns, codes):
    """The undefined bits have decided the refusal, and are named, too."""
    text = MMA.replace(".mma.", ".mma.sp.").replace("bd, ", "bd, [sp], ")
    image, before = np.ones((1, 1 << 17), np.uint8), np.zeros((1, 512, 128), np.uint32)
    given = {"a": A, "b": A, "idesc": idesc(sparse=True), "metadata": 300, "columns": columns}
    _, result = launch(text, image, before, policy=policy, check="all", **given)
    assert {d.code for d in result.diagnostics if d.severity == "error"} == codes


def test_scale_factors_that_differ_between_the_groups_of_lanes():
    image, before = np.zeros((1, 1 << 17), np.uint8), np.full((1, 512, 128), 0x7F7F7F7F, np.uint32)
    before[0, 301, 70] ^= 0x0100
    text = "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [da], ad, bd, id, [sa], [sb], e"
    given = {"a": A, "b": A, "idesc": int(InstructionDescriptor(kind="mxf4", m=128, n=64, a="e2m1", b="e2m1")), "factors": (300, 300)}
    with pytest.raises(KernelError) as error:
        execute(text, image, before, **given)
    found = error.value.diagnostic
    assert found.code == "D708"
    assert found.message == ("scale factor 1 of row 38 of A is 0x7f in lanes 0 to 31 and 0x7e in lanes 64 to 95; they must be the same")
    assert found.fix == "write the scale factors to all groups of 32 lanes, for instance with tcgen05.cp.32x128b.warpx4"
    before[0, 301, 70] ^= 0x0100
    before[0, 301, 70] ^= 0x01000000
    execute(text, image, before, **given)


def test_commit_tracks_the_operations_of_its_own_thread():
    """What another thread commits arrives while the product is still to come; the wrong result shows where operations perform late."""
    image = np.zeros((1, 1 << 17), np.uint8)
    image[0].view(np.float16)[:] = 1
    before = np.zeros((1, 512, 128), np.uint32)
    wide = {"a": A, "b": A, "idesc": IDESC, "enable": False}
    other_thread = f"{MMA};\nsetp.eq.u32 p, tid, 1"
    for policy, product in (("eager", 16), ("lazy", 0)):
        assert (execute(MMA, image, before, policy=policy, **wide)[0, :64].view(np.float32) == 16).all()
        after, result = launch(other_thread, image, before, policy=policy, **wide)
        assert (after[0, :64].view(np.float32) == product).all()
        found = next(d for d in result.diagnostics if d.code == "T633")
        assert found.message == (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 arrives at once: its thread has issued no tcgen05.mma, cp or shift"
        )


TURNS = f"""mov.u32 i, 0;
TURN:
@!p bra AFTER;
setp.eq.u32 q, i, {{turn}};
@q {MMA};
tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [bar];
AFTER:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar], i;
@!q bra AFTER;
bar.sync 0;
add.u32 i, i, 1;
setp.lt.u32 q, i, 2;
@q bra TURN;
{{after}}
mov.u32 i, 0"""
"""A loop of two turns that commits in each, and multiplies in one."""


@pytest.mark.parametrize(("turn", "after", "codes"), [(0, "", []), (1, "", []), (2, f"@p {MMA};", ["T633"])])
def test_a_commit_that_has_something_to_track_in_another_turn(turn: int, after: str, codes: list[str]) -> None:
    """A loop without a turn before a commit is no mistake; a commit that never has anything to track is."""
    image, before = np.zeros((1, 1 << 17), np.uint8), np.zeros((1, 512, 128), np.uint32)
    text = "mov.u32 v, 0;\n" + TURNS.format(turn=turn, after=after)
    _, result = launch(text, image, before, a=A, b=A, idesc=IDESC, enable=False)
    assert result.completed
    assert [found.code for found in result.diagnostics] == codes


def test_dealloc_before_the_commit_is_found_where_operations_perform_late():
    image, before = np.zeros((1, 1 << 17), np.uint8), np.zeros((1, 512, 128), np.uint32)
    early = f"{MMA};\nld.shared.u32 ta, [slot];\nsetp.lt.u32 q, tid, 32;\n@q tcgen05.dealloc.cta_group::1.sync.aligned.b32 ta, 512"
    with pytest.raises(KernelError) as error:
        execute(early, image, before, a=A, b=A, idesc=IDESC, policy="lazy")
    found = error.value.diagnostic
    assert found.code == "T612"
    assert found.message.startswith("tcgen05.dealloc while tcgen05.mma.cta_group::1.kind::f16 at line ")


def test_the_fields_of_a_descriptor_stand_in_the_details():
    found = refusal(idesc=IDESC | 1 << 6)
    assert ("n", "64") in found.details
    assert ("reserved", "64") in found.details
