"""Who issues an operation: every row of table "Execution granularity requirements for tcgen05 operations"."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from tests.isa.tcgen05.tcgen05_helpers import VALUES
from tests.tables.specification_helpers import ISSUE_GRANULARITY

INSTRUCTIONS = {
    "mma": "tcgen05.mma.cta_group::{group}.kind::f16 [taddr], ad, ad, id, p",
    "cp": "tcgen05.cp.cta_group::{group}.128x256b [taddr], ad",
    "shift": "tcgen05.shift.cta_group::{group}.down [taddr]",
    "commit": "tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [bar]",
    "alloc": "tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 64",
    "dealloc": "tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 taddr, 64",
    "relinquish_alloc_permit": "tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned",
    "ld": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{r1}}, [taddr]",
    "st": "tcgen05.st.sync.aligned.32x32b.x1.b32 [taddr], {{r1}}",
    "wait::ld": "tcgen05.wait::ld.sync.aligned",
    "wait::st": "tcgen05.wait::st.sync.aligned",
    "fence": "tcgen05.fence::before_thread_sync",
}
"""An instruction of each operation."""

ONE_THREAD = [row for row in ISSUE_GRANULARITY if row[0] in ("mma", "cp", "shift", "commit")]
WARPS = [row for row in ISSUE_GRANULARITY if row not in ONE_THREAD and row[0] != "fence"]
PAIRS = [row for row in ISSUE_GRANULARITY if row[1] == 2]
RELEASES = ("dealloc", "relinquish_alloc_permit")
"""They change what the CTA itself holds; each CTA of a pair executes them before it exits, and may be the last."""

DESCRIPTOR = int(SharedMemoryDescriptor(start=0, leading=16, stride=1024, swizzle="128B"))


def opcode(row: tuple[str, int | None]) -> str:
    return text(row).split(" ")[0]


def text(row: tuple[str, int | None]) -> str:
    return INSTRUCTIONS[row[0]].format(group=row[1])


def run(body: str, group: int | None, *, ctas: int | None = None, block: int = 64) -> list[tuple[str, str]]:
    """What is found where the CTAs, a pair for group 2, execute ``body``; SETUP in it stands for an allocation, FREE for its release."""
    group, ctas = group or 1, ctas or group or 1
    idesc = int(InstructionDescriptor(kind="f16", m=128 * group, n=64, a="f16", b="f16", d="f32"))
    setup = f"""
@first {INSTRUCTIONS["alloc"].format(group=group)};
bar.sync 0;
ld.shared.u32 taddr, [slot];
"""
    module = ptxlab.loads(f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
{{
.shared .align 1024 .b8 data[32768];
.shared .align 8 .b64 bar;
.shared .align 8 .b32 slot;
.reg .pred p, one, first;
.reg .b32 r<8>, tid, rank, taddr, id;
.reg .b64 out, ad;
ld.param.u64 out, [result];
mov.u32 tid, %tid.x;
mov.u32 rank, %cluster_ctarank;
mov.u32 id, {idesc};
mov.u32 r1, data;
shr.u32 r1, r1, 4;
cvt.u64.u32 ad, r1;
or.b64 ad, ad, {DESCRIPTOR};
mov.u32 taddr, 0;
setp.lt.u32 first, tid, 32;
setp.eq.u32 one, tid, 0;
setp.eq.u32 p, 0, 0;
@one mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive;
barrier.cluster.wait;
{body.replace("SETUP", setup).replace("FREE", f"@first {INSTRUCTIONS['dealloc'].format(group=group)};")}
ret;
}}
""")
    out = np.zeros(64, np.uint32)
    result = module.kernel().launch(grid=ctas, cluster=ctas, block=block, args=[out], check=set(VALUES))
    return [(d.code, d.message) for d in result.diagnostics]


def meet(ctas: int) -> str:
    return "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" if ctas == 2 else "bar.sync 0;\n"


def test_every_row_has_an_instruction() -> None:
    assert {operation for operation, _ in ISSUE_GRANULARITY} == set(INSTRUCTIONS)


