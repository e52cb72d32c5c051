"""Native code through llvmlite: compile LLVM IR for this processor, keep the object code on disk."""

from ptxlab.native._byte_moves import address_of, callback_address, move_address, mover
from ptxlab.native._compile import Library, compile_ir, compile_object, compile_or_load, load_cached, object_key, spare_compilers
from ptxlab.native._host import Host, compiling_for, host, processor
from ptxlab.native.builder import Function, Module, Value, Variable, vector
from ptxlab.native.caches import OBJECTS, BoundedCache, DiskCache, cache_directory, cache_folder, made_once
from ptxlab.native.tasks import Task, start

__all__ = [
    "OBJECTS",
    "BoundedCache",
    "DiskCache",
    "Function",
    "Host",
    "Library",
    "Module",
    "Task",
    "Value",
    "Variable",
    "address_of",
    "cache_directory",
    "cache_folder",
    "callback_address",
    "compile_ir",
    "compile_object",
    "compile_or_load",
    "compiling_for",
    "host",
    "load_cached",
    "made_once",
    "move_address",
    "mover",
    "object_key",
    "processor",
    "spare_compilers",
    "start",
    "vector",
]
