"""What ``ptxlab exec`` does with each launch of a script: other schedules, expected arrays, and who wrote an element."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from ptxlab.campaign.arrays import ArrayError, read_npy
from ptxlab.campaign.outcome import ORDER_DEPENDENT, compare, differences, schedule_name, schedules
from ptxlab.diagnostics import Diagnostic
from ptxlab.machine import MmaRecords, Result
from ptxlab.machine.launch.result import Provenance
from ptxlab.machine.replay.replay import Expectation, Replay

__all__ = ["Expected", "Mmas", "OtherSchedules", "Writers"]

Array = NDArray[Any]
_ELEMENT = re.compile(r"(.+)\[\s*(-?\d+(?:\s*,\s*-?\d+)*)?\s*\]")


@dataclass(frozen=True, slots=True)
class OtherSchedules:
    """Runs each launch again until it has run under ``count`` schedules, and compares the arrays."""

    count: int

    def __call__(self, replay: Replay, result: Result) -> Iterator[Diagnostic]:
        """Findings that the launch itself has not shown, and outputs that differ.

        After a launch an array of the host holds what the device memory held at its end.
        """
        first = schedule_name(replay.options.policy, replay.options.seed)
        others = [each for each in schedules(self.count + 1) if schedule_name(*each) != first][: self.count - 1]
        arrays = {placed.name: placed for placed in replay.arrays}
        before = {name: placed.host for name, placed in arrays.items() if placed.host is not None}
        known = {(d.code, str(d.place)) for d in result.diagnostics}
        for policy, seed in others:
            name = schedule_name(policy, seed)
            again, memory = replay.run(policy=policy, seed=seed, progress=None)
            found = list(again.diagnostics)
            if again.completed and not any(d.code == ORDER_DEPENDENT for d in (*result.diagnostics, *found)):
                found += differences(first, before, name, {array: arrays[array].view(memory) for array in before})
            for each in found:
                if (each.code, str(each.place)) not in known:
                    known.add((each.code, str(each.place)))
                    yield replace(each, details=(*each.details, ("found under", name)))


@dataclass(slots=True)
class Expected:
    """Keeps what an array holds after the last launch that has an array of this name, to compare it with a file."""

    expectation: Expectation
    got: Array | None = None

    @classmethod
    def of(cls, text: str) -> Expected:
        """From ``c=expected.npy``, followed by ``,rtol=1e-3,atol=1e-5`` if it is not to be exact."""
        name, equals, rest = text.partition("=")
        file, *limits = rest.split(",")
        try:
            given = {key: float(value) for key, value in (limit.split("=", 1) for limit in limits)}
            if not (name and equals and file) or not set(given) <= {"rtol", "atol"}:
                raise ValueError
            value = read_npy(Path(file))
        except ArrayError as error:
            raise click.UsageError(f"--expect {text}: {error}") from None
        except ValueError:
            raise click.UsageError(f"--expect {text}: give ARRAY=FILE.npy, or ARRAY=FILE.npy,rtol=1e-3,atol=1e-5") from None
        return cls(Expectation(name, value, given.get("rtol", 0.0), given.get("atol", 0.0), not given))

    def __call__(self, replay: Replay, result: Result) -> tuple[Diagnostic, ...]:
        """Copy the array, if the launch has it."""
        host = next((placed.host for placed in replay.arrays if placed.name == self.expectation.name), None)
        self.got = self.got if host is None else host.copy()
        return ()

    def difference(self) -> Diagnostic | None:
        """The finding, after the last launch."""
        name, value = self.expectation.name, self.expectation.value
        if self.got is None:
            raise click.UsageError(f"--expect: no launch that ran to its end has an array argument {name}")
        if self.got.shape != value.shape:
            raise click.UsageError(f"--expect: {name} has the shape {list(self.got.shape)}, and the file {list(value.shape)}")
        return compare(self.expectation, self.got)


@dataclass(slots=True)
class Writers:
    """Keeps the last launch that has an array of this name, to say who wrote an element of it."""

    name: str
    index: tuple[int, ...]
    kept: Result | None = field(default=None, repr=False)

    @classmethod
    def of(cls, text: str) -> Writers:
        """From ``c[3, 17]``."""
        found = _ELEMENT.fullmatch(text.strip())
        if found is None:
            raise click.UsageError(f"--provenance {text}: give an array argument and an element of it, such as 'c[3, 17]'")
        return cls(found[1], tuple(map(int, found[2].split(","))) if found[2] else ())

    def __call__(self, replay: Replay, result: Result) -> tuple[Diagnostic, ...]:
        """Keep the launch, if it has the array."""
        if any(placed.name == self.name for placed in replay.arrays):
            self.kept = result
        return ()

    def provenance(self) -> Provenance:
        """Who wrote the element; the launch runs again."""
        if self.kept is None:
            raise click.UsageError(f"--provenance: no launch that ran to its end has an array argument {self.name}")
        return self.kept.provenance(self.name, self.index, inputs=True)


@dataclass(slots=True)
class Mmas:
    """Keeps launches, to list the matrix instructions that they executed, and if asked who wrote their operands."""

    writers: bool = False
    kept: list[tuple[str, Result]] = field(default_factory=list, repr=False)

    def __call__(self, replay: Replay, result: Result) -> tuple[Diagnostic, ...]:
        """Keep the launch."""
        self.kept.append((replay.kernel.name, result))
        return ()

    def records(self) -> Iterator[tuple[str, MmaRecords]]:
        """The name of the kernel of each launch that has executed any, and the records; the launches run again."""
        for name, result in self.kept:
            found = result.mmas(writers=self.writers)
            if found:
                yield name, found

    def text(self, name: str, records: MmaRecords) -> str:
        """The table of a launch, and below it the writers if they are known."""
        return f"matrix instructions of {name}:\n{records}"
