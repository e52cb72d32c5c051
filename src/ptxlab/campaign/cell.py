"""One launch of a campaign, and what it gave. Both travel between processes and machines."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

from ptxlab.campaign._sources import Files, Source, source_of
from ptxlab.campaign.launchable import Launchable
from ptxlab.campaign.outcome import schedule_name, unexpected
from ptxlab.diagnostics import Diagnostic, PtxlabError, diagnose
from ptxlab.formats import bytes_of

__all__ = ["Cell", "CellResult", "failure", "launched", "run_cell"]

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Cell:
    """A launch file with sizes, data, a target and a schedule.

    Attributes
    ----------
    source : the digest of the launch file and of all that it reads
    launch : the launch file's name in reports
    target : what the PTX is taken or compiled for; None: what the launch file says
    sizes : names of sizes with their values
    data_seed : added to the seeds of the arrays
    policy, seed : the schedule
    options : other launch options, with values that JSON has

    Examples
    --------
    >>> cell = Cell("1f", "gemm.toml", None, (("M", 256),), 1, "random", 3, ())
    >>> str(cell)
    'gemm.toml, M=256, data 1, random 3'
    """

    source: str
    launch: str
    target: str | None
    sizes: tuple[tuple[str, int], ...]
    data_seed: int
    policy: str
    seed: int
    options: tuple[tuple[str, Any], ...]

    @cached_property
    def key(self) -> str:
        """A digest of all that decides what the cell gives."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[: 2 * _DIGEST_BYTES]

    @property
    def schedule(self) -> str:
        """``random 3``."""
        return schedule_name(self.policy, self.seed)

    @property
    def case(self) -> str:
        """What is launched, without the schedule: the cells of one case must leave the same bits."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes)
        return ", ".join(each for each in (self.launch, self.target, sizes, f"data {self.data_seed}") if each)

    def __str__(self) -> str:
        return f"{self.case}, {self.schedule}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The cell whose ``dataclasses.asdict`` went through JSON."""
        pairs = {name: tuple((key, value) for key, value in values[name]) for name in ("sizes", "options")}
        return cls(**{**values, **pairs})


@dataclass(frozen=True)
class CellResult:
    """What a cell gave.

    Attributes
    ----------
    cell : the cell
    completed : whether the kernel ran to its end
    diagnostics : findings of the launch, outputs that are not as expected, or why the launch was refused
    digests : for each named array, a digest of its bytes at the end
    seconds : wall time, reading of the launch file included
    refused : whether the launch was refused
    """

    cell: Cell
    completed: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    refused: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is nothing but notes."""
        return not any(d.severity != "note" for d in self.diagnostics)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {name: getattr(self, name) for name in ("completed", "digests", "seconds", "refused")}
        return {"cell": asdict(self.cell), **values, "diagnostics": [d.as_dict() for d in self.diagnostics]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The result whose `as_dict` went through JSON."""
        diagnostics = tuple(Diagnostic.from_dict(each) for each in values["diagnostics"])
        return cls(**{**values, "cell": Cell.from_dict(values["cell"]), "diagnostics": diagnostics})


def launched(cell: Cell, source: Source) -> tuple[Launchable, CellResult]:
    """Launch a cell in this process; returns the launch file, whose arrays hold the results, too.

    Raises
    ------
    PtxlabError
        if the launch is refused
    """
    started = time.perf_counter()
    spec = source.read(dict(cell.sizes), cell.data_seed)
    spec.options = spec.options.changed(policy=cell.policy, seed=cell.seed, trace=source.trace, **dict(cell.options))
    result = spec.launch()
    diagnostics = list(result.diagnostics)
    digests = {}
    if result.completed:
        diagnostics += unexpected(spec)
        digests = {
            name: hashlib.blake2b(bytes_of(array).data, digest_size=_DIGEST_BYTES).hexdigest() for name, array in spec.arrays.items()
        }
    return spec, CellResult(cell, result.completed, tuple(diagnostics), digests, time.perf_counter() - started)


def run_cell(cell: Cell, files: Files | None = None) -> CellResult | None:
    """Run a cell in a worker.

    Parameters
    ----------
    cell : the cell
    files : all that its launch file reads, if the worker has asked for it

    Returns
    -------
    CellResult or None
        None if this machine does not have the files
    """
    source = source_of(cell.source, files)
    if source is None:
        return None
    try:
        return launched(cell, source)[1]
    except PtxlabError as error:
        return CellResult(cell, diagnostics=error.diagnostics, refused=True)
    except MemoryError:
        return failure(cell, "there is not enough memory for it")


def failure(cell: Cell, why: str) -> CellResult:
    """The result of a cell that could not be run."""
    return CellResult(cell, diagnostics=(diagnose("F109", f"{cell}: {why}"),))
