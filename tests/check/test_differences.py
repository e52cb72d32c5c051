"""What assembles although the grammar has it not, and what the header says: the exact texts.

The headings are those of the ways in which ptxas and the text of the PTX ISA differ.
"""

from __future__ import annotations

import pytest

import ptxlab

TEXTS: dict[str, list[tuple[str, str, str, list[str]]]] = {
    "modifiers in any order": [
        (
            "tcgen05.shift.down.cta_group::1 [%r1];",
            "sm_100a",
            "9.0",
            ["note[L121]: the specification has the modifiers in another order: tcgen05.shift.cta_group.down"],
        ),
    ],
    "modifiers of other instructions": [
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.rank.b32 [sdst], 32;",
            "sm_100a",
            "9.0",
            ["warning[L122]: .rank means nothing on tcgen05.alloc; the assembler lets it pass"],
        ),
        (
            "mbarrier.init.shared::cta.acc::f32.b64 [mbar], 1;",
            "sm_100a",
            "9.0",
            ["warning[L122]: .acc::f32 means nothing on mbarrier.init; the assembler lets it pass"],
        ),
        ("fence.sc.async.gpu;", "sm_100a", "9.0", ["warning[L122]: .async means nothing on fence; the assembler lets it pass"]),
    ],
    "a second .sync": [
        ("tcgen05.wait::ld.sync.sync.aligned;", "sm_100a", "9.0", ["warning[L123]: .sync is given twice"]),
        ("tcgen05.wait::ld.sync.aligned.aligned;", "sm_100a", "9.0", ["error[L104]: .aligned is given twice"]),
    ],
    ".aligned left out": [
        ("wgmma.fence.sync;", "sm_90a", "9.0", ["warning[L126]: the specification requires .aligned on wgmma.fence"]),
    ],
    "kind::i8 with operands behind enable-input-d": [
        (
            "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r2, %p1, 255;",
            "sm_100a",
            "9.0",
            ["warning[L125]: kind::i8 takes no operand after enable-input-d; the assembler lets it pass"],
        ),
        (
            "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r2, %p1, 7, 8;",
            "sm_100a",
            "9.0",
            ["warning[L125]: kind::i8 takes no operand after enable-input-d; the assembler lets it pass"],
        ),
    ],
    "enable-input-d": [
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 1;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a predicate here, not the constant 1"],
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, !%p1;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a predicate without negation here"],
        ),
    ],
    "descriptors as constants": [
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], 64, %rd2, %r2, %p1;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a shared memory descriptor in a 64-bit register, not the constant 64"],
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, 5, %p1;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has the instruction descriptor in a 32-bit register, not the constant 5"],
        ),
        (
            "tcgen05.cp.cta_group::1.128x256b [%r1], 64;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a shared memory descriptor in a 64-bit register, not the constant 64"],
        ),
    ],
    "tensor memory addresses": [
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1+4], %rd1, %rd2, %r2, %p1;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a tensor-memory address without an offset"],
        ),
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1+4, 32;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a tensor-memory address in a 32-bit register, not a sum"],
        ),
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 32;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a tensor-memory address in a 32-bit register, not the constant 0"],
        ),
    ],
    "ctaMask as a constant": [
        (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [mbar], 3;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has ctaMask in a 16-bit register, not the constant 3"],
        ),
    ],
    "renamed targets": [
        (
            "tcgen05.wait::ld.sync.aligned;",
            "sm_101a",
            "9.0",
            ["note[L127]: sm_101a is called sm_110a from PTX ISA 9.0 on | fix: write sm_110a"],
        ),
        ("tcgen05.wait::ld.sync.aligned;", "sm_101a", "8.6", []),
    ],
    "what the text does not have": [
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.exclusive.b32 %r1, 64;",
            "sm_100a",
            "9.5",
            ["note[L128]: the specification's text does not have .exclusive; the assembler does"],
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16.collector::b::fill [%r1], %rd1, %rd2, %r2, %p1;",
            "sm_107a",
            "9.5",
            ["note[L128]: the specification's text does not have .collector::b; the assembler does"],
        ),
        (
            "fence.proxy.tensormap::generic.acq_rel.gpu;",
            "sm_100a",
            "9.0",
            ["note[L128]: the specification's text does not have .acq_rel on fence.proxy.tensormap::generic; the assembler does"],
        ),
        (
            "fence.proxy.async.sync_restrict::shared::cta;",
            "sm_100a",
            "9.0",
            ["note[L128]: the specification's text does not have .sync_restrict on this fence; the assembler does"],
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group.b128 [gvar], [smem], 16;",
            "sm_100a",
            "9.0",
            ["note[L128]: the specification's text does not have .b128 without .relaxed; the assembler does"],
        ),
    ],
    "addresses": [
        (
            "mbarrier.inval.shared::cta.b64 [%h1];",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has an address in a 32-bit or 64-bit register, not in a .b16 one"],
        ),
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], smem;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has this address in brackets"],
        ),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [gvar], 16, %rd1;",
            "sm_100a",
            "9.0",
            ["warning[L125]: the specification has the address of an mbarrier here; the assembler takes a register or constant too"],
        ),
        (
            "mbarrier.init.shared::cta.b64 [mbar], %r1+4;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has the number of arrivals, from 1 to 1048575, not a sum"],
        ),
        (
            "mbarrier.try_wait.b64 %p1|_, [mbar], %rd1;",
            "sm_100a",
            "9.0",
            ["warning[L125]: a report needs .phase_type::primary; dropped, the assembler takes it"],
        ),
    ],
    "vectors": [
        (
            "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [gvar, {%r1,%r2,%r3,%r4}], {3,%u1};",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has the im2col offsets: 16-bit registers in braces, not %u1"],
        ),
        (
            "cp.async.bulk.prefetch.tensor.2d.L2.global [gvar, {3,%h1}];",
            "sm_100a",
            "9.0",
            ["error[L111]: %h1 is not a 32-bit register"],
        ),
        (
            "cp.async.bulk.prefetch.tensor.2d.L2.global [gvar, {%u1,%f1}];",
            "sm_100a",
            "9.0",
            ["error[L111]: floating-point registers and integers stand side by side in one vector"],
        ),
        (
            "tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {%r1,%r2}, {%r1}, [%r3];",
            "sm_107a",
            "9.5",
            [
                "note[L124]: the specification has a 32-bit register for the reduced value, not in braces",
                "error[L114]: the reduced value and the vector share a register",
            ],
        ),
    ],
    "values": [
        (
            "mbarrier.arrive.b64 %rd1, [mbar], {%r1};",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has the number of arrivals, positive, not in braces"],
        ),
        (
            "tensormap.replace.tile.rank.global.b1024.b32 [gvar], 0f3f800000;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a 32-bit value, not a floating-point constant"],
        ),
        (
            "tensormap.replace.tile.global_address.global.b1024.b64 [gvar], gvar+8;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has a 64-bit value, not a sum"],
        ),
        (
            "wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8 {%r10,%r11,%r12,%r13}, %rd1, %rd2, !%p1, 0, %p1;",
            "sm_90a",
            "9.0",
            ["note[L124]: the specification has the sparsity metadata in a 32-bit register, not a predicate"],
        ),
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.exclusive.b32 %r1, 96;",
            "sm_100a",
            "9.5",
            [
                "warning[L125]: the numbers of columns are 32, 64, 128, 256, 512; with .exclusive the assembler takes every multiple of 32",
                "note[L128]: the specification's text does not have .exclusive; the assembler does",
            ],
        ),
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.exclusive.b32 %r1, 33;",
            "sm_100a",
            "9.5",
            [
                "error[L113]: 33 is not the number of columns: a 32-bit register or one of 32, 64, 128, 256, 512",
                "note[L128]: the specification's text does not have .exclusive; the assembler does",
            ],
        ),
    ],
    "modifiers and operands of a fence": [
        (
            "fence.mbarrier_init.release.sync_restrict::shared::cta.cluster;",
            "sm_100a",
            "9.0",
            ["warning[L122]: .sync_restrict means nothing on fence.mbarrier_init"],
        ),
        (
            "fence.proxy.generic::fabric.alias.global.release.sys;",
            "sm_100a",
            "9.3",
            ["warning[L122]: .global means nothing on fence.proxy; the assembler lets it pass"],
        ),
        ("fence.proxy.alias.release.sys;", "sm_90", "9.4", []),
        ("fence.proxy.fabric::fabric.alias.acquire.sys;", "sm_100", "9.3", []),
        (
            "fence.proxy.async::generic.acq_rel.cta;",
            "sm_100a",
            "9.0",
            ["note[L128]: the specification's text does not have .acq_rel on fence.proxy.async::generic; the assembler does"],
        ),
        (
            "fence.proxy.tensormap::generic.acq_rel.cta [%rd1], 128;",
            "sm_100a",
            "9.0",
            [
                "warning[L125]: only a fence that acquires a tensor map has an address; the assembler takes one here too",
                "note[L128]: the specification's text does not have .acq_rel on fence.proxy.tensormap::generic; the assembler does",
            ],
        ),
        (
            "fence.proxy.tensormap::generic.acquire.cta [16], 128;",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has an address in a register here, not the constant 16"],
        ),
    ],
    "modifiers of a copy": [
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.cta [%rd1, {%r1}], [smem];",
            "sm_100a",
            "9.0",
            ["warning[L122]: .cta means nothing on cp.async.bulk.tensor; the assembler lets it pass"],
        ),
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.mbarrier::report::disabled [%rd1, {%r1}], [smem];",
            "sm_107a",
            "9.5",
            ["warning[L122]: .mbarrier::report means nothing on a copy to global memory"],
        ),
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%f1, {%r1}], [smem];",
            "sm_100a",
            "9.0",
            ["note[L124]: the specification has an address in a 32-bit or 64-bit register, not in a .f32 one"],
        ),
    ],
    "versions": [
        (
            "tcgen05.wait::ld.sync.aligned;",
            "sm_100a",
            "9.6",
            ["warning[L130]: PTX ISA 9.6 is newer than 9.5: what it brings is not checked | fix: write .version 9.5, if that is enough"],
        ),
        ("tcgen05.wait::ld.sync.aligned;", "sm_100a", "8.9", ["error[L109]: there is no PTX ISA 8.9; the last 8.x is 8.8"]),
        (
            "tcgen05.wait::ld.sync.aligned;",
            "sm_100a",
            "10.0",
            ["warning[L130]: PTX ISA 10.0 is newer than 9.5: what it brings is not checked | fix: write .version 9.5, if that is enough"],
        ),
        (
            "fence.sc.gpu;",
            "sm_75",
            "0.5",
            [
                "error[L109]: there is no PTX ISA 0.5; the newest is 9.5",
                "error[L108]: sm_75 needs PTX ISA 4.0; the module has 0.5 | fix: write .version 4.0",
                "error[L107]: fence needs PTX ISA 6.0; the module has 0.5",
            ],
        ),
    ],
    "targets": [
        ("tcgen05.wait::ld.sync.aligned;", "sm_100q", "9.0", ["error[L108]: there is no target sm_100q | fix: did you mean sm_100?"]),
        (
            "tcgen05.wait::ld.sync.aligned;",
            "sm_103a",
            "8.6",
            ["error[L108]: sm_103a needs PTX ISA 8.8; the module has 8.6 | fix: write .version 8.8"],
        ),
    ],
}


