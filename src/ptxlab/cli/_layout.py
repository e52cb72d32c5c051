"""``ptxlab layout``: where elements lie, as text, SVG, HTML and JSON; and the explorer page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import reduce, wraps
from pathlib import Path
from typing import Any

import click

from ptxlab import view
from ptxlab.cli._output import refusing, write_text
from ptxlab.descriptors import OperandTile, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.layout import matrix_rows
from ptxlab.tables import COPY_LAYOUTS, LOAD_REGISTERS, MMA_KINDS, SCALE_IDS, SWIZZLES, TENSOR_FRAGMENTS, TYPE_BITS, data_path_of
from ptxlab.view import Picture

__all__ = ["layout"]

_COPY_SHAPES = [".".join(filter(None, shape)) for shape in COPY_LAYOUTS]

_file = click.Path(path_type=Path, dir_okay=False)


def _as_integer(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    return int(value)


def integer(value: object) -> int:
    """An integer, also as 0x... ."""
    try:
        return int(str(value), 0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not an integer") from None


@click.group()
def layout() -> None:
    """Where is element (m, k)? Draw operands, accumulators and register fragments."""


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Several options as one decorator; the help lists them in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _picture(command: Callable[..., Picture]) -> click.Command:
    """A command that draws what the function returns."""

    @wraps(command)
    def run(svg: Path | None, html: Path | None, as_json: bool, **options: Any) -> None:
        try:
            with refusing("json" if as_json else None):
                picture = command(**options)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        for path, text in ((svg, picture.svg), (html, picture.html)):
            if path is not None:
                write_text(path, text())
        if as_json:
            click.echo(json.dumps({"title": picture.title, **picture.data}))
        elif svg is None and html is None:
            click.echo(picture.text(color=sys.stdout.isatty()))

    outputs = _options(
        click.option("--svg", type=_file, help="Write the picture to this file."),
        click.option("--html", type=_file, help="Write a page with the picture to this file."),
        click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON."),
    )
    return layout.command(name=command.__name__.replace("_", "-"))(outputs(run))


_modes = _options(
    click.option("--m", type=click.IntRange(32, 256), required=True, help="M of the instruction."),
    click.option("--cta-group", type=click.Choice(["1", "2"]), default="1", callback=_as_integer, help="CTAs of the instruction."),
    click.option("--ws", is_flag=True, help="tcgen05.mma.ws."),
    click.option("--sparse", is_flag=True, help="tcgen05.mma.sp."),
    click.option("--lane", type=click.Choice(["0", "16"]), default="0", callback=_as_integer, help="Lane of the address."),
)
"""Options that choose a data path layout."""


@_picture
@click.option("--n", type=click.IntRange(8, 256), required=True, help="N of the instruction.")
@_modes
def accumulator(m: int, n: int, cta_group: int, ws: bool, sparse: bool, lane: int) -> Picture:
    """Matrix D of tcgen05.mma in tensor memory."""
    _whole_parts(m, n, cta_group, ws, sparse, lane)
    return view.draw_accumulator(m, n, cta_group, ws, sparse, lane)


def _whole_parts(m: int, n: int, cta_group: int, ws: bool, sparse: bool, lane: int) -> None:
    path = data_path_of(m, cta_group, ws, sparse)
    if n % (8 * path.banks):
        raise ValueError(f"N = {n} with data path layout {path.letter}; N must be a multiple of {8 * path.banks}")
    if lane not in path.alignment:
        raise ValueError(f"lane {lane} with data path layout {path.letter}, which begins at lane 0 of a warp's 32")


@_picture
@click.option("--rank", type=click.IntRange(0, 1), default=0, help="CTA of the pair to draw.")
@click.option("--type", "type_", type=click.Choice(list(TYPE_BITS)), required=True, help="Element type.")
@click.option("--k", type=click.IntRange(4, 256), required=True, help="Elements along K.")
@_modes
def matrix_a(m: int, k: int, type_: str, cta_group: int, ws: bool, sparse: bool, lane: int, rank: int) -> Picture:
    """Matrix A of tcgen05.mma in tensor memory; 4- and 6-bit types in bytes, as .kind::f8f6f4 has them."""
    _whole_parts(m, 256, cta_group, ws, sparse, lane)
    return view.draw_matrix_a(m, k, max(TYPE_BITS[type_], 8), cta_group, ws, sparse, lane, rank)


_tile_options = _options(
    click.option("--rows", type=click.IntRange(1), required=True, help="Rows: M of matrix A, N of matrix B."),
    click.option("--k", type=click.IntRange(1), required=True, help="Columns: elements along K."),
    click.option("--type", type=click.Choice(list(TYPE_BITS)), required=True, help="Element type."),
    click.option("--major", type=click.Choice(["k", "mn"]), default="k", show_default=True, help="Major-ness."),
    click.option("--swizzle", type=click.Choice(list(SWIZZLES)), default="128B", show_default=True, help="Swizzling mode."),
    click.option("--start", type=integer, default=0, help="Start address in shared memory."),
    click.option("--leading", type=integer, help="Leading dimension byte offset; default: a tile without gaps."),
    click.option("--stride", type=integer, help="Stride dimension byte offset; default: a tile without gaps."),
    click.option("--base-offset", type=click.IntRange(0, 7), default=0, help="Matrix base offset."),
    click.option("--padded", is_flag=True, help="4-bit elements in slots of 16 bytes, as .kind::f8f6f4 has them."),
)
"""Options that describe a tile in shared memory; `OperandTile` has parameters of the same names."""


@_picture
@click.option("--step", type=click.IntRange(0), help="Colour only what the MMA of this number along K reads, and say its start address.")
@click.option("--lines", type=click.IntRange(1), default=16, show_default=True, help="Lines of 128 bytes to draw.")
@click.option("--descriptor", type=integer, help="A descriptor instead of start, offsets, swizzle and base offset.")
@click.option("--wgmma", is_flag=True, help="The descriptor is one of wgmma.")
@_tile_options
def operand(wgmma: bool, descriptor: int | None, lines: int, step: int | None, **tile: Any) -> Picture:
    """A matrix operand in shared memory."""
    made = OperandTile(**tile)
    bits, shape = TYPE_BITS[made.type], (made.rows, made.k)
    if descriptor is not None:
        found = (WgmmaDescriptor if wgmma else SharedMemoryDescriptor).decode(descriptor)
        if found.swizzle not in SWIZZLES:
            raise ValueError(f"the descriptor's swizzling mode is the invalid {found.swizzle}")
        return view.draw_operand(found, *shape, bits, made.major, made.padded, lines)
    whole = made.wgmma_descriptor() if wgmma else made.descriptor()
    if step is None:
        return view.draw_operand(whole, *shape, bits, made.major, made.padded, lines, addresses=made.addresses())
    width = 256 // made.container
    part = made.advance(k=step * width)
    picture = view.draw_operand(whole, *shape, bits, made.major, made.padded, lines, (step * width, width), made.addresses())
    title = f"MMA {step}, k {step * width}-{(step + 1) * width - 1}: start address {part.start:#x}, descriptor {int(part):#018x}"
    return replace(picture, title=title)


@_picture
@click.option("--at", nargs=2, type=click.IntRange(0), default=(0, 0), show_default=True, help="First element: row and k.")
@click.option("--size", type=click.Choice(["1", "2", "4", "8", "16"]), default="4", help="Bytes of each thread's access.")
@click.option(
    "--access",
    type=click.Choice(["ldmatrix", "row", "column"]),
    default="ldmatrix",
    show_default=True,
    help="ldmatrix (or stmatrix) .x4 down the rows; ld or st of a warp along a row, or down a column.",
)
@_tile_options
def banks(access: str, size: str, at: tuple[int, int], **tile: Any) -> Picture:
    """Bank conflicts of a warp's access to an operand."""
    made = OperandTile(**tile)
    addresses = made.addresses() // (8 if TYPE_BITS[made.type] < 8 else 1)
    row, k = at
    if row >= made.rows or k >= made.k:
        raise ValueError(f"element ({row}, {k}) is outside the tile of {made.rows} x {made.k}")
    if access == "ldmatrix":
        found = matrix_rows(addresses if made.major == "k" else addresses.T, *((row, k) if made.major == "k" else (k, row)))
        return view.draw_banks(found, 16, f"ldmatrix, {len(found) // 8} matrices")
    step = max(int(size) * 8 // made.container, 1)
    found = addresses[row : row + 32, k] if access == "column" else addresses[row, k : k + 32 * step : step]
    return view.draw_banks(found, int(size), f"ld or st of {size} bytes by {len(found)} threads along a {access}")


@_picture
@click.option("--split", type=click.IntRange(0, 511), default=0, help="Columns from the first to the second half of .16x32bx2.")
@click.option("--pack", is_flag=True, help=".pack::16b or .unpack::16b.")
@click.option("--num", type=click.Choice([str(1 << i) for i in range(8)]), default="1", callback=_as_integer, help="The .xN.")
@click.option("--shape", type=click.Choice(list(TENSOR_FRAGMENTS)), required=True, help="Shape of the access.")
def fragment(shape: str, num: int, pack: bool, split: int) -> Picture:
    """Registers of tcgen05.ld and tcgen05.st."""
    if (shape, num) not in LOAD_REGISTERS:
        raise ValueError(f"tcgen05.ld has no .{shape}.x{num}: it would take more than 128 registers")
    return view.draw_fragment(shape, num, pack, split)


@_picture
@click.option("--bits", type=click.Choice(["8", "16", "32"]), help="Draw matrix A in registers: bits of its elements.")
@click.option("--n", type=click.IntRange(8, 256), help="Draw matrix D: N of the instruction.")
def wgmma(n: int | None, bits: str | None) -> Picture:
    """Registers of wgmma: matrix D, or matrix A."""
    if (n is None) == (bits is None):
        raise ValueError("give either --n for matrix D or --bits for matrix A")
    if n is not None and n % 8:
        raise ValueError(f"N = {n}; N must be a multiple of 8")
    return view.draw_wgmma_fragment(n, None if bits is None else int(bits))


@_picture
@click.option("--shape", type=click.Choice(_COPY_SHAPES), required=True, help="Shape with its multicast.")
def copy(shape: str) -> Picture:
    """Lanes that tcgen05.cp writes."""
    return view.draw_copy(*shape.partition(".")[::2])


@_picture
@click.option("--split", is_flag=True, help="Scale factors of B with M = 128 and cta_group::2.")
@click.option("--id", "scale_id", type=click.IntRange(0, 3), default=0, help="Scale factor ID.")
@click.option(
    "--scales",
    type=click.Choice([str(n) for n in SCALE_IDS]),
    required=True,
    callback=_as_integer,
    help="Scale factors of a row.",
)
@click.option("--rows", type=click.IntRange(8, 256), required=True, help="Rows of the CTA's A, or N.")
def scales(rows: int, scales: int, scale_id: int, split: bool) -> Picture:
    """Scale factors in tensor memory."""
    if scale_id not in SCALE_IDS[scales]:
        raise ValueError(f"ID {scale_id} with {scales} scale factors of a row; it can be {', '.join(map(str, SCALE_IDS[scales]))}")
    return view.draw_scale_factors(rows, scales, scale_id, split)


@_picture
@click.option("--selector", type=click.IntRange(0, 1), default=0, help="Sparsity selector, of .kind::f16 and .kind::tf32.")
@click.option("--kind", type=click.Choice(list(MMA_KINDS)), required=True, help="The .kind.")
@_modes
def metadata(kind: str, m: int, cta_group: int, ws: bool, sparse: bool, lane: int, selector: int) -> Picture:
    """Sparsity metadata in tensor memory."""
    del sparse  # Metadata is there for sparse instructions only.
    return view.draw_metadata(kind, m, cta_group, ws, selector, lane)


@layout.command()
@click.option("-o", "--output", type=_file, required=True, help="File to write.")
def explorer(output: Path) -> None:
    """Write the layout explorer: one HTML page that works offline."""
    write_text(output, view.explorer_page())
    click.echo(f"wrote {output}")
