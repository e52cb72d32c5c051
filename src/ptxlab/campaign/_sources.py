"""Launch files with all that they read, so that a worker needs no access to the files of the machine that plans a campaign."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ptxlab.campaign.launch_file import read_launch_file
from ptxlab.campaign.launchable import Launchable, read_launchable
from ptxlab.machine import Module, is_bundle, loads
from ptxlab.machine.observe.observer import Tracing

__all__ = ["Files", "Source", "add_source", "source_of"]


@dataclass(frozen=True)
class Files:
    """What a worker needs to read a launch file.

    Attributes
    ----------
    launch : the bytes of the launch file, or of the bundle
    ptx : the text of the module, whatever the launch file takes it from, and the file that messages name; None for a bundle
    named : the other files, by the names that the launch file has for them
    """

    launch: bytes
    ptx: tuple[str, str] | None
    named: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of all of it."""
        text = "\0".join(self.ptx or ())
        parts = [self.launch, text.encode(), *(part for name in sorted(self.named) for part in (name.encode(), self.named[name]))]
        whole = hashlib.sha256()
        for part in parts:
            whole.update(len(part).to_bytes(8, "little") + part)
        return whole.hexdigest()


class Source:
    """A launch file or a bundle in this process.

    Parameters
    ----------
    path : the file
    target : what its PTX is taken or compiled for, in place of what the launch file says
    places : where the files are that it names, if not where the names say
    module : the module, if it need not be read from the file that the launch file names
    """

    def __init__(
        self, path: Path, target: str | None = None, places: Mapping[str, Path] | None = None, module: Module | None = None
    ) -> None:
        self.path, self.target = path, target
        self._places = places
        self.is_bundle = is_bundle(path)
        self._given = module
        self.trace: Tracing | None = None
        """The timeline of all launches of this source in this process, if there is one."""

    def read(self, sizes: Mapping[str, int] | None = None, seed: int = 0) -> Launchable:
        """Read the file and make its arrays."""
        if self.is_bundle:
            return read_launchable(self.path)
        spec = read_launch_file(self.path, sizes=sizes, seed=seed, target=self.target, places=self._places)
        spec.module = self._module
        return spec

    @cached_property
    def _facts(self) -> tuple[dict[str, int], dict[str, Path], Module]:
        """Sizes, files besides the PTX, and the module; the arrays are not kept."""
        spec = read_launch_file(self.path, target=self.target, places=self._places)
        return spec.sizes, {name: path for name, path in spec.files.items() if path != spec.ptx}, self._given or spec.module

    @property
    def _module(self) -> Module:
        return self._facts[2]

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that the launch file has."""
        return {} if self.is_bundle else self._facts[0]

    @cached_property
    def files(self) -> Files:
        """What a worker needs of it."""
        launch = self.path.read_bytes()
        if self.is_bundle:
            return Files(launch, None)
        named = {name: path.read_bytes() for name, path in self._facts[1].items()}
        return Files(launch, (self._module.ast.text, self._module.ast.file), named)


_SOURCES: dict[str, Source] = {}
"""The sources that this process can read, by their digests."""


def add_source(source: Source) -> str:
    """Keep a source for the cells of this process; returns its digest."""
    digest = source.files.digest
    _SOURCES[digest] = source
    return digest


def source_of(digest: str, files: Files | None) -> Source | None:
    """The source of that digest: one that this process has, or one that is made from ``files``."""
    if digest not in _SOURCES and files is not None:
        folder = Path(tempfile.mkdtemp(prefix="ptxlab-campaign-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        launch = folder / "launch"
        launch.write_bytes(files.launch)
        places = {name: folder / str(number) for number, name in enumerate(files.named)}
        for name, path in places.items():
            path.write_bytes(files.named[name])
        module = None if files.ptx is None else loads(files.ptx[0], file=files.ptx[1])
        _SOURCES[digest] = Source(launch, None, places, module)
    return _SOURCES.get(digest)
