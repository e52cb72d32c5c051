"""The Python of the pages runs: one program for each page, beside the files that the page shows and the folder ``examples``."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_generated import DOCS, generate

OWN = {
    "cuda.md": "interop/test_nvcc_docs.py",
    "cute.md": "interop/test_cute_docs.py",
    "torch.md": "interop/torch_device/test_docs.py",
    "triton.md": "interop/test_triton_docs.py",
    "tutorial.md": "docs/test_tutorial.py",
}
"""Pages whose programs need another compiler, and their tests."""

PAGES = {
    str(page.relative_to(DOCS)): page.read_text()
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name != "rules" and page.name != "architecture.md" and "```python" in page.read_text()
}


@pytest.mark.parametrize("name", sorted(set(PAGES) - set(OWN)))
def test_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(DOCS.parent / "examples")
    page, program = PAGES[name], ""
    for block in generate.BLOCK.finditer(page):
        language, title, text = block.groups()
        if title:
            Path(title).write_text(text)
        elif language == "python":
            program += "\n" * (page.count("\n", 0, block.start(3)) - program.count("\n")) + text  # on the lines of the page
    exec(compile(program, str(DOCS / name), "exec"), {})


def test_the_other_pages_have_tests_of_their_own() -> None:
    assert set(OWN) <= set(PAGES)
    assert [path for path in OWN.values() if not (Path(__file__).parents[1] / path).exists()] == []
