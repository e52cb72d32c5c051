"""What the driver's library asks ptxlab to do: images, kernels, launches, tensor maps, and findings.

`Bridge` has one method for each function of the table in ``library/core.h``. `core_table` makes that table of it.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from ptxlab.cuda.core_types import CALLBACKS, LOG_BYTES, Core, DeviceDescription
from ptxlab.cuda.host import Host
from ptxlab.cuda.images import ImageError, PtxStore, jit_log, open_image, open_image_at
from ptxlab.cuda.kernels import LoadedModule
from ptxlab.cuda.linking import joined
from ptxlab.cuda.memory import DriverMemory, SharedMemory
from ptxlab.cuda.reports import Report, conflict_of, left_of, report_of, result_of
from ptxlab.cuda.sites import CODES, calling_place
from ptxlab.cuda.turns import STREAM_THREAD, Turns
from ptxlab.descriptors import encode_tensor_map
from ptxlab.diagnostics import Diagnostic, Place, PtxlabError, render_report
from ptxlab.machine import Device, KernelError
from ptxlab.native import BoundedCache

__all__ = ["Bridge", "core_table"]

_GRID_WORKSPACE = 16
"""Bytes that a cooperative launch has for barriers of its grid."""
_TENSOR_MAPS = BoundedCache[tuple[str, bytes], bytes](1024)
"""By the device and the arguments: programs encode the same tensor maps for each launch."""
SUCCESS, INVALID_VALUE, NOT_FOUND, LAUNCH_FAILED, NOT_SUPPORTED, UNKNOWN = 0, 1, 500, 719, 801, 999


@dataclass(slots=True, eq=False)
class _Ticket:
    """A launch that has been queued."""

    module: LoadedModule
    kernel: int
    device: Device
    shape: dict[str, Any]
    parameters: bytes
    site: Place | None
    cooperative: bool


class Bridge:
    """The Python side of the driver.

    Parameters
    ----------
    library : the driver's library, or what stands for it: the functions ``ptxlab_...`` of ``core.h``
    devices : the simulated devices; their memory becomes that of the driver
    host : gives the session of the program

    Attributes
    ----------
    store : the PTX of cubins that carry none
    site : says where the calling thread is in the program
    place_of : the place that the library has noted with a number, None if it is not known
    """

    def __init__(self, library: Any, devices: Sequence[Device], host: Callable[[], Host]) -> None:
        self.library = library
        self.host = host
        self.store = PtxStore()
        self.site: Callable[[], Place | None] = calling_place
        self.memory = DriverMemory(library)
        self.show(devices)
        self.turns = Turns(library, self.memory)
        self.place_of: Callable[[int], Place | None] = CODES.place
        self.memory.place_of = lambda noted: self.place_of(noted)
        self._conflicts: tuple[Host | None, set[Any]] = None, set()
        self._modules: dict[int, LoadedModule] = {}
        self._tickets: dict[int, _Ticket] = {}
        self._unloaded: list[LoadedModule] = []
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._linked = threading.local()

    def show(self, devices: Sequence[Device]) -> None:
        """Let programs see these devices; those without memory of the driver get it."""
        self.devices = list(devices)
        for device in self.devices:
            if not isinstance(device.memory, SharedMemory):
                device.memory = self.memory

    # ------------------------------------------------------------------------------------------------------- images

    def load_image(self, address: int, size: int, device: int, loaded: Any) -> int:
        """Open an image and enter its kernels."""
        target = self.devices[device].target or ""
        try:
            if size:
                image = open_image(ctypes.string_at(address, size), target, self.store)
            else:
                image = open_image_at(address, target, self.store)
        except ImageError as error:
            loaded[0].log = jit_log(error.diagnostics, LOG_BYTES)
            self._note(error.diagnostics)
            return int(error.result)
        number = next(self._numbers)
        module = self._modules[number] = LoadedModule(image, target, device)
        if image.module is not None:
            self.host().loaded(image.module)
        loaded[0].id, loaded[0].kernels, loaded[0].log = number, len(module.kernels), b""
        return SUCCESS

    def unload_image(self, number: int) -> None:
        """Forget an image, and free its variables when its launches have ended."""
        self._unloaded.append(self._modules.pop(number))
        self._free_unloaded()

    def _free_unloaded(self) -> None:
        """Free the variables of images that are unloaded and have no launch left."""
        with self._lock:
            busy = {id(ticket.module) for ticket in self._tickets.values()}
            ended = [module for module in self._unloaded if id(module) not in busy]
            self._unloaded = [module for module in self._unloaded if id(module) in busy]
        for module in ended:
            if module.image.module is not None:
                for device in self.devices:
                    device.unload(module.image.module)

    def kernel_name(self, number: int, index: int, name: Any) -> int:
        """Give the name of a kernel."""
        name[0] = self._modules[number].kernels[index].name
        return SUCCESS

    def kernel_info(self, number: int, index: int, info: Any) -> int:
        """Give parameters and attributes of a kernel."""
        info[0] = self._modules[number].info(index)
        return SUCCESS

    def variable(self, number: int, name: bytes, address: Any, size: Any, managed: Any) -> int:
        """Give the place of a variable, and whether it is managed."""
        loaded = self._modules[number]
        device = self.devices[loaded.number]
        found = device.module_addresses(loaded.image.module) if loaded.image.module is not None else {}
        at = found.get(name.decode())
        if at is None:
            return NOT_FOUND
        allocation = self.memory.find(at)
        address[0], size[0] = at, 0 if allocation is None else allocation.size
        managed[0] = loaded.is_managed(name.decode())
        return SUCCESS

    def link(self, count: int, texts: Any, sizes: Any, image: Any, size: Any, log: int) -> int:
        """Join PTX texts: the first one with its directives, of the others what follows theirs."""
        self._linked.text = joined([ctypes.string_at(texts[i], sizes[i]) for i in range(count)])
        self._linked.buffer = ctypes.create_string_buffer(self._linked.text)
        image[0], size[0] = ctypes.addressof(self._linked.buffer), len(self._linked.text)
        return SUCCESS

    # ----------------------------------------------------------------------------------------------------- launches

    def prepare_launch(self, request: Any, ticket: Any) -> int:
        """Note a launch and where in the program it is."""
        r = request[0]
        cluster = tuple(r.cluster[:])
        shape = {
            "grid": tuple(r.grid[:]),
            "block": tuple(r.block[:]),
            "cluster": cluster if any(cluster) else None,
            "shared_bytes": r.shared_bytes,
        }
        module = self._modules[r.image]
        refusal = module.image.refusal(module.kernels[r.kernel].name.decode())
        if refusal is not None:
            self._note((refusal,))
            return NOT_SUPPORTED
        number = next(self._numbers)
        parameters = ctypes.string_at(r.parameters, r.parameter_bytes)
        made = _Ticket(module, r.kernel, self.devices[r.device], shape, parameters, self.site(), bool(r.cooperative))
        with self._lock:
            self._tickets[number] = made
        ticket[0] = number
        return SUCCESS

    def run_launch(self, number: int, cancelled: int) -> int:
        """Run a launch that has been prepared."""
        try:
            return self._run(self._tickets[number], cancelled)
        finally:
            with self._lock:
                del self._tickets[number]
            if self._unloaded:
                self._free_unloaded()

    def _run(self, ticket: _Ticket, cancelled: int) -> int:
        kernel = ticket.module.kernels[ticket.kernel].kernel
        if cancelled or kernel is None:
            return SUCCESS
        packed = ticket.parameters
        args = [packed[p.offset : p.offset + p.size] for p in kernel.program.parameters]
        with self.turns:
            workspace = self.memory.allocate(_GRID_WORKSPACE, "workspace of the grid") if ticket.cooperative else None
            self.memory.update()
            if workspace is not None:
                ticket.shape["grid_workspace"] = workspace.base
            try:
                result = self.host().launch(kernel, ticket.site, device=ticket.device, args=args, outside=self.turns, **ticket.shape)
                if result.estimated:
                    self.library.ptxlab_estimated(round(result.estimated))
            except KernelError as error:
                self._show(error.diagnostics)
                return result_of(error.diagnostics)
            except KeyboardInterrupt:
                return LAUNCH_FAILED
            finally:
                self.turns.ended()
                if workspace is not None:
                    self.memory.free(workspace)
        return SUCCESS

    # --------------------------------------------------------------------------------------------------- other things

    def encode_tensor_map(self, request: Any, target: int) -> int:
        """Check and encode a tensor map."""
        r = request[0]
        device = self.devices[0].target or "sm_90a"
        key = device, bytes(r)
        known = _TENSOR_MAPS.get(key)
        if known is not None:
            ctypes.memmove(target, known, len(known))
            return SUCCESS
        rank = r.rank
        fields: dict[str, Any] = {
            "data_type": r.type,
            "rank": rank,
            "address": r.address,
            "dims": r.dims[:rank],
            "strides": r.strides[: rank - 1],
            "element_strides": r.element_strides[:rank],
            "interleave": r.interleave,
            "swizzle": r.swizzle,
            "l2_promotion": r.promotion,
            "oob_fill": r.fill,
        }
        if r.im2col:
            corners = {"lower": r.lower[: rank - 2], "upper": r.upper[: rank - 2]}
            fields |= corners | {"im2col": True, "channels": r.channels, "pixels": r.pixels}
        else:
            fields["box"] = r.box[:rank]
        try:
            raw = encode_tensor_map(**fields, target=device)
        except PtxlabError as error:
            self._note(error.diagnostics)
            # Much host code ends the process where the driver refuses.
            return SUCCESS if self.host().settings.conceals_refusals else INVALID_VALUE
        _TENSOR_MAPS[key] = raw
        ctypes.memmove(target, raw, len(raw))
        return SUCCESS

    def read_by_program(self, address: int, size: int, noted: int) -> None:
        """Report memory that nothing has written, or other undefined bits, which a copy hands the program."""
        allocation, place = self.memory.containing(address), self.place_of(noted)
        places = (("called at", str(place)),) if place is not None else ()
        made = self.memory.history(allocation) if allocation is not None else ()
        for origin in self.memory.undefined(address, size):
            found = origin.found
            self._note((replace(found, severity="warning", details=(*found.details, *places, *made)),))

    def interrupt_launch(self) -> None:
        """End the launch that executes, or the next one, because the user interrupts the program."""
        self.turns.interrupt()

    def report(self, kind: int, function: bytes, address: int, text: bytes) -> None:
        """Record a misuse of the driver."""
        self.memory.update()
        found = report_of(Report(kind), function.decode(), address, text.decode(), self.memory, self.site())
        if found is not None:
            self._note((found,))

    def report_conflict(self, conflict: Any) -> None:
        """Record a conflict between two calls, once for each session."""
        found = conflict[0]
        places = [self.place_of(noted) for noted in found.places]
        key = (found.kind, *(what.value for what in found.what), *places)
        if self._conflicts[0] is not (host := self.host()):
            self._conflicts = host, set()
        if key not in self._conflicts[1]:
            self._conflicts[1].add(key)
            self.memory.update()
            self._note((conflict_of(found, places, self.memory),))

    def report_left(self) -> None:
        """Record the memory that the program has not freed, if the settings ask for that."""
        if self.host().settings.leaks:
            self.memory.update()
            self._note(left_of(self.memory.take_left(), self.place_of))

    def number_code(self, code: int) -> int:
        """Number a code object of Python's."""
        return CODES.number(ctypes.cast(code, ctypes.py_object).value)

    def _note(self, diagnostics: Sequence[Diagnostic]) -> None:
        host = self.host()
        for diagnostic in diagnostics:
            host.note(diagnostic)
        self._show(diagnostics)

    def _show(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Write errors that a session leaves to the exception which cannot pass through the driver."""
        errors = [d for d in diagnostics if d.severity == "error"]
        if errors and not self.host().settings.keep_going:
            print(render_report(errors, sys.stderr.isatty()), file=sys.stderr)

    # ------------------------------------------------------------------------------------------------------ the table

    def guarded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method for C: a diagnostic is recorded, and no exception leaves."""

        def call(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except PtxlabError as error:
                self._note(error.diagnostics)
                return LAUNCH_FAILED
            except BaseException:
                traceback.print_exc()
                return UNKNOWN

        return call


_PYTHON = {
    "has_interpreter": "PyGILState_Check",
    "release_interpreter": "PyEval_SaveThread",
    "take_interpreter": "PyEval_RestoreThread",
    "lock_interpreter": "PyGILState_Ensure",
    "unlock_interpreter": "PyGILState_Release",
    "handle_signals": "PyErr_CheckSignals",
    "drop_exception": "PyErr_Clear",
    "interrupt_program": "PyErr_SetInterrupt",
    "thread_state": "PyThreadState_Get",
    "frame_of_thread": "PyThreadState_GetFrame",
    "frame_before": "PyFrame_GetBack",
    "code_of_frame": "PyFrame_GetCode",
    "line_of_frame": "PyFrame_GetLineNumber",
    "drop_object": "Py_DecRef",
}
"""Functions of the table that Python's own library has."""
_OTHERS = ("start_thread", "place")


def _start_thread(function: int, argument: int) -> int:
    """Run a function of the library on a thread of Python, which keeps its state between the calls of the core."""
    body = ctypes.CFUNCTYPE(None, c_void_p)(function)
    threading.Thread(target=body, args=(argument,), daemon=True, name=STREAM_THREAD).start()
    return SUCCESS


def core_table(bridge: Bridge, descriptions: Sequence[DeviceDescription], in_process: bool = True) -> Core:
    """Make the table of functions that a library is given.

    Parameters
    ----------
    descriptions : of the devices of the bridge
    in_process : whether the library runs in this process, so that threads that wait release the interpreter
    """
    core = Core(size=ctypes.sizeof(Core), devices=len(descriptions))
    core.descriptions = (DeviceDescription * max(len(descriptions), 1))(*descriptions)
    for name, kind in CALLBACKS.items():
        if name not in _PYTHON and name not in _OTHERS:
            setattr(core, name, kind(bridge.guarded(getattr(bridge, name))))
    if in_process:
        core.start_thread = CALLBACKS["start_thread"](bridge.guarded(_start_thread))
        for name, function in _PYTHON.items():
            setattr(core, name, ctypes.cast(getattr(ctypes.pythonapi, function), CALLBACKS[name]))
    return core
