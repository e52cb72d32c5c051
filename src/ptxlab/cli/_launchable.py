"""Launch files and replay bundles, which commands launch in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from ptxlab.cli._launch_file import LaunchFile, read_launch_file
from ptxlab.machine import Replay, Result, is_bundle, read_bundle
from ptxlab.machine.launch.options import LaunchOptions
from ptxlab.machine.replay.bundle import write_bundle

__all__ = ["Bundle", "Launchable", "read_launchable", "save_bundle"]


class Bundle:
    """A replay bundle as commands use it.

    Attributes
    ----------
    arrays : the named arrays; they hold the results after a launch that ran to its end
    expectations : what some of them should hold then
    options : those that the bundle was written with, until a command changes them
    """

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.name = replay.kernel.name
        self.arrays: dict[str, NDArray[Any]] = {placed.name: placed.view(replay.memory).copy() for placed in replay.arrays}
        self.expectations = replay.expectations
        self.options: LaunchOptions = replay.options

    def launch(self, progress: Callable[[int, int], None] | None = None) -> Result:
        """Run the launch again."""
        result, memory = self._replay.run(progress=progress, **self.options.keywords())
        if result.completed:
            self.arrays = {placed.name: placed.view(memory) for placed in self._replay.arrays}
        return result

    def named(self, replay: Replay) -> Replay:
        """Return a kept launch with the names of its arrays."""
        return replay


Launchable = LaunchFile | Bundle


def read_launchable(path: Path) -> Launchable:
    """Read a launch file or a bundle."""
    return Bundle(read_bundle(path)) if is_bundle(path) else read_launch_file(path)


def save_bundle(path: Path, spec: Launchable, result: Result) -> None:
    """Write a launch that has kept its inputs to a bundle."""
    assert result.replay is not None
    try:
        write_bundle(path, spec.named(result.replay))
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
