"""Compiled code for AArch64, executed by the emulator Unicorn in the memory of this process.

What `ptxlab.native` would load is placed in memory here. Emulated code and this process use the same addresses: the emulator is given pages
when code first accesses them. So functions take the addresses of arrays, and tables of addresses, as they are. If emulated code calls a
function of this process, this process executes it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import finalize

import unicorn
from unicorn import arm64_const as arm64

from .elf_helpers import place

__all__ = ["EmulatedLibrary", "Emulator"]

_PAGE, _CHUNK, _STACK = mmap.PAGESIZE, 1 << 18, 1 << 20
_libc = ctypes.CDLL(None)
_IN_REGISTERS = 8
"""Arguments that are passed in registers."""
_OUTSIDE = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * _IN_REGISTERS)
_UNUSED_BITS = 0xDEADBEEF << 32
"""What a register may hold above an argument of 32 bits."""


class Emulator:
    """An AArch64 processor in this process.

    Attributes
    ----------
    instructions : those that have been executed, as words, if they are noted
    """

    def __init__(self, *, notes: bool = False) -> None:
        self._engine: Any = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._engine.hook_add(unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED, self._fault)
        self.instructions: list[int] = []
        if notes:
            self._engine.hook_add(unicorn.UC_HOOK_CODE, self._note)
        self._mapped: set[int] = set()
        self._lock = RLock()
        self._pipe = os.pipe()
        for descriptor in self._pipe:
            finalize(self, os.close, descriptor)
        self._kept: list[Any] = []
        stack, end = (mmap.mmap(-1, size) for size in (_STACK, _PAGE))
        self._top, self._end = self._keep(stack) + _STACK, self._keep(end)
        self._map(self._end, _PAGE, unicorn.UC_PROT_ALL)

    def _keep(self, memory: mmap.mmap) -> int:
        self._kept.append(memory)
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def _map(self, address: int, size: int, protection: int) -> None:
        self._engine.mem_map_ptr(address, size, protection, address)
        self._mapped.update(range(address, address + size, _PAGE))

    def _note(self, _engine: Any, address: int, _size: int, _data: Any) -> None:
        self.instructions.append(ctypes.c_uint32.from_address(address).value)

    def _fault(self, _engine: Any, _access: int, address: int, size: int, _value: int, _data: Any) -> bool:
        """Give the emulator the pages that this process has at an address."""
        pages = {address & -_PAGE, (address + size - 1) & -_PAGE}
        for page in pages:
            stop = page
            while stop < page + _CHUNK and stop not in self._mapped and self._is_readable(stop):
                stop += _PAGE
            if stop > page:
                self._map(page, stop - page, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        return pages <= self._mapped

    def _is_readable(self, page: int) -> bool:
        """Whether this process has memory at an address: the system can read a byte there."""
        read, write = self._pipe
        if _libc.write(write, ctypes.c_void_p(page), ctypes.c_size_t(1)) != 1:
            return False
        os.read(read, 1)
        return True

    def load(self, image: bytes, symbols: Mapping[str, int]) -> Mapping[str, int]:
        """Place object code, which may call the C library besides; returns the addresses of its symbols."""
        placed = place(image, lambda name: symbols[name] if name in symbols else _in_c_library(name))
        self._kept.append(placed)
        # This process may have had other memory there, which is gone.
        for page in self._mapped & set(range(placed.start, placed.start + placed.size, _PAGE)):
            self._engine.mem_unmap(page, _PAGE)
        self._map(placed.start, placed.size, unicorn.UC_PROT_ALL)
        return placed.symbols

    def call(self, address: int, result: Any, types: tuple[Any, ...], arguments: tuple[int | None, ...]) -> Any:
        """Call a function as the Procedure Call Standard says; the types are integers and addresses of ctypes."""
        words = [_register(type, value) for type, value in zip(types, arguments, strict=True)]
        on_stack = words[_IN_REGISTERS:]
        with self._lock:
            top = self._top - (8 * len(on_stack) + 15 & -16)
            for number, word in enumerate(on_stack):
                ctypes.c_uint64.from_address(top + 8 * number).value = word
            for number, word in enumerate(words[:_IN_REGISTERS]):
                self._engine.reg_write(arm64.UC_ARM64_REG_X0 + number, word)
            self._engine.reg_write(arm64.UC_ARM64_REG_SP, top)
            self._engine.reg_write(arm64.UC_ARM64_REG_LR, self._end)
            self._run(address)
            assert self._engine.reg_read(arm64.UC_ARM64_REG_SP) == top
            assert self._engine.reg_read(arm64.UC_ARM64_REG_FPCR) == 0
            return None if result is None else result(self._engine.reg_read(arm64.UC_ARM64_REG_X0)).value

    def _run(self, start: int) -> None:
        """Execute until the function returns."""
        engine = self._engine
        while True:
            try:
                engine.emu_start(start, self._end)
                return
            except unicorn.UcError as error:
                if error.errno not in (unicorn.UC_ERR_FETCH_UNMAPPED, unicorn.UC_ERR_FETCH_PROT):
                    raise
            outside, start = engine.reg_read(arm64.UC_ARM64_REG_PC), engine.reg_read(arm64.UC_ARM64_REG_LR)
            assert _is_code(outside)
            registers = [engine.reg_read(arm64.UC_ARM64_REG_X0 + number) for number in range(_IN_REGISTERS)]
            context, top = engine.context_save(), self._top
            self._top = engine.reg_read(arm64.UC_ARM64_REG_SP) & -16
            found = _OUTSIDE(outside)(*registers)
            self._top = top
            engine.context_restore(context)
            engine.reg_write(arm64.UC_ARM64_REG_X0, found)


class EmulatedLibrary:
    """In place of `ptxlab.native.Library`: object code, whose functions are emulated."""

    def __init__(self, emulator: Emulator, image: bytes, exports: Iterable[str], symbols: Mapping[str, int]) -> None:
        self._emulator = emulator
        found = emulator.load(image, symbols)
        self._addresses = {name: found[name] for name in exports}

    def address(self, function: str) -> int:
        return self._addresses[function]

    def function(self, name: str, result: Any, *types: Any) -> Callable[..., Any]:
        emulator, address = self._emulator, self.address(name)

        def call(*arguments: int | None) -> Any:
            return emulator.call(address, result, types, arguments)

        return call


def _register(type: Any, value: int | None) -> int:
    if value is None:
        return 0
    return value & 0xFFFFFFFF | _UNUSED_BITS if ctypes.sizeof(type) == 4 else value & 0xFFFFFFFFFFFFFFFF


def _in_c_library(name: str) -> int:
    return ctypes.cast(getattr(_libc, name), ctypes.c_void_p).value or 0


def _is_code(address: int) -> bool:
    """Whether this process can execute what is at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, permissions, *_ = line.split()
        first, last = (int(end, 16) for end in ends.split("-"))
        if first <= address < last:
            return "x" in permissions
    return False
