"""The report page in a real browser: timeline, lines, search, dark mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.profile.model.path import Span
from ptxlab.view import report_page
from tests.machine.product_kernels import WARPGROUP
from tests.time_helpers import quickest
from tests.view import webdriver_helpers as webdriver

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.file 1 "work.cu"
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p;
  .loc 1 7 0
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  .loc 1 8 0
AGAIN:
  add.u32 %r2, %r2, %r1;
  bar.sync 0;
  setp.lt.u32 %p, %r2, 4000;
  @%p bra AGAIN;
  .loc 1 9 0
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.u32 [%rd2], %r2;
  ret;
}
"""
WIDTHS = (1280, 1920)


@pytest.fixture(scope="module")
def profile() -> Any:
    text = TEXT.replace("add.u32 %r2, %r2, %r1;", "add.u32 %r2, %r2, 100;")
    return ptxlab.loads(text, file="work.ptx").kernel().launch(block=128, args=[np.zeros(128, np.uint32)], profile=True).profile


@pytest.fixture(scope="module")
def browsers() -> Iterator[Any]:
    if webdriver.MISSING:
        pytest.skip(webdriver.MISSING)
    opened = {dark: webdriver.Browser(dark=dark) for dark in (False, True)}
    yield opened
    for browser in opened.values():
        browser.close()


@pytest.fixture
def page(profile: Any, browsers: Any, tmp_path: Path) -> Any:
    path = tmp_path / "report.html"
    path.write_text(report_page([(profile, ())]), encoding="utf-8")

    def show(dark: bool = False) -> Any:
        browsers[dark].open(path.as_uri())
        return browsers[dark]

    return show


def test_it_loads_nothing_from_a_network(profile: Any) -> None:
    text = report_page([(profile, ())])
    assert not any(word in text for word in ("http:", "https:", "<link", "src=", "@import", "fetch("))


def test_a_closing_tag_in_the_source_ends_no_script(profile: Any) -> None:
    assert report_page([(profile, ())]).count("</script>") == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(page: Any, width: int) -> None:
    browser = page()
    browser.resize(width, 1000)
    assert browser.run("return document.documentElement.scrollWidth") == width
    boxes = browser.run(
        "return [...document.querySelectorAll('section')].map(s => { const b = s.getBoundingClientRect(); return [b.left, b.right] })"
    )
    assert all(0 <= left < right <= width for left, right in boxes)
    browser.resize(0, 0)


def test_the_timeline_zooms_and_goes_back(page: Any) -> None:
    browser = page()
    event = "new WheelEvent('wheel', {deltaY: -100, clientX: 640, clientY: 0, cancelable: true})"
    wheel = f"document.getElementById('timeline').dispatchEvent({event});"
    whole = browser.run("return view.to - view.from")
    browser.run(wheel * 3)
    assert browser.run("return view.to - view.from") == pytest.approx(whole * 0.8**3)
    browser.run("document.getElementById('whole').click()")
    assert browser.run("return view.to - view.from") == whole


def test_a_line_of_the_ptx_selects_its_source_line_and_the_other_way_round(page: Any) -> None:
    browser = page()
    names = "return [...document.querySelectorAll('#{} tr.selected')].map(row => row.firstChild.textContent)"
    browser.run("[...document.querySelectorAll('#ptx tr')].find(row => row.textContent.includes('bar.sync')).click()")
    assert browser.run(names.format("source")) == ["8"]
    browser.run("[...document.querySelectorAll('#source tr')].find(row => row.firstChild.textContent === '9').click()")
    lines = TEXT.splitlines()
    expected = [str(number) for number, line in enumerate(lines, 1) if any(word in line for word in ("mad.wide", "st.global", "ret;"))]
    assert browser.run(names.format("ptx")) == expected


def test_search_marks_lines(page: Any) -> None:
    browser = page()
    browser.run("const s = document.getElementById('search'); s.value = 'BAR.sync'; s.dispatchEvent(new Event('input'))")
    assert browser.run("return document.getElementById('matches').textContent") == "1 lines"
    assert browser.run("return document.querySelectorAll('tr.found').length") == 1


def test_dark_mode_follows_the_system_and_the_button(page: Any) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    light, dark = page().run(colour), page(dark=True).run(colour)
    assert light != dark
    browser = page()
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) == dark


def test_the_critical_path_is_the_first_row_of_the_timeline(page: Any, profile: Any) -> None:
    browser = page()
    assert browser.run("return DATA.tracks[0]") == "critical path"
    steps = browser.run("return by_track[0].map(span => [span[3], span[4]])")
    assert steps == [[round(span.begin, 1), round(span.end, 1)] for span in profile.estimate.path]


def test_a_table_of_arrays(page: Any) -> None:
    """128 threads store 4 bytes each, next to each other."""
    cells = "return [...document.querySelectorAll('#arrays tr')].map(row => [...row.children].map(cell => cell.textContent))"
    heading, row = page().run(cells)
    assert heading[:4] == ["array", "bytes", "bytes read", "bytes written"]
    assert row == ["out", "512", "", "512", "", ""]


