"""Native code through llvmlite: compile LLVM IR for this processor, keep the object code on disk."""

from ptxlab.native._address import address_of
from ptxlab.native._byte_moves import gatherer, mover, scatterer
from ptxlab.native._compile import Library, compile_ir, compile_or_load, load_cached, object_key
from ptxlab.native._host import Host, host
from ptxlab.native.caches import OBJECTS, BoundedCache, DiskCache, cache_directory

__all__ = [
    "OBJECTS",
    "BoundedCache",
    "DiskCache",
    "Host",
    "Library",
    "address_of",
    "cache_directory",
    "compile_ir",
    "compile_or_load",
    "gatherer",
    "host",
    "load_cached",
    "mover",
    "object_key",
    "scatterer",
]
