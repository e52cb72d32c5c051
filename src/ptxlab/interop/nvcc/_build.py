"""Compile CUDA C++ with nvcc: what it makes is kept on disk, its error messages become diagnostics."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict, Unpack

from ptxlab.diagnostics import Diagnostic, Place, PtxlabError, diagnose
from ptxlab.machine import Module, loads
from ptxlab.native import DiskCache, cache_directory

__all__ = ["NvccError", "Options", "PathText", "Source", "arguments", "built", "compile", "find_nvcc", "ptx", "release", "source_file"]

PathText = str | os.PathLike[str]

_INSTALL = 'pip install "ptxlab[cuda]", or install the CUDA toolkit and set CUDA_HOME'
_EDG = re.compile(r"(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<message>.+)")
_GCC = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.+)")
_TOOL = re.compile(r"(?:nvcc (?:fatal|error) *|ptxas .+; error *|[\w+-]+: (?:fatal )?error): (?P<message>.+)")
_RELEASE = re.compile(r"release (\d+)")
_NO_HOST_COMPILER = "Failed to preprocess host compiler properties"
_MOST_ERRORS, _LAST_LINES = 20, 6


class NvccError(PtxlabError):
    """CUDA C++ that cannot be compiled or called; the diagnostics carry the compiler's messages with their places."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to compile, and the name under which messages show it."""

    path: Path
    name: str


def find_nvcc() -> Path:
    """The compiler: of ``$CUDA_HOME`` or ``$CUDA_PATH``, else of the PyPI package ``nvidia-cuda-nvcc``, else of ``$PATH``.

    Raises
    ------
    NvccError
        I201 if there is none, with what to install
    """
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"))
    spec = find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None else None
    packaged = sorted((path for folder in folders or () for path in Path(folder).glob("cu*/bin/nvcc")), reverse=True)
    named = [Path(root, "bin", "nvcc") for root in roots if root]
    found = next((path for path in (*named, *packaged) if path.is_file() and os.access(path, os.X_OK)), shutil.which("nvcc"))
    if found is None:
        raise NvccError(diagnose("I201", f"nvcc is not installed: {_INSTALL}"))
    return Path(found)


@cache
def release() -> int:
    """The major number of the compiler's release, of which the host code takes the runtime library: 13."""
    answer = subprocess.run([find_nvcc(), "--version"], capture_output=True, text=True, check=False).stdout
    found = _RELEASE.search(answer)
    return int(found[1]) if found else 0


@contextmanager
def source_file(path: PathText, text: str | None) -> Iterator[Source]:
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
def built(source: Source, suffix: str, arguments: Sequence[str]) -> Iterator[Path]:
    """The file that nvcc makes of a source file; it lasts until the block ends.

    A kept file is taken if the source and every file that it included are unchanged.

    Raises
    ------
    NvccError
        I201 to I203
    """
    nvcc = find_nvcc()
    status = nvcc.resolve().stat()
    compiler = (str(nvcc), status.st_size, status.st_mtime_ns)
    key = _ARTEFACTS.key(compiler, str(source.path.absolute()), suffix, *arguments)
    with tempfile.TemporaryDirectory() as temporary:
        artefact = Path(temporary, f"out{suffix}")
        kept = _kept(key)
        if kept is None:
            _compile(nvcc, source, arguments, artefact)
            files = json.dumps({path: _digest(Path(path)) for path in _included(artefact)}).encode()
            _ARTEFACTS.write(key, files + b"\n" + artefact.read_bytes())
        else:
            artefact.write_bytes(kept)
        yield artefact


_ARTEFACTS = DiskCache("nvcc", ".out", version=lambda: b"1")
"""What nvcc has made: one line of JSON with the digests of the files that it read, then the file."""


def _kept(key: str) -> bytes | None:
    """Return the artefact that is kept under a key, if the files that it was made of are unchanged."""
    files, _, artefact = (_ARTEFACTS.read(key) or b"").partition(b"\n")
    unchanged = files and all(_digest(Path(path)) == digest for path, digest in json.loads(files).items())
    return artefact if unchanged else None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _included(artefact: Path) -> list[str]:
    """The files in the make rule that nvcc wrote beside the artefact, the source first."""
    rule = artefact.with_suffix(".d").read_text()
    words = rule.partition(" : ")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    return [word.replace("\0", " ") for word in words]


def _compile(nvcc: Path, source: Source, arguments: Sequence[str], out: Path) -> None:
    command = [str(nvcc), *arguments, "-MD", "-MF", str(out.with_suffix(".d")), "-o", str(out), str(source.path)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        raise NvccError(diagnose("I203", f"cannot run {nvcc}: {error.strerror or error}")) from None
    if run.returncode or not out.exists():
        raise NvccError(*_diagnostics(run.stderr + run.stdout, source))


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
    with source_file(path, text) as source, built(source, ".ptx", given) as artefact:
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
