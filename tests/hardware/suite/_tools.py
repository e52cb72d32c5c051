"""The tools that a record was made with."""

from __future__ import annotations

import ctypes
import re
import subprocess

__all__ = ["ASSEMBLE", "tools", "version_9_0"]

ASSEMBLE = ("ptxas", "-arch=sm_90a", "--fmad=false")
"""The assembler; it fuses no multiplication with an addition."""


def version_9_0(text: str) -> str:
    """The text for a ptxas that does not know the newest version."""
    return re.sub(r"^\.version .*$", ".version 9.0", text, count=1, flags=re.MULTILINE)


def _last_line(command: str) -> str:
    try:
        out = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    except OSError:
        return f"no {command}"
    return f"{command} {out.strip().splitlines()[-1]}"


def _driver() -> list[str]:
    """The GPU, its driver, and the CUDA version that the driver knows."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise SystemExit("there is no GPU: libcuda.so.1 cannot be loaded") from None
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        first = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()[0]
        name, version = (part.strip() for part in first.split(","))
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        name, version = "unknown GPU", "unknown"
    number = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(number))
    return [name, f"driver {version}", f"CUDA {number.value}"]


def tools() -> list[str]:
    """GPU, driver, nvcc, ptxas."""
    return [*_driver(), _last_line("nvcc"), _last_line("ptxas")]
