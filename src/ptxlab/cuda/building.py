"""The native libraries of the package: prebuilt in platform wheels, else compiled at first use with the system's C compiler."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from ptxlab.cuda.libraries import DRIVER, PREBUILT, SOURCES, NativeLibrary
from ptxlab.diagnostics import Diagnostic, PtxlabError, diagnose
from ptxlab.native import cache_folder, made_once

__all__ = ["DRIVER", "SOURCES", "BuildError", "NativeLibrary", "build", "compiler", "link"]

_LAST_LINES = 12


class BuildError(PtxlabError):
    """A library that cannot be compiled."""


def compiler() -> list[str] | None:
    """The command of the C compiler: ``$CC``, else ``cc``, ``gcc``, ``clang``, else that of the package ``ziglang``; None without any."""
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        return named if shutil.which(named[0]) else None
    found = next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None)
    if found is not None:
        return [found]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def build(library: NativeLibrary) -> Path:
    """Return the file of a library; compile it if it is neither prebuilt nor in the cache.

    Raises
    ------
    BuildError
        I501 if there is no compiler, I502 if the compiler fails
    """
    prebuilt = PREBUILT / library.soname
    if prebuilt.is_file():
        return prebuilt
    command = compiler()
    if command is None:
        raise BuildError(
            diagnose(
                "I501",
                f"{library.soname} must be compiled, and there is no C compiler",
                fix="install gcc or clang, set CC, or pip install ziglang",
            )
        )
    file = cache_folder("libraries") / _digest(library, command) / library.soname
    try:
        return made_once(file, partial(_compile, command, library))
    except OSError as error:
        raise BuildError(_failure(command, library, str(error))) from None


def link(library: NativeLibrary, folder: Path, *names: str) -> None:
    """Put a library into a folder, under its own name and others; names that are there stay as they are."""
    file = build(library)
    for name in (library.soname, *names):
        with suppress(FileExistsError):
            (folder / name).symlink_to(file)


def _digest(library: NativeLibrary, command: Sequence[str]) -> str:
    """What decides the result: all sources, the arguments, and the compiler with its version."""
    digest = hashlib.sha256(repr((library.arguments(), command, _version(tuple(command)))).encode())
    for path in sorted(p for p in SOURCES.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


@cache
def _version(command: tuple[str, ...]) -> str:
    try:
        return subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _compile(command: Sequence[str], library: NativeLibrary, file: Path) -> None:
    needed = [str(build(each)) for each in library.needs]
    done = subprocess.run([*command, *library.arguments(), *needed, "-o", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(_failure(command, library, done.stderr))


def _failure(command: Sequence[str], library: NativeLibrary, message: str) -> Diagnostic:
    details = (("compiler", shlex.join(command)), ("message", "\n".join(message.strip().splitlines()[:_LAST_LINES])))
    return diagnose("I502", f"{library.soname} cannot be compiled", fix="try another compiler: set CC", details=details)
