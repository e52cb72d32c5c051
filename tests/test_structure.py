"""The shape of the source tree."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "ptxlab"
MOST = 15


def test_no_folder_is_larger_than_a_reader_can_take_in() -> None:
    """The families of the specification in `ptxlab.isa` apart, a folder holds at most 15 modules."""
    folders = [folder for folder in SOURCE.rglob("*") if folder.is_dir() and any(folder.glob("*.py"))]
    counts = {str(f.relative_to(SOURCE)): len([m for m in f.glob("*.py") if m.name != "__init__.py"]) for f in folders}
    assert len(counts) > 25
    assert {name: count for name, count in counts.items() if count > MOST and Path(name).parent != Path("isa")} == {}


def test_diagnostic_codes_stand_in_one_module() -> None:
    assert [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*codes*.py")] == ["diagnostics/_codes.py"]
