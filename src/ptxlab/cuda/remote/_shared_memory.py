"""The memory of a program in another process, at the addresses that it has there."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

__all__ = ["SharedMemory"]

FIRST_ADDRESS = 0x100000000000
"""Where the ranges of the devices begin in each program: the address of a byte, less this, is its place in the shared file."""


class SharedMemory:
    """Allocations of a program at the addresses that they have there.

    What the driver allocates lies in a file that both processes map. Memory that the program has registered is copied at each launch.
    """

    def __init__(self, file: int, process: int) -> None:
        self._file = file
        self._process = process
        self._end = FIRST_ADDRESS + os.fstat(file).st_size
        self._mapped: dict[int, int] = {}
        self._registered: set[int] = set()

    def map(self, address: int, size: int, file: int = 0) -> None:
        """Make an allocation of the program accessible here; `OSError` if this process uses the range itself.

        ``file`` is a descriptor of the program, and 1, if another file than the driver's is mapped there.
        """
        if address in self._mapped:
            return
        if file:
            opened = os.open(f"/proc/{self._process}/fd/{file - 1}", os.O_RDWR)
            try:
                self._map(address, size, opened, 0, mmap.MAP_SHARED)
            finally:
                os.close(opened)
            return
        if FIRST_ADDRESS <= address < self._end:
            self._map(address, size, self._file, address - address % mmap.PAGESIZE - FIRST_ADDRESS, mmap.MAP_SHARED)
            return
        self._map(address, size, -1, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._registered.add(address)

    def _map(self, address: int, size: int, file: int, offset: int, flags: int) -> None:
        start = address - address % mmap.PAGESIZE
        length = -(-(address + size - start) // mmap.PAGESIZE) * mmap.PAGESIZE
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        if _libc.mmap(start, length, protection, flags | _FIXED_NOREPLACE, file, offset) != start:
            raise OSError(f"the range {address:#x} of {size} bytes is in use")
        self._mapped[address] = size

    def has(self, address: int) -> bool:
        """Whether an allocation is accessible."""
        return address in self._mapped

    def addresses(self) -> list[int]:
        """Where the allocations begin."""
        return list(self._mapped)

    def unmap(self, address: int) -> None:
        """End what `map` began."""
        size = self._mapped.pop(address, None)
        self._registered.discard(address)
        if size is not None:
            start = address - address % mmap.PAGESIZE
            _libc.munmap(start, address + size - start)

    def fetch(self) -> None:
        """Copy registered memory from the program."""
        self._transfer(_libc.process_vm_readv)

    def store(self) -> None:
        """Copy registered memory to the program."""
        self._transfer(_libc.process_vm_writev)

    def _transfer(self, function: Any) -> None:
        for address in self._registered:
            done, size = 0, self._mapped[address]
            while done < size:
                part = _Range(address + done, size - done)
                count = function(self._process, ctypes.byref(part), 1, ctypes.byref(part), 1, 0)
                if count <= 0:
                    raise OSError(ctypes.get_errno(), "the memory of the program cannot be copied")
                done += count

    def close(self) -> None:
        """Forget all allocations."""
        for address in list(self._mapped):
            self.unmap(address)
        os.close(self._file)


class _Range(ctypes.Structure):
    """``struct iovec`` of the C library."""

    _fields_ = [("address", ctypes.c_uint64), ("size", ctypes.c_uint64)]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for _function in (_libc.process_vm_readv, _libc.process_vm_writev):
    _function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    _function.restype = ctypes.c_ssize_t
_FIXED_NOREPLACE = 0x100000
