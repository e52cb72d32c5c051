"""The PTX of CuTe DSL's kernels for the driver, which is handed machine code: both are kept as files, by the tool's own settings."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ptxlab import cuda
from ptxlab.cuda.building import NativeLibrary
from ptxlab.interop.session import FOR_GOOD

__all__ = ["LIBRARY", "kept_folder", "settings"]

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
    kept = {"KEEP": "ptx,cubin", "DUMP_DIR": str(folder), "NO_CACHE": "1", "DISABLE_FILE_CACHING": "1"}
    values = {**kept, "ARCH": target, "LINEINFO": "1", "LIBS": str(library)}
    return {f"{prefix}_{name}": value for prefix in _PREFIXES for name, value in values.items()}


@cache
def kept_folder() -> Path:
    """The folder of this process, in which the driver finds PTX."""
    folder = Path(FOR_GOOD.enter_context(TemporaryDirectory(prefix="ptxlab-cute-")))
    cuda.install().bridge.store.folders.append(folder)
    return folder
