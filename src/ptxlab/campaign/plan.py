"""Campaign files: many launches, as the product of launch files, sizes, data, targets and schedules.

A campaign file is TOML.

::

    schedules = 20                        # eager, lazy, and 18 random ones; default 5
    seeds = [0, 1, 2]                     # added to the seeds of the arrays; default [0]
    targets = ["sm_100a", "sm_103a"]      # what the PTX is taken or compiled for; default: what each launch file says
    check = "all"                         # launch options

    [[launches]]
    file = "gemm.toml"                    # a launch file, or a replay bundle
    sizes = [{M = 256, N = 256}, {M = 512}]   # in place of those that the launch file has; default [{}]

    [[launches]]
    file = "attention.toml"
    schedules = 200                       # each table may have keys of its own
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxlab.campaign._sources import Source, add_source
from ptxlab.campaign._toml import TomlReader
from ptxlab.campaign.cell import Cell
from ptxlab.campaign.outcome import schedules
from ptxlab.diagnostics import PtxlabError
from ptxlab.machine import LaunchError
from ptxlab.machine.launch.options import LaunchOptions

__all__ = ["MOST_CELLS", "MOST_SCHEDULES", "Campaign", "CampaignError", "Source", "cells_of", "read_campaign"]

MOST_SCHEDULES = 100_000
MOST_CELLS = 1_000_000
_DEFAULT_SCHEDULES = 5
_OWN_OPTIONS = {"policy", "seed", "trace", "keep_inputs"}
"""Launch options that a campaign sets itself, or that leave files."""
_SHARED_KEYS = {"schedules", "seeds", "targets", *(LaunchOptions.described().keys() - _OWN_OPTIONS)}


class CampaignError(PtxlabError):
    """A campaign file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The cells of a campaign file.

    Attributes
    ----------
    name : the name of the file without its ending
    cells : one for each launch, in the order of the file
    """

    name: str
    cells: tuple[Cell, ...]


def cells_of(
    source: Source,
    *,
    name: str | None = None,
    sizes: Mapping[str, int] | None = None,
    data_seed: int = 0,
    count: int = _DEFAULT_SCHEDULES,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Cell]:
    """The cells of one case: a launch under so many schedules.

    Parameters
    ----------
    source : the launch file
    name : what reports call it
    sizes, data_seed : values in place of the file's sizes; what is added to the seeds of its arrays
    count : how many schedules: eager, lazy, and random ones
    options : other launch options

    Raises
    ------
    PtxlabError
        if the launch file, or what it names, cannot be read
    """
    digest = add_source(source)
    common = (name or source.path.name, source.target, tuple((sizes or {}).items()), data_seed)
    given = tuple((key, _plain(value)) for key, value in (options or {}).items())
    for policy, seed in schedules(count):
        yield Cell(digest, *common, policy, seed, given)


def _plain(value: Any) -> Any:
    """The value as JSON gives it back, so that cells of a resumed campaign are equal to its cells."""
    return [_plain(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else value


def read_campaign(path: Path) -> Campaign:
    """Read a campaign file and the launch files that it names.

    Raises
    ------
    CampaignError
        codes F101 to F103, with the key that is wrong
    LaunchFileError
        if a launch file cannot be used
    """
    reader = _Reader(path, "campaign file", CampaignError)
    table = reader.table()
    reader.known(table, {"launches", *_SHARED_KEYS}, reader.what)
    shared = {key: value for key, value in table.items() if key != "launches"}
    cells: dict[str, Cell] = {}
    for each, where in reader.tables(table, "launches"):
        for cell in reader.launch(each, shared, where):
            cells.setdefault(cell.key, cell)
            if len(cells) > MOST_CELLS:
                raise reader.refuse("F103", f"{where}: the campaign has more than {MOST_CELLS:,} cells")
    if not cells:
        raise reader.refuse("F103", f"{reader.what}: it names no launch", fix="add a table [[launches]] with the key file")
    return Campaign(path.stem, tuple(cells.values()))


class _Reader(TomlReader):
    """Reads the tables of one campaign file."""

    def launch(self, table: Any, shared: Mapping[str, Any], where: str) -> Iterator[Cell]:
        """The cells of a table of launches."""
        if not isinstance(table, dict):
            raise self.refuse("F103", f"{where}: must be a table, not {table!r}")
        self.known(table, {"file", "sizes", *_SHARED_KEYS}, where)
        name = self.expect(table, "file", (str,), where)
        given = {**shared, **table}
        count = self.expect(given, "schedules", (int,), where, default=_DEFAULT_SCHEDULES)
        if not 1 <= count <= MOST_SCHEDULES:
            raise self.refuse("F103", f"{where}: schedules is 1 to {MOST_SCHEDULES:,}, not {count}")
        seeds = self.whole_numbers(given, "seeds", where)
        targets: list[str | None] = [
            self.text(target, f"{where}: targets") for target in self.expect(given, "targets", (list,), where, default=[])
        ]
        options = {key: given[key] for key in given.keys() & LaunchOptions.described().keys()}
        try:
            LaunchOptions().changed(**options)
        except LaunchError as error:
            raise self.refuse("F103", f"{where}: {error.diagnostic.message}", error.diagnostic.fix) from None
        for target in targets or [None]:
            source = Source(self.path.parent / name, target)
            sets = self.size_sets(table, source, where)
            for sizes, data_seed in itertools.product(sets, seeds):
                yield from cells_of(source, name=name, sizes=sizes, data_seed=data_seed, count=count, options=dict(sorted(options.items())))

    def whole_numbers(self, table: Mapping[str, Any], key: str, where: str) -> list[int]:
        """A list of seeds."""
        found = self.expect(table, key, (list,), where, default=[0])
        for each in found:
            if type(each) is not int or not 0 <= each < 1 << 32:
                raise self.refuse("F103", f"{where}: {key} are whole numbers from 0 to 2^32 - 1, not {each!r}")
        return list(dict.fromkeys(found))

    def text(self, value: Any, where: str) -> str:
        """A value that is a text."""
        if not isinstance(value, str):
            raise self.refuse("F103", f"{where} must be texts, not {value!r}")
        return value

    def size_sets(self, table: Mapping[str, Any], source: Source, where: str) -> list[dict[str, int]]:
        """The sets of sizes, each with only those that it gives."""
        sets: list[dict[str, int]] = self.expect(table, "sizes", (list,), where, default=[{}])
        for each in sets:
            if not isinstance(each, dict):
                raise self.refuse("F103", f"{where}: sizes are tables such as {{M = 256}}, not {each!r}")
            for key, value in each.items():
                if type(value) is not int:
                    raise self.refuse("F103", f"{where}: sizes: {key} must be a whole number, not {value!r}")
            self.known(each, set(source.sizes), f"{where}: sizes")
        return sets
