"""The site: its navigation holds every page, and it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from .test_generated import DOCS

CONFIG = DOCS.parent / "mkdocs.yml"


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
    assert sorted(listed(config.nav)) == sorted(set(pages) - codes)
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


@pytest.mark.xdist_group("site")
def test_the_site_builds(site: Path) -> None:
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    names = {re.sub(r"README$", "index", str(page.relative_to(DOCS).with_suffix(""))) + ".html" for page in DOCS.rglob("*.md")}
    assert pages == names | {"404.html"}
    assert r"\|" not in (site / "coverage.html").read_text()  # bars in the code of tables


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


@pytest.mark.xdist_group("site")
def test_the_reference_describes_the_libraries(site: Path) -> None:
    from ptxlab.interop import cute, triton

    page = (site / "reference" / "interop.html").read_text()
    names = [f"{package.__name__}.{name}" for package in (triton, cute) for name in package.__all__]
    assert {"ptxlab.interop.triton.device", "ptxlab.interop.cute.compile"} <= set(names)
    assert [name for name in [*names, "ptxlab.interop.pytest_plugin.ptxlab_session"] if f'id="{name}"' not in page] == []
