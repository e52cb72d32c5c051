"""Caches: object code and other files on disk, and dictionaries of bounded size."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from ptxlab import _version
from ptxlab._digests import blake2b
from ptxlab.native._host import Host, host
from ptxlab.native._llvm import llvm

__all__ = ["OBJECTS", "BoundedCache", "DiskCache", "cache_directory", "cache_folder", "made_once"]

K = TypeVar("K")
V = TypeVar("V")
MAGIC = b"ptxlab-object-2\n"
DIGEST = 32
_PART = 1 << 16
ROOT = Path(__file__).parents[1]
SOURCES = (
    "_arrays.py",
    "_digests.py",
    "_exports.py",
    "_records.py",
    "native",
    "tables",
    "formats",
    "layout",
    "descriptors",
    "numerics",
    "ptx",
    "isa",
    "engine",
)
"""The packages and modules whose text decides what code is generated: the engine and all that it imports, less what only words messages."""


class BoundedCache(dict[K, V]):
    """A dictionary that drops all its entries when it is full and another one is entered with ``cache[key] = value``.

    Parameters
    ----------
    limit : the number of entries that it holds at most

    Examples
    --------
    >>> squares = BoundedCache[int, int](limit=2)
    >>> for number in (1, 2, 3):
    ...     squares[number] = number * number
    >>> squares
    {3: 9}
    """

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._limit and key not in self:
            self.clear()
        super().__setitem__(key, value)


def cache_directory() -> Path | None:
    """The folder of all disk caches: ``$PTXLAB_CACHE_DIR``, else ``ptxlab`` in the user's cache folder.

    None if ``$PTXLAB_CACHE`` is ``off``.
    """
    if os.environ.get("PTXLAB_CACHE", "").lower() in ("off", "0"):
        return None
    chosen = os.environ.get("PTXLAB_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "ptxlab"
    except RuntimeError:
        return None


def cache_folder(name: str) -> Path:
    """A folder of `cache_directory`; if disk caches are switched off, one that this process has for itself."""
    root = cache_directory()
    return _own_folder(name) if root is None else root / name


@cache
def _own_folder(name: str) -> Path:
    _HELD.append(tempfile.TemporaryDirectory(prefix=f"ptxlab-{name}-"))
    return Path(_HELD[-1].name)


_HELD: list[tempfile.TemporaryDirectory[str]] = []
"""The folders that go with this process."""


def made_once(file: Path, make: Callable[[Path], object]) -> Path:
    """Return a file of a cache; if it is not there, ``make`` writes it, to the path that it is given.

    Other processes see the whole file or none.
    """
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as temporary:
            made = Path(temporary, file.name)
            make(made)
            os.replace(made, file)
    return file


class DiskCache:
    """Files that are kept under keys, for all processes of a user.

    A cache costs time when it fails, never results: every file holds a digest of its key and its contents, and a file that is damaged,
    a folder that cannot be written and a disk cache that is switched off all read as a miss.

    Parameters
    ----------
    folder : the name of its folder in `cache_directory`; two caches need different folders or suffixes
    suffix : the suffix of its files
    version : what decides the contents besides the parts of a key, such as the version of a tool; asked for when a key is made
    limit_bytes : the files that were written longest ago are removed beyond this total size

    Examples
    --------
    >>> listings = DiskCache("listings", ".txt", version=lambda: b"1")
    >>> key = listings.key("a request", 7)
    >>> listings.write(key, b"the answer")
    >>> listings.read(key) in (b"the answer", None)
    True
    """

    __slots__ = ("_folder", "_suffix", "_version", "limit_bytes")

    def __init__(self, folder: str, suffix: str, version: Callable[[], bytes], limit_bytes: int = 512 << 20) -> None:
        self._folder, self._suffix, self._version, self.limit_bytes = folder, suffix, version, limit_bytes

    def directory(self) -> Path | None:
        """The folder of its files, which need not exist; None if disk caches are switched off."""
        root = cache_directory()
        return None if root is None else root / self._folder

    def key(self, *parts: object) -> str:
        """A key in hexadecimal digits: a digest of the parts (by ``repr``) and of the version."""
        digest = blake2b(self._version(), digest_size=DIGEST)
        for part in parts:
            text = repr(part).encode()
            digest.update(len(text).to_bytes(8, "little") + text)
        return digest.hexdigest()

    def read(self, key: str) -> bytes | None:
        """What is kept under a key, or None."""
        folder = self.directory()
        if folder is None:
            return None
        try:
            raw = self._path(folder, key).read_bytes()
        except OSError:
            return None
        payload = raw[len(MAGIC) + DIGEST :]
        return payload if raw == _sealed(key, payload) else None

    def write(self, key: str, payload: bytes) -> None:
        """Keep bytes under a key; other processes see the whole file or none."""
        folder = self.directory()
        if folder is None:
            return
        path = self._path(folder, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_sealed(key, payload))
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise
            if key.startswith("00"):
                self.evict()
        except OSError:
            return

    def evict(self) -> None:
        """Remove the files that were written longest ago until the rest is below the limit; one write in 256 does it."""
        folder = self.directory()
        if folder is None:
            return
        files = sorted((status.st_mtime, status.st_size, path) for path in folder.glob(f"*/*{self._suffix}") if (status := path.stat()))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.limit_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key[2:]}{self._suffix}"


def _sealed(key: str, payload: bytes) -> bytes:
    return MAGIC + blake2b(key.encode() + payload, digest_size=DIGEST).digest() + payload


@cache
def _toolchain(processor: Host) -> bytes:
    """What besides the request decides the code: our version and sources, llvmlite with its LLVM, and the processor."""
    import llvmlite

    digest, root = blake2b(), str(ROOT)
    for source in SOURCES:
        for path in [source] if source.endswith(".py") else sorted(_modules(root, source)):
            text = _contents(f"{root}/{path}")
            digest.update(f"{path} {len(text)}\n".encode() + text)
    digest.update(repr((_version.__version__, llvmlite.__version__, llvm().llvm_version_info, processor)).encode())
    return digest.digest()


def _contents(path: str) -> bytes:
    """The bytes of a file in three calls of the system where `open` needs eight: every start reads hundreds of files."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        found = part = os.read(file, _PART)
        while len(part) == _PART:
            part = os.read(file, _PART)
            found += part
        return found
    finally:
        os.close(file)


def _modules(root: str, folder: str) -> Iterator[str]:
    """The paths of the modules in a folder and its folders. `pathlib` would take three times as long, at every start."""
    with os.scandir(f"{root}/{folder}") as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield f"{folder}/{entry.name}"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _modules(root, f"{folder}/{entry.name}")


OBJECTS = DiskCache("", ".o", lambda: _toolchain(host()))
"""Object code."""
