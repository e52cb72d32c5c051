"""Whole kernels through the machine on both backends, cached code, and speed that does not fall off a cliff."""

from __future__ import annotations

import time
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pytest
from benchmarks.generated import ARITHMETIC

import ptxlab
from ptxlab import native, ptx
from ptxlab.engine import Executable, Status, lower
from ptxlab.engine.llvm import _region_cache as cached
from ptxlab.native import _compile
from tests.engine.engine_helpers import HEADER, Bench, program_of

KERNELS = Path(__file__).parents[1] / "end_to_end" / "triton"


def gemm(backend, m=128, n=128, k=64):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    kernel = ptxlab.load(Path(__file__).parents[2] / "examples/gemm/matmul.ptx").kernel()
    kernel._executable = Executable(kernel.program, backend=backend)
    result = kernel.launch(grid=1, block=128, shared_bytes=98320, args=[a, b, c, m, n, k, k, n, n, None, None])
    result.raise_for_errors()
    return c, result.stats.instructions


def test_a_real_kernel_on_both_backends():
    (left, count), (right, other) = gemm("llvm"), gemm("numpy")
    assert left.any()
    assert np.array_equal(left.view(np.uint16), right.view(np.uint16))
    assert count == other


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.ptx")), ids=lambda p: p.stem)
def test_real_kernels_lower_to_small_frames(path):
    """No register that any path leaves undefined, frames within the first-level cache's reach, loops in one piece."""
    module = ptx.parse(path.read_text(), file=str(path))
    for function in module.functions.values():
        if function.kind != "entry":
            continue
        program = lower(module, function)
        assert program.frame_bytes < 128 << 10
        assert [op.index for op in program.ops] == list(range(len(program.ops)))
        assert program.blocks[0].start == 0
        for block in program.blocks:
            assert all(0 <= s < len(program.blocks) for s in block.successors)


BODY = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; st.global.b32 [%rd2], %r1; ret;"


def launch_once():
    bench = Bench(program_of(BODY, params=".param .u64 out"), arrays=[np.zeros(32, np.uint32)])
    bench.set_param("out", bench.addresses[0])
    assert bench.run() == Status.EXIT
    assert bench.arrays[0].tolist() == list(range(32))
    return bench


def test_a_warm_start_builds_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    assert launch_once().executable.compiled == 1

    def refuse(*args, **kwargs):
        raise AssertionError("compiled although the cache has it")

    monkeypatch.setattr(cached, "emit_region", refuse)
    monkeypatch.setattr(native, "compile_object", refuse)
    launch_once()


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_equal_regions_share_their_code(tmp_path, monkeypatch, where):
    """Of kernels with other names, comments and source lines."""
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PTXLAB_CACHE", "on" if where == "disk" else "off")
    made, emit_object = [], _compile.emit_object

    def noted(machine, code):
        made.append(code)
        return emit_object(machine, code)

    body = "{ mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.b32 [%rd1], %r1; ret; }\n"
    declared = "(.param .u64 out) { .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    first = ptxlab.loads(f"{HEADER}.entry a{declared}{body}}}")
    second = ptxlab.loads(f"{HEADER}// more\n.entry b{declared}.loc 1 7 3\n{body}}}\n.entry c{declared}{body.replace('r1, 4', 'r1, 8')}}}")

    def launch(kernel):
        if where == "disk":
            monkeypatch.setattr(cached, "_LOADED", WeakValueDictionary())
        got = np.zeros(64, np.uint32)
        kernel.launch(grid=1, block=32, args=[got], check="none").raise_for_errors()
        return got.tolist()

    # What a process compiles for its first launch is not counted.
    launch(ptxlab.loads(f"{HEADER}.entry other{declared}{body.replace('r1, 4', 'r1, 0')}}}")["other"])
    monkeypatch.setattr(cached, "_LOADED", WeakValueDictionary())
    monkeypatch.setattr(_compile, "emit_object", noted)
    ids = list(range(32))
    assert launch(first["a"]) == ids + [0] * 32
    assert launch(second["b"]) == ids + [0] * 32
    assert len(made) == 1
    assert launch(second["c"]) == [x for i in ids for x in (i, 0)]
    assert len(made) == 2


def test_another_text_or_option_is_other_code(tmp_path, monkeypatch):
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    text = f"{HEADER}.entry k(.param .u64 o) {{ .reg .f32 %f<4>; mul.f32 %f1, %f2, %f2; add.f32 %f3, %f1, %f2; ret; }}"
    module = ptx.parse(text)
    plain, fused = (lower(module, module.functions["k"], contract=c) for c in (False, True))
    assert plain.digest != fused.digest
    assert [op.opcode for op in fused.ops] == ["mul.f32", "fma.rn.f32", "ret"]
    other = ptx.parse(text.replace("add.f32", "sub.f32"))
    assert lower(other, other.functions["k"]).digest != plain.digest


def test_a_corrupt_cache_costs_only_time(tmp_path, monkeypatch):
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    launch_once()
    for file in tmp_path.rglob("*.o"):
        file.write_bytes(file.read_bytes()[:-7] + b"garbage")
    launch_once()


def test_scalar_code_is_fast():
    """150 ns for a warp-instruction is three times what is promised; 4 to 15 are measured, and an interpreter needs over 1,000."""
    body = """mov.u32 %r2, 0; LOOP: add.s32 %r3, %r3, %r2; xor.b32 %r3, %r3, 5; add.s32 %r2, %r2, 1;
      setp.lt.u32 %p1, %r2, 1000000; @%p1 bra LOOP; ret;"""
    bench = Bench(program_of("mov.u32 %r3, 0;" + body), fuel=1 << 40)
    started = time.process_time()
    assert bench.run() == Status.EXIT
    assert time.process_time() - started < 5_000_000 * 150e-9


def test_scalar_code_of_many_kinds_is_fast():
    """The loop of the benchmark, in four warps."""
    kernel = ptxlab.loads(ARITHMETIC).kernel()
    options = {"grid": 1, "block": 128, "check": "none"}
    kernel.launch(args=[None, 1], **options)
    started = time.process_time()
    result = kernel.launch(args=[None, 10_000], **options)
    assert result.stats.instructions > 4 * 10_000 * 96
    assert time.process_time() - started < result.stats.instructions * 150e-9


def test_many_instructions_lower_quickly():
    lines = [
        f"L{i}: add.s32 %q{i % 900}, %q{(i * 7) % 900}, {i}; setp.eq.s32 %p1, %q{i % 900}, 0; @%p1 bra L{max(i - 40, 0)};"
        for i in range(7000)
    ]
    declared = ".reg .pred %p<3>; .reg .b32 %q<900>;"
    module = ptx.parse(f"{HEADER}.entry k() {{ {declared} {''.join(lines)} ret; }}")
    started = time.process_time()
    program = lower(module, module.functions["k"])
    assert len(program.ops) == 21001
    assert time.process_time() - started < 10
