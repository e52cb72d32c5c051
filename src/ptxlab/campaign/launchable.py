"""What commands launch: launch files and replay bundles, by one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ptxlab.campaign.launch_file import LaunchFile, read_launch_file
from ptxlab.machine import Module, Replay, Result, is_bundle, read_bundle
from ptxlab.machine.launch.options import LaunchOptions

__all__ = ["Bundle", "Launchable", "read_launchable"]


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
        self.module: Module = replay.kernel.module

    def launch(self, progress: Callable[[int, int], None] | None = None, *, profile: bool = False) -> Result:
        """Run the launch again."""
        result, memory = self._replay.run(progress=progress, profile=profile, **self.options.keywords())
        if result.completed:
            self.arrays = {placed.name: placed.view(memory) for placed in self._replay.arrays}
        return result

    def prepare(self) -> Replay:
        """The launch with the options that a command has changed."""
        return replace(self._replay, options=self._replay.options.changed(**self.options.keywords()))

    def named(self, replay: Replay) -> Replay:
        """Return a kept launch with the names of its arrays."""
        return replay


Launchable = LaunchFile | Bundle


def read_launchable(path: Path) -> Launchable:
    """Read a launch file or a bundle."""
    return Bundle(read_bundle(path)) if is_bundle(path) else read_launch_file(path)
