"""Native code through llvmlite: compile LLVM IR for this processor, keep the object code on disk."""

from ptxlab.native._address import address_of
from ptxlab.native._byte_moves import gatherer, mover, scatterer
from ptxlab.native._cache import cache_directory, object_key, read_object, write_object
from ptxlab.native._compile import Library, compile_ir, load_cached
from ptxlab.native._host import Host, host

__all__ = [
    "Host",
    "Library",
    "address_of",
    "cache_directory",
    "compile_ir",
    "gatherer",
    "host",
    "load_cached",
    "mover",
    "object_key",
    "read_object",
    "scatterer",
    "write_object",
]
