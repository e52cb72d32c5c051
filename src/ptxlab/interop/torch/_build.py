"""The library of the CUDA device, compiled for one torch with the system's C++ compiler, and kept on disk."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from ptxlab.native import cache_folder, made_once

__all__ = ["CannotBuild", "Torch", "installed_torch", "library_file"]

_SOURCES = Path(__file__).parent / "sources"
_NAME = "libptxlab_torch.so"
_FLAGS = ("-O1", "-g0", "-shared", "-fPIC", "-w")
_FIRST_WITH_CXX20 = (2, 14)
"""The first version whose headers need C++20; earlier ones need C++17."""
_LAST_LINES = 6
_NEW_STRINGS = b"NSt7__cxx1112basic_string"
"""A part of mangled names, in a libc10 that has the newer of the two layouts of ``std::string``."""


class CannotBuild(Exception):
    """The library cannot be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Torch:
    """The torch that a program would import: its folder, version, and the CUDA version that it was built for, or None."""

    folder: Path
    version: str
    cuda: str | None


def installed_torch() -> Torch | None:
    """Return what is installed, without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    try:
        text = (folder / "version.py").read_text()
    except OSError:
        return None
    version, cuda = (re.search(rf"^{name}\b.*=\s*'([^']*)'", text, re.MULTILINE) for name in ("__version__", "cuda"))
    return None if version is None else Torch(folder, version[1], None if cuda is None else cuda[1])


def library_file(torch: Torch) -> Path:
    """Return the library for a torch; compile it if it is not in the cache.

    Raises
    ------
    CannotBuild
        if there is no compiler, or if it fails
    """
    command = _compiler()
    arguments = [*_FLAGS, *_for_torch(torch)]
    try:
        return made_once(cache_folder("torch") / _digest(torch, command, arguments) / _NAME, partial(_compile, command, arguments))
    except OSError as error:
        raise CannotBuild(str(error)) from None


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    for command in [named] if named else [["g++"], ["clang++"]]:
        found = shutil.which(command[0])
        if found is not None:
            return [found, *command[1:]]
    raise CannotBuild("there is no C++ compiler: neither g++ nor clang++" if not named else f"there is no C++ compiler {named[0]}")


def _for_torch(torch: Torch) -> list[str]:
    headers, libraries = torch.folder / "include", torch.folder / "lib"
    try:
        new_strings = _NEW_STRINGS in (libraries / "libc10.so").read_bytes()
    except OSError:
        raise CannotBuild(f"torch {torch.version} has no library libc10.so") from None
    version = tuple(int(number) for number in re.findall(r"\d+", torch.version)[:2])
    return [
        "-std=c++20" if version >= _FIRST_WITH_CXX20 else "-std=c++17",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(new_strings)}",
        *(f"-isystem{folder}" for folder in (headers, headers / "torch" / "csrc" / "api" / "include")),
        f"-L{libraries}",
        f"-Wl,-rpath,{libraries}",
        "-Wl,--no-as-needed",
        "-ltorch_cpu",
        "-lc10",
    ]


def _digest(torch: Torch, command: list[str], arguments: list[str]) -> str:
    """What decides the result: the sources, the compiler, its arguments, and torch."""
    compiler = Path(command[0]).resolve()
    digest = hashlib.sha256(repr((torch, command, compiler, compiler.stat().st_mtime_ns, arguments)).encode())
    for path in sorted(_SOURCES.iterdir()):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def _compile(command: list[str], arguments: list[str], file: Path) -> None:
    # Libraries come after the source that needs them.
    whole = [*command, str(_SOURCES / "all.cpp"), *arguments, "-o", str(file)]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.strip().splitlines()
        raise CannotBuild(f"{command[0]} cannot compile it: " + "\n".join(errors[:_LAST_LINES]))
