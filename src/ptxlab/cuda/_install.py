"""The driver in this process."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import POINTER, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from ptxlab.cuda.bridge import Bridge, core_table
from ptxlab.cuda.building import DRIVER, build
from ptxlab.cuda.core_types import AccessRange, Core, DeviceDescription, HeapChange
from ptxlab.cuda.devices import describe, visible_targets
from ptxlab.cuda.host import Host
from ptxlab.cuda.memory import SharedMemory
from ptxlab.cuda.products import PRODUCTS
from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.machine import Device

__all__ = ["Driver", "install", "installed"]


_ANY = (1 << 32) - 1
"""As many contexts as there are."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a session says about the devices of the program."""

    targets: tuple[str, ...]
    sms: int | None

    @classmethod
    def of(cls, session: Host) -> _Seen:
        return cls(tuple(visible_targets(session.settings.target)), session.settings.sms)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The devices that a program sees."""

    devices: list[Device]
    descriptions: list[DeviceDescription]

    @classmethod
    def of(cls, seen: _Seen) -> _Shown:
        devices = [Device(target, sms=seen.sms or PRODUCTS.get(target, PRODUCTS["sm_100a"]).sms) for target in seen.targets]
        return cls(devices, [describe(target, i, seen.sms) for i, target in enumerate(seen.targets)])


class Driver:
    """The virtual driver of this process.

    Attributes
    ----------
    library : ``libcuda.so.1``, loaded
    bridge : what it asks ptxlab to do
    """

    bridge: Bridge

    def __init__(self, host: Callable[[], Host]) -> None:
        self.library = _load()
        self._lock = threading.RLock()
        self._primary: int | None = None
        """The primary context of device 0 in `calls`, which the program outside of them does not have."""
        self._finished = False
        session = host()
        self._seen = _Seen.of(session)
        self._shown = _Shown.of(self._seen)
        self.bridge = Bridge(self.library, self._shown.devices, host)
        self._core = core_table(self.bridge, self._shown.descriptions)
        self.library.ptxlab_attach_core(ctypes.byref(self._core))
        self._host_writes = False
        self._follow(session)
        atexit.register(self._end)

    def use(self, host: Callable[[], Host]) -> None:
        """Run launches in other sessions; their device must be the one that there is, unless no context exists.

        Raises
        ------
        PtxlabError
            I507 if the program already uses other devices
        """
        seen = _Seen.of(host())
        if self._seen != seen:
            shown = _Shown.of(seen)
            if not self._show(shown, 0 if self._primary is None else 1):
                raise PtxlabError(diagnose("I507", f"the devices cannot become {', '.join(seen.targets) or 'none'}: a context exists"))
            self._seen = seen
        self.bridge.host = host
        self._follow(host())

    def host_writes(self) -> None:
        """Say that code of the host writes memory of the device from now on: what nothing has written is not known any more."""
        self._host_writes = True
        self._follow(self.bridge.host())
        self.bridge.memory.update()
        self.bridge.memory.forget_mirrors()

    def _follow(self, session: Host) -> None:
        """Follow undefined bits through the memory of the program if its settings ask for that."""
        follows = session.settings.follows_memory and not self._host_writes
        self.bridge.memory.reader = self.bridge.read_by_program if follows else None
        self.library.ptxlab_follow_transfers(int(follows))

    def adopt(self, device: Device) -> None:
        """Put the memory of a device into that of the driver; its buffers get other addresses, and kernels may use those of before, too."""
        self._adopted(device)

    def _adopted(self, device: Device) -> SharedMemory:
        memory: Any = device.memory
        if isinstance(memory, SharedMemory):
            return memory
        shared: Any = SharedMemory(self.bridge.memory, memory.limit)
        device.use_memory(shared)
        weakref.finalize(device, self.bridge.memory.released.extend, shared.own).atexit = False
        return cast(SharedMemory, shared)

    @contextmanager
    def calls(self, device: Device, host: Host) -> Iterator[None]:
        """Run host code in a ``with`` statement: it sees one device, and its launches are those of a host.

        When it ends, all streams are empty, and errors no longer stick to contexts. Undefined bits are followed through its copies.

        Parameters
        ----------
        device : what the host code sees, as its device 0; the driver has its memory
        host : runs the launches and records what is found
        """
        with self._lock:
            self.synchronize()
            memory = self._adopted(device)
            before = self._shown, self.bridge.host, self.bridge.memory.reader, self.bridge.memory.of_host_code
            self.bridge.memory.update()
            self._show(_Shown([device], [describe(device.target or "", 0, device.sms, device.memory.limit)]))
            self.bridge.host, self.bridge.memory.of_host_code = lambda: host, True
            self.bridge.memory.reader = lambda address, size, _: device.read_by_host(address, size)
            self.library.ptxlab_follow_transfers(1)
            primary, context = self.library.ptxlab_exchange_primary(self._primary), c_void_p()
            self.library.cuInit(0)
            self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            self.library.cuCtxPushCurrent_v2(context)
            self._primary = context.value
            aliases = ExitStack()
            aliases.enter_context(memory.former_addresses())
            try:
                yield
            finally:
                self.synchronize()
                aliases.close()
                self.library.cuCtxPopCurrent_v2(None)
                self._primary = self.library.ptxlab_exchange_primary(primary)
                self.library.ptxlab_clear_errors()
                self.bridge.memory.update()
                shown, self.bridge.host, self.bridge.memory.reader, self.bridge.memory.of_host_code = before
                self.library.ptxlab_follow_transfers(int(self.bridge.memory.reader is not None))
                self._show(shown)

    def _show(self, shown: _Shown, most_contexts: int = _ANY) -> bool:
        """Let programs see these devices; False if there are more contexts than so many."""
        table = (DeviceDescription * max(len(shown.descriptions), 1))(*shown.descriptions)
        if self.library.ptxlab_set_devices(len(shown.descriptions), table, most_contexts):
            return False
        self.bridge.show(shown.devices)
        self._shown, self._table = shown, table
        return True

    def synchronize(self) -> None:
        """Wait for all streams of all contexts."""
        self.library.ptxlab_drain()

    def finish(self) -> None:
        """The program has ended: wait for all streams, and record the memory that it has not freed, if the settings ask for that."""
        self.synchronize()
        self.bridge.memory.update()
        self.bridge.report_left()
        self._finished = True

    def _end(self) -> None:
        self.library.ptxlab_drain()
        if not self._finished:
            self.finish()
        self.library.ptxlab_shut_down()


def make_core(library: Any, host: Callable[[], Host], targets: Sequence[str], sms: int | None) -> tuple[Bridge, Core]:
    """Make the core of a library in another process, with devices of these targets."""
    shown = _Shown.of(_Seen(tuple(targets), sms))
    bridge = Bridge(library, shown.devices, host)
    return bridge, core_table(bridge, shown.descriptions, in_process=False)


_driver: Driver | None = None


def _refuse_another() -> None:
    """Refuse a process that has loaded another CUDA driver: names of functions would be found there."""
    try:
        ctypes.CDLL(DRIVER.soname, os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return
    raise PtxlabError(
        diagnose(
            "I513",
            "the process has loaded another CUDA driver",
            fix="call ptxlab.cuda.install() before the first import of a package that loads a driver, or run the program with ptxlab exec",
        )
    )


def _load() -> ctypes.CDLL:
    _refuse_another()
    library = ctypes.CDLL(str(build(DRIVER)), ctypes.RTLD_GLOBAL)
    library.ptxlab_attach_core.argtypes = [POINTER(Core)]
    library.ptxlab_heap_allocate.argtypes, library.ptxlab_heap_allocate.restype = [c_int, c_uint64, c_uint64], c_uint64
    library.ptxlab_heap_free.argtypes, library.ptxlab_heap_free.restype = [c_uint64], None
    library.ptxlab_heap_register.argtypes = [c_uint64, c_uint64]
    library.ptxlab_heap_unregister.argtypes, library.ptxlab_heap_unregister.restype = [c_uint64], None
    library.ptxlab_heap_version.argtypes, library.ptxlab_heap_version.restype = [], c_uint64
    library.ptxlab_heap_changes.argtypes, library.ptxlab_heap_changes.restype = [POINTER(HeapChange), c_uint32], c_uint32
    library.ptxlab_activity.argtypes, library.ptxlab_activity.restype = [POINTER(c_uint32), POINTER(c_uint32)], None
    library.ptxlab_set_devices.argtypes = [c_uint32, POINTER(DeviceDescription), c_uint32]
    library.ptxlab_exchange_primary.argtypes, library.ptxlab_exchange_primary.restype = [c_void_p], c_void_p
    library.ptxlab_follow_transfers.argtypes = [c_int]
    library.ptxlab_order_is_wanted.argtypes = []
    library.ptxlab_estimated.argtypes, library.ptxlab_estimated.restype = [c_uint64], None
    library.ptxlab_accessed.argtypes, library.ptxlab_accessed.restype = [POINTER(AccessRange), c_uint32], None
    for name in ("ptxlab_clear_errors", "ptxlab_follow_transfers", "ptxlab_stalled", "ptxlab_drain", "ptxlab_shut_down"):
        getattr(library, name).restype = None
    return library


def install(host: Callable[[], Host] | None = None) -> Driver:
    """Make the virtual driver the CUDA driver of this process, before anything has loaded another one.

    Programs find it as they find a real driver: by the name ``libcuda.so.1``.

    Parameters
    ----------
    host : gives the session that runs launches and records what is found; default: the current one, whose settings come from the
        environment

    Returns
    -------
    Driver
        the same one for every call

    Raises
    ------
    BuildError
        I501 or I502 if the library cannot be compiled
    PtxlabError
        I506 if ``PTXLAB_DEVICES`` names an unknown device; I507 if another session has other devices that are in use; I513 if the process
        has loaded another CUDA driver
    """
    global _driver
    if _driver is None:
        _driver = Driver(host or import_module("ptxlab.interop.session").current)
    elif host is not None:
        _driver.use(host)
    return _driver


def installed() -> Driver | None:
    """The driver of this process, if `install` was called."""
    return _driver
