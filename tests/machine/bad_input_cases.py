"""Launches that must be refused or end in a diagnostic: the PTX, the launch, and the arguments of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ptxlab

HEADER = ".version 8.7\n.target sm_100a\n.address_size 64\n"


def entry(body: str, params: str = ".param .u64 a", directives: str = "", before: str = "") -> str:
    declarations = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"
    return f"{HEADER}{before}\n.visible .entry k({params})\n{directives}\n{{\n{declarations}\n{body}\nret;\n}}\n"


def array() -> list[Any]:
    return [np.zeros(32, np.uint32)]


def nothing() -> list[Any]:
    return []


def tensor_map() -> list[Any]:
    return [ptxlab.TensorMap(np.zeros((64, 64), np.float16), box=(64, 8), swizzle="128B")]


@dataclass(frozen=True)
class BadInput:
    """A module text, the arguments, and the further options of the launch."""

    name: str
    text: str
    args: Callable[[], list[Any]] = array
    options: dict[str, Any] = field(default_factory=lambda: {"block": 32})
    kernel: str = "k"


BAR = ".shared .align 8 .b64 bar;\n.extern .shared .align 16 .b8 dyn[];"
ADDRESS = "ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1;"
INIT = "mov.b32 %r2, bar; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; bar.sync 0;"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;"
WARP0 = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.b32 %r2, dyn;"
ALLOC = "@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2]"
SMALL = {"block": 32, "shared_bytes": 64}
WIDE = {"block": 128, "shared_bytes": 65536}

BAD_INPUTS = (
    # the module
    BadInput("syntax error", HEADER + ".visible .entry k()\n{\n add.s32 %r1, %r2 %r3;\n}\n", nothing),
    BadInput("unknown kernel", entry("", ""), nothing, kernel="gemm"),
    BadInput("unknown opcode", entry("frobnicate.b32 %r1, %r2;", ""), nothing),
    BadInput("opcode that is not executed", entry("multimem.red.relaxed.sys.global.add.u32;", ""), nothing),
    BadInput("undeclared register", entry("add.s32 %r1, %r2, %x9;", ""), nothing),
    BadInput("undeclared label", entry("bra NOWHERE;", ""), nothing),
    BadInput("operand of the wrong width", entry("add.s32 %r1, %r2, %rd1;", ""), nothing),
    BadInput("missing operand", entry("add.s32 %r1, %r2;", ""), nothing),
    # the launch
    BadInput("missing argument", entry(""), nothing),
    BadInput("extra argument", entry(""), lambda: [np.zeros(1), 3]),
    BadInput("text argument", entry(""), lambda: ["A"]),
    BadInput("float for an integer", entry("", ".param .u32 n"), lambda: [1.5]),
    BadInput("array for a number", entry("", ".param .u32 n"), array),
    BadInput("number that does not fit", entry("", ".param .u32 n"), lambda: [1 << 40]),
    BadInput("bytes of the wrong size", entry("", ".param .align 8 .b8 s[16]"), lambda: [b"abc"]),
    BadInput("array of objects", entry(""), lambda: [np.array([object()])]),
    BadInput("map for a number", entry("", ".param .u32 n"), tensor_map),
    BadInput("block too large", entry(""), array, {"block": 2048}),
    BadInput("block against reqntid", entry("", directives=".reqntid 64"), array, {"block": 32}),
    BadInput("grid that clusters do not divide", entry(""), array, {"block": 32, "grid": 3, "cluster": 2}),
    BadInput("too much shared memory", entry(""), array, {"block": 32, "shared_bytes": 300_000}),
    BadInput("too much static shared memory", entry("mov.b32 %r1, big;", before=".shared .b8 big[400000];")),
    BadInput("unknown check", entry(""), array, {"block": 32, "check": {"races"}}),
    BadInput("unknown policy", entry(""), array, {"block": 32, "policy": "later"}),
    # memory
    BadInput("array too small", entry(f"{ADDRESS} st.global.u32 [%rd2], %r1;"), lambda: [np.zeros(16, np.uint32)]),
    BadInput("null pointer", entry(f"{ADDRESS} ld.global.u32 %r2, [%rd2];"), lambda: [None]),
    BadInput("misaligned global access", entry(f"{ADDRESS} ld.global.u32 %r2, [%rd2+2];")),
    BadInput("misaligned vector", entry(f"{ADDRESS} ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd2];"), lambda: [np.zeros(64, np.uint32)]),
    BadInput("write to const", entry("mov.u64 %rd1, c; st.global.u32 [%rd1], 1;", before=".const .b32 c = 1;")),
    BadInput(
        "shared access out of range", entry(f"{WARP0} st.shared.u32 [%r2+64], 1;", before=BAR), array, {"block": 32, "shared_bytes": 64}
    ),
    BadInput("shared access to a peer", entry("mov.b32 %r1, dyn; add.u32 %r1, %r1, 16777216; ld.shared.u32 %r2, [%r1];", before=BAR)),
    BadInput("misaligned shared access", entry("mov.b32 %r1, bar; ld.shared.b64 %rd1, [%r1+4];", before=BAR)),
    BadInput(
        "misaligned row to read", entry(f"{WARP0} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r3}}, [%r2+8];", before=BAR), array, SMALL
    ),
    BadInput(
        "row to write out of range", entry(f"{WARP0} stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2+64], {{%r1}};", before=BAR), array, SMALL
    ),
    # barriers
    BadInput("mbarrier not initialised", entry("mov.b32 %r1, bar; mbarrier.arrive.shared::cta.b64 _, [%r1];", before=BAR)),
    BadInput("mbarrier misaligned", entry("mov.b32 %r1, bar; mbarrier.init.shared::cta.b64 [%r1+4], 1;", before=BAR)),
    BadInput("mbarrier count zero", entry("mov.b32 %r1, bar; mbarrier.init.shared::cta.b64 [%r1], 0;", before=BAR)),
    BadInput("too many bytes", entry(f"{INIT} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1048576;", before=BAR)),
    BadInput("barrier number", entry("bar.sync 16;")),
    BadInput("barrier count", entry("bar.sync 1, 33;")),
    BadInput("part of a warp", entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 7;\n@%p1 bra L; bar.sync 0; bra M;\nL: bar.sync 0;\nM:")),
    # progress
    BadInput("arrival that never comes", entry(f"{INIT} {WAIT}", before=BAR)),
    BadInput("bytes that never come", entry(f"{INIT} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 4096;\n{WAIT}", before=BAR)),
    BadInput("barrier that one warp skips", entry(f"{WARP0} @%p1 bar.sync 1, 64;", before=BAR), array, {"block": 64}),
    BadInput("spin on memory", entry("ld.param.u64 %rd1, [a]; W: ld.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W;")),
    BadInput("endless count", entry("mov.u32 %r1, 0; W: add.u32 %r1, %r1, 1; bra W;"), array, {"block": 32, "max_instructions": 100_000}),
    BadInput("trap", entry("trap;")),
    # registers
    BadInput("undefined address", entry("ld.global.u32 %r1, [%rd5];")),
    BadInput("undefined branch", entry("@%p5 bra L; add.u32 %r1, %r1, 1; L:")),
    BadInput(
        "undefined descriptor",
        entry(
            f"{WARP0} {ALLOC}, 32; bar.sync 0; ld.shared.b32 %r3, [%r2]; setp.eq.u32 %p2, %r1, 0; mov.b32 %r4, 136314896;\n"
            "@%p2 tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd4, %rd5, %r4, 0;",
            before=BAR,
        ),
        array,
        WIDE,
    ),
    # tensor memory
    BadInput("too much tensor memory", entry(f"{WARP0} {ALLOC}, 512;\n{ALLOC}, 32;", before=BAR), array, WIDE),
    BadInput("tensor memory never freed", entry(f"{WARP0} {ALLOC}, 32;", before=BAR), array, WIDE),
    BadInput("tensor memory not allocated", entry("mov.b32 %r1, 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];")),
    BadInput("column count", entry(f"{WARP0} mov.b32 %r3, 48; {ALLOC}, %r3;", before=BAR), array, WIDE),
)
