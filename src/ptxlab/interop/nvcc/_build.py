"""Run nvcc: artefacts are kept by content, the compiler's messages become diagnostics."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.interop.nvcc._errors import NvccError
from ptxlab.interop.nvcc._toolkit import find_nvcc
from ptxlab.native import cache_directory

__all__ = ["Source", "built", "source_file"]

_EDG = re.compile(r"(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<message>.+)")
_GCC = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.+)")
_TOOL = re.compile(r"(?:nvcc (?:fatal|error) *|ptxas .+; error *|[\w+-]+: (?:fatal )?error): (?P<message>.+)")
_NO_HOST_COMPILER = "Failed to preprocess host compiler properties"
_MOST_ERRORS, _LAST_LINES, _MOST_KEPT = 20, 6, 256


@dataclass(frozen=True, slots=True)
class Source:
    """A file to compile, and the name under which messages show it."""

    path: Path
    name: str


@contextmanager
def source_file(path: str | os.PathLike[str], text: str | None) -> Iterator[Source]:
    """The file to compile, which lasts until the block ends; a given text is put into one."""
    name = os.fspath(path)
    if text is None:
        if not Path(path).is_file():
            raise NvccError(diagnose("A313", f"cannot read {name}: there is no such file"))
        yield Source(Path(path), name)
        return
    cache = cache_directory()
    with tempfile.TemporaryDirectory() as temporary:
        # The same text comes under the same path again, so that what was made of it is found.
        folder = Path(temporary) if cache is None else cache / "nvcc" / "texts" / hashlib.sha256(text.encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / Path(path).name
        file.write_text(text)
        yield Source(file, name)


@contextmanager
def built(source: Source, suffix: str, arguments: Sequence[str], objects: Sequence[Path] = ()) -> Iterator[Path]:
    """The file that nvcc makes of a source file, linked with object files; it lasts at least until the block ends.

    A kept file is taken if the source and every file that it included are unchanged.

    Raises
    ------
    NvccError
        I201 to I203
    """
    nvcc = find_nvcc()
    linked = {str(path): _digest(str(path)) for path in objects}
    arguments = [*arguments, *linked]
    folder = cache_directory()
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield _compile(nvcc, source, arguments, Path(temporary, f"out{suffix}"))
        return
    folder = folder / "nvcc" / _key(nvcc, source.path, arguments, *linked.values())
    artefact, manifest = folder / f"out{suffix}", folder / "files.json"
    if not (artefact.exists() and _unchanged(manifest)):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            fresh = _compile(nvcc, source, arguments, Path(temporary, f"out{suffix}"))
            files = json.dumps({path: _digest(path) for path in _included(fresh)})
            Path(temporary, "files").write_text(files)
            os.replace(fresh, artefact)
            os.replace(Path(temporary, "files"), manifest)
        _evict(folder.parent)
    yield artefact


def _evict(root: Path) -> None:
    """Remove what was made longest ago, all but the newest few hundred."""
    manifests = [(path.stat().st_mtime, path) for path in root.glob("*/files.json")]
    for _, path in sorted(manifests)[:-_MOST_KEPT]:
        shutil.rmtree(path.parent, ignore_errors=True)


def _key(nvcc: Path, source: Path, arguments: Sequence[str], *digests: str) -> str:
    status = nvcc.resolve().stat()
    parts = (str(nvcc), status.st_size, status.st_mtime_ns, str(source.absolute()), *arguments, *digests)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _unchanged(manifest: Path) -> bool:
    try:
        files = json.loads(manifest.read_text())
    except (OSError, ValueError):
        return False
    return all(_digest(path) == digest for path, digest in files.items())


def _included(artefact: Path) -> list[str]:
    """The files in the make rule that nvcc wrote beside the artefact, the source first."""
    rule = artefact.with_suffix(".d").read_text()
    words = rule.partition(" : ")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    return [word.replace("\0", " ") for word in words]


def _compile(nvcc: Path, source: Source, arguments: Sequence[str], out: Path) -> Path:
    command = [str(nvcc), *arguments, "-MD", "-MF", str(out.with_suffix(".d")), "-o", str(out), str(source.path)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        raise NvccError(diagnose("I203", f"cannot run {nvcc}: {error.strerror or error}")) from None
    if run.returncode or not out.exists():
        raise NvccError(*_diagnostics(run.stderr + run.stdout, source))
    return out


def _diagnostics(output: str, source: Source) -> list[Diagnostic]:
    """The errors among the compiler's messages, each with its place."""
    if _NO_HOST_COMPILER in output:
        text = output.strip().splitlines()[0]
        return [diagnose("I203", f"nvcc finds no host compiler: {text}", fix="install g++, or name one with flags=['-ccbin', PATH]")]
    found = []
    for line in output.splitlines():
        match = _EDG.match(line) or _GCC.match(line)
        if match is not None:
            file, number, column = match["file"], int(match["line"]), int(match.groupdict().get("column") or 1)
            place = Place(source.name if file == str(source.path) else file, number, column)
            found.append(diagnose("I202", match["message"]).at(place, _line(file, number)))
    if not found:
        lines = output.strip().splitlines() or ["nvcc failed without a message"]
        message = next((m["message"] for m in map(_TOOL.match, lines) if m), lines[-1])
        details = [("output", "\n".join(lines[-_LAST_LINES:]))] if len(lines) > 1 else []
        found = [diagnose("I202", message, details=details).at(Place(source.name, 0, 0))]
    return found[:_MOST_ERRORS]


def _line(file: str, number: int) -> str:
    try:
        return Path(file).read_text(errors="replace").splitlines()[number - 1]
    except (OSError, IndexError):
        return ""
