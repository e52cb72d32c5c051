"""The PTX behind machine code: a store from the digest of a cubin to the PTX that it was assembled from."""

from __future__ import annotations

import hashlib
from itertools import chain
from pathlib import Path

from ptxlab.cuda.images._cubin import read_cubin
from ptxlab.native.caches import DiskCache

__all__ = ["PtxStore"]


class PtxStore:
    """PTX by the SHA-256 of the cubin, in memory and, for other processes of the user, on disk.

    Adapters fill it: the compilers of some frameworks hand the driver a cubin and keep its PTX.

    Parameters
    ----------
    disk : whether texts are also kept in the folder of the disk caches

    Attributes
    ----------
    folders : where compilers keep cubins, each with its PTX beside it; functions with one name may have the same files in turn

    Examples
    --------
    >>> store = PtxStore(disk=False)
    >>> store.find("00" * 32) is None
    True
    """

    def __init__(self, disk: bool = True) -> None:
        self.folders: list[Path] = []
        self._read: dict[Path, tuple[int, int]] = {}
        self._texts: dict[str, str] = {}
        self._disk = DiskCache("ptx-by-cubin", ".ptx", version=lambda: b"1") if disk else None

    def add(self, cubin: bytes, text: str) -> str:
        """Keep the PTX of a cubin and return the cubin's digest.

        Raises
        ------
        ValueError
            if the bytes are no cubin
        """
        digest = read_cubin(cubin).digest
        self._texts[digest] = text
        if self._disk is not None:
            self._disk.write(digest, text.encode())
        return digest

    def find(self, digest: str) -> str | None:
        """The PTX of the cubin with this digest, or None."""
        text = self._texts.get(digest)
        if text is None and self._disk is not None:
            raw = self._disk.read(digest)
            if raw is not None:
                text = self._texts[digest] = raw.decode("utf-8", "replace")
        if text is None:
            self._read_folders()
            text = self._texts.get(digest)
        return text

    def _read_folders(self) -> None:
        """Take over the files that are new."""
        for cubin in chain.from_iterable(folder.glob("*.cubin") for folder in self.folders):
            status, ptx = cubin.stat(), cubin.with_suffix(".ptx")
            if self._read.get(cubin) != (written := (status.st_mtime_ns, status.st_size)) and ptx.exists():
                self._read[cubin] = written
                self._texts[hashlib.sha256(cubin.read_bytes()).hexdigest()] = ptx.read_text()
