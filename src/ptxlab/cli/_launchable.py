"""Launch files and replay bundles, launched in one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

import ptxlab
from ptxlab.cli._launch_file import LaunchFile, read_launch_file
from ptxlab.machine import Replay, Result, is_bundle, read_bundle
from ptxlab.machine.launch.options import POLICIES, choice, selected_checks, whole_number
from ptxlab.machine.observe.observer import tracing
from ptxlab.machine.replay.bundle import write_bundle
from ptxlab.machine.replay.replay import Expectation

__all__ = ["Bundle", "Launchable", "kernel_name", "launch", "named", "read_launchable", "save_bundle"]

Progress = Callable[[int, int], None] | None


@dataclass(slots=True)
class Bundle:
    """A replay bundle as commands see it; ``options`` are changes to those that it was written with."""

    replay: Replay
    arrays: dict[str, NDArray[Any]]
    expectations: list[Expectation]
    options: dict[str, Any] = field(default_factory=dict)


Launchable = LaunchFile | Bundle


def read_launchable(path: Path) -> Launchable:
    """Read a launch file or a bundle."""
    if not is_bundle(path):
        return read_launch_file(path)
    replay = read_bundle(path)
    return Bundle(replay, {placed.name: placed.view(replay.memory).copy() for placed in replay.arrays}, list(replay.expectations))


def kernel_name(spec: Launchable) -> str:
    """The kernel's name, for a progress bar."""
    return spec.replay.kernel.name if isinstance(spec, Bundle) else spec.kernel or spec.ptx.stem


def launch(spec: Launchable, progress: Progress = None, *, keep_inputs: bool = False, trace: Path | None = None) -> Result:
    """Launch; the arrays hold the results if the kernel ran to its end."""
    if isinstance(spec, Bundle):
        result, memory = spec.replay.run(trace=tracing(trace), progress=progress, **_changes(spec.options))
        if result.completed:
            for placed in spec.replay.arrays:
                spec.arrays[placed.name] = placed.view(memory)
        return result
    module = ptxlab.load(spec.ptx, target=spec.target)
    kernel = module[spec.kernel] if spec.kernel else module.kernel()
    asked: dict[str, Any] = {"progress": progress, "keep_inputs": keep_inputs, "trace": trace}
    return kernel.launch(grid=spec.grid, block=spec.block, args=spec.args, **asked, **spec.options)


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """Options as the command line gives them, as `Replay.run` takes them."""
    made = dict(options)
    if "check" in made:
        made["checks"] = selected_checks(made.pop("check"))
    if "policy" in made:
        made["policy"] = choice("policy", made["policy"], POLICIES)
    if "seed" in made:
        made["seed"] = whole_number("seed", made["seed"], -(1 << 63), 1 << 64)
    return made


def named(spec: Launchable, result: Result) -> Replay:
    """The kept launch with its arrays under the names that the launch file gives them, and what the file expects of them."""
    replay = result.replay
    assert replay is not None
    if isinstance(spec, Bundle):
        return replay
    names = {id(array): name for name, array in spec.arrays.items()}
    others = {p.name: f"parameter {p.name}" if p.name in spec.arrays else p.name for p in replay.arrays}
    arrays = tuple(replace(p, name=names.get(id(p.host), others[p.name])) for p in replay.arrays)
    return replace(replay, arrays=arrays, expectations=tuple(spec.expectations))


def save_bundle(path: Path, spec: Launchable, result: Result) -> None:
    """Write a launch to a bundle, its arrays under the names of the launch file."""
    try:
        write_bundle(path, named(spec, result))
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
