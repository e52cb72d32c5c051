"""The driver in this process."""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_int, c_uint32, c_uint64
from importlib import import_module
from typing import Any

from ptxlab.cuda.bridge import Bridge, Host, core_table
from ptxlab.cuda.building import DRIVER, build
from ptxlab.cuda.core_types import AccessRange, Core, HeapChange
from ptxlab.cuda.devices import describe, visible_targets
from ptxlab.cuda.products import PRODUCTS
from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.machine import Device

__all__ = ["Driver", "install", "installed"]


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
        self._devices: tuple[tuple[str, ...], int | None] | None = None
        self._finished = False
        self.use(host)
        atexit.register(self._end)

    def use(self, host: Callable[[], Host]) -> None:
        """Run launches in other sessions; their device must be the one that there is, unless no context exists.

        Raises
        ------
        PtxlabError
            I507 if the program already uses other devices
        """
        session = host()
        targets, sms = tuple(visible_targets(session.settings.target)), session.settings.sms
        if self._devices == (targets, sms):
            self.bridge.host = host
            return
        bridge, core = make_core(self.library, host, targets, sms)
        if self.library.ptxlab_attach_core(ctypes.byref(core)):
            raise PtxlabError(diagnose("I507", f"the devices cannot become {', '.join(targets) or 'none'}: a context exists"))
        self.bridge, self._core, self._devices = bridge, core, (targets, sms)

    def synchronize(self) -> None:
        """Wait for all streams of all contexts."""
        self.library.ptxlab_drain()

    def finish(self) -> None:
        """The program has ended: wait for all streams, and record the memory that it has not freed, if the settings ask for that."""
        self.synchronize()
        self.bridge.report_left()
        self._finished = True

    def _end(self) -> None:
        self.library.ptxlab_drain()
        if not self._finished:
            self.finish()
        self.library.ptxlab_shut_down()


def make_core(
    library: Any, host: Callable[[], Host], targets: Sequence[str], sms: int | None, in_process: bool = True
) -> tuple[Bridge, Core]:
    """Make the core of a library, with devices of these targets."""
    devices = [Device(target, sms=sms or PRODUCTS.get(target, PRODUCTS["sm_100a"]).sms) for target in targets]
    bridge = Bridge(library, devices, host)
    return bridge, core_table(bridge, [describe(target, i, sms) for i, target in enumerate(targets)], in_process)


_driver: Driver | None = None


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build(DRIVER)), ctypes.RTLD_GLOBAL)
    library.ptxlab_attach_core.argtypes = [POINTER(Core)]
    library.ptxlab_heap_allocate.argtypes, library.ptxlab_heap_allocate.restype = [c_int, c_uint64, c_uint64], c_uint64
    library.ptxlab_heap_free.argtypes, library.ptxlab_heap_free.restype = [c_uint64], None
    library.ptxlab_heap_version.argtypes, library.ptxlab_heap_version.restype = [], c_uint64
    library.ptxlab_heap_changes.argtypes, library.ptxlab_heap_changes.restype = [POINTER(HeapChange), c_uint32], c_uint32
    library.ptxlab_activity.argtypes, library.ptxlab_activity.restype = [POINTER(c_uint32), POINTER(c_uint32)], None
    library.ptxlab_order_is_wanted.argtypes = []
    library.ptxlab_accessed.argtypes, library.ptxlab_accessed.restype = [POINTER(AccessRange), c_uint32], None
    for name in ("ptxlab_stalled", "ptxlab_drain", "ptxlab_shut_down"):
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
        I506 if ``PTXLAB_DEVICES`` names an unknown device; I507 if another session has other devices that are in use
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
