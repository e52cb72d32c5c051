"""Run a kit of `tests.profile.timing.kit` on a GPU: ``python3 kit_runner.py OUTPUT``. Needs the driver, and no package.

Writes ``results.jsonl``: the device first, then a line for each job as soon as it is done. A process of its own launches; if a kernel
hangs, or the device has an error, another process goes on with the rest.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
MAX_SHARED, NUM_REGS, CLUSTER_ALLOWED = 8, 4, 14
CLUSTER_ATTRIBUTE = 4
LAUNCHES, REPEATS, MICRO_REPEATS = 20, 9, 3
STAMP_SHARED = 200 * 1024
ATTRIBUTES = {"clock_khz": 13, "sms": 16, "memory_clock_khz": 36, "bus_bits": 37, "l2_bytes": 38, "major": 75, "minor": 76}
PATIENCE, BUDGET = 25.0, 140.0
"""Seconds for one job, and for all."""


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class Config(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


class Gpu:
    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.modules: dict[str, ctypes.c_void_p] = {}
        self.held: list[ctypes.c_uint64] = []
        self.blocks = (FOLDER / "blocks.bin").read_bytes()
        self.sms = self.attribute(16)
        self.stamp = self.function("stamp.cubin", "stamp", STAMP_SHARED)

    def call(self, name: str, *arguments: Any) -> None:
        error = getattr(self.cuda, name)(*arguments)
        if error:
            said = ctypes.c_char_p()
            self.cuda.cuGetErrorName(error, ctypes.byref(said))
            raise RuntimeError(f"{name}: {(said.value or b'?').decode()}")

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def about(self) -> dict[str, Any]:
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        found = {"gpu": name.value.decode(), "cuda": version.value, **{key: self.attribute(n) for key, n in ATTRIBUTES.items()}}
        try:
            with open("/proc/driver/nvidia/version") as file:
                found["driver"] = file.readline().strip()
        except OSError:
            pass
        return found

    def function(self, module: str, entry: str, shared: int, cluster: int = 1) -> ctypes.c_void_p:
        if module not in self.modules:
            self.modules[module] = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(self.modules[module]), (FOLDER / module).read_bytes())
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), self.modules[module], entry.encode())
        if shared:
            self.call("cuFuncSetAttribute", found, MAX_SHARED, shared)
        if cluster > 8:
            self.call("cuFuncSetAttribute", found, CLUSTER_ALLOWED, 1)
        return found

    def buffer(self, size: int, block: list[int] | None) -> int:
        """Memory whose bytes are those of a block, again and again; zeros without one."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 16)))
        self.held.append(address)
        if block is None:
            self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(max(size, 16)))
            return address.value
        start, count = block
        count = min(count, size)
        self.call("cuMemcpyHtoD_v2", address, self.blocks[start : start + count], ctypes.c_size_t(count))
        while count < size:
            more = min(count, size - count)
            self.call("cuMemcpyDtoD_v2", ctypes.c_uint64(address.value + count), address, ctypes.c_size_t(more))
            count += more
        return address.value

    def free(self) -> None:
        for address in self.held:
            self.call("cuMemFree_v2", address)
        self.held = []

    def launcher(self, job: dict[str, Any]) -> tuple[Any, list[int], ctypes.c_void_p]:
        """A function that launches the kernel of a job, the addresses of its buffers, and the kernel."""
        size = job["cluster"][0] * job["cluster"][1] * job["cluster"][2]
        function = self.function(job["module"], job["entry"], job["shared"], size)
        addresses = [self.buffer(*spec) for spec in job["buffers"]]
        given = []
        for kind, value in job["args"]:
            if kind == "buffer":
                given.append(ctypes.create_string_buffer(struct.pack("<Q", addresses[value]), 8))
            elif kind == "map":
                number, raw = value
                aligned = struct.pack("<Q", addresses[number]) + bytes.fromhex(raw)[8:]
                given.append(ctypes.create_string_buffer(aligned, len(aligned)))
            else:
                raw_bytes = bytes.fromhex(value)
                given.append(ctypes.create_string_buffer(raw_bytes, len(raw_bytes)))
        pointers = (ctypes.c_void_p * max(len(given), 1))(*(ctypes.addressof(raw) for raw in given))
        attribute = Attribute(CLUSTER_ATTRIBUTE, value=(ctypes.c_uint * 16)(*job["cluster"]))
        config = Config(*job["grid"], job["block"], 1, 1, job["shared"], self.stream, ctypes.pointer(attribute), int(size > 1))

        self.call("cuCtxSynchronize")

        def launch(keep: Any = (given, attribute)) -> None:
            self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)

        return launch, addresses, function

    def event(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), 0)
        return made

    def stamped(self, address: int) -> None:
        value = ctypes.c_uint64(address)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        self.call("cuLaunchKernel", self.stamp, self.sms, 1, 1, 32, 1, 1, STAMP_SHARED, self.stream, pointers, None)

    def read(self, address: int, size: int) -> bytes:
        raw = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", raw, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return raw.raw

    def timed(self, job: dict[str, Any]) -> dict[str, Any]:
        """Nanoseconds of a launch in a graph of some, and the clock of the SMs from the first of the graphs to the last."""
        launch, _, function = self.launcher(job)
        launch()
        self.call("cuStreamSynchronize", self.stream)
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 2)
        for _ in range(LAUNCHES):
            launch()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphUpload", ready, self.stream)
        stamps = [self.buffer(self.sms * 16 * 2, None) for _ in range(2)]
        self.call("cuCtxSynchronize")
        events = [(self.event(), self.event()) for _ in range(REPEATS + 2)]
        for number, (start, stop) in enumerate(events):
            if number == 2:
                self.stamped(stamps[0])
            self.call("cuEventRecord", start, self.stream)
            self.call("cuGraphLaunch", ready, self.stream)
            self.call("cuEventRecord", stop, self.stream)
        self.stamped(stamps[1])
        self.call("cuStreamSynchronize", self.stream)
        ns, milliseconds = [], ctypes.c_float()
        for start, stop in events:
            self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, stop)
            ns.append(round(milliseconds.value * 1e6 / LAUNCHES, 1))
            self.call("cuEventDestroy_v2", start)
            self.call("cuEventDestroy_v2", stop)
        self.call("cuGraphExecDestroy", ready)
        self.call("cuGraphDestroy", graph)
        first, last = ([*struct.iter_unpack("<QQ", self.read(s, self.sms * 16 * 2))] for s in stamps)
        clocks = [(b - a) / (d - c) for (a, c), (b, d) in zip(first, last) if a and b and d > c]  # noqa: B905
        registers, active = ctypes.c_int(), ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(registers), NUM_REGS, function)
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(active),
            function,
            job["block"],
            ctypes.c_size_t(job["shared"]),
        )
        return {
            "ns": ns[2:],
            "clock": round(statistics.median(clocks), 5) if clocks else None,
            "clocks": [round(min(clocks), 5), round(max(clocks), 5), len(clocks)] if clocks else None,
            "registers": registers.value,
            "ctas": active.value,
        }

    def counted(self, job: dict[str, Any]) -> dict[str, Any]:
        """Cycles from the first clock of a warp to the last one, of each launch, and of the CTAs apart in the last one."""
        launch, addresses, _ = self.launcher(job)
        size = job["buffers"][job["out"]][0]
        found, clocks = [], []
        for _ in range(MICRO_REPEATS):
            launch()
            self.call("cuStreamSynchronize", self.stream)
            clocks = [pair for pair in struct.iter_unpack("<QQ", self.read(addresses[job["out"]], size)) if pair[1]]
            found.append(max(b for _, b in clocks) - min(a for a, _ in clocks))
        alone = sorted(b - a for a, b in clocks)
        return {"count": job["count"], "cycles": found, "warps": [alone[0], alone[len(alone) // 2], alone[-1]]}


def launch_all(names: list[str]) -> None:
    jobs = json.loads((FOLDER / "jobs.json").read_text())
    gpu = Gpu()
    print(json.dumps(["about", gpu.about()]), flush=True)
    for name in names:
        try:
            found = gpu.timed(jobs[name]) if jobs[name]["kind"] == "time" else gpu.counted(jobs[name])
        except RuntimeError as error:
            print(json.dumps([name, {"error": str(error)}]), flush=True)
            if "NOT_FOUND" in str(error) or "INVALID_VALUE" in str(error) or "INVALID_CLUSTER" in str(error):
                continue
            os._exit(3)
        print(json.dumps([name, found]), flush=True)
        gpu.free()


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    jobs = json.loads((FOLDER / "jobs.json").read_text())
    done: dict[str, Any] = {}
    end, started = time.monotonic() + BUDGET, False
    with (out / "results.jsonl").open("w") as results:
        while time.monotonic() < end:
            left = [name for name in jobs if name not in done]
            before = len(done)
            if not left:
                break
            process = subprocess.Popen(
                [sys.executable, __file__, "launch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(json.dumps(left))
            process.stdin.close()
            last = [time.monotonic()]

            def watch(process: Any = process, last: list[float] = last) -> None:
                while process.poll() is None:
                    if time.monotonic() - last[0] > PATIENCE or time.monotonic() > end:
                        process.kill()
                    time.sleep(0.2)

            threading.Thread(target=watch, daemon=True).start()
            for line in process.stdout:
                last[0] = time.monotonic()
                name, found = json.loads(line)
                if name == "about":
                    if not started:
                        results.write(line)
                    started = True
                    continue
                results.write(line)
                results.flush()
                done[name] = found
            said = process.stderr.read()
            process.wait()
            if not started:
                sys.exit(f"no GPU can be used: {said[-500:]}")
            if process.returncode and time.monotonic() < end:
                pending = [name for name in left if name not in done]
                if pending and (len(done) == before or process.returncode < 0):
                    done[pending[0]] = {"error": f"the process ended: {process.returncode} {said[-300:]}"}
                    results.write(json.dumps([pending[0], done[pending[0]]]) + "\n")
                    results.flush()
    errors = {name: found["error"] for name, found in done.items() if "error" in found}
    print(f"{len(done)} of {len(jobs)} jobs, {len(errors)} errors", errors)


if __name__ == "__main__":
    if sys.argv[1] == "launch":
        launch_all(json.load(sys.stdin))
    else:
        main(Path(sys.argv[1]))
