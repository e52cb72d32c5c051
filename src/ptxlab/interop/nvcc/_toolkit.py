"""Where nvcc is."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ptxlab.diagnostics import diagnose
from ptxlab.interop.nvcc._errors import NvccError

__all__ = ["find_nvcc"]

_INSTALL = 'pip install "ptxlab[cuda]", or install the CUDA toolkit and set CUDA_HOME'


def find_nvcc() -> Path:
    """The compiler: of ``$CUDA_HOME`` or ``$CUDA_PATH``, else of the PyPI package ``nvidia-cuda-nvcc``, else of ``$PATH``.

    Raises
    ------
    NvccError
        I201 if there is none, with what to install
    """
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        root = os.environ.get(variable)
        if root and _runs(Path(root, "bin", "nvcc")):
            return Path(root, "bin", "nvcc")
    spec = find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None else None
    packaged = [path for folder in folders or () for path in Path(folder).glob("cu*/bin/nvcc") if _runs(path)]
    if packaged:
        return max(packaged)
    found = shutil.which("nvcc")
    if found is None:
        raise NvccError(diagnose("I201", f"nvcc is not installed: {_INSTALL}"))
    return Path(found)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
