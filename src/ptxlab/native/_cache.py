"""Object code on disk.

A cache costs time when it fails, never results: every file carries a digest of its key and of what it holds, and whatever goes wrong
reads as a miss.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

from ptxlab import _version
from ptxlab.native._host import host

__all__ = ["cache_directory", "object_key", "read_object", "write_object"]

MAGIC = b"ptxlab-object-1\n"
DIGEST = 32
LIMIT_BYTES = 512 << 20
ROOT = Path(__file__).parents[1]
SOURCES = ("native", "tables", "formats", "layout", "descriptors", "numerics", "ptx", "isa", "engine")
"""The packages whose text decides what code is generated: the engine and all that it imports, less what only words messages."""


def cache_directory() -> Path | None:
    """Where object code is kept: ``$PTXLAB_CACHE_DIR``, else ``ptxlab`` in the user's cache folder.

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


@cache
def _toolchain() -> bytes:
    """What besides the request decides the code: our version and sources, llvmlite with its LLVM, and the processor."""
    import llvmlite
    from llvmlite import binding

    digest = hashlib.sha256()
    for package in SOURCES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT)} {len(text)}\n".encode() + text)
    digest.update(repr((_version.__version__, llvmlite.__version__, binding.llvm_version_info, host())).encode())
    return digest.digest()


def object_key(*parts: object) -> str:
    """The key of a piece of code: a digest of the parts (by ``repr``) and of everything else that decides what is compiled."""
    digest = hashlib.sha256(_toolchain())
    for part in parts:
        text = repr(part).encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _path(key: str) -> Path | None:
    folder = cache_directory()
    return None if folder is None else folder / key[:2] / f"{key[2:]}.o"


def _sealed(key: str, payload: bytes) -> bytes:
    return MAGIC + hashlib.sha256(key.encode() + payload).digest() + payload


def read_object(key: str) -> bytes | None:
    """The object code kept under a key, or None."""
    path = _path(key)
    if path is None:
        return None
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    payload = raw[len(MAGIC) + DIGEST :]
    return payload if raw == _sealed(key, payload) else None


def write_object(key: str, payload: bytes) -> None:
    """Keep object code; readers see the whole file or none."""
    path = _path(key)
    if path is None:
        return
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
            _evict(path.parents[1])
    except OSError:
        return


def _evict(folder: Path) -> None:
    """Remove the files that were written longest ago until the cache is below its limit; one write in 256 looks."""
    files = sorted((status.st_mtime, status.st_size, path) for path in folder.glob("*/*.o") if (status := path.stat()))
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= LIMIT_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size