@pytest.mark.parametrize(
    ("instruction", "target", "version", "texts"), [case for cases in TEXTS.values() for case in cases], ids=lambda v: str(v)[:60]
)
def test_text(instruction: str, target: str, version: str, texts: list[str]) -> None:
    found = ptxlab.lint_instruction(instruction, target=target, version=version)
    assert [f"{d.severity}[{d.code}]: {d.message}" + (f" | fix: {d.fix}" if d.fix else "") for d in found] == texts


HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;"
PAIR = "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;"


def function(kind: str, name: str, body: str) -> str:
    return f"{kind} {name}() {{ .shared .b32 slot; {body} ret; }}\n"


MIXTURES = {
    "in one kernel": (function(".entry", "k", ALLOC + PAIR), [(4, "k", 4)]),
    "in two branches": (function(".entry", "k", f".reg .pred %p; @%p {ALLOC} @!%p {PAIR}"), [(4, "k", 4)]),
    "in an inner block": (function(".entry", "k", f"{{ {ALLOC} }} {PAIR}"), [(4, "k", 4)]),
    "through a function": (function(".func", "g", PAIR) + function(".entry", "k", ALLOC + "call g;"), [(4, "k", 5)]),
    "through a function of a function": (
        function(".func", "g", PAIR) + function(".func", "h", "call g;") + function(".entry", "k", ALLOC + "call h;"),
        [(4, "k", 6)],
    ),
    "through two functions": (
        function(".func", "g", PAIR) + function(".func", "h", ALLOC) + function(".entry", "k", "call h; call g;"),
        [(4, "k", 5)],
    ),
    "in a function that one of two kernels calls": (
        function(".func", "g", PAIR) + function(".entry", "k", ALLOC + "call g;") + function(".entry", "l", PAIR + "call g;"),
        [(4, "k", 5)],
    ),
    "in a function that no kernel calls": (function(".func", "g", ALLOC + PAIR) + function(".entry", "k", ALLOC), []),
    "in two kernels": (function(".entry", "k", ALLOC) + function(".entry", "l", PAIR), []),
}
"""Modules, and (line of the finding, kernel, line of the first group): ptxas 13.5 refuses those that have one."""


@pytest.mark.parametrize("name", MIXTURES)
def test_mixed_groups(name: str) -> None:
    text, wanted = MIXTURES[name]
    found = [d for d in ptxlab.lint(HEAD + text, dataflow=False) if d.severity == "error"]
    assert [(d.place.line, d.code) for d in found if d.place] == [(line, "L115") for line, _, _ in wanted]
    for d, (_, kernel, first) in zip(found, wanted, strict=True):
        assert d.message == f"kernel {kernel} uses .cta_group::2 here and .cta_group::1 at line {first}"
        assert d.fix == "give all tcgen05 instructions of a kernel and of the functions it calls one .cta_group"
