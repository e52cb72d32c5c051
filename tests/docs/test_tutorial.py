"""The tutorial: what it quotes stands in its examples, its program runs, and its mistakes are reported as what they are."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from tests.interop.nvcc_helpers import require_nvcc

from .test_generated import DOCS, generate

EXAMPLES = DOCS.parent / "examples" / "tutorial"
SOURCES = {
    "tutorial.md": {"cuda": "gemm.cu", "ptx": "gemm.ptx", "toml": "launch.toml"},
    "tutorial-wgmma.md": {"cuda": "wgmma.cu"},
}
MISTAKES = {
    "tutorial-mistakes.md": {
        "No wait for the copies": "X103",
        "Wrong parity in the first round": "H601",
        "`expect_tx` announces too few bytes": "X103",
        "`expect_tx` announces too many bytes": "H601",
        "No commit": "H601",
        "The first product adds to what tensor memory held": "T614",
        "No wait for the last product": "X105",
        "No `tcgen05.wait::ld`": "R809",
        "The lane in the wrong half of the address": "T621",
        "No `tcgen05.fence`": "X115",
        "A store out of bounds": "M406",
        "No proxy fence": "X102",
        "The piece is overwritten while the copy reads it": "X104",
        "No deallocation": "T605",
        "Deallocation too early": "T621",
        "Wrong swizzle": "O101",
        "Wrong stride dimension byte offset": "O102",
        "Wrong K step": "O105",
        "Wrong types in the instruction descriptor": "O103",
    },
    "tutorial-wgmma.md": {"No `wgmma.fence`": "R807", "No `wgmma.wait_group`": "R805", "Wrong swizzle": "O101"},
}
"""Title of a section -> a code that its output must have. That the output is current is a test of `test_generated`."""


@pytest.mark.parametrize(("page", "language"), [(page, language) for page, sources in SOURCES.items() for language in sources])
def test_the_quotations(page: str, language: str) -> None:
    source = (EXAMPLES / SOURCES[page][language]).read_text()
    quoted = [text for known, title, text in generate.BLOCK.findall((DOCS / page).read_text()) if known == language and not title]
    assert quoted
    assert [text for text in quoted if not any(indent(text, " " * depth) in source for depth in (0, 2, 4, 6))] == []


@pytest.mark.parametrize("page", MISTAKES)
def test_the_mistakes_are_reported(page: str) -> None:
    sections = re.split(r"^### ", (DOCS / page).read_text(), flags=re.MULTILINE)[1:]
    outputs = {section.partition("\n")[0]: section.partition("$ ptxlab run")[2] for section in sections if "$ patch " in section}
    assert set(outputs) == set(MISTAKES[page])
    assert [title for title, code in MISTAKES[page].items() if f"[{code}]: " not in outputs[title]] == []


@pytest.mark.compiler
def test_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_nvcc()
    monkeypatch.chdir(tmp_path)
    Path("gemm.cu").write_text((EXAMPLES / "gemm.cu").read_text())
    (program,) = [text for language, _, text in generate.BLOCK.findall((DOCS / "tutorial.md").read_text()) if language == "python"]
    exec(program, {})
