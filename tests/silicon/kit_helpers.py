"""A kit of one small part, run by its own script with ptxlab in place of the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from ptxlab import silicon

DRIVER = Path(__file__).with_name("fake_driver.py")
TARGET, PART, CAPABILITY = "sm_100a", "collector", "10.0"


def run_script(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``record.py`` with the driver of the tests."""
    sources = Path(silicon.__file__).parents[2]
    given = {**os.environ, "PYTHONPATH": str(sources), "FAKE_CAPABILITY": CAPABILITY, "FAKE_TARGET": TARGET, **environment}
    command = [sys.executable, str(folder / "record.py"), "--driver", str(DRIVER), *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=300, cwd=folder.parent)


def contents(path: Path) -> tuple[dict[str, Any], bytes]:
    """What a file of results holds."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("results.json")), archive.read("outputs.bin")


def write(path: Path, record: object, outputs: bytes) -> Path:
    """Write a file of results."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results.json", record if isinstance(record, bytes) else json.dumps(record))
        archive.writestr("outputs.bin", outputs)
    return path
