"""Wheels for one platform hold the libraries in C compiled; without `PTXLAB_PREBUILT` a wheel is for all platforms, and compiles them at
first use.

``PTXLAB_PREBUILT=x86_64`` or ``aarch64`` compiles with the package ``ziglang`` for glibc 2.17, ``PTXLAB_PREBUILT=native`` with ``cc`` for
this machine.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_GLIBC = "2.17"


class PrebuiltLibraries(BuildHookInterface):
    """Compile the libraries into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the tag of the wheel, and add the files."""
        asked = os.environ.get("PTXLAB_PREBUILT", "")
        if not asked or self.target_name != "wheel":
            return
        if asked == "native":
            command, platform = ["cc"], sysconfig.get_platform().replace("-", "_").replace(".", "_")
        else:
            command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{asked}-linux-gnu.{_GLIBC}"]
            platform = f"manylinux_{_GLIBC.replace('.', '_')}_{asked}"
        libraries = self._libraries()
        folder = Path(self.directory) / "prebuilt"
        folder.mkdir(parents=True, exist_ok=True)
        for library in (libraries.DRIVER, *libraries.RUNTIMES, libraries.CUTE):
            made = folder / library.soname
            needed = [str(folder / each.soname) for each in library.needs]
            subprocess.run([*command, *library.arguments(), *needed, "-o", str(made)], check=True)
            build_data["force_include"][str(made)] = f"ptxlab/cuda/prebuilt/{made.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def _libraries(self) -> Any:
        """The module that describes the libraries, without the package, whose dependencies are not there."""
        path = Path(self.root) / "src" / "ptxlab" / "cuda" / "libraries.py"
        spec = importlib.util.spec_from_file_location("ptxlab_libraries", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
