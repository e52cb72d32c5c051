"""atom and red of every operation and type, alone and in vectors, against Python's integers and NumPy's floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab

SHOWS = {
    "test_integers": (
        "atom{.order=*(op=add).(type=u32|s32|u64|f64)", "atom{.order=*(op=min|max).(type=u32|s32|u64|s64)",
        "atom{.order=*(op=inc|dec)*", "atom{.order=*(op=and|or|xor)*", "red{.order=*(op=add).(type=u32|s32|u64|f64)",
        "red{.order=*(op=min|max).(type=u32|s32|u64|s64)", "red{.order=*(op=inc|dec)*", "red{.order=*(op=and|or|xor)*",
    ),
    "test_exchange": ("atom{.order=*.exch.*",),
    "test_compare_and_swap": ("atom{.order=*.cas.*",),
    "test_floats": (
        "atom{.order=*(op=add){.noftz}.(type=f32)", "atom{.order=*(op=add).noftz.(type=f16|f16x2*",
        "red{.order=*(op=add){.noftz}.(type=f32)", "red{.order=*(op=add).noftz.(type=f16|f16x2*",
    ),
    "test_vectors": ("atom{.order=*(vec=*", "red{.order=*(vec=*"),
}  # fmt: skip

THREADS = 64
Combine = Callable[[Any, Any], Any]


def launch(body: str, memory: NDArray[Any], values: NDArray[Any], results: NDArray[Any], **options: Any) -> None:
    """``rd0``: the element that the thread shares with others; ``rd1``, ``rd2``: its own value and result, of 32 bytes."""
    text = f"""
.version 9.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 memory, .param .u64 values, .param .u64 results)
{{
    .reg .pred p;
    .reg .b16 h<20>;
    .reg .b32 r<20>;
    .reg .b64 rd<20>;
    .reg .b128 q<4>;
    .shared .align 32 .b8 shared[256];
    ld.param.u64 rd0, [memory];
    ld.param.u64 rd1, [values];
    ld.param.u64 rd2, [results];
    mov.u32 r0, %tid.x;
    mad.wide.u32 rd1, r0, 32, rd1;
    mad.wide.u32 rd2, r0, 32, rd2;
    and.b32 r0, r0, 7;
    mad.wide.u32 rd0, r0, 32, rd0;
    {body}
    ret;
}}
"""
    kernel = ptxlab.loads(text).kernel()
    result = kernel.launch(grid=1, block=len(values), args=[memory, values, results], check="none", **options)
    assert result.completed, [str(d) for d in result.diagnostics]


def words(seed: int, lines: int, dtype: Any = np.uint64) -> NDArray[Any]:
    """Random lines of 32 bytes, of which many values lie close to each other."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 1 << 64, (lines, 4), np.uint64)
    found[::2] = rng.integers(0, 9, (len(found[::2]), 4), np.uint64)
    return found.view(dtype)


def in_turn(memory: NDArray[Any], values: NDArray[Any], combine: Combine) -> tuple[list[Any], list[Any]]:
    """What the first elements become, and what each thread saw: threads in order of their numbers."""
    cells, seen = [line[0] for line in memory.tolist()], []
    for thread, line in enumerate(values.tolist()):
        seen.append(cells[thread % 8])
        cells[thread % 8] = combine(cells[thread % 8], line[0])
    return cells, seen


def signed(bits: int, word: int) -> int:
    return word - (1 << bits) if word >> (bits - 1) else word


INTEGERS = [(f"{op}.{t}", int(t[1:])) for op, ts in (
    ("add", "u32 s32 u64"), ("min", "u32 s32 u64 s64"), ("max", "u32 s32 u64 s64"), ("inc", "u32"), ("dec", "u32"),
    ("and", "b32 b64"), ("or", "b32 b64"), ("xor", "b32 b64"),
) for t in ts.split()]  # fmt: skip


def integer(operation: str, bits: int) -> Combine:
    name, type = operation.split(".")
    mask = (1 << bits) - 1
    key = (lambda v: signed(bits, v)) if type[0] == "s" else (lambda v: v)
    return {
        "add": lambda m, v: m + v & mask,
        "min": lambda m, v: min(m, v, key=key),
        "max": lambda m, v: max(m, v, key=key),
        "inc": lambda m, v: 0 if m >= v else m + 1,
        "dec": lambda m, v: v if m == 0 or m > v else m - 1,
        "and": lambda m, v: m & v,
        "or": lambda m, v: m | v,
        "xor": lambda m, v: m ^ v,
    }[name]


