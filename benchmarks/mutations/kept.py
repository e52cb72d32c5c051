"""Launches in files, so that a machine without compilers runs the kernels that another one has compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab
from ptxlab.machine.replay.replay import Replay

__all__ = ["KeptLaunch", "keep", "kept"]

_SUFFIX = ".ptxlab"


@dataclass(frozen=True)
class KeptLaunch:
    """A launch that a bundle holds. The memory starts from the same values each time."""

    replay: Replay

    @property
    def kernel(self) -> Any:
        """The kernel that is launched."""
        return self.replay.kernel

    def launch(self, **options: Any) -> tuple[Any, dict[str, NDArray[np.uint8]]]:
        """Launch; the result, and the bytes of all memory that the host would read afterwards."""
        result, memory = self.replay.run(**options)
        return result, {f"{each.base:#x}": each.data for each in memory.live() if each.writable and each.copied_back}


def keep(folder: Path, name: str, launches: dict[str, Any]) -> None:
    """Write the launches of a kernel, by size, to a folder of its name."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for number, (size, launch) in enumerate(launches.items()):
        result, _ = launch.launch(check="none", keep_inputs=True)
        result.save_bundle(folder / name / f"{number} {size}{_SUFFIX}")


def kept(folder: Path) -> dict[str, Callable[[], dict[str, KeptLaunch]]]:
    """By the name of each kernel in a folder, what reads its launches by size."""
    return {path.name: partial(_read, path) for path in sorted(folder.iterdir()) if path.is_dir()}


def _read(folder: Path) -> dict[str, KeptLaunch]:
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: int(file.stem.partition(" ")[0]))
    return {file.stem.partition(" ")[2]: KeptLaunch(ptxlab.read_bundle(file)) for file in files}
