"""An instruction that comes after several others in turn: compiled code knows them all, and finds what handlers find.

In these loops one instruction multiplies the tiles 0, 3, 6 and so on, and another one the others, so that what comes before the first step
of a tile changes from tile to tile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from ptxlab import native
from ptxlab.check.operands._observer import OperandCheck
from ptxlab.check.operands.compiled.predecessors import MOST_PREDECESSORS, Predecessors, is_known, words_of_predecessors
from ptxlab.native import address_of

from . import loop_kernels
from .loop_kernels import WAYS, in_turn

TILES = 15
KERNELS: dict[str, Callable[[int], str]] = {f"{way}, A in registers": partial(loop_kernels.of_registers, way) for way in WAYS}
KERNELS |= {f"{way}, A in shared memory": partial(loop_kernels.of_shared, way) for way in ("boxes", "copies")}


def both_ways(text: str, tiles: int = TILES, **options: Any) -> tuple[list[Any], bool, list[int]]:
    """The findings, which are the same with handlers alone, whether the product is right, and how often Python compares operands."""
    return loop_kernels.both_ways(OperandCheck, "_multiplied", text, tiles, **options)


@pytest.mark.parametrize("name", KERNELS)
def test_python_compares_the_first_tiles(name: str) -> None:
    counts = []
    for tiles in (TILES, 2 * TILES):
        diagnostics, right, (compared, handled) = both_ways(in_turn(KERNELS[name](tiles)), tiles)
        assert right
        assert diagnostics == []
        assert handled == 4 * tiles
        counts.append(compared)
    assert counts[0] == counts[1] < 4 * 6


HALF = "half a step of B"
WRONG: dict[str, str] = {
    HALF: "@%p0 sub.u64 %rd10, %rd10, 1;",
    "the same B again": "@%p0 sub.u64 %rd10, %rd10, 2;",
    "another step of B": "@%p0 xor.b64 %rd10, %rd10, 6;",
}
"""What is wrong with the operands from one step of one tile on."""


@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.parametrize("tile", [9, 10, 11])
@pytest.mark.parametrize("name", KERNELS)
def test_a_mistake_in_one_tile(name: str, tile: int, mistake: str) -> None:
    """Tile 9 is one of those that the other instruction multiplies. Whole steps of B are compared with those of an A in shared memory."""
    text = in_turn(KERNELS[name](TILES))
    where = f"setp.eq.u32 %p0, %r24, {tile};\n    setp.eq.and.u32 %p0, %r14, 2, %p0;\n    {WRONG[mistake]}"
    diagnostics, right, (compared, handled) = both_ways(text.replace("rem.u32 %r29", f"{where}\n    rem.u32 %r29", 1))
    assert not right
    assert {found.code for found in diagnostics} == ({"O105"} if mistake == HALF or "shared" in name else set())
    assert compared < handled


# ------------------------------------------------------------------------------------------------------------------ the table


@cache
def compiled() -> Any:
    """``i64 known(table, a, b)``."""
    module = native.Module()
    code = native.Function(module, "known", "i64", "ptr table, i64 a, i64 b")
    table, a, b = code.parameters
    code.ret(is_known(code, table, (a, b)).to("i64"))
    return native.compile_ir(module.text(), ["known"], opt=1, light=True)


def known(words: Any, a: int, b: int) -> bool:
    function = compiled().function("known", ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return bool(function(address_of(words), a, b))


def test_all_words_must_be_the_same() -> None:
    words = np.zeros(words_of_predecessors(2), np.int64)
    table = Predecessors(words, 2)
    assert not known(words, 0, 0)
    for each in ((3, 0), (5, -64), (3, 0)):
        table.add(*each)
    found = {(a, b) for a in range(8) for b in (-64, 0, 1) if known(words, a, b)}
    assert found == {(3, 0), (5, -64)}


def test_the_oldest_one_leaves() -> None:
    words = np.zeros(words_of_predecessors(2), np.int64)
    table, last = Predecessors(words, 2), MOST_PREDECESSORS + 3
    for number in range(last):
        table.add(number, 1)
        found = [a for a in range(last + 1) if known(words, a, 1)]
        assert found == list(range(max(0, number + 1 - MOST_PREDECESSORS), number + 1))
