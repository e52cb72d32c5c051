"""Compiled code repeats products whose A has been loaded to registers or to tensor memory, and finds in each tile what handlers find."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ptxlab.check.operands.elements.check import ElementCheck

from . import loop_kernels
from .loop_kernels import LOAD_A, MMA, MMA_OF_CELLS, STORE, WAYS

TILES = 12
WRONG = 7
"""The tile in which something is wrong."""
KERNELS: dict[str, Callable[[int], str]] = {"cells": loop_kernels.of_cells, "pairs": loop_kernels.of_pairs}
KERNELS["boxed cells"] = partial(loop_kernels.of_cells, boxed=True)
KERNELS["both"] = loop_kernels.of_both
KERNELS |= {way: partial(loop_kernels.of_registers, way) for way in WAYS}


def both_ways(text: str, tiles: int = TILES, **options: Any) -> tuple[list[Any], bool, list[int]]:
    """The findings, which are the same with handlers alone, whether the product is right, and how often matrices are compared in Python."""
    return loop_kernels.both_ways(ElementCheck, "multiplied", text, tiles, **options)


@pytest.mark.parametrize("name", KERNELS)
def test_python_compares_the_first_tiles(name: str) -> None:
    counts = []
    for tiles in (TILES, 2 * TILES):
        diagnostics, right, (compared, handled) = both_ways(KERNELS[name](tiles), tiles)
        assert right
        assert diagnostics == []
        assert handled == 4 * tiles * (1 + (name == "pairs"))
        counts.append(compared)
    assert counts[0] == counts[1] < handled // 4


def changed(kernel: str, old: str, new: str, tiles: int = TILES, tile: int = WRONG, step: str = "2", thread: str = "") -> str:
    """The kernel with other code in place of some, in which ``%p0`` holds in one step of one tile, perhaps of one thread alone."""
    cells = kernel in ("cells", "pairs", "boxed cells")
    where = f"setp.eq.u32 %p0, {'%r8' if cells else '%r24'}, {tile};\n"
    where += f"    setp.eq.and.u32 %p0, {'%r15' if cells else '%r14'}, {step}, %p0;\n" if step else ""
    where += f"    setp.eq.and.u32 %p0, %r1, {thread}, %p0;\n" if thread else ""
    text = KERNELS[kernel](tiles)
    assert old in text
    return text.replace(old, f"{where}    {new}", 1)


FIRST_LOAD = "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%rd1+0];"
FIRST_WORDS = "ld.shared.v4.b32 {%a0, %a1, %a2, %a3}, [%r17];"
BOX_OF_A = f"{loop_kernels.BOX} [%r20]"
NEXT_ROWS = "add.u64 %rd1, %rd1, 128;"
DIRECT_LOAD = "ld.global.b32 %r20, [%rd8+0];"
MMA_OF_BOTH = MMA.replace("%rd10", "%rd13")
HALF = "@%p0 xor.b32 %r11, %r11, 16;"
"""The halves of a row of k change places."""
MOVED = "@%p0 sub.u64 %rd8, %rd8, 16;\n    @%p0 sub.u64 %rd9, %rd9, 16;\n    " + DIRECT_LOAD

MISTAKES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    #                       the kernel, what is changed, the codes of the findings
    "cells: k":             ("cells", {"old": NEXT_ROWS, "new": "@%p0 sub.u64 %rd1, %rd1, 16;\n    " + NEXT_ROWS, "step": ""}, {"O105"}),
    "cells: a row":         ("cells", {"old": FIRST_LOAD, "new": f"@%p0 add.u64 %rd1, %rd1, 16;\n    {FIRST_LOAD}\n    "
                                       "@%p0 sub.u64 %rd1, %rd1, 16;", "step": "", "thread": "37"}, {"O101"}),
    "cells: columns":       ("cells", {"old": MMA_OF_CELLS, "new": "@%p0 add.u32 %r16, %r16, 8;\n    " + MMA_OF_CELLS}, {"O105"}),
    "cells: columns again": ("cells", {"old": MMA_OF_CELLS, "new": "@%p0 sub.u32 %r16, %r16, 8;\n    " + MMA_OF_CELLS}, {"O105"}),
    "cells: half a step":   ("cells", {"old": MMA_OF_CELLS, "new": "@%p0 sub.u32 %r16, %r16, 4;\n    " + MMA_OF_CELLS}, {"O105"}),
    "cells: B":             ("cells", {"old": MMA_OF_CELLS, "new": "@%p0 sub.u64 %rd11, %rd11, 1;\n    " + MMA_OF_CELLS}, {"O105"}),
    "cells: computed":      ("cells", {"old": STORE, "new": STORE + "\n    xor.b32 %r30, %r1, 5;\n    "
                                       "@%p0 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r24], {%r30};", "step": ""}, set()),
    "pairs: k":             ("pairs", {"old": NEXT_ROWS, "new": "@%p0 sub.u64 %rd1, %rd1, 16;\n    " + NEXT_ROWS, "step": ""}, {"O105"}),
    "pairs: a row":         ("pairs", {"old": FIRST_LOAD, "new": f"@%p0 add.u64 %rd1, %rd1, 16;\n    {FIRST_LOAD}\n    "
                                       "@%p0 sub.u64 %rd1, %rd1, 16;", "step": "", "thread": "37"}, {"O101"}),
    "pairs: the other CTA": ("pairs", {"old": FIRST_LOAD, "new": "setp.eq.and.u32 %p0, %r31, 1, %p0;\n    "
                                       f"@%p0 add.u64 %rd1, %rd1, 16;\n    {FIRST_LOAD}\n    "
                                       "@%p0 sub.u64 %rd1, %rd1, 16;", "step": "", "thread": "37"}, {"O101"}),
    "boxed cells: a row":   ("boxed cells", {"old": FIRST_WORDS, "new": f"@%p0 xor.b32 %r17, %r17, 16;\n    {FIRST_WORDS}", "step": "",
                                             "thread": "37"}, {"O101"}),
    "boxed cells: box":     ("boxed cells", {"old": BOX_OF_A, "new": f"@%p0 sub.u32 %r10, %r10, 16;\n    {BOX_OF_A}", "step": ""},
                             {"O105"}),
    "boxes: halves":        ("boxes", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}"}, {"O104"}),
    "boxes: a row":         ("boxes", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}", "thread": "37"}, {"O101"}),
    "boxes: k":             ("boxes", {"old": LOAD_A, "new": f"@%p0 xor.b32 %r11, %r11, 32;\n    {LOAD_A}"}, {"O105"}),
    "boxes: B":             ("boxes", {"old": MMA, "new": f"@%p0 sub.u64 %rd10, %rd10, 1;\n    {MMA}"}, {"O105"}),
    "copies: halves":       ("copies", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}"}, {"O104"}),
    "copies: a row":        ("copies", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}", "thread": "37"}, {"O101"}),
    "copies: k":            ("copies", {"old": LOAD_A, "new": f"@%p0 xor.b32 %r11, %r11, 32;\n    {LOAD_A}"}, {"O105"}),
    "copies: B":            ("copies", {"old": MMA, "new": f"@%p0 sub.u64 %rd10, %rd10, 1;\n    {MMA}"}, {"O105"}),
    "copies of A: halves":  ("copies of A", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}"}, {"O104"}),
    "copies of A: a row":   ("copies of A", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}", "thread": "37"}, {"O101"}),
    "copies of A: k":       ("copies of A", {"old": LOAD_A, "new": f"@%p0 xor.b32 %r11, %r11, 32;\n    {LOAD_A}"}, {"O105"}),
    "copies of A: B":       ("copies of A", {"old": MMA, "new": f"@%p0 sub.u64 %rd10, %rd10, 1;\n    {MMA}"}, {"O105"}),
    "both: a row":          ("both", {"old": LOAD_A, "new": f"{HALF}\n    {LOAD_A}", "thread": "37"}, {"O101"}),
    "both: k":              ("both", {"old": LOAD_A, "new": f"@%p0 xor.b32 %r11, %r11, 32;\n    {LOAD_A}"}, {"O105"}),
    "both: B":              ("both", {"old": MMA_OF_BOTH, "new": f"@%p0 sub.u64 %rd13, %rd13, 1;\n    {MMA_OF_BOTH}"}, {"O105"}),
    "both: words of B":     ("both", {"old": MMA_OF_BOTH, "new": f"@%p0 sub.u64 %rd13, %rd13, 1;\n    {MMA_OF_BOTH}", "tile": 5}, {"O105"}),
    "global: k":            ("global", {"old": DIRECT_LOAD, "new": MOVED}, {"O105"}),
    "global: some rows":     ("global", {"old": DIRECT_LOAD, "new": MOVED, "thread": "37"}, {"O101"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_one_tile(name: str) -> None:
    kernel, change, codes = MISTAKES[name]
    diagnostics, right, (compared, handled) = both_ways(changed(kernel, **change))
    assert not right
    assert {found.code for found in diagnostics} == codes
    assert compared < handled


def test_what_is_computed_in_one_tile_does_not_hide_what_is_wrong_in_another_one() -> None:
    kernel, change, _ = MISTAKES["cells: computed"]
    _, change_of_k, codes = MISTAKES["cells: k"]
    computed = changed(kernel, **change, tile=WRONG - 3)
    begin, (old, new) = computed.index(change_of_k["old"]), (change_of_k["old"], change_of_k["new"])
    text = computed[:begin] + computed[begin:].replace(old, f"setp.eq.u32 %p0, %r8, {WRONG};\n    {new}", 1)
    diagnostics, right, (compared, handled) = both_ways(text)
    assert not right
    assert {found.code for found in diagnostics} == codes
    assert compared < handled


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("policy", ["lazy", "random"])
def test_other_orders(name: str, policy: str) -> None:
    diagnostics, right, _ = both_ways(KERNELS[name](TILES), policy=policy)
    assert right
    assert diagnostics == []