@pytest.mark.parametrize(("operation", "bits"), INTEGERS)
@pytest.mark.parametrize("space", [".global", "", ".shared"])
def test_integers(space: str, operation: str, bits: int) -> None:
    dtype, value, old = (np.uint32, "r1", "r2") if bits == 32 else (np.uint64, "rd4", "rd5")
    threads = 32 if space == ".shared" else THREADS  # one warp: after a barrier, another order of warps would be right too
    memory, values = words(1, 8, dtype), words(2, threads, dtype)
    for read in (True, False):
        made, results = memory.copy(), np.zeros((threads, 32 // np.dtype(dtype).itemsize), dtype)
        address, before, after = "rd0", "", ""
        if space == ".shared":
            address = "rd9"
            before = f"mov.u32 r3, shared; mad.lo.u32 r3, r0, 32, r3; cvt.u64.u32 rd9, r3; ld.global.b{bits} {old}, [rd0];"
            before += f"st.shared.b{bits} [rd9], {old}; bar.sync 0;"
            after = f"bar.sync 0; ld.shared.b{bits} {value}, [rd9]; st.global.b{bits} [rd0], {value};"
        op = (
            f"atom.relaxed.gpu{space}.{operation} {old}, [{address}], {value};" if read else f"red{space}.{operation} [{address}], {value};"
        )
        store = f"st.global.b{bits} [rd2], {old};" if read else ""
        launch(f"{before} ld.global.b{bits} {value}, [rd1]; {op} {store} {after}", made, values, results)
        cells, seen = in_turn(memory, values, integer(operation, bits))
        assert made[:, 0].tolist() == cells
        assert not read or results[:, 0].tolist() == seen


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_exchange(bits: int) -> None:
    register = {32: "r1", 64: "rd4", 128: "q1"}[bits]
    memory, values, results = words(3, 8), words(4, THREADS), np.zeros((THREADS, 4), np.uint64)
    made = memory.copy()
    body = f"ld.global.b{bits} {register}, [rd1]; atom.global.exch.b{bits} {register}, [rd0], {register};"
    launch(body + f"st.global.b{bits} [rd2], {register};", made, values, results)
    size = bits // 8
    cells = [line.tobytes()[:size] for line in memory]
    for thread in range(THREADS):
        assert results[thread].tobytes()[:size] == cells[thread % 8]
        cells[thread % 8] = values[thread].tobytes()[:size]
    assert [line.tobytes()[:size] for line in made] == cells


@pytest.mark.parametrize("bits", [16, 32, 64, 128])
def test_compare_and_swap(bits: int) -> None:
    """Threads compare with a small number and put another one there: chains of swaps, each against the last value."""
    register = {16: "h", 32: "r", 64: "rd", 128: "q"}[bits]
    rng = np.random.default_rng(5)
    memory, values = rng.integers(0, 3, (8, 4), np.uint64), rng.integers(0, 3, (THREADS, 4), np.uint64)
    values[:, 1] = values[:, 3] = memory[:, 1] = 0
    made, results = memory.copy(), np.zeros((THREADS, 4), np.uint64)
    n = 10 if bits != 128 else 0
    a, b = f"{register}{n + 1}", f"{register}{n + 2}"
    body = f"ld.global.b{bits} {a}, [rd1]; ld.global.b{bits} {b}, [rd1+16]; atom.global.cas.b{bits} {a}, [rd0], {a}, {b};"
    launch(body + f"st.global.b{bits} [rd2], {a};", made, values, results)
    cells = memory[:, 0].tolist()
    for thread in range(THREADS):
        assert results[thread, 0] == cells[thread % 8]
        if values[thread, 0] == cells[thread % 8]:
            cells[thread % 8] = int(values[thread, 2])
    assert made[:, 0].tolist() == cells


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def floats(kind: str, seed: int, lines: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    dtype = FLOATS[kind]
    width = 32 // np.dtype(dtype).itemsize
    return (rng.standard_normal((lines, width)) * 2.0 ** rng.integers(-4, 5, (lines, width))).astype(dtype)


def one_by_one(memory: NDArray[Any], values: NDArray[Any], count: int, combine: Combine) -> NDArray[Any]:
    """The first ``count`` elements after each thread's turn; a sum of two 16-bit floats in float32 rounds like the exact one."""
    found = memory.copy()
    for thread, line in enumerate(values):
        cell = found[thread % 8]
        wide = np.float64 if memory.dtype == np.float64 else np.float32
        cell[:count] = combine(cell[:count].astype(wide), line[:count].astype(wide)).astype(memory.dtype)
    return found


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"])
@pytest.mark.parametrize("read", [True, False])
def test_floats(kind: str, read: bool) -> None:
    element, count = kind.removesuffix("x2"), 2 if kind.endswith("x2") else 1
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[element] * count
    register = {16: "h11", 32: "r1", 64: "rd4"}[bits]
    noftz = ".noftz" if element[-2:] == "16" else ""
    memory, values = floats(element, 6, 8), floats(element, 7, THREADS)
    made, results = memory.copy(), np.zeros_like(values)
    op = f"atom.global.add{noftz}.{kind} {register}, [rd0], {register};" if read else f"red.global.add{noftz}.{kind} [rd0], {register};"
    launch(f"ld.global.b{bits} {register}, [rd1]; {op} st.global.b{bits} [rd2], {register};", made, values, results)
    assert np.array_equal(made, one_by_one(memory, values, count, np.add))
    if read:
        for thread in range(THREADS):
            assert np.array_equal(results[thread, :count], one_by_one(memory, values[:thread], count, np.add)[thread % 8, :count])


@pytest.mark.parametrize(("flag", "flushed"), [("", True), (".noftz", False)])
def test_subnormals_of_global_additions(flag: str, flushed: bool) -> None:
    """Without ``.noftz``, global memory takes subnormal operands and results for zeros."""
    memory, values = np.zeros((8, 8), np.float32), np.full((THREADS, 8), 2.0**-130, np.float32)
    launch(f"ld.global.b32 r1, [rd1]; red.global.add{flag}.f32 [rd0], r1;", memory, values, np.zeros_like(values))
    assert memory[:, 0].tolist() == [0.0 if flushed else 8 * 2.0**-130] * 8


VECTORS = [("f32", n, "add", flag) for n in (2, 4) for flag in ("", ".noftz")]
VECTORS += [(kind, n, op, ".noftz") for kind in ("f16", "bf16") for n in (2, 4, 8) for op in ("add", "min", "max")]
VECTORS += [(kind, n, op, ".noftz") for kind in ("f16x2", "bf16x2") for n in (2, 4) for op in ("add", "min", "max")]


@pytest.mark.parametrize(("kind", "count", "operation", "flag"), VECTORS)
def test_vectors(kind: str, count: int, operation: str, flag: str) -> None:
    element = kind.removesuffix("x2")
    bits, letter = (16, "h") if kind in ("f16", "bf16") else (32, "r")
    elements = count * (2 if kind.endswith("x2") else 1)
    memory, values = floats(element, 8, 8), floats(element, 9, THREADS)
    value, old = (", ".join(f"{letter}{n + i}" for i in range(count)) for n in (2, 11))
    loads = " ".join(f"ld.global.b{bits} {letter}{2 + i}, [rd1+{i * bits // 8}];" for i in range(count))
    stores = " ".join(f"st.global.b{bits} [rd2+{i * bits // 8}], {letter}{11 + i};" for i in range(count))
    combine: Combine = {"add": np.add, "min": np.minimum, "max": np.maximum}[operation]
    for read in (True, False):
        made, results = memory.copy(), np.zeros_like(values)
        name = f"{'atom' if read else 'red'}.global.{operation}{flag}.v{count}.{kind}"
        op = f"{name} {{{old}}}, [rd0], {{{value}}};" if read else f"{name} [rd0], {{{value}}};"
        launch(f"{loads} {op} {stores if read else ''}", made, values, results)
        assert np.array_equal(made, one_by_one(memory, values, elements, combine))
        if read:
            assert np.array_equal(results[8:16, :elements], one_by_one(memory, values[:8], elements, combine)[:, :elements])
