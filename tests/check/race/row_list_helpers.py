"""Lists of steps that copy rows of a tensor: four rows with a coordinate each, and pixels in im2col mode."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, NamedTuple

import ptxlab
from ptxlab.isa.bulk import _rows, _tensor
from tests.isa.bulk import box_step_helpers as boxes

from .box_list_helpers import ACCESS_SOURCE, MOST, TURNS, Lists, element, fenced, in_each_turn, run_sources
from .test_compiled_copies import MULTIPLY

__all__ = ["FOUR_ROWS", "KINDS", "PIXELS", "Copies", "by_another"]

_ROWS = "add.u32 r1, c1, 2; add.u32 r2, c1, -5;\n"
"""The four rows are c1, c1 + 2, c1 - 5 and c1."""
_PIXELS = "and.b32 r1, c1, 15; shr.s32 r2, c1, 4; and.b32 v, c1, 1; cvt.u16.u32 o, v;\n"
"""A row of the tensor is a pixel of one of four images of 16. The copy begins at that of row c1; the offset is 1 where c1 is odd."""
LOADS = ("load", "load anywhere", "load of a pair", "multicast", "multicast of a pair")


def _gather(name: str) -> str:
    text = boxes.STEPS[name].replace(".mbarrier::complete_tx", ".tile::gather4.mbarrier::complete_tx")
    return _ROWS + text.replace("{c0, c1}", "{c0, c1, r1, r2, c1}")


def _columns(name: str) -> str:
    text = boxes.STEPS[name].replace("tensor.2d", "tensor.3d").replace(".global.mbarrier", ".global.im2col.mbarrier")
    return _PIXELS + text.replace("{c0, c1}", "{c0, r1, r2}").replace("[bar]", "[bar], {o}")


class Places(NamedTuple):
    """From what random lists choose where copies begin: columns and rows; of some loads others."""

    columns: tuple[int, ...]
    rows: range
    odd_columns: tuple[int, ...]
    odd_rows: range


class Copies:
    """Copies of one form, and launches of lists of them.

    Parameters
    ----------
    loads : the text of each of the loads
    store : that of a store
    which : the number of the tensor map
    handler : the module and the name of the function that handlers call for each copy
    places : for random lists
    """

    def __init__(self, loads: dict[str, str], store: str, which: int, handler: tuple[Any, str], places: Places) -> None:
        self._steps = {
            **loads,
            "load a box": boxes.STEPS["load"],
            **{name: boxes.STEPS[name] for name in ("expect", "arrive", "wait")},
            "store": store,
            "commit": "cp.async.bulk.commit_group;",
            "wait for all": "cp.async.bulk.wait_group 0;",
            **ACCESS_SOURCE,
            "write map": "st.global.u64 [m], rd1;",
        }
        assert list(self._steps) == list(KINDS)
        self._which, self.handler, self._places = which, handler, places
        self._kernel = cache(self._make_kernel)

    def _make_kernel(self, multiplies: bool) -> ptxlab.Kernel:
        steps = self._steps | dict.fromkeys(("read tensor", "write tensor", "read"), "") if multiplies else self._steps
        text = boxes.text_of(steps, boxes.MAPS).replace(f"r1, {boxes.MOST * 32};", f"r1, {MOST * 32};")
        text = text.replace(".b16 ctas;", ".b16 ctas, o;").replace(".param .u64 p_out)", ".param .u64 p_out, .param .u64 p_source)")
        return fenced(text.replace("END:", MULTIPLY if multiplies else "END:"))

    def run(self, lists: Lists, multiplies: bool = False, **options: Any) -> Any:
        """What a launch gives; ``multiplies``: with a product in the kernel, so that the operand check follows copies."""
        return run_sources(self._kernel(multiplies), lists, **options)

    def step(
        self, kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 8), lanes: int = 1, which: int | None = None
    ) -> boxes.Step:
        number = self._which if which is None else which
        return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, number

    def loaded(self, *places: tuple[int, int], kind: str = "load", amount: int = 0, expected: int = 1) -> list[boxes.Step]:
        return in_each_turn(self.step, kind, places, amount, expected)

    def stored(self, *places: tuple[int, int], lanes: int = 1) -> list[boxes.Step]:
        found = []
        for turn in range(TURNS):
            found += [self.step("write", amount=turn), self.step("store", at=places[turn % len(places)], lanes=lanes)]
            found += [self.step("commit", lanes=lanes), self.step("wait for all", lanes=lanes)]
        return found

    def random_steps(self, choice: Random, own: int) -> list[boxes.Step]:
        """Steps of a warp."""
        found: list[boxes.Step] = []
        while len(found) < boxes.MOST - 4:
            kind = choice.choice([*LOADS, "load a box", "store", "store", "expect", "arrive", "wait", *list(KINDS)[10:]])
            rank = own if kind in ("load", "load a box", "wait", "store") or choice.random() < 0.6 else own ^ 1
            bar = rank << 24 | 8 * choice.randrange(boxes.BARRIERS)
            dst = (bar & ~0xFF) + choice.choice((0, 1024, 2048, 1152))
            amount = choice.choice((1, 2, 3)) if "multicast" in kind else choice.choice((boxes.BOX, 2 * boxes.BOX))
            if "tensor" in kind:
                amount = element(choice.randrange(64), 2 * choice.randrange(128))
            at = choice.choice(self._places.columns), choice.choice(self._places.rows)
            if choice.random() < 0.2 and kind != "store":
                at = choice.choice(self._places.odd_columns), choice.choice(self._places.odd_rows)
            lanes = choice.choice((1, 1, 1 << 31, 3 if kind == "store" else 1))
            found.append(self.step(kind, dst, bar, amount, at, lanes, boxes.GLOBAL if kind == "load a box" else None))
            if kind == "store":
                found += [self.step("commit", lanes=lanes), self.step("wait for all", lanes=lanes)][: choice.randrange(3)]
        return found


KINDS = {
    name: number
    for number, name in enumerate(
        (*LOADS, "load a box", "expect", "arrive", "wait", "store", "commit", "wait for all", *ACCESS_SOURCE, "write map")
    )
}
FOUR_ROWS = Copies(
    {name: _gather(name) for name in LOADS},
    _ROWS + "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [m, {c0, c1, r1, r2, c1}], [dst];",
    boxes.GLOBAL + 6,
    (_rows, "_regions"),
    Places((0, 64, 128, 200, 208), range(5, 42), (-16, -128, 64), range(-4, 46)),
)
"""The tensor map of columns 0 to 200 of rows 0 to 39, boxes of 128 x 1."""
PIXELS = Copies(
    {name: _columns(name) for name in LOADS},
    _PIXELS + "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [m, {c0, r1, r2}], [dst];",
    boxes.GLOBAL + 8,
    (_tensor, "_prepare"),
    Places((0, 64, 128, 192, 208), range(66), (-16, -64, 4), range(-20, 80)),
)
"""The tensor map of columns 0 to 200 of all rows, 64 x 8."""


def by_another(kind: str, row: int, column: int) -> Lists:
    """A step of another warp on an element of the tensor."""
    return {(0, 1): [FOUR_ROWS.step(kind, amount=element(row, column))]}