@pytest.fixture
def tiles(browsers: Any, tmp_path: Path) -> Any:
    """The page of a wgmma kernel: two copies bring tiles of 2048 and 256 bytes, which the product reads."""
    args = [np.ones((64, 16), np.float16), np.ones((8, 16), np.float16), np.zeros((128, 4), np.float32)]
    found = ptxlab.loads(WARPGROUP, file="work.ptx").kernel().launch(block=128, args=args, check="none", profile=True).profile
    path = tmp_path / "tiles.html"
    path.write_text(report_page([(found, ())]), encoding="utf-8")
    browsers[False].open(path.as_uri())
    return browsers[False], found


def test_memory_over_time_shows_what_is_held(tiles: Any) -> None:
    browser, found = tiles
    assert browser.run("return MEMORY.rows") == ["CTA 0 shared memory"]
    shown = browser.run("return MEMORY.held.map(span => [span[1], span[2], span[7]])")
    assert shown == [[each.first, each.end, round(each.until, 1)] for each in found.estimate.memory]
    assert sorted(end - first for first, end, _ in shown) == [256, 2048]


def test_memory_over_time_zooms_with_the_timeline_and_selects_lines(tiles: Any) -> None:
    browser, found = tiles
    tile = max(found.estimate.memory, key=lambda each: each.end - each.first)
    pixel = "[...document.getElementById('places').getContext('2d').getImageData(x * s, y * s, 1, 1).data]"
    place = f"""
      const box = places.getBoundingClientRect(), s = window.devicePixelRatio || 1;
      const time = {(tile.written + tile.until) / 2}, at = {(tile.first + tile.end) / 2};
      const x = LABEL + (box.width - LABEL) * (time - view.from) / (view.to - view.from);
      const y = 4 + (PLACE - 12) * at / MEMORY.sizes[0];
    """
    event = "{deltaY: -100, clientX: box.left + x, clientY: box.top + y, cancelable: true, bubbles: true}"
    assert sum(browser.run(f"{place} return {pixel}")[:3]) < 3 * 250
    browser.run(f"{place} places.dispatchEvent(new WheelEvent('wheel', {event}))")
    assert browser.run("return view.to - view.from") == pytest.approx(browser.run("return end") * 0.8)
    assert sum(browser.run(f"{place} return {pixel}")[:3]) < 3 * 250
    browser.run(f"{place} places.dispatchEvent(new PointerEvent('pointermove', {event}))")
    line = WARPGROUP.splitlines().index(next(text for text in WARPGROUP.splitlines() if "], 2048, [full]" in text)) + 1
    said = browser.run("return document.getElementById('held-hover').textContent")
    assert said.startswith(f"CTA 0 shared memory: bytes {tile.first} to {tile.end - 1}, TMA, line {line}, written from ")
    browser.run(f"{place} places.dispatchEvent(new PointerEvent('pointerdown', {event}))")
    browser.run(f"{place} places.dispatchEvent(new PointerEvent('pointerup', {event}))")
    assert browser.run("return document.querySelector('#ptx tr.selected').firstChild.textContent") == str(line)


def test_a_page_without_shared_memory_shows_no_picture_of_it(page: Any) -> None:
    assert page().run("return document.getElementById('held').hidden")


def test_a_menu_shows_the_other_launches(profile: Any, browsers: Any, tmp_path: Path) -> None:
    other = replace(profile, kernel="other")
    path = tmp_path / "two.html"
    path.write_text(report_page([(profile, ()), (other, ())]), encoding="utf-8")
    browser = browsers[False]
    browser.open(path.as_uri())
    shown = "return [document.getElementById('kernel').textContent, document.getElementById('launches').hidden]"
    assert browser.run(shown) == ["k for sm_90a", False]
    browser.run("const menu = document.getElementById('launches'); menu.selectedIndex = 1; menu.dispatchEvent(new Event('change'))")
    for _ in range(50):
        if browser.run(shown)[0] != "k for sm_90a":
            break
        sleep(0.1)
    assert browser.run(shown) == ["other for sm_90a", False]
    assert browser.run("return document.getElementById('launches').selectedIndex") == 1


@pytest.mark.sweep
def test_a_page_of_50_megabytes_stays_usable(profile: Any, browsers: Any, tmp_path: Path) -> None:
    many = tuple(Span(0, f"warp {i % 64}", "run", 0, float(i), i + 0.9) for i in range(1_850_000))
    large = replace(profile)
    large.__dict__["estimate"] = replace(profile.estimate, spans=many)
    path = tmp_path / "large.html"
    path.write_text(report_page([(large, ())]), encoding="utf-8")
    assert path.stat().st_size > 50e6
    browser = browsers[False]
    started = perf_counter()
    browser.open(path.as_uri())
    assert perf_counter() - started < 30
    timed = "const t = performance.now(); {}; return performance.now() - t"
    assert quickest(lambda: browser.run(timed.format("draw()")), 1000) < 1000
    event = "new WheelEvent('wheel', {deltaY: -100, clientX: 640, clientY: 0, cancelable: true})"
    assert quickest(lambda: browser.run(timed.format(f"canvas.dispatchEvent({event})")), 1000) < 1000
    assert quickest(lambda: browser.run(timed.format("document.querySelectorAll('#ptx tr')[12].click()")), 200) < 200
    assert browser.run("return document.querySelectorAll('#ptx tr.selected').length") == 1
