"""A picture of the provenance of an element: the products that it is a sum of, and the inputs that they multiplied."""

from __future__ import annotations

from collections.abc import Sequence

from ptxlab.machine import Contribution, OperandLine, Provenance
from ptxlab.machine.launch.contributions import element_ranges
from ptxlab.view._picture import EMPTY, Panel, Picture

__all__ = ["draw_provenance"]

_COLORS = 8
_MOST_ROWS = 64


def draw_provenance(found: Provenance) -> Picture:
    """A picture of what `Result.provenance` returns: the way of the value from the right to the left.

    Parameters
    ----------
    found : from ``result.provenance(array, index, inputs=True)``; without ``inputs`` the picture has the first panel only

    Returns
    -------
    a picture with one row for each write, and one for each product, in the colour of the copy that brought its operand
    """
    writes = [[w.opcode, f"CTA {w.cta} warp {w.warp}", str(w.place.line)] for w in found.writers]
    if found.loaded is not None:
        writes.append([found.loaded.opcode, f"CTA {found.loaded.cta} warp {found.loaded.warp}", str(found.loaded.place.line)])
    heads = ("instruction", "by", "PTX line")
    panels = [Panel(f"{found.element} = {found.after}", writes, [[EMPTY] * 3 for _ in writes], (), heads, plain=True)]
    if found.contributions:
        products = found.contributions[:_MOST_ROWS]
        more = len(found.contributions) - len(products)
        note = f"and {more} more" if more else ""
        last = found.contributions[-1]
        rows = [[str(c.mma.number), c.mma.shape, str(c.mma.place.line)] for c in products]
        title = f"D[{last.m}, {last.n}], {last.place}"
        panels.append(Panel(title, rows, [[EMPTY] * 3 for _ in rows], (), ("product", "shape", "PTX line"), note, plain=True))
        panels += [_operand(name, products) for name in "AB"]
    return Picture(f"where {found.element} comes from", panels, found.as_dict())


def _operand(name: str, products: Sequence[Contribution]) -> Panel:
    """For each product the inputs of its row of A, or its column of B."""
    lines: list[OperandLine] = [c.a if name == "A" else c.b for c in products]
    brought = [tuple(dict.fromkeys(w.place.line for w in line.writers)) for line in lines]
    colors = {key: number % _COLORS for number, key in enumerate(dict.fromkeys(brought))}
    rows = []
    for line, key in zip(lines, brought, strict=True):
        inputs = ", ".join(element_ranges(list(dict.fromkeys(e for each in line.inputs for e in each)))) or "-"
        rows.append([inputs + "".join(f", several of {array}" for array in line.mixed), ", ".join(map(str, key)) or "-"])
    shown = [[colors[key], EMPTY] for key in brought]
    what = "row" if name == "A" else "column"
    return Panel(f"{what} {lines[0].line} of {name}", rows, shown, (), ("elements", "brought by PTX line"), plain=True)
