"""Object code from modules of LLVM, in several threads at once.

llvmlite holds one lock around each call of LLVM, but modules of different contexts share nothing: LLVM may generate their code at the same
time. `emit_object` calls the one function that takes long without that lock. If llvmlite does not have it in the form that is known
here, code is generated with the lock, one module at a time.
"""

from __future__ import annotations

import ctypes
from functools import cache
from threading import Condition
from typing import Any

from ptxlab.native._llvm import llvm

__all__ = ["emit_object", "hold_emission", "is_concurrent", "release_emission"]

_EMIT = "LLVMPY_TargetMachineEmitToMemory"
_BUFFER = "LLVMPY_GetBufferStart", "LLVMPY_GetBufferSize", "LLVMPY_DisposeMemoryBuffer"


class _Inside:
    """How many threads are inside LLVM without llvmlite's lock."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.count = 0

    def __enter__(self) -> None:
        with self.changed:
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.count -= 1
            self.changed.notify_all()


_INSIDE = _Inside()


@cache
def _unlocked() -> Any:
    """The function of the same library through a handle of our own, or None."""
    ffi = llvm().ffi
    try:
        locked = getattr(ffi.lib, _EMIT)
        known = [ffi.LLVMTargetMachineRef, ffi.LLVMModuleRef, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        if list(locked.argtypes) != known or locked.restype is not ffi.LLVMMemoryBufferRef:
            return None
        for name in _BUFFER:
            getattr(ffi.lib, name)
        found = ctypes.CDLL(ffi.lib._name)[_EMIT]
        found.argtypes, found.restype = known, ffi.LLVMMemoryBufferRef
    except (AttributeError, TypeError, OSError):
        return None
    return found


def is_concurrent() -> bool:
    """Whether `emit_object` runs in several threads at once."""
    return _unlocked() is not None


def emit_object(machine: Any, module: Any) -> bytes:
    """Object code of a module; no other thread may use its context or the machine."""
    emit = _unlocked()
    if emit is None:
        image: bytes = machine.emit_object(module)
        return image
    ffi = llvm().ffi
    start, size, dispose = (getattr(ffi.lib, name) for name in _BUFFER)
    with ffi.OutputString() as error:
        with _INSIDE:
            buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(start(buffer), size(buffer))
    finally:
        dispose(buffer)


def hold_emission() -> None:
    """Wait until no thread is inside LLVM without llvmlite's lock, and let none enter."""
    _INSIDE.changed.acquire()
    _INSIDE.changed.wait_for(lambda: not _INSIDE.count)


def release_emission() -> None:
    """Undo `hold_emission`."""
    _INSIDE.changed.release()
