"""The PTX of CuTe DSL's kernels for the driver, which is handed machine code: both are kept as files, by the tool's own settings."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ptxlab.cuda.building import NativeLibrary

__all__ = ["LIBRARY", "KeptPtx", "settings"]

LIBRARY = NativeLibrary("libptxlab_cute.so", folders=("cute",))
"""The functions of the CUDA runtime that compiled host code calls, over the driver of the process."""

_PREFIXES = ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL")


def settings(target: str, folder: Path, library: Path) -> dict[str, str]:
    """Return the variables that make CuTe DSL compile for a device of the driver, and keep PTX and machine code.

    Parameters
    ----------
    target : the architecture of the device
    folder : where the files are kept
    library : the functions of the CUDA runtime that host code calls, over those of the driver
    """
    values = {
        "ARCH": target,
        "KEEP": "ptx,cubin",
        "DUMP_DIR": str(folder),
        "LINEINFO": "1",
        "NO_CACHE": "1",
        "DISABLE_FILE_CACHING": "1",
        "LIBS": str(library),
    }
    return {f"{prefix}_{name}": value for prefix in _PREFIXES for name, value in values.items()}


class KeptPtx:
    """PTX by the SHA-256 of the machine code that CuTe DSL has kept beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: set[Path] = set()
        self._files: dict[str, Path] = {}

    def find(self, digest: str) -> str | None:
        """The PTX of the machine code with this digest, or None; reads the files that are new."""
        if digest not in self._files:
            for cubin in sorted(set(self._folder.glob("*.cubin")) - self._read):
                self._read.add(cubin)
                self._files[hashlib.sha256(cubin.read_bytes()).hexdigest()] = cubin.with_suffix(".ptx")
        found = self._files.get(digest)
        return found.read_text() if found is not None and found.exists() else None
