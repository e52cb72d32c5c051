"""No address reaches host memory: whatever lanes ask for, the access is performed inside an allocation or refused."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.engine import Status, Word
from tests.engine.engine_helpers import Bench, program_of
from tests.sweep_helpers import one_in

INTERESTING = np.array(
    [0, 1, 3, 4, 8, 0x3FC, 0x400, 0x1FF8, 0x1FFC, 0x1FFF, 0x2000, 0x1000400, 0x2000400, 0xFFFFFF, 0xFFFFFFFF, 0x380, 0x390]
    + [
        base + d
        for base in (0x8001_0000_0000, 0x8002_0000_0000, 0x8003_0000_0000)
        for d in (0, 4, 0x380, 0x400, 0x1FF0, 0x2000, 0x1000400, 1 << 31)
    ]
    + [base + d for base in (0x8010_0001_0000, 0x8010_0002_0000) for d in (-8, -4, 0, 4, 2, 124, 128, 508, 512, 1 << 40)]
    + [(1 << 64) - d for d in (1, 4, 8, 16, 0x10000)]
    + [1 << 63, 0x7FFF_FFFF_FFFF, 0x5555_5555_0000],
    dtype=object,
)
FORMS = [
    "ld{s}.b8 %r3, {a};",
    "ld{s}.b32 %r3, {a};",
    "ld{s}.v4.b32 {{%r3, %r4, %r5, %r6}}, {a};",
    "ld{s}.b128 %rq1, {a};",
    "st{s}.b16 {a}, %h1;",
    "st{s}.v2.b64 {a}, {{%rd6, %rd6}};",
]
ATOMIC = ["atom{s}.add.u32 %r3, {a}, 1;", "red{s}.add.u64 {a}, %rd6;", "atom{s}.cas.b128 %rq1, {a}, %rq2, %rq3;"]
WIDE = [
    "ld{s}.v8.b32 {{%r2, %r3, %r4, %r5, %r6, %r7, %r10, %r11}}, {a};",
    "ld{s}.v4.b64 {{%rd3, %rd4, %rd5, %rd7}}, {a};",
    "st{s}.v8.b32 {a}, {{%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}};",
    "st{s}.v4.b64 {a}, {{%rd6, %rd6, %rd6, %rd6}};",
]
VECTOR_ATOMIC = [
    "atom{s}.add.v2.f32 {{%f3, %f4}}, {a}, {{%f1, %f2}};",
    "red{s}.add.v4.f32 {a}, {{%f1, %f2, %f1, %f2}};",
    "red{s}.max.noftz.v8.f16 {a}, {{%h1, %h1, %h1, %h1, %h1, %h1, %h1, %h1}};",
]
MATRIX = [
    "ldmatrix.sync.aligned.m8n8.x4{s}.b16 {{%r2, %r3, %r4, %r5}}, {a};",
    "ldmatrix.sync.aligned.m16n16.x1.trans{s}.b8 {{%r2, %r3}}, {a};",
    "stmatrix.sync.aligned.m8n8.x2{s}.b16 {a}, {{%r1, %r1}};",
]
FURTHER = {
    "generic": [*ATOMIC, *WIDE, *VECTOR_ATOMIC, *MATRIX],
    "global": [*ATOMIC, *WIDE, *VECTOR_ATOMIC, "cp.async.cg.shared.global [%r8], {a}, 16;"],
    "shared": [*ATOMIC, *MATRIX, "cp.async.ca.shared.global {a}, [%rd1], 8;"],
    "shared::cluster": ATOMIC,
}


def run(form, space, wide, addresses, backend):
    register = "%rd9" if wide else "%r9"
    dots = "" if space == "generic" else f".{space}"
    prepare = (
        "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [table]; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2; ld.global.b64 %rd9, [%rd3];"
    )
    zeros = "mov.b64 %rd6, 5; mov.b16 %h1, 7; mov.b128 %rq2, {%rd6, %rd6}; mov.b128 %rq3, {%rd6, %rd6};"
    zeros += "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0fC0000000; mov.u32 %r8, 0x400;"
    body = f"{prepare} {zeros} cvt.u32.u64 %r9, %rd9; {form.format(s=dots, a=f'[{register}]')} ret;"
    program = program_of(body, params=".param .u64 table", before=".local .align 16 .b8 l[64];")
    table = np.array([int(a) & (1 << 64) - 1 for a in addresses], np.uint64)
    bench = Bench(
        program,
        backend=backend,
        arrays=[np.arange(128, dtype=np.uint32), np.arange(32, dtype=np.uint32), table],
        cluster=2,
        readonly=(1, 2),
    )
    bench.set_param("table", bench.addresses[2])
    status = bench.run()
    words = [int(bench.context.words[w]) for w in (Word.FAULT, Word.FAULT_LANE, Word.FAULT_ADDRESS)]
    return status, words, [*bench.arrays, *bench.all_shared, bench.local, bench.params, bench.frame if backend == "llvm" else None]


@pytest.mark.parametrize("space", one_in(3, ["generic", "global", "shared", "shared::cluster", "local", "param", "const"]))
@pytest.mark.parametrize("wide", [False, True])
def test_any_address(space, wide):
    rng = np.random.default_rng(len(space) + wide)
    forms = FORMS if space not in ("param", "const") else FORMS[:4]
    for form in [*forms, *FURTHER.get(space, [])]:
        for trial in range(4):
            addresses = rng.choice(INTERESTING, 32)
            if trial == 2:
                addresses = np.full(32, INTERESTING[rng.integers(len(INTERESTING))], dtype=object)
            if trial == 3:
                addresses = np.array([int(v) for v in rng.integers(0, 1 << 63, 32)], dtype=object)
            (status, words, memory), (other, others, expected) = (run(form, space, wide, addresses, b) for b in ("llvm", "numpy"))
            assert status == other
            assert status in (Status.EXIT, Status.FAULT)
            assert words == others, (form, [hex(int(a)) for a in addresses])
            assert all(np.array_equal(a, b) for a, b in zip(memory[:-1], expected[:-1], strict=True))
