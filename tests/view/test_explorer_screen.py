"""The explorer page on small screens, its legend, and its use by keyboard and touch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sweep_helpers import one_in

pytestmark = pytest.mark.sweep

TAB, ESCAPE, LEFT, UP, RIGHT, DOWN = "\ue004", "\ue00c", "\ue012", "\ue013", "\ue014", "\ue015"
WIDTHS = (1280, 600, 400)


@pytest.fixture
def resized(page: Any, browser: Any) -> Iterator[Any]:
    yield page
    browser.resize(0, 0)


@pytest.mark.parametrize(
    "fragment",
    one_in(
        3,
        [
            "",
            "op=wgmma&asrc=registers&a=e4m3&n=32",
            "op=ld&shape=16x32bx2&num=4&pack=1",
            "op=cp&cp=4x256b",
            "kind=mxf4&group=2&m=128",
            "m=32&ws=1&n=64&sparse=1",
        ],
    ),
)
def test_page_draws_without_scrolling_sideways(resized: Any, fragment: str, tmp_path: Path) -> None:
    found = resized(fragment, fresh=True)
    for width in WIDTHS:
        found.resize(width, 1000)
        for theme in ("light", "dark"):
            found.run("setTheme(arguments[0])", theme)
            wide, inner = found.run("return [document.documentElement.scrollWidth, innerWidth]")
            assert (wide, inner) == (width, width)
            # Nothing stands out of the page, or of its panel, without a bar to scroll it.
            cut = found.run("""return [...document.querySelectorAll("body *")].filter((e) => {
                const box = e.getBoundingClientRect(), holder = e.closest(".scroll");
                return box.width && !holder && (box.left < 0 || box.right > innerWidth);
              }).map((e) => e.id || e.className || e.tagName)""")
            assert cut == []
            colors = found.run("""const c = document.getElementById('grid-canvas'), s = new Set();
                const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                for (let i = 0; i < d.length; i += 4) s.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
                return s.size""")
            assert colors > 8
            found.screenshot(tmp_path / "page.png")
            assert (tmp_path / "page.png").stat().st_size > 20_000


def test_panels_stand_below_each_other_on_a_small_screen(resized: Any) -> None:
    found = resized("n=64")
    script = """return ['matrix', 'shared', 'grid'].map((id) => {
        const box = document.getElementById(id).getBoundingClientRect();
        return [box.left, box.top];
      });"""
    for width, stacked in ((1280, False), (600, True), (400, True)):
        found.resize(width, 1000)
        places = found.run(script)
        assert (len({left for left, _ in places}) == 1) is stacked
        assert (len({top for _, top in places}) == 1) is not stacked


LEGEND = """const lines = {};
    for (const p of document.querySelectorAll("#legend p")) {
      const title = p.querySelector("b");
      if (!title) continue;
      const rgb = (dot) => getComputedStyle(dot).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number);
      lines[title.textContent] = [...p.querySelectorAll(".key")].map((k) => [k.textContent, [...k.querySelectorAll(".dot")].map(rgb)]);
    }
    return lines;"""

PIXEL = """const [panel, row, column] = arguments, view = views[panel], [x, y, w, h] = view.box(row, column, 1 / 16, 1);
    const scale = view.canvas.width / parseFloat(view.canvas.style.width);
    return [...view.still.getContext("2d").getImageData((x + 1) * scale, (y + 1.5) * scale, 1, 1).data].slice(0, 3);"""


def shade(legend: dict[str, Any], title: str, label: str) -> list[list[int]]:
    (found,) = [colours for name, colours in legend[title] if name == label]
    return list(found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_legend_names_the_colours_that_are_drawn(page: Any, theme: str) -> None:
    found = page("m=128&n=64&tb=mn&k=64")
    found.run("setTheme(arguments[0])", theme)
    legend = found.run(LEGEND)
    assert list(legend) == ["A in shared memory", "B in shared memory", "D in tensor memory"]
    # Line 13 of A's tile is row 13; B is MN-major, and line 3 of its tile is k = 3.
    for which, line, label in (("A", 13, "5"), ("B", 3, "3")):
        found.run("change({mem: arguments[0]})", which)
        assert [found.run(PIXEL, "shared", line, 2)] == shade(legend, f"{which} in shared memory", label)
    drawn = [found.run(PIXEL, "grid", lane, 9) for lane in (66, 74, 82)]
    assert drawn[0] != drawn[1]
    assert drawn[:2] == shade(legend, "D in tensor memory", "64-95")
    assert drawn[2] == drawn[0]

    legend = page("kind=mxf8f6f4&m=128&n=64").run(LEGEND)
    assert [name for name, _ in legend["Scales of A in tensor memory"]] == ["0-31", "32-63", "64-95", "96-127"]
    assert [name for name, _ in legend["Scales of B in tensor memory"]] == ["0-31", "32-63"]
    legend = page("op=wgmma&n=16").run(LEGEND)
    assert [name for name, _ in legend["D in registers"]] == ["0", "1", "2", "3"]
    assert found.run("return document.getElementById('legend').innerText").endswith("what it is multiplied with, or goes into")
    found = page("op=ld&num=4")
    assert [found.run(PIXEL, "grid", 9, 1)] == shade(found.run(LEGEND), "Registers of the warp in tensor memory", "8-11")
    found = page("kind=f16&group=2&m=256&n=64&step=1")
    text = found.run("return document.getElementById('legend').innerText")
    assert "kept by the other CTA" in text
    assert "read by another MMA along K" in text


def test_the_keyboard_chooses_an_element(page: Any) -> None:
    found = page("n=64", fresh=True)
    chosen = "return ptxlab.chosen && [ptxlab.chosen.matrix, ptxlab.chosen.i, ptxlab.chosen.j]"
    found.press(RIGHT)
    assert found.run(chosen) is None
    for _ in range(60):
        found.press(TAB)
        if found.run("return document.activeElement.id") == "matrix-canvas":
            break
    assert found.run("return document.activeElement.id") == "matrix-canvas"
    found.press(DOWN)
    assert found.run(chosen) == ["A", 0, 0]
    found.press(DOWN, DOWN, RIGHT, RIGHT, RIGHT, UP, LEFT)
    assert found.run(chosen) == ["A", 1, 2]
    assert found.run("return location.hash").endswith("pin=A%2C1%2C2")
    found.press(ESCAPE)
    assert found.run(chosen) is None
    assert "pin" not in found.run("return location.hash")


def test_a_tap_keeps_an_element(resized: Any) -> None:
    found = resized("n=64", fresh=True)
    found.resize(400, 900)
    spot = """const r = document.getElementById('matrix-canvas').getBoundingClientRect(), [x, y, w, h] = views.matrix.box(7, 20);
        return [r.left + x + w / 2, r.top + y + h / 2].map(Math.floor);"""
    found.move(*found.run(spot), click=True, pointer="touch")
    assert found.run("return [ptxlab.state.pin, ptxlab.chosen.i, ptxlab.chosen.j]") == ["A,7,20", 7, 20]
    # What is said of it is on the screen, though it stands below the panels.
    top, bottom = found.run("const b = document.getElementById('facts').getBoundingClientRect(); return [b.top, b.bottom]")
    assert 0 < top < bottom <= 900
    assert "A(m 7, k 20)" in found.run("return document.getElementById('facts').innerText")