@pytest.mark.parametrize("row", PAIRS, ids=str)
def test_a_pair_without_a_peer(row: tuple[str, int | None]) -> None:
    found = run(f"@first {text(row)};\n" if row in WARPS else f"@one {text(row)};\n", row[1], ctas=1)
    assert found == [("T609", f"{opcode(row)} needs the peer CTA of CTA (0, 0, 0), which is not in the cluster or has exited")]


@pytest.mark.parametrize("row", PAIRS, ids=str)
def test_a_peer_that_has_exited(row: tuple[str, int | None]) -> None:
    """Rank 1 does its part and exits long before rank 0 issues."""
    late = "setp.eq.u32 p, rank, 1;\n@p bra END;\nmov.u32 r1, 0;\nL: add.u32 r1, r1, 1;\nsetp.lt.u32 p, r1, 300000;\n@p bra L;\n"
    guard = "@first" if row in WARPS else "@one"
    body = f"SETUP{meet(2)}setp.eq.u32 p, rank, 1;\n@p bra RELEASE;\n{late}RELEASE: {guard} {text(row)};\nEND:\n"
    if row[0] not in RELEASES:
        body = f"SETUP{meet(2)}FREE{late}{guard} {text(row)};\nEND:\n"
    elif row[0] != "dealloc":
        body = body.replace("END:", "FREE\nEND:")
    gone = [("T609", f"{opcode(row)} needs the peer CTA of CTA (0, 0, 0), which is not in the cluster or has exited")]
    assert run(body, row[1]) == ([] if row[0] in RELEASES else gone)


ACCESSES = [row for row in WARPS if not row[0].startswith("wait")]
"""What has an effect: the waits order accesses of their warp, which are checked."""


@pytest.mark.parametrize("block", [16, 32], ids=["never there", "exited"])
@pytest.mark.parametrize("row", ACCESSES, ids=str)
def test_a_warp_that_is_not_whole(row: tuple[str, int | None], block: int) -> None:
    """Half of the threads have exited, or there were no more than half from the start."""
    leave = "" if block == 16 else "setp.lt.u32 p, tid, 16;\n@p exit;\n"
    found = run(f"{leave}@first {text(row)};\n", row[1], block=block)
    named = "" if row[0] in ("ld", "st") else f"{opcode(row)}: "
    assert found[0] == ("T626", f"{named}some of the warp's 32 threads have exited or do not exist")


@pytest.mark.parametrize("row", ACCESSES, ids=str)
def test_a_part_of_a_warp(row: tuple[str, int | None]) -> None:
    """Half of the threads go another way."""
    half = "setp.lt.u32 p, tid, 16;\n@p bra AROUND;\n"
    (found, *_) = run(f"SETUP{half}@first {text(row)};\nAROUND: bar.warp.sync 0xffffffff;\n", row[1], block=32)
    message = f"{opcode(row)} is executed by lanes 16-31 only, and the other live lanes of the warp can never join them"
    assert found == ("H605", message)


@pytest.mark.parametrize(("row", "issuer"), [(row, cta) for row in ONE_THREAD for cta in range(row[1] or 0)], ids=str)
def test_one_thread_is_enough(row: tuple[str, int | None], issuer: int) -> None:
    """A thread of either CTA issues; its commit signals the mbarrier of each CTA."""
    group = row[1] or 1
    commit = (
        "mov.b16 h, 3; @one tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], h;"
        if group == 2
        else f"@one {INSTRUCTIONS['commit'].format(group=1)};"
    )
    # A commit alone would have nothing to wait for.
    issue = f"@one {text(('shift', group) if row[0] == 'commit' else row)};\n"
    body = f"""SETUP
{{ .reg .b16 h;
setp.eq.and.u32 one, rank, {issuer}, one;
{meet(group)}{issue}{commit}
W: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
@!p bra W;
}}
{meet(group)}FREE
"""
    assert run(body, group) == []


@pytest.mark.parametrize("operation", ["ld", "st"])
def test_the_quarter_of_another_warp(operation: str) -> None:
    body = f"SETUPadd.u32 taddr, taddr, 0x200000;\n@first {INSTRUCTIONS[operation].format()};\n"
    (found, *_) = run(body, None)
    assert found[0] == "T623"


def test_any_threads_fence() -> None:
    assert run(f"and.b32 r1, tid, 3;\nsetp.eq.u32 p, r1, 1;\n@p {INSTRUCTIONS['fence']};\n", None) == []
