"""Regions from the disk cache, or compiled: a warm start builds no LLVM IR."""

from __future__ import annotations

from ptxlab import native
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.llvm.region import emit_region
from ptxlab.engine.program import Program
from ptxlab.engine.support.compiled import address_of

__all__ = ["load_or_compile"]


def load_or_compile(program: Program, nodes: Nodes, numbers: list[int], width: int) -> native.Library:
    """Load or compile the code of some nodes. The names of the helpers that it calls are cached with it."""
    key = None
    if program.digest:
        key = native.object_key("region", program.digest, [nodes.starts[n] for n in numbers], width)
        names = native.OBJECTS.read(key + "-helpers")
        if names is not None:
            symbols = {name: address_of(name) for name in names.decode().split()}
            found = native.load_cached(key, ["region"], symbols)
            if found is not None:
                return found
    text, helpers = emit_region(program, nodes, numbers, width)
    if key is not None:
        native.OBJECTS.write(key + "-helpers", " ".join(helpers).encode())
    return native.compile_ir(text, ["region"], key=key, symbols={name: address_of(name) for name in helpers})
