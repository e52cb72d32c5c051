"""From LLVM IR to functions that can be called by address."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from ptxlab.native._emission import emit_object, hold_emission, is_concurrent, release_emission
from ptxlab.native._host import Host, host, this_processor
from ptxlab.native._llvm import llvm
from ptxlab.native.caches import OBJECTS
from ptxlab.native.tasks import spare_threads

__all__ = ["Library", "compile_ir", "compile_object", "compile_or_load", "load_cached", "object_key", "spare_compilers"]

_names = itertools.count()
_LOCK = threading.Lock()
_KEPT: list[Library] = []
"""What `compile_or_load` has returned."""


class Library:
    """Loaded object code; the functions live as long as the library does."""

    __slots__ = ("__weakref__", "_addresses", "_tracker")

    def __init__(self, image: bytes, exports: Iterable[str], symbols: Mapping[str, int]) -> None:
        builder = llvm().JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        self._tracker = builder.link(_jit(), f"ptxlab-{next(_names)}")
        self._addresses: dict[str, int] = {name: self._tracker[name] for name in exports}

    def address(self, function: str) -> int:
        """The address of an exported function."""
        return self._addresses[function]

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """An exported function, given the ctypes types of its result and arguments; it keeps the library loaded.

        Calls do not release the interpreter's lock: they are short, and functions may work in shared buffers.
        """
        found: Any = ctypes.PYFUNCTYPE(result, *arguments)(self.address(name))
        found.library = self
        return found


def object_key(*parts: object) -> str:
    """The key of a piece of code: a digest of the parts (by ``repr``) and of everything else that decides what is compiled."""
    return OBJECTS.key(*parts)


@cache
def _initialise() -> Any:
    binding = llvm()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@cache
def _initialise_all() -> None:
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


_MACHINES: defaultdict[tuple[Host, int], list[Any]] = defaultdict(list)
"""Those that no thread uses."""


@contextmanager
def _machine(opt: int, processor: Host) -> Iterator[Any]:
    """A target machine for this thread alone."""
    idle = _MACHINES[processor, opt]
    try:
        machine = idle.pop()
    except IndexError:
        binding = _initialise()
        if processor.triple != this_processor().triple:
            _initialise_all()
        target, (cpu, features) = binding.Target.from_triple(processor.triple), (processor.cpu, processor.features)
        machine = target.create_target_machine(cpu=cpu, features=features, opt=opt, jit=True, reloc="pic", codemodel="jitdefault")
    try:
        yield machine
    finally:
        idle.append(machine)


def _tuning(opt: int) -> Any:
    """Options of the optimisation passes.

    Most loops run over a few lanes or bytes: code with vectorised loops takes twice as long to compile and runs no faster. Loops are
    unrolled in the functions that all programs call.
    """
    options = _initialise().create_pipeline_tuning_options(speed_level=opt)
    options.loop_vectorization = False
    options.loop_unrolling = opt > 1
    return options


@cache
def _new_jit() -> Any:
    with _machine(0, this_processor()) as machine:
        return _initialise().create_lljit_compiler(machine, use_jit_link=False)


def _jit() -> Any:
    """The one linker; `cache` alone would let two threads make two."""
    with _LOCK:
        return _new_jit()


def _before_fork() -> None:
    """Wait until no other thread is inside LLVM: the new process can compile."""
    hold_emission()
    _LOCK.acquire()
    _held.append(llvm().ffi.lib._lock if llvm.cache_info().currsize else nullcontext())
    _held[-1].__enter__()


def _after_fork() -> None:
    _held.pop().__exit__(None, None, None)
    _LOCK.release()
    release_emission()


_held: list[Any] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def load_cached(key: str, exports: Iterable[str], symbols: Mapping[str, int] | None = None) -> Library | None:
    """Load what an earlier `compile_ir` kept under this key (from `object_key`), or return None."""
    image = OBJECTS.read(key)
    return None if image is None else Library(image, exports, symbols or {})


def compile_or_load(
    parts: tuple[object, ...],
    exports: Iterable[str],
    write: Callable[[], str],
    *,
    opt: int,
    light: bool = False,
    symbols: Mapping[str, int] | None = None,
) -> Library:
    """The library of a request; only if the cache does not have it, ``write`` is called for its LLVM IR.

    The library stays loaded: two threads may ask for it at once, and each may keep addresses of functions of the one that it got.

    Parameters
    ----------
    parts : what decides the IR, besides our own sources
    exports, opt, light, symbols : as for `compile_ir`
    """
    key = object_key(*parts)
    library = load_cached(key, exports, symbols) or compile_ir(write(), exports, opt=opt, light=light, key=key, symbols=symbols)
    _KEPT.append(library)
    return library


def compile_ir(
    ir: str,
    exports: Iterable[str],
    *,
    opt: int = 0,
    light: bool = False,
    key: str | None = None,
    symbols: Mapping[str, int] | None = None,
) -> Library:
    r"""Compile LLVM IR for this processor, or load it from the cache.

    Parameters
    ----------
    ir : text of an LLVM module
    exports : the functions to be called
    opt : 0 compiles fastest; 1 to 3 also run LLVM's optimisation passes
    light : run only the pass that keeps variables in registers; straight code and single loops gain nothing from the others, and take
        half of the time to compile
    key : from `object_key`; by default the IR itself
    symbols : addresses of the functions that the IR declares but does not define; they are bound when the code is loaded, so that cached
        code stays good

    Examples
    --------
    >>> import ctypes
    >>> library = compile_ir("define i32 @twice(i32 %x) { %y = add i32 %x, %x \n ret i32 %y }", ["twice"])
    >>> ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.address("twice"))(21)
    42
    """
    return Library(compile_object(ir, opt=opt, light=light, key=key), tuple(exports), symbols or {})


def compile_object(ir: str, *, opt: int = 0, light: bool = False, key: str | None = None) -> bytes:
    """Object code of LLVM IR for the processor `host`, compiled or from the cache: what `compile_ir` loads."""
    if key is None:
        key = object_key(ir, opt, light)
    image = OBJECTS.read(key)
    if image is None:
        image = _object(ir, opt, light)
        OBJECTS.write(key, image)
    return image


def spare_compilers() -> int:
    """How many threads may compile beside the one that asks."""
    return spare_threads() if is_concurrent() else 0


def _object(ir: str, opt: int, light: bool) -> bytes:
    binding = _initialise()
    with _machine(opt, host()) as machine, binding.create_context() as context, binding.parse_assembly(ir, context) as module:
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        if opt:
            with binding.create_pass_builder(machine, _tuning(opt)) as passes:
                if light:
                    manager = binding.create_new_module_pass_manager()
                    manager.add_sroa_pass()
                else:
                    manager = passes.getModulePassManager()
                with manager:
                    manager.run(module, passes)
        return emit_object(machine, module)
