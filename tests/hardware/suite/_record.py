"""A record: what each kernel of a topic took and gave, and the tools; one file ``TOPIC_h200.npz``.

``index`` is JSON: for each kernel a digest of its text, its state ("ok", or what the device or ptxas said), and the
places of its inputs and results in ``pool``, where equal byte strings stand once.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hardware.suite._kernel import Kernel

FOLDER = Path(__file__).resolve().parents[1]
OTHER_NAMES = {"wgmma": "wgmma_h200_more.npz"}


def path_of(topic: str, folder: Path = FOLDER) -> Path:
    return folder / OTHER_NAMES.get(topic, f"{topic}_h200.npz")


def digest(kernel: Kernel) -> str:
    return hashlib.sha256(kernel.text.encode()).hexdigest()[:16]


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
            "inputs": [self.place(a.tobytes()) for a in kernel.arrays],
            "results": [self.place(r) for r in results],
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
        if found is None or found["digest"] != digest(kernel) or len(found["inputs"]) != len(kernel.arrays):
            return False
        return all(bytes(self._at(p)) == a.tobytes() for p, a in zip(found["inputs"], kernel.arrays, strict=True))

    def results(self, kernel: Kernel) -> list[NDArray[Any]]:
        places = self.kernels[kernel.name]["results"]
        return [self._at(p).view(a.dtype).reshape(a.shape) for p, a in zip(places, kernel.outputs, strict=True)]
