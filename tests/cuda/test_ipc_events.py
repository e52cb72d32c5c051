"""Events of other processes: queries, waits of streams and of the program, and records by both sides."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from ctypes import byref, c_uint32, c_void_p
from pathlib import Path

import numpy as np

from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler
NOT_READY, INVALID_HANDLE, INVALID_CONTEXT = 600, 400, 201
UNTIMED, INTERPROCESS = 2, 4

OTHER = """
import ctypes, sys
from ctypes import byref, c_void_p
from ptxlab import cuda

cuda.install()
library = ctypes.CDLL("libcuda.so.1")


class Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * 64),)


handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1]))
context, event, stream = c_void_p(), c_void_p(), c_void_p()
opened = [library.cuInit(0), library.cuDevicePrimaryCtxRetain(byref(context), 0), library.cuCtxSetCurrent(context)]
opened += [library.cuIpcOpenEventHandle(byref(event), handle), library.cuStreamCreate(byref(stream), 1)]
print(opened, library.cuEventQuery(event), library.cuStreamWaitEvent(stream, event, 0), library.cuStreamQuery(stream), flush=True)
print(library.cuStreamSynchronize(stream), library.cuEventSynchronize(event), library.cuEventQuery(event), flush=True)
sys.stdin.readline()
print(library.cuEventRecord(event, stream), library.cuEventSynchronize(event), library.cuEventDestroy_v2(event), flush=True)
"""


def test_another_process_waits_for_an_event_and_records_it(driver: Driver, tmp_path: Path) -> None:
    flag, event, stream, handle = driver.to_device(np.zeros(1, np.uint32)), c_void_p(), driver.stream(), ctypes.create_string_buffer(64)
    driver.call("cuEventCreate", byref(event), UNTIMED | INTERPROCESS)
    driver.call("cuStreamWaitValue32_v2", stream, flag, c_uint32(1), 0)
    driver.call("cuEventRecord", event, stream)
    driver.call("cuIpcGetEventHandle", handle, event)
    script = tmp_path / "other.py"
    script.write_text(OTHER)
    command = [sys.executable, str(script), handle.raw.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == f"[0, 0, 0, 0, 0] {NOT_READY} 0 {NOT_READY}\n"
        second = driver.stream()
        driver.call("cuStreamWriteValue32_v2", second, flag, c_uint32(1), 0)
        driver.call("cuEventSynchronize", event)
        assert other.stdout.readline() == "0 0 0\n"
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "0 0 0\n"
        assert other.wait(60) == 0
    assert driver.cuEventQuery(event) == 0, "the record of the other process is done"
    driver.call("cuStreamWaitEvent", stream, event, 0)
    driver.call("cuStreamSynchronize", stream)


def test_what_is_no_event_of_another_process(driver: Driver) -> None:
    class Handle(ctypes.Structure):
        _fields_ = (("bytes", ctypes.c_char * 64),)

    event, opened, handle = c_void_p(), c_void_p(), Handle()
    assert driver.cuIpcGetEventHandle(byref(handle), driver.event(UNTIMED)) == INVALID_HANDLE
    assert driver.cuIpcOpenEventHandle(byref(opened), handle) == 1
    driver.call("cuEventCreate", byref(event), UNTIMED | INTERPROCESS)
    driver.call("cuIpcGetEventHandle", byref(handle), event)
    assert driver.cuIpcOpenEventHandle(byref(opened), handle) == INVALID_CONTEXT
