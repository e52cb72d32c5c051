"""cuda.bindings, unmodified, in scripts that `ptxlab exec` runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.driver_helpers import KERNELS, needs_compiler

pytest.importorskip("cuda.bindings.driver")
pytestmark = needs_compiler

SCRIPT = f"""
import sys
import numpy as np
from cuda.bindings import driver as cu

def ok(result):
    assert result[0] == cu.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]

def launch(function, *values):
    words = [np.array([int(v)], np.uint64) for v in values]
    pointers = np.array([w.ctypes.data for w in words], np.uint64)
    return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, pointers.ctypes.data, 0)

def read(address):
    to = np.zeros(1, np.uint32)
    ok(cu.cuMemcpyDtoH(to.ctypes.data, address, 4))
    return int(to[0])

ok(cu.cuInit(0))
contexts = [ok(cu.cuDevicePrimaryCtxRetain(i)) for i in range(ok(cu.cuDeviceGetCount()))]
ok(cu.cuCtxSetCurrent(contexts[0]))
module = ok(cu.cuModuleLoadData({KERNELS.encode()!r}))
add_one = ok(cu.cuModuleGetFunction(module, b"add_one"))
at = ok(cu.cuMemAlloc(4))
ok(cu.cuMemsetD32(at, 5, 1))
"""
LINE = next(i for i, line in enumerate(SCRIPT.splitlines(), 1) if "cu.cuLaunchKernel" in line)


def _exec(tmp_path: Path, program: str, **variables: str) -> tuple[int, dict[str, Any], str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + program)
    command = [sys.executable, "-c", "from ptxlab.cli import main; main()", "exec", "--json", "script.py"]
    environment = os.environ | {"PTXLAB_TARGET": "sm_90a"} | variables
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, cwd=tmp_path)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_script(tmp_path: Path) -> None:
    status, found, printed = _exec(tmp_path, "ok(launch(add_one, at))\nprint(read(at))\n")
    assert (status, found["ok"], printed) == (0, True, "6\n")
    (launch,) = found["launches"]
    assert (launch["kernel"], Path(launch["site"]["file"]).name, launch["site"]["line"]) == ("add_one", "script.py", LINE)


def test_an_error_sticks_and_is_explained(tmp_path: Path) -> None:
    program = "ok(cu.cuMemFree(at))\nlaunch(add_one, at)\nprint(int(cu.cuCtxSynchronize()[0]), int(cu.cuMemAlloc(4)[0]))\n"
    status, found, printed = _exec(tmp_path, program)
    assert (status, printed) == (1, "700 700\n")
    (diagnostic,) = found["diagnostics"]
    assert diagnostic["code"] == "M403"
    assert diagnostic["details"]["launched at"].endswith(f"script.py:{LINE}")


def test_a_script_that_ends_without_waiting(tmp_path: Path) -> None:
    program = """
wait_for = ok(cu.cuModuleGetFunction(module, b"wait_for"))
signal = ok(cu.cuModuleGetFunction(module, b"signal"))
streams = [ok(cu.cuStreamCreate(1)) for _ in range(2)]
for stream, function in zip(streams, (wait_for, signal)):
    words = [np.array([int(at)], np.uint64), np.array([9], np.uint32)]
    pointers = np.array([w.ctypes.data for w in words], np.uint64)
    ok(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers.ctypes.data, 0))
"""
    status, found, _ = _exec(tmp_path, program)
    assert (status, [launch["kernel"] for launch in found["launches"]]) == (0, ["signal", "wait_for"])


def test_an_interrupt_ends_a_launch(tmp_path: Path) -> None:
    program = """
import os, signal, threading
text = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry spin() { .reg .b64 %rd<2>; L: mov.u64 %rd1, %clock64; bra L; }"
spin = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(text)), b"spin"))
ok(launch(spin))
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let jobs in the background ignore it
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
cu.cuCtxSynchronize()
print("not reached")
"""
    status, _, printed = _exec(tmp_path, program)
    assert (status, printed) == (130, "")


def test_two_devices_have_one_address_space(tmp_path: Path) -> None:
    program = """
ok(cu.cuCtxSynchronize())
ok(cu.cuCtxSetCurrent(contexts[1]))
other = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(KERNELS)), b"add_one"))
ok(launch(other, at))
ok(cu.cuCtxSynchronize())
ordinals = [ok(cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p)) for p in (at, ok(cu.cuMemAlloc(4)))]
print(len(contexts), read(at), ordinals)
""".replace("KERNELS", repr(KERNELS.encode()))
    status, found, printed = _exec(tmp_path, program, PTXLAB_DEVICES="2x h200")
    assert (status, printed, found["ok"]) == (0, "2 6 [0, 1]\n", True)


def test_a_copy_between_devices_is_ordered_with_the_work_of_both(tmp_path: Path) -> None:
    program = """
ok(launch(add_one, at))
ok(cu.cuCtxSetCurrent(contexts[1]))
to = ok(cu.cuMemAlloc(4))
ok(cu.cuCtxSetCurrent(contexts[0]))
ok(cu.cuMemcpyPeer(to, contexts[1], at, contexts[0], 4))
ok(cu.cuCtxSetCurrent(contexts[1]))
ok(cu.cuMemcpyDtoDAsync(at, to, 4, 0))
ORDER
ok(cu.cuMemsetD32(at, 1, 1))
ok(cu.cuCtxSynchronize())
"""
    status, found, _ = _exec(tmp_path, program.replace("ORDER", ""), PTXLAB_DEVICES="2x h200")
    assert (status, found["diagnostics"]) == (0, [])
    change = "ok(cu.cuCtxSetCurrent(contexts[0]))"
    status, found, _ = _exec(tmp_path, program.replace("ORDER", change), PTXLAB_DEVICES="2x h200")
    assert (status, {found["code"] for found in found["diagnostics"]}) == (1, {"I508"})
