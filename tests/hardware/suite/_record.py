"""A record: what each kernel of a topic took and gave, and the tools; one file ``TOPIC_h200.npz``.

``index`` is JSON: for each kernel a digest of its text, its state ("ok", or what the device or ptxas said), and the
places of its inputs and results in ``pool``, where equal byte strings stand once. Of a kernel that is a PTX module the
inputs are kept as a digest, and of a result of more than ``WHOLE`` bytes a digest and, for each block, a checksum and its
first bytes: a difference can be located.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hardware.suite._kernel import Kernel

FOLDER = Path(__file__).resolve().parents[1]
OTHER_NAMES = {"wgmma": "wgmma_h200_more.npz"}


WHOLE, BLOCK, SAMPLE = 4096, 1024, 16
"""Bytes: of a result that is kept whole; of a block of a larger one; of each block that are kept."""


def path_of(topic: str, folder: Path = FOLDER) -> Path:
    return folder / OTHER_NAMES.get(topic, f"{topic}_h200.npz")


def digest(kernel: Kernel) -> str:
    return hashlib.sha256(kernel.text.encode()).hexdigest()[:16]


def kept(raw: bytes) -> bytes:
    """What a record keeps of a result of a PTX module."""
    if len(raw) <= WHOLE:
        return raw
    blocks = [raw[i : i + BLOCK] for i in range(0, len(raw), BLOCK)]
    return hashlib.sha256(raw).digest() + b"".join(zlib.crc32(b).to_bytes(4, "little") + b[:SAMPLE].ljust(SAMPLE, b"\0") for b in blocks)


def differences(raw: bytes, record: bytes) -> str:
    """Where a result differs from what a record keeps of one; nothing if it does not."""
    if kept(raw) == record:
        return ""
    if len(raw) <= WHOLE:
        bad = np.flatnonzero(np.frombuffer(raw, np.uint8) != np.frombuffer(record, np.uint8))
        return f"{len(bad)} of {len(raw)} bytes, the first at {bad[0]}"
    ours, silicon = (np.frombuffer(x[32:], np.uint8).reshape(-1, 4 + SAMPLE) for x in (kept(raw), record))
    bad = np.flatnonzero((ours != silicon).any(axis=1))
    samples = f"{ours[bad[0], 4:].tobytes().hex()}, recorded {silicon[bad[0], 4:].tobytes().hex()}"
    return f"{len(bad)} of {len(ours)} blocks of {BLOCK} bytes, the first at {bad[0] * BLOCK}: {samples}"


def _inputs(kernel: Kernel) -> list[bytes]:
    return (
        [hashlib.sha256(b"".join(a.tobytes() for a in kernel.arrays)).digest()] if kernel.module else [a.tobytes() for a in kernel.arrays]
    )


@dataclass
class Writer:
    """Collects the kernels of a topic."""

    tools: list[str]
    kernels: dict[str, Any] = field(default_factory=dict)
    pool: list[bytes] = field(default_factory=list)
    places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    size: int = 0

    def place(self, raw: bytes) -> tuple[int, int]:
        if raw not in self.places:
            self.places[raw] = self.size, len(raw)
            self.pool.append(raw)
            self.size += len(raw)
        return self.places[raw]

    def add(self, kernel: Kernel, state: str, results: list[bytes]) -> None:
        self.kernels[kernel.name] = {
            "digest": digest(kernel),
            "state": state,
            "inputs": [self.place(raw) for raw in _inputs(kernel)],
            "results": [self.place(kept(r) if kernel.module else r) for r in results],
        }

    def save(self, path: Path) -> None:
        index = json.dumps(self.kernels, separators=(",", ":")).encode()
        pool = np.frombuffer(b"".join(self.pool), np.uint8)
        np.savez_compressed(path, tools=np.array(self.tools), index=np.frombuffer(index, np.uint8), pool=pool)


class Record:
    """A record read back."""

    def __init__(self, topic: str, folder: Path = FOLDER) -> None:
        with np.load(path_of(topic, folder)) as data:
            self.tools: list[str] = data["tools"].tolist()
            self.kernels: dict[str, Any] = json.loads(bytes(data["index"]))
            self.pool: NDArray[np.uint8] = data["pool"]

    def _at(self, place: tuple[int, int]) -> NDArray[np.uint8]:
        return self.pool[place[0] : place[0] + place[1]]

    def state(self, kernel: Kernel) -> str:
        return str(self.kernels[kernel.name]["state"])

    def fits(self, kernel: Kernel) -> bool:
        """Whether the record was made with this text and these inputs."""
        found = self.kernels.get(kernel.name)
        return found is not None and found["digest"] == digest(kernel) and [bytes(self._at(p)) for p in found["inputs"]] == _inputs(kernel)

    def results(self, kernel: Kernel) -> list[NDArray[Any]]:
        places = self.kernels[kernel.name]["results"]
        return [self._at(p).view(a.dtype).reshape(a.shape) for p, a in zip(places, kernel.outputs, strict=True)]

    def differences(self, kernel: Kernel, results: list[NDArray[Any]]) -> list[str]:
        """Where the results of a PTX module differ from the record, by the number of the result."""
        places = self.kernels[kernel.name]["results"]
        found = [differences(ours.tobytes(), bytes(self._at(place))) for ours, place in zip(results, places, strict=True)]
        return [f"result {number}: {text}" for number, text in enumerate(found) if text]
