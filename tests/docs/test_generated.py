"""The generated pages are those that the code of this commit writes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.interop.nvcc_helpers import require_nvcc

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
assert SPEC is not None
assert SPEC.loader is not None
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)


COMPILED = {"../README.md": "triton", **dict.fromkeys(("tutorial.md", "tutorial-mistakes.md", "tutorial-wgmma.md"), "nvcc")}
"""Pages with output of programs that need a compiler."""
SLOW = {"reference/command-line.md"}
"""Pages with the help of every command, each of which is a process."""
NAMES = [
    pytest.param(name, marks=[*[pytest.mark.compiler] * (name in COMPILED), *[pytest.mark.sweep] * (name in SLOW)])
    for name in sorted(generate.PAGES)
]


@pytest.mark.parametrize("name", NAMES)
def test_page_is_current(name: str) -> None:
    match COMPILED.get(name):
        case "triton":
            pytest.importorskip("triton")
            pytest.importorskip("torch")
        case "nvcc":
            require_nvcc("13.5")  # the pages have line numbers of its PTX
    assert (DOCS / name).read_text() == generate.PAGES[name](), "run: python docs/generate.py"


ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"<!-- on the site: .*? -->", "", prose, flags=re.DOTALL)  # the build of the site checks these
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles], link


def test_every_figure_is_shown() -> None:
    shown = {Path(link).stem for page in PAGES for link in re.findall(r"\(([^)\s]+\.svg)\)", page.read_text())}
    generated = {path.stem for name in generate.PAGES if (path := Path(name)).suffix == ".svg"}
    assert shown == generated == {path.stem for path in (DOCS / "figures").iterdir()}
