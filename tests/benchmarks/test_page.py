"""The page of the benchmarks and its plots are made of stored figures; the kernels that ptxas compiles, too, run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.chart import bars
from benchmarks.cold import COLD, allowed, assembler, launch, main
from benchmarks.page import SECTIONS, pages

from ptxlab.interop import toolkit

COLD_FIGURES = {
    "small": {"title": "a < b", "note": "all lines execute", "lines": 1234, "seconds": {"ptxas": 0.5, "none": 1.2, "all": 1.4}},
    "large": {"title": "large", "note": "", "lines": 190_000, "seconds": {"ptxas": 10.0, "none": 5.0, "all": 40.0}},
}
MEMORY = {"all": {"arrays_mib": 384.0, "own_mib": 96.0, "launched_mib": 96 + 384 * 1.25, "peak_mib": 1000.0}}
CAMPAIGN = {
    "rows": [
        {"processes": 1, "cells_per_s": 2.0, "cell_s": 0.5},
        {"processes": 4, "cells_per_s": 6.0, "cell_s": 0.6},
    ]
}
WORKERS = {"attention": [{"workers": 2, "seconds": 1.5, "times": 1.8, "independent": 1.9}]}
STORED: dict[str, Any] = {
    "cold": {"machine": "a machine", "figures": COLD_FIGURES},
    "workers": {"machine": "a machine", "figures": WORKERS},
    "campaign": {"machine": "a machine", "figures": CAMPAIGN},
    "memory": {"machine": "another machine", "figures": MEMORY},
}
NAMESPACE = "{http://www.w3.org/2000/svg}"


def widths(svg: str) -> list[float]:
    """The lengths of the bars."""
    found = ElementTree.fromstring(svg).iter(f"{NAMESPACE}rect")
    return [float(each.attrib["width"]) for each in found if each.attrib["height"] == "12" and each.attrib["width"] != "12"]


def test_the_page_is_made_of_stored_figures() -> None:
    made = {name: page() for name, page in pages(STORED).items()}
    assert set(made) == {"benchmarks.md", *(f"figures/benchmarks-{name}.svg" for name in STORED)}
    text = made["benchmarks.md"]
    assert re.findall("^## (.*)$", text, re.MULTILINE) == [SECTIONS[name].title for name in STORED]
    assert "| a < b | 1,234 | 0.50 | 1.20 | 1.40 | 1.30 | all lines execute |" in text
    assert "| all | 384 | 96 | 576 | 1.50 | 1.25 |" in text
    assert "| 4 | 6.00 | 3.00 | 0.60 | 0.90 |" in text
    assert "| 2 | 1.50 | 1.80 | 1.90 |" in text
    assert "Measured on a machine." in text
    assert "Measured on another machine." in text


def test_bars_are_as_long_as_their_values() -> None:
    svg = pages(STORED)["figures/benchmarks-cold.svg"]()
    assert "a &lt; b" in svg
    lengths = widths(svg)
    seconds = [each["seconds"][key] for each in COLD_FIGURES.values() for key in ("ptxas", "none", "all")]
    assert lengths == pytest.approx([value * max(lengths) / 40 for value in seconds], abs=0.1)


def test_a_bar_that_is_missing_has_no_rectangle() -> None:
    assert len(widths(bars("none", ("a", "b"), {"g": [1.0, None], "h": [3.0, 2.0]}, "s"))) == 3
    with pytest.raises(ValueError, match="one bar for each"):
        bars("too few", ("a", "b"), {"g": [1.0]}, "s")


def test_what_is_allowed() -> None:
    assert allowed(1.5) == pytest.approx(3.3)


@pytest.mark.parametrize("name", ["scalar", "causal", "many"])
def test_cold_kernels_run(name: str) -> None:
    assert launch(name, "none")["seconds"] > 0


def test_ten_kernels_from_small_to_190000_lines() -> None:
    lines = [each.text().count("\n") for each in COLD.values()]
    assert len(lines) == 10
    assert min(lines) < 200
    assert max(lines) >= 190_000


def assembler_of(folder: Path, release: str, newest: str) -> Path:
    """A program in place of ptxas, which knows PTX up to a version."""
    path = folder / "ptxas"
    folder.mkdir(parents=True)
    path.write_text(f"""#!{sys.executable}
import re, sys
if "--version" in sys.argv:
    print("Cuda compilation tools, release {release}, V{release}.1")
    sys.exit()
version = re.search(r"[.]version ([0-9.]+)", open(sys.argv[-1]).read())[1]
if tuple(map(int, version.split("."))) > tuple(map(int, "{newest}".split("."))):
    print(f"ptxas fatal : Unsupported .version {{version}}", file=sys.stderr)
    sys.exit(255)
""")
    path.chmod(0o755)
    return path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Assemblers of the package and of $PATH, which is old and beside nvcc."""
    monkeypatch.setattr(toolkit, "package_folders", lambda name: [tmp_path / name])
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    old = assembler_of(tmp_path / "bin", "13.0", "9.0")
    (tmp_path / "bin" / "nvcc").symlink_to(old)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return old, tmp_path / "nvidia" / "cu13" / "bin"


def test_the_newest_assembler_is_taken(tools: tuple[Path, Path], tmp_path: Path) -> None:
    old, packaged = tools
    assert toolkit.installed_ptxas() == [old]
    new = assembler_of(packaged, "13.10", "9.10")
    assert toolkit.find_ptxas() == old
    assert assembler(COLD) == str(new)
    assert assembler(COLD, str(assembler_of(tmp_path / "other", "13.5", "9.5"))) == str(tmp_path / "other" / "ptxas")


def test_an_assembler_that_is_too_old(tools: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark says so at once, and measures what it can."""
    old, _ = tools
    assert assembler(["scalar", "scalar_5000"]) == str(old)
    monkeypatch.setattr("benchmarks.cold.measure", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["cold", "--kernels", "scalar", "gemm_pointers"])
    with pytest.raises(
        SystemExit, match=r"13\.0, does not assemble gemm_pointers: install nvidia-cuda-nvcc.*\n.*Unsupported \.version 9\.4$"
    ):
        main()
    with pytest.raises(SystemExit, match="does not assemble"):
        SECTIONS["cold"].measure(1)
    old.unlink()
    (old.parent / "nvcc").unlink()
    with pytest.raises(SystemExit, match="there is no ptxas: install"):
        assembler(["scalar"])
    with pytest.raises(SystemExit, match="there is no ptxas at /nowhere/ptxas: install"):
        assembler(["scalar"], "/nowhere/ptxas")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas")
def test_scalar_code_is_not_left_out_by_ptxas(tmp_path: Path) -> None:
    """Twice as many lines make about twice as much code."""
    sizes = []
    for name in ("scalar", "scalar_5000"):
        path, out = tmp_path / "k.ptx", tmp_path / "k.cubin"
        path.write_text(COLD[name].text())
        subprocess.run(["ptxas", "-arch=sm_100a", "-o", str(out), str(path)], check=True)
        sizes.append(out.stat().st_size)
    assert sizes[1] > 10 * sizes[0]
