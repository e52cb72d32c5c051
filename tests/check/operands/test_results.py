"""D that tcgen05.ld loads with one shape, and that threads store as if it were another one."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from ptxlab.check.operands import _observer

from .word_kernels import LOADED, STORED, TEXT, launch

LOAD = f"tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{LOADED}}}, [%r4];"
ADDRESS = "mul.wide.u32 %rd5, %r1, 256;"


def _loads(shape: str) -> str:
    """Two loads, each of 16 lanes of the warp."""
    registers = LOADED.split(", ")
    text = "".join(
        f"add.u32 %r20, %r4, {lane << 16};\n    "
        f"tcgen05.ld.sync.aligned.{shape}.b32 {{{', '.join(registers[2 * lane : 2 * lane + 32])}}}, [%r20];\n    "
        for lane in (0, 16)
    )
    assert LOAD in TEXT
    return TEXT.replace(LOAD, text)


OF_LANES = _loads("16x256b.x8")
"""The stores are those of .32x32b."""
_ROW = """shr.u32 %r16, %r1, 5;
    shl.b32 %r16, %r16, 5;
    and.b32 %r17, %r1, 31;
    shr.u32 %r18, %r17, 2;
    add.u32 %r16, %r16, %r18;
    mul.wide.u32 %rd5, %r16, 256;
    and.b32 %r17, %r17, 3;
    mul.wide.u32 %rd6, %r17, 8;
    add.u64 %rd5, %rd5, %rd6;"""
_PAIRS = "\n".join(
    f"    st.global.v2.f32 [%rd5+{256 * (16 * part + 8 * half) + 32 * block}], "
    f"{{%f{32 * part + 4 * block + 2 * half}, %f{32 * part + 4 * block + 2 * half + 1}}};"
    for part in range(2)
    for block in range(8)
    for half in range(2)
)
FITTING = OF_LANES.replace(ADDRESS, _ROW).replace(STORED, _PAIRS)
"""The stores are those of .16x256b."""
WHOLE = TEXT.replace(
    LOAD,
    "".join(
        f"add.u32 %r20, %r4, {first};\n    "
        f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{', '.join(LOADED.split(', ')[first : first + 32])}}}, [%r20];\n    "
        for first in (0, 32)
    ),
)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("text", [TEXT, WHOLE, FITTING], ids=["32x32b.x64", "32x32b.x32", "16x256b.x8"])
def test_the_kernel_itself(text: str, backend: str) -> None:
    result, right = launch(text, backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("shape", ["16x256b.x8", "16x128b.x16", "16x64b.x32"])
def test_stores_of_another_shape(shape: str, backend: str) -> None:
    result, right = launch(_loads(shape), backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O109"}
    first = result.diagnostics[0]
    assert first.fix == f"load with .32x32b.x32, or store each register where its lane and column of .{shape.split('.')[0]} belong"


def test_a_load_of_rows_whose_stores_are_those_of_fragments() -> None:
    result, right = launch(WHOLE.replace(ADDRESS, _ROW).replace(STORED, _PAIRS), check="operands")
    assert not right
    assert [found.code for found in result.diagnostics] == ["O109"] * 2
    assert "load with .16x256b.x8" in result.diagnostics[0].fix


def test_message() -> None:
    result, _ = launch(OF_LANES, check="operands")
    assert result.diagnostics[0].message == (
        "what is loaded as .16x256b is stored as if it had been loaded as .32x32b.x32: c[127, 31] is lane 15, column 63, counted from the "
        "address"
    )


FIRST = "    ld.param.u64 %rd4, [c];"
MOVED = {
    "another block": "mov.f32 %f9, %f9;\n    setp.gt.u32 %p7, %r1, 200;\n    @%p7 bra NEXT;\n    mov.u32 %r30, 7;\nNEXT:",
    "moves and back": "mov.b32 %r30, %f3;\n    mov.b32 %r31, %f5;\n    bra.uni NEXT;\nNEXT:\n    mov.b64 %rd8, {%r31, %r30};\n"
    "    mov.b64 {%f5, %f3}, %rd8;",
    "a choice": "setp.lt.u32 %p7, %r1, 40;\n    selp.b32 %f9, %f9, %f9, %p7;",
    "permuted twice": "mov.b32 %r30, %f3;\n    prmt.b32 %r30, %r30, 0, 0x1032;\n    prmt.b32 %r30, %r30, 0, 0x1032;\n"
    "    mov.b32 %f3, %r30;",
    "some lanes": "setp.lt.u32 %p7, %r1, 40;\n    mov.f32 %f4, %f4;\n    @%p7 mov.f32 %f4, %f4;",
}


def behind(text: str, moves: str) -> str:
    """The kernel with something between the load and the stores."""
    assert FIRST in text
    return text.replace(FIRST, f"    {moves}\n{FIRST}")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("name", MOVED)
def test_results_that_are_moved(name: str, backend: str) -> None:
    result, right = launch(behind(WHOLE, MOVED[name]), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    result, right = launch(behind(OF_LANES, MOVED[name]), backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O109"}
    assert "load with .32x32b.x32" in result.diagnostics[0].fix


def with_spares(text: str) -> str:
    """The kernel with other registers to which those of the load can be moved."""
    return text.replace(".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b32 %g<64>;")


def _all_moved(text: str) -> str:
    """All registers are moved to other ones, and back in another block."""
    there = "".join(f"    mov.b32 %g{i}, %f{i};\n" for i in range(64))
    back = "".join(f"    mov.b32 %f{i}, %g{i};\n" for i in range(64))
    return behind(with_spares(text), f"{there}    bra.uni NEXT;\nNEXT:\n{back}")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_results_all_of_which_are_moved(backend: str) -> None:
    result, right = launch(_all_moved(WHOLE), backend=backend, check="operands")
    assert right
    assert result.diagnostics == ()
    result, right = launch(_all_moved(OF_LANES), backend=backend, check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O109"}
    assert result.diagnostics[0].message == (
        "what is loaded as .16x256b is stored as if it had been loaded as .32x32b.x32: c[127, 31] is lane 15, column 63, counted from the "
        "address"
    )


def test_registers_that_are_chosen_for_each_lane() -> None:
    """Odd lanes exchange registers, and store what they hold where it belongs."""
    exchange = "".join(
        f"    selp.b32 %g{i}, %f{i}, %f{i + 1}, %p7;\n    selp.b32 %f{i + 1}, %f{i + 1}, %f{i}, %p7;\n    mov.b32 %f{i}, %g{i};\n"
        for i in range(0, 64, 2)
    )
    even = "and.b32 %r31, %r1, 1;\n    setp.eq.u32 %p7, %r31, 0;\n" + exchange
    places = "shl.b32 %r31, %r31, 2;\n    cvt.u64.u32 %rd6, %r31;\n    add.u64 %rd7, %rd5, %rd6;\n    sub.u64 %rd6, %rd5, %rd6;\n"
    stores = "\n".join(f"    st.global.f32 [%rd{7 if i % 2 == 0 else 6}+{4 * i}], %f{i};" for i in range(64))
    for text, shown in ((WHOLE, False), (OF_LANES, True)):
        result, right = launch(behind(with_spares(text).replace(STORED, places + stores), even), check="operands")
        assert right is not shown
        assert {found.code for found in result.diagnostics} == ({"O109"} if shown else set())


def test_an_array_of_one_dimension_says_nothing() -> None:
    """Nothing says how long its rows are."""
    result, right = launch(OF_LANES, check="operands", one_row=True)
    assert not right
    assert result.diagnostics == ()


def test_values_that_are_computed_are_not_judged() -> None:
    first = "    ld.param.u64 %rd4, [c];"
    change = "".join(f"    add.f32 %f{i}, %f{i}, 0f00000000;\n" for i in range(64))
    result, _ = launch(OF_LANES.replace(first, change + first), check="operands")
    assert result.diagnostics == ()


def _kept(monkeypatch: pytest.MonkeyPatch, ctas: int) -> int:
    """Bytes that the check of a launch holds when it is over."""
    made = []
    start = _observer.OperandCheck.__init__
    monkeypatch.setattr(_observer.OperandCheck, "__init__", lambda self, *args: (made.append(self), start(self, *args))[1])
    tracemalloc.start()
    assert launch(TEXT, check="operands", grid=ctas)[1]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    monkeypatch.undo()
    return size


def test_ctas_that_have_exited_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has 16 KiB of shared memory, and 256 KiB of tensor memory; what else the process allocates is not in all of three launches."""
    few, many = (min(_kept(monkeypatch, ctas) for _ in range(3)) for ctas in (2, 10))
    assert many - few < 8 * 4096
