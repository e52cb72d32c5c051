"""``ptxlab diff``: the first wrong element and tile of an array, a picture of the wrong tiles, and who wrote the element."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from ptxlab.campaign.arrays import ArrayError, read_npy
from ptxlab.campaign.launchable import read_launchable
from ptxlab.cli._output import refusing
from ptxlab.diagnostics import PtxlabError
from ptxlab.machine import Provenance

__all__ = ["Difference", "diff", "differences"]

Array = NDArray[Any]

_MOST_ROWS, _MOST_COLUMNS = 32, 64
"""Tiles of a picture."""
_SMALLEST = 8


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an array is wrong; tiles are of the last two dimensions, in the slice that holds the first wrong element.

    Attributes
    ----------
    wrong, size : wrong elements, all elements
    index : the first wrong one in the order of rows
    tile : rows and columns of a tile
    counts : wrong elements of each tile
    areas : elements of each tile
    """

    wrong: int
    size: int
    index: tuple[int, ...]
    tile: tuple[int, int]
    counts: NDArray[np.intp]
    areas: NDArray[np.intp]

    @property
    def first(self) -> tuple[int, int]:
        """The tile of the first wrong element."""
        row, column = (0, 0, *self.index)[-2:]
        return row // self.tile[0], column // self.tile[1]

    def ranges(self, shape: tuple[int, ...]) -> str:
        """Rows and columns of the first wrong tile, in words."""
        (i, j), (height, width) = self.first, self.tile
        rows, columns = (1, 1, *shape)[-2:]
        return f"rows {i * height}-{min((i + 1) * height, rows) - 1}, columns {j * width}-{min((j + 1) * width, columns) - 1}"

    def picture(self) -> str:
        """One character for each tile: ``.`` right, ``+`` partly wrong, ``#`` wrong in every element."""
        marks = np.where(self.counts == 0, ".", np.where(self.counts == self.areas, "#", "+"))
        return "\n".join(" ".join(row) for row in marks.tolist())


