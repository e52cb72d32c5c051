"""Every element that the explorer page shows, for every kind of instruction, is where the library has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab import layout
from ptxlab.descriptors import OperandTile, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.tables import MMA_KINDS, TYPE_BITS
from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep


class Shown:
    """What a page says of every element of every matrix, and the descriptors of those in shared memory."""

    SCRIPT = """const {matrices, shared} = ptxlab.model, places = {}, descriptors = {};
        for (const [name, m] of Object.entries(matrices)) {
          places[name] = Array.from({length: m.rows}, (_, i) => Array.from({length: m.cols}, (_, j) => {
            const p = ptxlab.place(name, i, j);
            return [p.cta, p.byte ?? -1, p.bit ?? -1, p.bank ?? -1, ...p.cells.flatMap((c) => [c.cta, c.row, c.relative, c.bit])];
          }));
        }
        for (const [name, o] of Object.entries(shared)) descriptors[name] = String(o.value);
        return [ptxlab.state, places, descriptors, ptxlab.model.grid.rowBase || 0];"""

    def __init__(self, page: Any, configuration: str) -> None:
        self.state, places, self.descriptors, self.first_lane = page(configuration).run(self.SCRIPT)
        wanted = dict(pair.split("=") for pair in configuration.split("&"))
        assert {name: str(self.state[name]) for name in wanted} == wanted
        self.places = {name: np.array(found, np.int64) for name, found in places.items()}

    def check_shared(self, which: str, type_: str, major: Any, padded: bool = False) -> OperandTile:
        """The addresses and banks of A or B are those of a tile without gaps."""
        form = WgmmaDescriptor if self.state["op"] == "wgmma" else SharedMemoryDescriptor
        d = form.decode(int(self.descriptors[which]))
        found = self.places[which]
        tile = OperandTile(*found.shape[:2], type_, major, d.swizzle, d.start, padded)
        assert (d.leading, d.stride) == tile.strides
        addresses, byte, bit = tile.addresses(), found[..., 1], found[..., 2]
        small = TYPE_BITS[type_] < 8
        assert np.array_equal(byte * 8 + bit if small else byte, addresses)
        assert np.array_equal(found[..., 3], (addresses // 8 if small else addresses) // 4 % 32)
        return tile

    def cells(self, name: str) -> Any:
        """[copies, rows, columns, (CTA, lane or thread, column, bit)]."""
        found = self.places[name][..., 4:]
        return found.reshape(*found.shape[:2], -1, 4).transpose(2, 0, 1, 3)


@pytest.mark.parametrize("source", ["smem", "registers"])
@pytest.mark.parametrize(
    ("type_", "d", "ta", "tb"),
    one_in(
        3,
        [
            ("bf16", "f32", "k", "mn"),
            ("f16", "f16", "mn", "k"),
            ("tf32", "f32", "k", "k"),
            ("e5m2", "f32", "k", "k"),
            ("s8", "s32", "k", "k"),
        ],
    ),
)
def test_wgmma(page: Any, type_: str, d: str, ta: str, tb: str, source: str) -> None:
    if source == "registers":
        ta = "k"
    shown = Shown(page, f"op=wgmma&a={type_}&d={d}&n=48&asrc={source}&ta={ta}&tb={tb}&k={256 // TYPE_BITS[type_]}&sa=64B&sb=32B")
    shown.check_shared("B", type_, tb)
    i, j = np.indices((64, 48))
    (at,) = shown.cells("D")
    fragment = layout.wgmma_fragment(48)
    assert np.array_equal(fragment.row[at[..., 1], at[..., 2]], i)
    assert np.array_equal(fragment.column[at[..., 1], at[..., 2]], j)
    if source == "smem":
        shown.check_shared("A", type_, ta)
        return
    (at,) = shown.cells("A")
    bits = TYPE_BITS[type_]
    value = at[..., 2] * (32 // bits) + at[..., 3] // bits
    i, j = np.indices(value.shape)
    held = layout.wgmma_a_fragment(bits)
    assert np.array_equal(held.row[at[..., 1], value], i)
    assert np.array_equal(held.column[at[..., 1], value], j)


@pytest.mark.parametrize(("source", "sparse"), [("smem", 0), ("smem", 1), ("tmem", 1)])
@pytest.mark.parametrize(
    ("kind", "type_", "m", "group", "ws", "lane"),
    one_in(
        3,
        [
            ("f16", "bf16", 128, 1, 0, 0),
            ("tf32", "tf32", 64, 1, 0, 16),
            ("i8", "u8", 64, 1, 1, 0),
            ("f8f6f4", "e3m2", 32, 1, 1, 0),
            ("f16", "f16", 128, 2, 0, 0),
            ("mxf4", "e2m1", 256, 2, 0, 0),
        ],
    ),
)
def test_products_with_everything_in_its_place(
    page: Any, kind: str, type_: str, m: int, group: int, ws: int, lane: int, source: str, sparse: int
) -> None:
    """A in shared or tensor memory, B (twice as long beside a sparse A), D and the metadata."""
    k = MMA_KINDS[kind].k
    configuration = (
        f"kind={kind}&group={group}&ws={ws}&sparse={sparse}&m={m}&n=64&k={k}&a={type_}&b={type_}&asrc={source}&sb=32B&lane={lane}"
    )
    shown = Shown(page, configuration)
    padded = TYPE_BITS[type_] == 6
    qualifiers = (m, group, bool(ws), bool(sparse))
    at = layout.accumulator_location(m, 64, group, bool(ws), bool(sparse), lane)
    assert np.array_equal(shown.cells("D")[0, ..., :3], np.stack(at, -1))
    if source == "tmem":
        container = max(TYPE_BITS[type_], MMA_KINDS[kind].container)
        at = layout.a_location(m, k, container, *qualifiers[1:], lane)
        assert np.array_equal(shown.cells("A"), np.stack(at, -1))
    assert shown.places["A"].shape[:2] == (m, k)
    assert shown.places["B"].shape[:2] == (64, k * (1 + sparse))
    if group == 1:
        if source == "smem":
            shown.check_shared("A", type_, "k", padded)
        tile = shown.check_shared("B", type_, "k", padded)
        # Beyond the 32 bytes of its swizzle, which only a sparse product reaches, the leading dimension takes over.
        assert tile.strides == (2048 if sparse else 16, 256)
        if sparse:
            wide = 32 * 8 // max(TYPE_BITS[type_], MMA_KINDS[kind].container)
            first = shown.places["B"][:, : 2 * wide, 1]
            assert np.array_equal(first[:, wide:] - first[:, :wide], np.full((64, wide), 2048))
    if sparse:
        at = layout.metadata_location(kind, m, group, bool(ws), 0, lane)
        assert np.array_equal(shown.cells("E"), np.stack(at, -1))


@pytest.mark.parametrize("pack", [0, 1])
@pytest.mark.parametrize(
    ("shape", "lane", "warp"), one_in(3, [("32x32b", 0, 2), ("16x64b", 16, 0), ("16x128b", 0, 1), ("16x256b", 16, 3), ("16x32bx2", 0, 0)])
)
def test_loads(page: Any, shape: str, lane: int, warp: int, pack: int) -> None:
    shown = Shown(page, f"op=ld&shape={shape}&num=4&pack={pack}&lane={lane}&warp={warp}&split=24")
    at = layout.fragment(shape, 4, bool(pack), 24)
    (found,) = shown.cells("R")
    assert shown.first_lane == 32 * warp
    for half in range(1 + pack):
        assert np.array_equal(found[:, half :: 1 + pack, 1], at.lane + lane)
        assert np.array_equal(found[:, half :: 1 + pack, 2], at.column + half)


@pytest.mark.parametrize(
    "shape", one_in(3, ["128x256b", "128x128b", "4x256b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23"])
)
def test_copies(page: Any, shape: str) -> None:
    shown = Shown(page, f"op=cp&cp={shape}&sa=none")
    lanes = layout.copy_destination(*shape.partition(".")[::2]).lanes
    found = shown.cells("A")
    words = found.shape[2]
    assert words == int(shape.split("x")[1].split("b")[0]) // 32
    assert np.array_equal(found[..., 1], np.broadcast_to(lanes.T[:, :, None], found.shape[:3]))
    assert np.array_equal(found[..., 2], np.broadcast_to(np.arange(words), found.shape[:3]))
    d = SharedMemoryDescriptor.decode(int(shown.descriptors["A"]))
    assert np.array_equal(shown.places["A"][..., 1], layout.operand_addresses(d, len(lanes), words, 32))
