"""Regions that are loaded, from the disk cache, or compiled: a warm start builds no LLVM IR, and equal regions share their code.

A region is known by its request, which names the text that it comes from, and by its contents, the LLVM IR. The cache keeps the code
under the contents, and under the request the contents and the helpers that the code calls. So regions of several kernels, and of
texts that differ in names, comments or source lines, have one code, in memory and on disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

from ptxlab import native
from ptxlab._digests import blake2b
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.llvm.region import emit_region
from ptxlab.engine.program import Program
from ptxlab.engine.support.compiled import address_of

__all__ = ["load_or_compile"]

_FUNCTION = ("region",)
_LOADED: WeakValueDictionary[str, native.Library] = WeakValueDictionary()
"""The code that some executable uses, by contents."""


def load_or_compile(program: Program, nodes: Nodes, numbers: list[int], width: int) -> native.Library:
    """Find or compile the code of some nodes."""
    request = None
    if program.digest:
        request = native.object_key("region", program.digest, [nodes.starts[n] for n in numbers], width)
        known = native.OBJECTS.read(request)
        if known is not None:
            contents, *names = known.decode().split()
            found = _LOADED.get(contents) or native.load_cached(contents, _FUNCTION, _addresses(names))
            if found is not None:
                _LOADED[contents] = found
                return found
    text, helpers = emit_region(program, nodes, numbers, width)
    contents = native.object_key(blake2b(text.encode()).hexdigest())
    found = _LOADED.get(contents)
    if found is None:
        found = _LOADED[contents] = native.compile_ir(text, _FUNCTION, key=contents, symbols=_addresses(helpers))
    if request is not None:
        native.OBJECTS.write(request, " ".join((contents, *helpers)).encode())
    return found


def _addresses(helpers: Iterable[str]) -> dict[str, int]:
    return {name: address_of(name) for name in helpers}
