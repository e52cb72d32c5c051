"""Pictures say what the layout functions say, and are well-formed."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ptxlab import explain, layout, view
from ptxlab.descriptors import OperandTile, SharedMemoryDescriptor
from ptxlab.tables import DATA_PATHS

SVG = "{http://www.w3.org/2000/svg}"

DRAWINGS: dict[str, Callable[[], view.Picture]] = {
    "operand": lambda: view.draw_operand(SharedMemoryDescriptor(stride=1024, swizzle="128B"), 64, 64, 16),
    "sub-byte": lambda: view.draw_operand(SharedMemoryDescriptor(stride=256, swizzle="32B"), 8, 32, 4, padded=True),
    "accumulator": lambda: view.draw_accumulator(128, 128, cta_group=2),
    "matrix-a": lambda: view.draw_matrix_a(32, 16, 16, ws=True),
    "scales": lambda: view.draw_scale_factors(256, 6, 2),
    "metadata": lambda: view.draw_metadata("i8", 64),
    "banks": lambda: view.draw_banks(np.arange(32) * 16, 8),
    "copy": lambda: view.draw_copy("4x256b"),
    "fragment": lambda: view.draw_fragment("16x32bx2", 2, pack=True, split=4),
    "wgmma": lambda: view.draw_wgmma_fragment(n=32),
    "wgmma-a": lambda: view.draw_wgmma_fragment(bits=8),
    "smem": lambda: view.draw_descriptor(0x4000404000010040, "smem"),
    "wgmma-descriptor": lambda: view.draw_descriptor(0x4000004000010040, "wgmma"),
    "invalid-swizzle": lambda: view.draw_descriptor(0x7 << 61, "smem"),
    "idesc": lambda: view.draw_descriptor(0x08400490, "idesc", "f16"),
    "mask": lambda: view.draw_descriptor(0x3028000000000, "mask"),
    "tmem": lambda: view.draw_descriptor(0x00200010, "tmem"),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_form(name: str) -> None:
    picture = DRAWINGS[name]()
    root = ET.fromstring(picture.svg())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for cell in root.iter(f"{SVG}rect"):
        if "x" in cell.attrib:
            assert float(cell.attrib["x"]) + float(cell.attrib["width"]) <= width
            assert float(cell.attrib["y"]) + float(cell.attrib["height"]) <= height
    texts = [element.text for element in root.iter(f"{SVG}text")]
    shown = [label for panel in picture.panels for row in panel.labels for label in row if label]
    assert set(shown) <= set(texts)
    plain, colored = picture.text(), picture.text(color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in colored
    assert [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()] == plain.splitlines()
    assert picture._repr_svg_() == picture.svg()
    assert picture.svg() in picture.html()
    assert "<script" not in picture.html()
    for panel in picture.panels:
        assert [len(row) for row in panel.labels] == [len(row) for row in panel.colors]


def _numbers(text: str) -> list[int]:
    return [n for part in text.split(",") for a, _, b in [part.partition("-")] for n in range(int(a), int(b or a) + 1)]


@pytest.mark.parametrize("key", DATA_PATHS, ids=str)
def test_accumulator_cells(key: tuple[int, int, bool, bool]) -> None:
    """Every block of tensor memory holds exactly the elements that its label names."""
    m, group, ws, sparse = key
    at = layout.accumulator_location(m, 64, group, ws, sparse)
    picture = view.draw_accumulator(m, 64, group, ws, sparse)
    covered = 0
    for rank, panel in enumerate(picture.panels[1:]):
        for name, row in zip(panel.row_names, panel.labels, strict=True):
            lanes = _numbers(name.removeprefix("lanes "))
            for label in row:
                here = np.argwhere((at.cta == rank) & np.isin(at.lane, lanes))
                if not label:
                    assert not len(here)
                    continue
                rows, columns = re.fullmatch(r"m (.*), n (.*)", label).groups()  # type: ignore[union-attr]
                assert sorted(set(here[:, 0])) == _numbers(rows)
                assert sorted(set(here[:, 1])) == _numbers(columns)
                covered += len(here)
    assert covered == m * 64
    assert np.array_equal(picture.data["lane"], at.lane)


@pytest.mark.parametrize("major", ["k", "mn"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_operand_cells(major: layout.Major, swizzle: str) -> None:
    tile = OperandTile(64, 16, "f16", major, swizzle, start=0x400)
    found = tile.addresses()
    matrix, memory = view.draw_operand(tile.descriptor(), 64, 16, 16, major, lines=64).panels
    step = 8
    for row, name in zip(matrix.labels, matrix.row_names, strict=True):
        for label, head in zip(row, matrix.column_names, strict=True):
            assert int(label, 16) == found[_numbers(name[2:])[0], _numbers(head[2:])[0]]
    seen = set()
    for name, row in zip(memory.row_names, memory.labels, strict=True):
        for chunk, label in enumerate(row):
            if label:
                i, j = (_numbers(part) for part in label.split(":"))
                assert len(i) * len(j) == step
                assert {int(x) for x in found[np.ix_(i, j)].ravel()} == set(
                    range(int(name, 16) + 16 * chunk, int(name, 16) + 16 * chunk + 16, 2)
                )
                seen.add((i[0], j[0]))
    assert len(seen) == 64 * 16 // step


def test_chunks_that_share_an_address_are_counted() -> None:
    memory = view.draw_operand(SharedMemoryDescriptor(leading=16, stride=1024), 8, 16, 16).panels[1]
    assert memory.labels[0][:3] == ["0:0-7", "0:8-15 +1", "1:8-15 +1"]
    assert "+n: n other chunks are at the same address" in memory.note


def test_explain_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    text = view.draw_explanation(explain(0x4000404000010040).best)
    assert text.endswith("\n")
    assert "\x1b" not in text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "\x1b[" in view.draw_explanation(explain(0x4000404000010040).best)


def test_the_page_is_one_file() -> None:
    page = view.explorer_page()
    assert not re.search(r"""https?:|//[a-z]+\.|\ssrc=|<link|@import|url\(|fetch\(""", page.replace("http://www.w3.org/2000/svg", ""))
    assert "/*TABLES*/" not in page
    assert len(page) < 200_000
    sources = Path(view.__file__).with_name("explorer")
    assert {path.name for path in sources.iterdir()} == {
        "formulas.js", "model.js", "canvas.js", "legend.js", "page.js", "page.css", "page.html",
    }  # fmt: skip
