"""What the keys of the code cache depend on."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from ptxlab import native
from ptxlab.native import caches


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the sources, which takes their place."""
    for name in caches.SOURCES:
        source = caches.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name)
        else:
            shutil.copy(source, tmp_path / name)
    monkeypatch.setattr(caches, "ROOT", tmp_path)
    return tmp_path


def test_every_source_counts(sources: Path) -> None:
    """A change of any module, wherever it is, changes all keys; other files do not."""
    fresh = partial(caches._toolchain.__wrapped__, native.host())
    before = fresh()
    (sources / "engine" / "notes.txt").write_text("no module")
    (sources / "native" / "__pycache__").mkdir(exist_ok=True)
    (sources / "native" / "__pycache__" / "stale.py").write_text("")
    assert fresh() == before
    seen = {before}
    for name in ("_arrays.py", "native/caches.py", "isa/scalar/_float.py", "numerics/ir/prepare.py"):
        with (sources / name).open("a") as file:
            file.write("#\n")
        seen.add(fresh())
    (sources / "engine" / "llvm" / "new.py").write_text("")
    assert len(seen | {fresh()}) == 6


def test_contents_of_a_long_file(tmp_path: Path) -> None:
    """All of it, whatever its length."""
    for size in (0, 1, caches._PART - 1, caches._PART, caches._PART + 1, 3 * caches._PART):
        (tmp_path / "file").write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        assert caches._contents(str(tmp_path / "file")) == (tmp_path / "file").read_bytes()


def test_modules_of_a_folder(sources: Path) -> None:
    """Those of folders in it, too."""
    found = {path.relative_to(sources).as_posix() for path in (sources / "engine").rglob("*.py")}
    assert set(caches._modules(str(sources), "engine")) == found
