"""The site: its navigation holds every page, and it builds without a warning."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.view.webdriver_helpers import MISSING, Browser

from .test_generated import DOCS

CONFIG = DOCS.parent / "mkdocs.yml"
FROM_OUTSIDE = ("contributing.md", "tests.md")
"""Pages that the site has of files outside its folder."""
GENERATED = "explorer.html"
"""A page that is written when the site is built."""


def listed(entry: Any) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in listed(part)]


def test_the_navigation_holds_every_page() -> None:
    """The pages of codes hang on the page that lists them."""
    config = pytest.importorskip("mkdocs.config").load_config(str(CONFIG))
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    codes = {page for page in pages if page.startswith("rules/")}
    assert sorted(listed(config.nav)) == sorted({*pages, *FROM_OUTSIDE, GENERATED} - codes)
    assert set(re.findall(r"\((rules/\w+\.md)\)", (DOCS / "codes.md").read_text())) == codes - {"rules/README.md"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(CONFIG), "--site-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.sweep
def test_the_site_builds(site: Path) -> None:
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    names = {re.sub(r"README$", "index", str(page.relative_to(DOCS).with_suffix(""))) + ".html" for page in DOCS.rglob("*.md")}
    assert pages == names | {"404.html", "contributing.html", "tests.html", GENERATED}
    for page in FROM_OUTSIDE:
        links = re.findall(r'href="([^":#]+\.html)', (site / page).with_suffix(".html").read_text())
        assert "architecture.html" in links
        assert [link for link in links if not (site / link).exists()] == []
    assert [page for page in (site / "coverage").glob("*.html") if r"\|" in page.read_text()] == []  # bars in the code of tables


@pytest.mark.sweep
def test_the_search_covers_the_forms(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix(): page.read_text() for page in (DOCS / "coverage").glob("*.md")}
    for name, text in pages.items():
        words = " ".join(entry["text"] for entry in found if entry["location"].partition("#")[0] == name.replace("README", "index"))
        opcodes = re.findall(r"^\| `([\w.:]+)", text, re.MULTILINE)
        assert [opcode for opcode in opcodes if opcode not in words] == []


@pytest.mark.sweep
def test_the_reference_describes_what_the_packages_offer(site: Path) -> None:
    import ptxlab
    from ptxlab import descriptors, diagnostics, layout, numerics, view
    from ptxlab.interop import nvcc

    for package in (ptxlab, descriptors, diagnostics, layout, numerics, view, nvcc):
        name = package.__name__.split(".")[:2][-1]
        page = (site / "reference" / f"{name}.html").read_text()
        documented = {n for n in package.__all__ if isinstance(getattr(package, n), type | FunctionType)}
        assert [n for n in sorted(documented) if f'id="{package.__name__}.{n}"' not in page] == []
        assert "``" not in page  # descriptions are read as text, not as types


@pytest.mark.sweep
def test_the_reference_describes_the_libraries(site: Path) -> None:
    from ptxlab.interop import cute, triton

    page = (site / "reference" / "interop.html").read_text()
    names = [f"{package.__name__}.{name}" for package in (triton, cute) for name in package.__all__]
    assert {"ptxlab.interop.triton.device", "ptxlab.interop.cute.compile"} <= set(names)
    assert [name for name in [*names, "ptxlab.interop.pytest_plugin.ptxlab_session"] if f'id="{name}"' not in page] == []


@pytest.fixture
def browser() -> Iterator[Browser]:
    if MISSING:
        pytest.skip(MISSING)
    found = Browser()
    yield found
    found.close()


@pytest.mark.sweep
def test_no_page_needs_the_network(site: Path) -> None:
    loaded = {
        address
        for page in site.rglob("*.html")
        for element in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        for address in re.findall(r'(?:src|href)="(\w+:)?//', element)
    }
    assert loaded == set()


@pytest.mark.sweep
def test_the_explorer_is_in_the_navigation(site: Path, browser: Browser) -> None:
    link = "return [...document.querySelectorAll(arguments[0])].filter((a) => a.textContent.trim() === arguments[1]).map((a) => a.href)"
    explorer, start = ((site / name).as_uri() for name in (GENERATED, "index.html"))
    browser.open((site / "layouts" / "index.html").as_uri())
    assert browser.run(link, "nav a", "Layout explorer") == browser.run(link, "article a", "Open it here") == [explorer]
    browser.open(explorer)
    assert browser.run("const p = ptxlab.place('A', 1, 0); return [p.byte, p.bank]") == [0x490, 4]
    assert browser.run(link, "h1 a", "ptxlab") == [start]


@pytest.mark.sweep
@pytest.mark.parametrize("page", ["index.html", "layouts/index.html"])
def test_the_search_works_from_files(site: Path, browser: Browser, page: str) -> None:
    """Where a browser neither fetches a file nor starts a worker from one."""
    shown = """const found = [...document.querySelectorAll(".md-search-result__item > .md-search-result__link")];
        return [document.querySelector(".md-search-result__meta").textContent.trim(), found.map((a) => a.href.split(/[?#]/)[0])];"""
    for word, wanted in (
        ("deadlock", r"\d+ matching documents"),
        ("collector", r"\d+ matching documents"),
        ("qqq", "No matching documents"),
    ):
        browser.open((site / page).as_uri())
        assert browser.run("return location.protocol") == "file:"
        browser.run("document.querySelector('[data-md-component=search-query]').focus()")
        browser.press(*word)
        for _ in range(80):
            meta, links = browser.run(shown)
            texts = [Path(link.removeprefix("file://")).read_text().lower() for link in links]
            if re.fullmatch(wanted, meta) and all(word in text for text in texts):
                break
            time.sleep(0.25)
        assert re.fullmatch(wanted, meta), word
        assert [link for link, text in zip(links, texts, strict=True) if word not in text] == []
        assert (len(links) >= 3) == meta[0].isdigit()


@pytest.mark.sweep
def test_no_table_is_cut(site: Path, browser: Browser) -> None:
    """On a screen of 1280 pixels, where both navigations stand beside the page; and no page scrolls sideways on one of 600."""
    script = """return [document.documentElement.scrollWidth - innerWidth,
        ...[...document.querySelectorAll(".md-typeset__scrollwrap")].map((e) => e.scrollWidth - e.clientWidth)];"""
    ready = (
        "return document.querySelectorAll('.md-typeset table').length === document.querySelectorAll('.md-typeset__scrollwrap table').length"
    )
    for name in (
        "index",
        "codes",
        "refused",
        "reference/launch-options",
        *(f"coverage/{page.stem}" for page in (site / "coverage").glob("*.html")),
    ):
        browser.resize(1280, 1000)
        browser.open((site / f"{name}.html").as_uri())
        for _ in range(80):
            if browser.run(ready):
                break
            time.sleep(0.25)
        first, *tables = browser.run(script)
        assert (first, len(tables) > 0, max(tables, default=None)) == (0, True, 0), name
        browser.resize(600, 1000)
        assert browser.run(script)[0] == 0, name


@pytest.mark.sweep
def test_the_filter_of_the_coverage_pages(site: Path, browser: Browser) -> None:
    """What stays visible is what the words select in the text of the page."""
    lines = [line for line in (DOCS / "coverage" / "tcgen05.md").read_text().splitlines() if line.startswith("| `")]
    browser.open((site / "coverage" / "tcgen05.html").as_uri())
    for words in ("", "tcgen05.ld two-models", "WAIT::ST", "tcgen05.cp deduced", "no such form"):
        script = """
            const box = document.getElementById("coverage-filter");
            box.value = arguments[0];
            box.dispatchEvent(new Event("input"));
            const visible = (element) => element.getClientRects().length > 0;
            const rows = [...document.querySelectorAll("article tbody tr")].filter(visible);
            const headings = [...document.querySelectorAll("article h2")].filter(visible);
            const count = document.getElementById("coverage-count").textContent;
            return [rows.map((row) => row.cells[0].textContent), headings.length, count];
        """
        shown, headings, count = browser.run(script, words)
        wanted = [line for line in lines if all(word in line.lower() for word in words.lower().split())]
        assert shown == [line.split("`")[1].replace(r"\|", "|") for line in wanted]
        assert (headings > 0) == bool(wanted)
        assert count == f"{len(wanted)} forms"