def differences(expected: Array, actual: Array, tile: tuple[int, int] | None, rtol: float, atol: float) -> Difference | None:
    """Compare two arrays of one shape; NaN equals NaN. Without tolerances, the values must be equal.

    Without ``tile``, a tile is a square whose side is the smallest power of two with which the picture fits.
    """
    if rtol or atol:
        wrong = ~np.isclose(_wide(actual), _wide(expected), rtol=rtol, atol=atol, equal_nan=True)
    else:
        wrong = actual != expected if expected.dtype == actual.dtype else _wide(actual) != _wide(expected)
        if not _raw(expected):
            wrong &= ~(np.isnan(_wide(actual)) & np.isnan(_wide(expected)))
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    plane = wrong[index[:-2]].reshape((1, 1, *wrong.shape)[-2:])
    side = _SMALLEST
    while -(-plane.shape[0] // side) > _MOST_ROWS or -(-plane.shape[1] // side) > _MOST_COLUMNS:
        side *= 2
    chosen = tile or (side, side)
    return Difference(int(wrong.sum()), wrong.size, index, chosen, _sums(plane, chosen), _sums(np.ones_like(plane), chosen))


def _raw(array: Array) -> bool:
    """Whether these are bytes of a type that NumPy does not know."""
    return array.dtype.type is np.void


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _sums(plane: Array, tile: tuple[int, int]) -> NDArray[np.intp]:
    rows, columns = (np.arange(0, n, step) for n, step in zip(plane.shape, tile, strict=True))
    found: NDArray[np.intp] = np.add.reduceat(np.add.reduceat(plane.astype(np.intp), rows, axis=0), columns, axis=1)
    return found


@click.command()
@click.argument("expected_npy", metavar="EXPECTED.npy", type=click.Path(path_type=Path))
@click.argument("actual_npy", metavar="[ACTUAL.npy]", required=False, type=click.Path(path_type=Path))
@click.option("--launch", "launch_file", type=click.Path(path_type=Path), help="A launch file or a replay bundle that computes the array.")
@click.option("--name", help="Which array of the launch it is.")
@click.option("--tile", help="Rows and columns of a tile, as 128x64; default: so that the picture fits.")
@click.option("--rtol", type=click.FloatRange(0), default=0.0, help="Tolerance relative to the expected value.")
@click.option("--atol", type=click.FloatRange(0), default=0.0, help="Absolute tolerance.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def diff(
    expected_npy: Path,
    actual_npy: Path | None,
    launch_file: Path | None,
    name: str | None,
    tile: str | None,
    rtol: float,
    atol: float,
    as_json: bool,
) -> None:
    """Compare EXPECTED.npy with ACTUAL.npy, or with what a launch gives: the first wrong tile, and who wrote it.

    With --launch and --name, ACTUAL.npy may be left out: the launch computes it.
    """
    if (launch_file is None) != (name is None):
        raise click.UsageError("--launch and --name belong together")
    if actual_npy is None and launch_file is None:
        raise click.UsageError("give ACTUAL.npy, or --launch and --name")
    sides = _sides(tile)
    with refusing("json" if as_json else None, err=True, equal=None):
        try:
            expected = read_npy(expected_npy)
            given = None if actual_npy is None else read_npy(actual_npy)
        except ArrayError as error:
            raise click.UsageError(str(error)) from None
        replay, computed = (None, None) if launch_file is None else _launched(launch_file, str(name))
        actual = computed if given is None else given
        assert actual is not None
        expected, actual = _alike(expected, actual, bool(rtol or atol))
        found = differences(expected, actual, sides, rtol, atol)
        owner = None if replay is None or found is None else replay.provenance(name, found.index)
    click.echo(json.dumps(_plain(found, expected, actual, owner)) if as_json else _text(found, expected, actual, owner, name or "element"))
    sys.exit(0 if found is None else 1)


def _sides(tile: str | None) -> tuple[int, int] | None:
    if tile is None:
        return None
    rows, _, columns = tile.partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
        raise click.UsageError(f"--tile takes rows and columns as 128x64, not {tile!r}")
    return int(rows), int(columns)


def _launched(path: Path, name: str) -> tuple[Any, Array]:
    """Run a launch: what it was started with, and the array that it computes."""
    spec = read_launchable(path)
    if name not in spec.arrays:
        raise click.UsageError(f"{path} names no array {name!r}; its arrays: {', '.join(spec.arrays) or 'none'}")
    spec.options = spec.options.changed(keep_inputs=True)
    result = spec.launch()
    if not result.completed:
        raise PtxlabError(*result.diagnostics)
    assert result.replay is not None
    return spec.named(result.replay), spec.arrays[name]


def _alike(expected: Array, actual: Array, near: bool) -> tuple[Array, Array]:
    """Arrays of one shape; what a file holds as plain bytes (bfloat16 and the like) takes the type of the other."""
    if expected.shape != actual.shape:
        raise click.UsageError(f"the shapes differ: expected {list(expected.shape)}, actual {list(actual.shape)}")
    if _raw(expected) and expected.dtype.itemsize == actual.dtype.itemsize:
        expected = expected.view(actual.dtype)
    elif _raw(actual) and actual.dtype.itemsize == expected.dtype.itemsize:
        actual = actual.view(expected.dtype)
    if any(x.dtype.kind not in "biufcV" or x.dtype.names for x in (expected, actual)):
        raise click.UsageError(f"only numbers can be compared, not {expected.dtype} and {actual.dtype}")
    if (_raw(expected) or _raw(actual)) and (near or expected.dtype != actual.dtype):
        raise click.UsageError(f"{expected.dtype} and {actual.dtype} cannot be compared: the .npy file does not say what its bytes are")
    return expected, actual


def _text(found: Difference | None, expected: Array, actual: Array, owner: Provenance | None, name: str) -> str:
    if found is None:
        return f"equal: {expected.size} elements"
    tiles = int((found.counts > 0).sum())
    at = found.index
    height, width = found.tile
    lines = [
        f"{found.wrong} of {found.size} elements differ",
        f"first: {name}[{', '.join(map(str, at))}] is {actual[at]}, expected {expected[at]}",
        f"in tile {found.first} of {height}x{width}: {found.ranges(expected.shape)}, {found.counts[found.first]} of its elements differ",
        f"{tiles} of {found.counts.size} tiles differ" + (f", in the slice [{', '.join(map(str, at[:-2]))}]" if len(at) > 2 else ""),
        *("  " + line for line in found.picture().splitlines()),
    ]
    if owner is not None:
        lines += ["", str(owner)]
    return "\n".join(lines)


def _plain(found: Difference | None, expected: Array, actual: Array, owner: Provenance | None) -> dict[str, Any]:
    if found is None:
        return {"equal": True, "elements": expected.size}
    return {
        "equal": False,
        "elements": found.size,
        "different": found.wrong,
        "first": {"index": list(found.index), "actual": str(actual[found.index]), "expected": str(expected[found.index])},
        "tile": {"size": list(found.tile), "first": list(found.first), "counts": found.counts.tolist()},
        "owner": None if owner is None else owner.as_dict(),
    }
