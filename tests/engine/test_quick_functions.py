"""Support functions that are optimised when they have been called often."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab import native
from ptxlab.engine.support import _quick, compiled
from ptxlab.native.builder import Module

WORD = ctypes.c_int64


def times(name: str, factor: int, counted: bool) -> str:
    """LLVM IR of a function that multiplies its argument."""
    module = Module()
    c, (value,) = module.define(f"i64 {name}(i64 value)")
    c.ret(value * factor)
    if counted:
        _quick.add_counting(module, name)
    return module.text()


def tripled() -> int:
    """The address of a function that triples."""
    return native.compile_or_load(("test", "three"), ["three"], lambda: times("three", 3, False), opt=2).address("three")


def quick(name: str, optimised: Callable[[str], int], inner: str = "") -> tuple[Any, Any]:
    """A quick function that doubles."""

    def load(symbols: dict[str, int]) -> native.Library:
        return native.compile_or_load(("test", name), [name], lambda: times(name, 2, True), opt=0, symbols=symbols)

    made = _quick.QuickFunction(name, load, optimised, inner)
    return made, ctypes.CFUNCTYPE(WORD, WORD)(made.address)


def test_the_optimised_function_is_compiled_once_and_called_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_quick, "CALLS", 5)
    asked = []

    def optimised(name: str) -> int:
        asked.append(name)
        return tripled()

    _, call = quick("doubles", optimised)
    assert [call(10) for _ in range(4)] == [20] * 4
    assert not _quick.OFTEN[0]
    _quick.optimise_often()
    assert call(10) == 20
    assert _quick.OFTEN[0]
    _quick.optimise_often()
    assert [call(10) for _ in range(3)] == [30] * 3
    assert not _quick.OFTEN[0]
    _quick.optimise_often()
    assert asked == ["doubles"]


def test_a_loop_is_optimised_with_what_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_quick, "CALLS", 3)
    _, inner = quick("doubles_inside", lambda name: tripled())
    _, around = quick("doubles_around", lambda name: tripled(), "doubles_inside")
    assert [inner(10), inner(10), around(10)] == [20] * 3
    _quick.optimise_often()
    assert [inner(10), around(10)] == [20] * 2
    _quick.optimise_often()
    assert [inner(10), around(10)] == [30] * 2


def test_a_function_is_optimised_before_it_has_been_called_often() -> None:
    made, call = quick("doubles_more", lambda name: tripled())
    assert call(10) == 20
    made.optimise()
    assert call(10) == 30


def test_an_interrupted_optimisation_is_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_quick, "CALLS", 1)
    interrupts = [KeyboardInterrupt()]

    def optimised(name: str) -> int:
        if interrupts:
            raise interrupts.pop()
        return tripled()

    _, call = quick("doubles_interrupted", optimised)
    assert call(10) == 20
    with pytest.raises(KeyboardInterrupt):
        _quick.optimise_often()
    assert call(10) == 20
    _quick.optimise_often()
    assert call(10) == 30


BUSY = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry busy(.param .u64 out)
{
    .reg .u64 %rd<3>;
    .reg .u32 %r<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 0;
loop:
    atom.global.add.u32 %r2, [%rd1], 1;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 2000;
    @%p1 bra loop;
    ret;
}
"""


def test_one_launch_optimises_what_it_calls_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTXLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_quick, "CALLS", 100)
    compiled.address_of.cache_clear()
    try:
        kernel = ptxlab.loads(BUSY)["busy"]
        first = len(_quick._ALL)
        out = np.zeros(1, np.uint32)
        assert kernel.launch(grid=2, block=64, args=[out]).completed
        assert out[0] == 2 * 64 * 2000
        made = _quick._ALL[first:]
        assert made
        assert all(function._words[0] for function in made if function.is_called_often)
        assert any(function._words[0] for function in made)
    finally:
        compiled.address_of.cache_clear()
