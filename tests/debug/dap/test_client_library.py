"""The adapter with a real client, the library of Visual Studio Code, over standard input and output and over a socket."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..debug_kernels import LOOP

PACKAGE = "@vscode/debugadapter-testsupport@1.68.0"
SCRIPT = Path(__file__).parent / "client.js"
LAUNCH = 'ptx = "k.ptx"\nblock = 64\n[[args]]\nname = "sums"\narray = {shape = [64], dtype = "uint32"}\n'


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the library is installed."""
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--silent", PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return folder


@contextmanager
def listening() -> Iterator[str]:
    """An adapter at a free port."""
    command = [sys.executable, "-c", "from ptxlab.cli import main; main(['debug', '--port', '0'])"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"port (\d+)", process.stderr.readline())
        assert found is not None
        try:
            yield found[1]
        finally:
            process.terminate()


def run(library: Path, folder: Path, *port: str) -> None:
    (folder / "k.ptx").write_text(LOOP)
    (folder / "k.toml").write_text(LAUNCH)
    command = ["node", str(SCRIPT), sys.executable, str(folder / "k.toml"), str(folder / "k.ptx"), *port]
    environment = os.environ | {"NODE_PATH": str(library / "node_modules")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.sweep
def test_over_standard_input_and_output(library: Path, tmp_path: Path) -> None:
    run(library, tmp_path)


@pytest.mark.sweep
def test_over_a_socket(library: Path, tmp_path: Path) -> None:
    with listening() as port:
        run(library, tmp_path, port)
        run(library, tmp_path, port)  # one editor after the other
