"""The wheel: it holds the files that are no Python, and without an extra it runs PTX."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.interop.test_bare import PROGRAM

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_every_file(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    pages = {f"ptxlab/rules/{path.name}" for path in (ROOT / "docs" / "rules").glob("*.md")}
    assert {
        "ptxlab/py.typed",
        "ptxlab/view/explorer/page.html",
        "ptxlab/cuda/library/driver_api.h",
    } <= files
    assert "ptxlab/rules/X101.md" in pages
    assert {name for name in held if ".dist-info/" not in name} == files | pages
    (entry_points,) = (name for name in held if name.endswith("entry_points.txt"))
    assert "ptxlab = ptxlab.cli:main" in zipfile.ZipFile(wheel).read(entry_points).decode()


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_wheel_for_one_platform_holds_the_driver(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=os.environ | {"PTXLAB_PREBUILT": "native"})
    (made,) = tmp_path.glob("*.whl")
    assert "-py3-none-linux_" in made.name
    prebuilt = {name.rpartition("/")[2] for name in zipfile.ZipFile(made).namelist() if "/prebuilt/" in name}
    assert prebuilt == {"libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libptxlab_cute.so"}
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(zipfile.ZipFile(made).read("ptxlab/cuda/prebuilt/libcuda.so.1"))
    asked = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cuDeviceGetCount(None))"
    done = subprocess.run([sys.executable, "-c", asked, str(library)], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


@pytest.mark.slow
def test_it_works_without_an_extra(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    binaries = home / "bin"

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)

    installed = run(binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    assert installed.returncode == 0, installed.stderr
    packages = run(binaries / "python", "-m", "pip", "list", "--format=freeze").stdout
    assert not [line for line in packages.splitlines() if line.partition("==")[0] in ("triton", "torch", "pytest", "nvidia-cutlass-dsl")]
    help_text = run(binaries / "ptxlab", "--help")
    assert (help_text.returncode, help_text.stderr) == (0, "")
    rule = run(binaries / "ptxlab", "rule", "X101")
    assert (rule.returncode, rule.stderr) == (0, "")
    assert "Wrong" in rule.stdout
    launch = run(binaries / "python", "-c", PROGRAM)
    assert launch.returncode == 0, launch.stderr
    assert launch.stdout == "error[I301]: Triton is not installed: pip install 'ptxlab[triton]'\n"
    for package, extra in (("triton", "triton"), ("torch", "torch"), ("cutlass.cute", "cute")):
        (tmp_path / "script.py").write_text(f"import {package}\n")
        missing = run(binaries / "ptxlab", "exec", "script.py")
        assert (missing.returncode, missing.stdout) == (2, "")
        name = package.partition(".")[0]
        assert missing.stderr == f"error[I301]: script.py needs the package {name}: pip install 'ptxlab[{extra}]'\n"
