"""Compile CUDA C++ with nvcc: what it makes is kept on disk, and its error messages become diagnostics."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.interop.toolkit import NvccError, find_nvcc
from ptxlab.machine import Module, loads
from ptxlab.native import DiskCache, cache_directory

__all__ = ["Options", "PathText", "arguments", "built", "compile", "ptx"]

PathText = str | os.PathLike[str]

_EDG = re.compile(r"(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<message>.+)")
_GCC = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.+)")
_TOOL = re.compile(r"(?:nvcc (?:fatal|error) *|ptxas .+; error *|[\w+-]+: (?:fatal )?error): (?P<message>.+)")
_NO_HOST_COMPILER = "Failed to preprocess host compiler properties"
_MOST_ERRORS, _LAST_LINES = 20, 6


@contextmanager
def built(path: PathText, text: str | None, suffix: str, arguments: Sequence[str]) -> Iterator[Path]:
    """The file that nvcc makes of a source file, or of a text, which only has the file's name; it lasts until the block ends.

    A kept file is taken if the source and every file that it included are unchanged.

    Raises
    ------
    NvccError
        I201 to I203
    """
    source, cache = Path(path), cache_directory()
    with tempfile.TemporaryDirectory() as temporary:
        if text is not None:
            # The same text comes under the same path again, so that what was made of it is found.
            folder = Path(temporary) if cache is None else cache / "nvcc" / "texts" / hashlib.sha256(text.encode()).hexdigest()
            folder.mkdir(parents=True, exist_ok=True)
            source = folder / source.name
            source.write_text(text)
        elif not source.is_file():
            raise NvccError(diagnose("A313", f"cannot read {source}: there is no such file"))
        nvcc, artefact = find_nvcc(), Path(temporary, f"out{suffix}")
        status = nvcc.resolve().stat()
        key = _ARTEFACTS.key(str(nvcc), status.st_size, status.st_mtime_ns, str(source.absolute()), suffix, *arguments)
        files, _, kept = (_ARTEFACTS.read(key) or b"").partition(b"\n")
        if files and all(_digest(file) == digest for file, digest in json.loads(files).items()):
            artefact.write_bytes(kept)
        else:
            _compile(nvcc, source, os.fspath(path), arguments, artefact)
            digests = {file: _digest(file) for file in _included(artefact)}
            _ARTEFACTS.write(key, json.dumps(digests).encode() + b"\n" + artefact.read_bytes())
        yield artefact


_ARTEFACTS = DiskCache("nvcc", ".out", version=lambda: b"1")
"""What nvcc has made: one line of JSON with the digests of the files that it read, then the file."""


def _digest(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _included(artefact: Path) -> list[str]:
    """The files in the make rule that nvcc wrote beside the artefact, the source first."""
    rule = artefact.with_suffix(".d").read_text()
    words = rule.partition(" : ")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    return [word.replace("\0", " ") for word in words]


def _compile(nvcc: Path, source: Path, shown: str, arguments: Sequence[str], out: Path) -> None:
    command = [str(nvcc), *arguments, "-MD", "-MF", str(out.with_suffix(".d")), "-o", str(out), str(source)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        raise NvccError(diagnose("I203", f"cannot run {nvcc}: {error.strerror or error}")) from None
    if run.returncode or not out.exists():
        raise NvccError(*_diagnostics(run.stderr + run.stdout, source, shown))


def _diagnostics(output: str, source: Path, shown: str) -> list[Diagnostic]:
    """The errors among the compiler's messages, each with its place; messages show the source by a name of its own."""
    lines = output.strip().splitlines() or ["nvcc failed without a message"]
    if _NO_HOST_COMPILER in output:
        fix = "install g++, or name one with flags=['-ccbin', PATH]"
        return [diagnose("I203", f"nvcc finds no host compiler: {lines[0]}", fix=fix)]
    found = []
    for match in filter(None, (_EDG.match(line) or _GCC.match(line) for line in lines)):
        file, number, column = match["file"], int(match["line"]), int(match.groupdict().get("column") or 1)
        place = Place(shown if file == str(source) else file, number, column)
        found.append(diagnose("I202", match["message"]).at(place, _line(file, number)))
    if not found:
        message = next((m["message"] for m in map(_TOOL.match, lines) if m), lines[-1])
        details = [("output", "\n".join(lines[-_LAST_LINES:]))] if len(lines) > 1 else []
        found = [diagnose("I202", message, details=details).at(Place(shown, 0, 0))]
    return found[:_MOST_ERRORS]


def _line(file: str, number: int) -> str:
    try:
        return Path(file).read_text(errors="replace").splitlines()[number - 1]
    except (OSError, IndexError):
        return ""


class Options(TypedDict, total=False):
    """What `compile` documents: the options of nvcc that both device and host code are compiled with."""

    include: Iterable[PathText]
    define: Mapping[str, object] | None
    fmad: bool
    lineinfo: bool
    flags: Iterable[str]


def compile(path: PathText, *, text: str | None = None, arch: str = "sm_100a", **options: Unpack[Options]) -> Module:
    r"""Compile the kernels of a CUDA C++ file.

    Parameters
    ----------
    path : the file; with ``text``, only its name in messages
    text : the program itself
    arch : what to compile for, ``"sm_90a"``, ``"sm_100a"`` ...
    options : ``include``, folders in which included files are looked for; ``define``, macros, name to value (None: defined without a
        value); ``fmad``, whether multiplication and addition may be fused, as by default; ``lineinfo``, whether diagnostics can name
        places in the source, as by default; ``flags``, further options of nvcc

    Raises
    ------
    NvccError
        if nvcc is not there (I201), refuses the program (I202, with places), or cannot run (I203)

    Examples
    --------
    >>> from ptxlab.interop import nvcc
    >>> module = nvcc.compile("twice.cu", text="__global__ void twice(int *x) { x[threadIdx.x] *= 2; }")  # doctest: +SKIP
    >>> x = np.arange(4, dtype=np.int32)  # doctest: +SKIP
    >>> module.kernel().launch(block=4, args=[x]).ok, x  # doctest: +SKIP
    (True, array([0, 2, 4, 6], dtype=int32))
    """
    return loads(ptx(path, text=text, arch=arch, **options), file=Path(path).with_suffix(".ptx").name)


def ptx(path: PathText, *, text: str | None = None, arch: str = "sm_100a", **options: Unpack[Options]) -> str:
    """Compile the kernels of a CUDA C++ file to PTX text; the parameters are those of `compile`."""
    given = ["-ptx", "-arch", arch, *arguments(**options)]
    with built(path, text, ".ptx", given) as artefact:
        return artefact.read_text(errors="replace")


def arguments(
    include: Iterable[PathText] = (),
    define: Mapping[str, object] | None = None,
    fmad: bool = True,
    lineinfo: bool = True,
    flags: Iterable[str] = (),
) -> list[str]:
    """The options as nvcc's command line has them."""
    found = ["-std=c++17", f"--fmad={'true' if fmad else 'false'}"]
    found += ["-lineinfo"] if lineinfo else []
    found += [f"-I{os.fspath(folder)}" for folder in include]
    found += [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in (define or {}).items()]
    return found + list(flags)
