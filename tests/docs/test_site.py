"""The site: its navigation holds every page, and it builds without a warning."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.view.webdriver_helpers import MISSING, Browser

from .test_generated import DOCS

CONFIG = DOCS.parent / "mkdocs.yml"
FROM_OUTSIDE = ("contributing.md", "tests.md")
"""Pages that the site has of files outside its folder."""


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
    assert sorted(listed(config.nav)) == sorted({*pages, *FROM_OUTSIDE} - codes)
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
@pytest.mark.xdist_group("site")
def test_the_site_builds(site: Path) -> None:
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    names = {re.sub(r"README$", "index", str(page.relative_to(DOCS).with_suffix(""))) + ".html" for page in DOCS.rglob("*.md")}
    assert pages == names | {"404.html", "contributing.html", "tests.html"}
    for page in FROM_OUTSIDE:
        links = re.findall(r'href="([^":#]+\.html)', (site / page).with_suffix(".html").read_text())
        assert "architecture.html" in links
        assert [link for link in links if not (site / link).exists()] == []
    assert [page for page in (site / "coverage").glob("*.html") if r"\|" in page.read_text()] == []  # bars in the code of tables


@pytest.mark.sweep
@pytest.mark.xdist_group("site")
def test_the_search_covers_the_forms(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix(): page.read_text() for page in (DOCS / "coverage").glob("*.md")}
    for name, text in pages.items():
        words = " ".join(entry["text"] for entry in found if entry["location"].partition("#")[0] == name.replace("README", "index"))
        opcodes = re.findall(r"^\| `([\w.:]+)", text, re.MULTILINE)
        assert [opcode for opcode in opcodes if opcode not in words] == []


@pytest.mark.sweep
@pytest.mark.xdist_group("site")
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
@pytest.mark.xdist_group("site")
def test_the_reference_describes_the_libraries(site: Path) -> None:
    from ptxlab.interop import cute, triton

    page = (site / "reference" / "interop.html").read_text()
    names = [f"{package.__name__}.{name}" for package in (triton, cute) for name in package.__all__]
    assert {"ptxlab.interop.triton.device", "ptxlab.interop.cute.compile"} <= set(names)
    assert [name for name in [*names, "ptxlab.interop.pytest_plugin.ptxlab_session"] if f'id="{name}"' not in page] == []


@pytest.mark.sweep
@pytest.mark.xdist_group("site")
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_the_filter_of_the_coverage_pages(site: Path) -> None:
    """What stays visible is what the words select in the text of the page."""
    lines = [line for line in (DOCS / "coverage" / "tcgen05.md").read_text().splitlines() if line.startswith("| `")]
    browser = Browser()
    try:
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
    finally:
        browser.close()
