"""Regions that are loaded, from the disk cache, or compiled: a warm start builds no LLVM IR, and equal regions share their code.

A region is known by its request, which names the text that it comes from, and by its contents, the LLVM IR. The cache keeps the code
under the contents, and under the request the contents and the helpers that the code calls. So regions of several kernels, and of
texts that differ in names, comments or source lines, have one code, in memory and on disk.

Where there are several cores, the code of a region, that of its helpers and that of regions which are to be executed later are generated
at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from weakref import WeakValueDictionary

from ptxlab import native
from ptxlab._digests import blake2b
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.llvm.region import emit_region
from ptxlab.engine.program import Program
from ptxlab.engine.support.compiled import address_of

__all__ = ["Regions"]

_FUNCTION = ("region",)
_LOADED: WeakValueDictionary[str, native.Library] = WeakValueDictionary()
"""The code that some executable uses, by contents."""
_COMPILED: WeakValueDictionary[str, native.Task[bytes]] = WeakValueDictionary()
"""The code that is generated for some executable, by contents."""


class Regions:
    """The regions of a program that are loaded, or begun."""

    def __init__(self, program: Program, nodes: Nodes, width: int) -> None:
        self.program, self.nodes, self.width = program, nodes, width
        self._found: dict[int, _Region] = {}
        self._helpers: dict[str, native.Task[int]] = {}

    def load(self, number: int, later: Iterable[int]) -> native.Library:
        """Find or compile the code of the region of a node.

        ``later``: nodes that are going to be executed, too. Where there are several cores, their code is begun if this code is not there.
        """
        region = self._begin(number)
        if region.library is None:
            self._begin_some(later)
        return region.load()

    def _begin_some(self, later: Iterable[int]) -> None:
        spare = native.spare_compilers()
        if spare:
            for each in later:
                if sum(region.library is None for region in self._found.values()) > spare + 1:
                    return
                self._begin(each)

    def _begin(self, number: int) -> _Region:
        numbers = self.nodes.region_of(number)
        found = self._found.get(numbers[0])
        if found is None:
            found = self._found[numbers[0]] = _Region(self, numbers)
        return found

    def helper(self, name: str) -> native.Task[int]:
        """What finds the address of a helper."""
        found = self._helpers.get(name)
        if found is None:
            found = self._helpers[name] = native.start(partial(address_of, name))
        return found


class _Region:
    """The code of some nodes; ``library`` is None until it is loaded."""

    __slots__ = ("_begun", "_request", "library")

    def __init__(self, regions: Regions, numbers: list[int]) -> None:
        program, nodes, width = regions.program, regions.nodes, regions.width
        self.library: native.Library | None = None
        self._begun: tuple[str, native.Task[bytes], dict[str, native.Task[int]]] | None = None
        self._request = None
        if program.digest:
            self._request = native.object_key("region", program.digest, [nodes.starts[n] for n in numbers], width)
            known = native.OBJECTS.read(self._request)
            if known is not None:
                contents, *names = known.decode().split()
                self.library = _LOADED.get(contents) or native.load_cached(contents, _FUNCTION, {name: address_of(name) for name in names})
                if self.library is not None:
                    _LOADED[contents] = self.library
                    return
        text, helpers = emit_region(program, nodes, numbers, width)
        contents = native.object_key(blake2b(text.encode()).hexdigest())
        self.library = _LOADED.get(contents)
        if self.library is not None:
            self._note(contents, helpers)
            return
        image = _COMPILED.get(contents)
        if image is None:
            image = _COMPILED[contents] = native.start(partial(native.compile_object, text, key=contents))
        self._begun = contents, image, {name: regions.helper(name) for name in helpers}

    def load(self) -> native.Library:
        """The code, when it is complete; another thread may ask for it at the same time."""
        begun = self._begun
        if begun is not None:
            contents, image, helpers = begun
            addresses = {name: helper.result() for name, helper in helpers.items()}
            self.library = _LOADED.setdefault(contents, native.Library(image.result(), _FUNCTION, addresses))
            self._note(contents, helpers)
            self._begun = None
        assert self.library is not None
        return self.library

    def _note(self, contents: str, helpers: Iterable[str]) -> None:
        """Keep under the request what its code is."""
        if self._request is not None:
            native.OBJECTS.write(self._request, " ".join((contents, *helpers)).encode())
