"""Native ops on matrices, on tensor memory, and copies: both back ends against each other, and against what the specification says."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.engine import Fault, Status, Word
from tests.engine.native_helpers import BACKENDS, RNG, WORDS, both, run

SHOWS = {
    "test_matrices_of_bytes": ("ldmatrix.sync.aligned.m16n16*", "ldmatrix.sync.aligned.m8n16*"),
    "test_matrices_of_bytes_are_stored_transposed": ("stmatrix.sync.aligned.m16n8*",),
}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_matrices(count, trans):
    registers = ", ".join(f"%r{10 + i}" for i in range(count))
    body = f"""mov.u32 %r5, s; mul.lo.u32 %r6, %r1, 16; add.s32 %r6, %r6, %r5; mul.lo.u32 %r8, %r1, 4; add.s32 %r8, %r8, %r5;
      ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd8]; st.shared.v4.b32 [%r6], {{%r20, %r21, %r22, %r23}};
      ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r6];
      stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%r6+1024], {{{registers}}}; st.global.b32 [%rd7], %r10;
      st.global.b32 [%rd7+4], %r{9 + count};"""
    data = RNG.integers(0, 1 << 32, 128, np.uint32)
    bench, out = both("mul.wide.u32 %rd8, %r1, 16; add.s64 %rd8, %rd8, %rd1;" + body, data, before=".shared .align 16 .b8 s[2048];")
    matrices = data.view(np.uint16)[: count * 64].reshape(count, 8, 8)
    if trans:
        matrices = matrices.transpose(0, 2, 1)
    assert np.array_equal(out[:, 0], np.ascontiguousarray(matrices[0]).view(np.uint32).reshape(32))
    assert np.array_equal(out[:, 1], np.ascontiguousarray(matrices[count - 1]).view(np.uint32).reshape(32))
    assert np.array_equal(bench.shared[0x800 : 0x800 + 128 * count].view(np.uint16).reshape(count, 8, 8), matrices)


def elements_of_row(row, element):
    """Sixteen 8-bit elements of the bytes of a row."""
    word = int.from_bytes(row.tobytes(), "little")
    width = {"b8": 8, "b8x16.b6x16_p32": 6, "b8x16.b4x16_p64": 4, "s8.s4": 4}[element]
    found = np.array([word >> width * i & ((1 << width) - 1) for i in range(16)], np.uint8)
    return np.where((element == "s8.s4") & (found > 7), found | 0xF0, found).astype(np.uint8)


MATRICES_OF_BYTES = [("m16n16", count, ".trans", element) for count in (1, 2) for element in ("b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64")]
MATRICES_OF_BYTES += [("m8n16", count, "", element) for count in (1, 2, 4) for element in ("b8x16.b6x16_p32", "b8x16.b4x16_p64", "s8.s4")]


@pytest.mark.parametrize(("shape", "count", "trans", "element"), MATRICES_OF_BYTES)
def test_matrices_of_bytes(shape, count, trans, element):
    """Thread t holds row t/4, columns 4(t%4) on; of 16 rows, a second register holds row t/4 + 8."""
    each = 2 if shape == "m16n16" else 1
    registers = [f"%r{10 + i}" for i in range(count * each)]
    stores = " ".join(f"st.global.b32 [%rd7+{4 * i}], {r};" for i, r in enumerate(registers[-2:]))
    body = f"""mov.u32 %r5, s; mul.lo.u32 %r6, %r1, 16; add.s32 %r6, %r6, %r5;
      ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd8]; st.shared.v4.b32 [%r6], {{%r20, %r21, %r22, %r23}};
      ldmatrix.sync.aligned.{shape}.x{count}{trans}.shared.{element} {{{", ".join(registers)}}}, [%r6]; {stores}"""
    data = RNG.integers(0, 1 << 32, 128, np.uint32)
    before = ".shared .align 16 .b8 s[2048];"
    _, out = both("mul.wide.u32 %rd8, %r1, 16; add.s64 %rd8, %rd8, %rd1;" + body, data, before=before)
    rows = data.view(np.uint8).reshape(32, 16)[: 8 * count * each]
    matrices = np.stack([elements_of_row(row, element) for row in rows]).reshape(count, -1, 16)
    matrices = matrices.transpose(0, 2, 1) if trans else matrices
    held = np.ascontiguousarray(matrices).view(np.uint32).reshape(count * each, 32)[-2:]
    assert np.array_equal(out[:, : len(held)].T, held)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_bytes_are_stored_transposed(count):
    """A register holds columns 2(t%4) and the next of row t/4, then of row t/4 + 8; a column becomes a row of 16 bytes."""
    registers = ["%r20", "%r21", "%r22", "%r23"][:count]
    body = f"""mov.u32 %r5, s; mul.lo.u32 %r6, %r1, 16; add.s32 %r6, %r6, %r5; ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd8];
      stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r6], {{{", ".join(registers)}}};"""
    data = RNG.integers(0, 1 << 32, (32, 4), np.uint32)
    before = ".shared .align 16 .b8 s[2048];"
    bench, _ = both("mul.wide.u32 %rd8, %r1, 16; add.s64 %rd8, %rd8, %rd1;" + body, data.reshape(-1), before=before)
    values = data.view(np.uint8).reshape(8, 4, 4, 2, 2)[:, :, :count]
    matrices = values.transpose(2, 3, 0, 1, 4).reshape(count, 16, 8)
    assert np.array_equal(bench.shared[0x400 : 0x400 + 128 * count].reshape(count, 8, 16), matrices.transpose(0, 2, 1))


SHAPES = {"32x32b": (1, 1), "16x64b": (1, 2), "16x128b": (2, 4), "16x256b": (4, 8), "16x32bx2": (1, 1)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("quadrant", [0, 2])
def test_tensor_memory(shape, pack, quadrant):
    repeat = 2
    registers = SHAPES[shape][0] * repeat
    names = ", ".join(f"%r{20 + i}" for i in range(registers))
    more = ", ".join(f"%r{40 + i}" for i in range(registers))
    lane = 16 if shape != "32x32b" else 0
    half = ", 32" if shape == "16x32bx2" else ""
    offset = (lane << 16) + 64
    copies = " ".join(f"xor.b32 %r{20 + i}, %r2, {i};" for i in range(registers))
    stores = " ".join(f"st.global.b32 [%rd7+{4 * i}], %r{40 + i};" for i in range(registers))
    body = f"""{copies} mov.u32 %r5, 0;
      tcgen05.st.sync.aligned.{shape}.x{repeat}{".unpack::16b" if pack else ""}.b32 [%r5+{offset}]{half}, {{{names}}};
      tcgen05.ld.sync.aligned.{shape}.x{repeat}{".pack::16b" if pack else ""}.b32 {{{more}}}, [%r5+{offset}]{half}; {stores}"""

    def setup(bench):
        bench.context.words[Word.QUADRANT] = quadrant
        bench.words[:] = 0xABCD0000

    bench, out = both(body, WORDS, setup=setup)
    assert bench.status == Status.EXIT, bench.fault
    assert np.array_equal(out[:, :registers], WORDS[:, None] ^ np.arange(registers, dtype=np.uint32))
    touched = np.argwhere(bench.words != 0xABCD0000)
    assert touched[:, 1].min() >= 32 * quadrant + lane
    assert touched[:, 1].max() < 32 * quadrant + 32
    width = SHAPES[shape][1] * repeat * (2 if pack else 1)
    columns = set(range(64, 64 + width)) | (set(range(96, 96 + width)) if shape == "16x32bx2" else set())
    assert set(touched[:, 0].tolist()) == columns


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("511", Fault.TENSOR_RANGE),
        ("100", Fault.TENSOR_UNALLOCATED),
        ("0x200000", Fault.TENSOR_QUADRANT),
        ("0x10000", Fault.TENSOR_QUADRANT),
        ("0xffff", Fault.TENSOR_RANGE),
    ],
)
def test_tensor_faults(address, fault):
    def setup(bench):
        bench.owned[64:] = 0
        bench.owned[500:] = 1

    bench, _ = both(f"mov.u32 %r5, {address}; tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r8, %r9}}, [%r5];", WORDS, setup=setup)
    assert bench.fault[0] == fault


def test_tensor_address_must_be_equal():
    bench, _ = both("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r1];", WORDS)
    assert bench.fault[:2] == (Fault.TENSOR_UNEQUAL, 1)


@pytest.mark.parametrize("deferred", [False, True])
def test_asynchronous_copies(deferred):
    body = """mov.u32 %r5, s; mul.lo.u32 %r6, %r1, 16; add.s32 %r6, %r6, %r5; and.b32 %r8, %r1, 15; add.s32 %r8, %r8, 1;
      mul.wide.u32 %rd8, %r1, 16; add.s64 %rd8, %rd8, %rd1;
      setp.lt.u32 %p1, %r1, 30; @%p1 cp.async.ca.shared.global [%r6], [%rd8], 16;
      cp.async.ca.shared.global [%r6+512], [%rd8], 16, %r8; cp.async.ca.shared.global [%r6+1024], [%rd8], 4;"""
    data = RNG.integers(0, 1 << 32, 128, np.uint32)

    def setup(bench):
        bench.context.words[Word.DEFERRED] = deferred

    for backend in BACKENDS:
        bench, _ = run(body, data, backend=backend, before=".shared .align 16 .b8 s[2048];", setup=setup)
        assert bench.status == Status.EXIT, bench.fault
        if deferred:
            assert not bench.shared.any()
            count = int(bench.context.words[Word.PENDING_COUNT])
            assert count == 94
            assert bench.executable.drain_pending(bench.context, 0, 62, 0x7FFFFFFF) is None
            assert bench.executable.drain_pending(bench.context, 0, count) is None
        source = data.view(np.uint8).reshape(32, 16)
        got = bench.shared[0x400 : 0x400 + 512].reshape(32, 16)
        assert np.array_equal(got[:30], source[:30])
        assert not got[30:].any()
        part = bench.shared[0x600 : 0x600 + 512].reshape(32, 16)
        sizes = np.arange(32) % 16 + 1
        assert np.array_equal(part, np.where(np.arange(16) < sizes[:, None], source, 0))


def test_copies_beyond_memory():
    for body, fault in (
        ("[%r5], [%rd4+128], 4", Fault.GLOBAL_READ),
        ("[%r2], [%rd4], 4", Fault.SHARED_RANGE),
        ("[%r5], [%rd4+2], 4", Fault.MISALIGNED),
    ):
        bench, _ = both(
            f"mov.u32 %r5, s; cp.async.ca.shared.global {body};", np.full(32, 0x7FFFFFFC, np.uint32), before=".shared .b32 s[8];"
        )
        assert bench.fault[0] == fault
