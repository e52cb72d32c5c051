"""Operands in shared memory, in chunks of 16 bytes, and the banks that they lie in."""

from __future__ import annotations

import itertools
from typing import Any, SupportsInt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ptxlab.layout import BANKS, Major, OperandDescriptor, bank_conflicts, operand_addresses
from ptxlab.view._picture import EMPTY, Panel, Picture

__all__ = ["draw_banks", "draw_operand"]

Place = tuple[int, int]

_LINE = 128
_CHUNK = 16


def draw_operand(
    descriptor: OperandDescriptor,
    rows: int,
    k: int,
    bits: int,
    major: Major = "k",
    padded: bool = False,
    lines: int = 16,
    part: tuple[int, int] | None = None,
    addresses: NDArray[np.int64] | None = None,
) -> Picture:
    r"""A matrix operand and the shared memory that holds it; parameters as of `ptxlab.layout.operand_addresses`.

    Parameters
    ----------
    lines : lines of 128 bytes that are drawn, from the first one on
    part : first k and number of k that one instruction reads; the rest stays without colour
    addresses : of the elements, where several descriptors together describe the tile

    Examples
    --------
    >>> from ptxlab.descriptors import SharedMemoryDescriptor
    >>> picture = draw_operand(SharedMemoryDescriptor(stride=256, swizzle="32B"), 16, 16, 16)
    >>> print("\n".join(picture.text().splitlines()[22:25]))
           0      4      8      12     16     20     24     28
    0x0000 0:0-7  0:8-15 1:0-7  1:8-15 2:0-7  2:8-15 3:0-7  3:8-15
    0x0080 4:8-15 4:0-7  5:8-15 5:0-7  6:8-15 6:0-7  7:8-15 7:0-7
    """
    found = operand_addresses(descriptor, rows, k, bits, major, padded) if addresses is None else addresses
    byte = found // 8 if bits < 8 else found
    step = 16 if bits == 6 or padded else 128 // bits
    places = itertools.product(range(0, rows, 1 if major == "k" else step), range(0, k, step if major == "k" else 1))
    where_of = {place: int(byte[place]) for place in places}
    at: dict[int, list[Place]] = {}
    for place, address in where_of.items():
        at.setdefault(address, []).append(place)
    seen = sorted({address // _LINE for address in at})[:lines]
    shown = {place: address for place, address in where_of.items() if address // _LINE in seen}
    panels = [_matrix(shown, step, major, rows, k, part), _memory(at, seen, step, major, rows, k, part)]
    where = f"{descriptor.swizzle} swizzle" if descriptor.swizzle != "none" else "no swizzle"
    data: dict[str, Any] = {
        "rows": rows,
        "k": k,
        "bits": bits,
        "major": major,
        "unit": "bit" if bits < 8 else "byte",
        "addresses": found.tolist(),
        **{name: getattr(descriptor, name) for name in ("start", "leading", "stride", "swizzle", "base_offset")},
        "descriptor": f"{int(descriptor):#018x}" if isinstance(descriptor, SupportsInt) else None,
    }
    return Picture(f"Operand of {rows} x {k} elements of {bits} bits, {major.upper()}-major, {where}", panels, data)


def _span(first: int, step: int, size: int) -> str:
    last = min(first + step, size) - 1
    return f"{first}-{last}" if last > first else str(first)


def _hue(i: int, j: int, major: Major, part: tuple[int, int] | None) -> int:
    if part is not None and not part[0] <= j < part[0] + part[1]:
        return EMPTY
    return (i if major == "k" else j) % 8


def _matrix(shown: dict[Place, int], step: int, major: Major, rows: int, k: int, part: tuple[int, int] | None) -> Panel:
    across, down = (step, 1) if major == "k" else (1, step)
    left, top = sorted({j for _, j in shown})[:16], sorted({i for i, _ in shown})[:16]
    labels = [[f"{shown[i, j]:#06x}" if (i, j) in shown else "" for j in left] for i in top]
    colors = [[_hue(i, j, major, part) if (i, j) in shown else EMPTY for j in left] for i in top]
    names, heads = [f"m {_span(i, down, rows)}" for i in top], [f"k {_span(j, across, k)}" for j in left]
    return Panel("Matrix: addresses", labels, colors, names, heads)


def _memory(at: dict[int, list[Place]], seen: list[int], step: int, major: Major, rows: int, k: int, part: tuple[int, int] | None) -> Panel:

    def label(found: list[Place]) -> str:
        return _element(found[0], step, major, rows, k) + f" +{len(found) - 1}" * (len(found) > 1) if found else ""

    chunks = [[at.get(line * _LINE + c * _CHUNK, []) for c in range(_LINE // _CHUNK)] for line in seen]
    labels = [[label(found) for found in row] for row in chunks]
    colors = [[_hue(*found[0], major, part) if found else EMPTY for found in row] for row in chunks]
    notes = ["m:k in chunks of 16 bytes; above: the first of their 4 banks"]
    if any(len(found) > 1 for found in at.values()):
        notes.append("+n: n other chunks are at the same address")
    if more := len({address // _LINE for address in at}) - len(seen):
        notes.append(f"{more} more lines")
    names, heads = [f"{line * _LINE:#06x}" for line in seen], [str(4 * c) for c in range(8)]
    return Panel("Shared memory", labels, colors, names, heads, "; ".join(notes))


def _element(place: Place, step: int, major: Major, rows: int, k: int) -> str:
    i, j = place
    return f"{i}:{_span(j, step, k)}" if major == "k" else f"{_span(i, step, rows)}:{j}"


_FREE, _CONFLICT = 2, 3


def draw_banks(addresses: ArrayLike, size: int = 4, what: str = "access") -> Picture:
    """How many words each bank must deliver in each phase of an access; parameters as of `ptxlab.layout.bank_conflicts`.

    Parameters
    ----------
    what : name of the access, for the title

    Examples
    --------
    >>> import numpy as np
    >>> print(draw_banks(np.arange(32) * 8).text().splitlines()[0])
    access: 2 wavefronts, of which conflicts cost 1
    """
    found = bank_conflicts(addresses, size)
    address = np.asarray(addresses, np.int64).reshape(-1)
    together = -(-len(address) // len(found.ways))
    words = address[:, None] // 4 + np.arange(max(size // 4, 1), dtype=np.int64)
    starts = range(0, len(address), together)
    counts = [np.bincount(np.unique(words[first : first + together]) % BANKS, minlength=BANKS).tolist() for first in starts]
    labels = [[str(n) if n else "" for n in row] for row in counts]
    colors = [[(EMPTY, _FREE, _CONFLICT)[min(n, 2)] for n in row] for row in counts]
    names = [f"{first}-{min(first + together, len(address)) - 1}" for first in starts]
    panel = Panel(
        "Words of each bank", labels, colors, names, [str(b) for b in range(BANKS)], "rows: threads (or rows of matrices) served together"
    )
    extra = found.wavefronts - len(found.ways)
    cost = f"of which conflicts cost {extra}" if extra else "no conflicts"
    title = f"{what}: {found.wavefronts} wavefront{'s' * (found.wavefronts > 1)}, {cost}"
    return Picture(
        title, [panel], {"ways": list(found.ways), "wavefronts": found.wavefronts, "free": found.free, "addresses": address.tolist()}
    )
