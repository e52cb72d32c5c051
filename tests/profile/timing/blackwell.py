"""Published times of products on Blackwell, and estimates beside them: ``python -m tests.profile.timing.blackwell [compile]``.

``compile`` compiles the kernels of `gluon_sources` with Triton into ``data/kernels_blackwell.zip``. Without it, the table is printed that
docs/profile.md has. The published times are in ``data/blackwell_published.json``, each with its source. They are of other kernels than
these, with the same tiles and buffers where the source names them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import types
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ptxlab
from ptxlab.interop.nvcc import assembled
from ptxlab.profile import Assembled, Estimate

__all__ = ["PUBLISHED", "TILES", "Published", "Tile", "estimated", "table"]

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
ARCHIVE = DATA / "kernels_blackwell.zip"
SMS = 148
THREADS = 128


class Tile(NamedTuple):
    """The tile of a CTA, its step in k, and the buffers for copies."""

    m: int
    n: int
    k: int
    buffers: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}, {self.buffers} buffer{'s' * (self.buffers > 1)}"

    @property
    def file(self) -> str:
        return "product_" + "_".join(map(str, self))


TILES = (
    *(Tile(128, 128, 64, buffers) for buffers in (1, 2, 3, 4)),
    *(Tile(128, 128, 128, buffers) for buffers in (1, 2, 3)),
    Tile(128, 128, 256, 1),
    *(Tile(128, 256, 64, buffers) for buffers in (2, 3, 4)),
)


class Published(NamedTuple):
    """A published rate of a product of 16-bit floats, in T operations in a second; without a tile, the best of several."""

    source: str
    kernel: str
    m: int
    n: int
    k: int
    tile: Tile | None
    rate: float


@cache
def _published() -> tuple[Published, ...]:
    found: list[Published] = []
    for group in json.loads((DATA / "blackwell_published.json").read_text()):
        for *shape, tile, rate in group["rates"]:
            found.append(Published(group["source"], group["kernel"], *shape, None if tile is None else Tile(*tile), rate))
    return tuple(found)


PUBLISHED = _published()


@cache
def _archive() -> tuple[dict[str, str], dict[str, Any]]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return texts, json.loads(texts.pop("launch.json"))


def _map(array: Any, block: list[int]) -> list[Any]:
    strides = [np.int64(stride // array.itemsize) for stride in array.strides]
    return [ptxlab.TensorMap(array, box=tuple(reversed(block)), swizzle="128B", dtype="f16"), *array.shape, *map(int, strides)]


@cache
def estimated(tile: Tile, m: int, n: int, k: int) -> Estimate:
    """The estimate for sm_100a, from two CTAs of the grid."""
    texts, launch = _archive()
    info = launch[tile.file]
    arrays = [np.zeros(shape, np.float16) for shape in ((m, k), (k, n), (m, n))]
    maps = [value for array, block in zip(arrays, info["blocks"], strict=True) for value in _map(array, block)]
    kernel = ptxlab.loads(texts[f"{tile.file}.ptx"]).kernel()
    grid = (m // tile.m, n // tile.n)
    result = kernel.launch(
        grid=grid,
        block=THREADS,
        shared_bytes=info["shared_bytes"],
        args=[*maps, k, None, None],
        check="none",
        profile=True,
        only=[(0, 0, 0), (grid[0] // 2, grid[1] // 2, 0)],
        device=ptxlab.Device("sm_100a", sms=SMS),
    )
    needs = Assembled(info["registers"])
    found: Estimate = result.profile.with_assembled(needs).estimate
    return found


def table() -> str:
    """The table of published and estimated rates."""
    lines = ["| kernel | m x n x k | tile | published, T/s | estimate, T/s | estimate by published |", "|---|---|---|---|---|---|"]
    for each in PUBLISHED:
        fitting = [each.tile] if each.tile is not None else [tile for tile in TILES if each.m % tile.m == each.n % tile.n == 0]
        tile = min(fitting, key=lambda tile: estimated(tile, each.m, each.n, each.k).nanoseconds)
        rate = 2e-3 * each.m * each.n * each.k / estimated(tile, each.m, each.n, each.k).nanoseconds
        shown = tile.name if each.tile is not None else f"best by estimate: {tile.name}"
        shape = f"{each.m} x {each.n} x {each.k}"
        lines.append(f"| {each.kernel} | {shape} | {shown} | {each.rate:,.0f} | {rate:,.0f} | {rate / each.rate:.2f} |")
    return "\n".join(lines)


def _compiled(sources: types.ModuleType, tile: Tile) -> tuple[str, dict[str, Any]]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    shapes = {"ad": (tile.m, tile.k), "bd": (tile.k, tile.n), "cd": (tile.m, tile.n)}
    signature = {name: f"tensordesc<fp16[{rows},{columns}],{layout!r}>" for name, (rows, columns) in shapes.items()} | {"K": "i32"}
    constants = dict(zip(("BM", "BN", "BK", "NB"), tile, strict=True))
    signature |= dict.fromkeys(constants, "constexpr")
    source = GluonASTSource(sources.product, signature, constants, {(3,): [["tt.divisibility", 16]]})
    made = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": THREADS // 32})
    text = made.asm["ptx"]
    text = text[: text.find("\t.section\t.debug")] if "\t.section\t.debug" in text else text
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("\t.file", "\t.loc"))) + "\n"
    meta = made.metadata
    needs = assembled(text, "sm_100a", meta.name)
    if needs is None:
        raise SystemExit("ptxas is needed, for the number of registers")
    blocks = [each["block_size"] for each in meta.tensordesc_meta]
    return text, {"shared_bytes": meta.shared, "blocks": blocks, "registers": needs.registers}


def _compile() -> None:
    sources = types.ModuleType("gluon_sources")
    sources.__file__ = "gluon_sources.py"
    sys.modules[sources.__name__] = sources
    os.chdir(HERE)
    exec(compile((HERE / sources.__file__).read_text(), sources.__file__, "exec"), sources.__dict__)
    with tempfile.TemporaryDirectory() as cache_folder:
        os.environ["TRITON_CACHE_DIR"] = cache_folder
        found = {tile.file: _compiled(sources, tile) for tile in TILES}
    launch = json.dumps({name: info for name, (_, info) in found.items()}, indent=1)
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in ({f"{name}.ptx": text for name, (text, _) in found.items()} | {"launch.json": launch}).items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if sys.argv[1:] == ["compile"]:
        _compile()
    else:
        print(table())
