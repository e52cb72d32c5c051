"""The PTX behind machine code: a store from the digest of a cubin to the PTX that it was assembled from."""

from __future__ import annotations

from collections.abc import Callable

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
    finders : called with the digest of a cubin that is not in the store; each gives the PTX, or None

    Examples
    --------
    >>> store = PtxStore(disk=False)
    >>> store.find("00" * 32) is None
    True
    """

    def __init__(self, disk: bool = True) -> None:
        self.finders: list[Callable[[str], str | None]] = []
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
            text = next((found for finder in self.finders if (found := finder(digest)) is not None), None)
            if text is not None:
                self._texts[digest] = text
        return text
