#!/usr/bin/env python3
"""Run the kernels of this folder on the GPU of this computer, and write one file of results.

    python3 record.py

This needs Python 3.8 or newer and NVIDIA's driver (libcuda.so.1), and nothing else. It asks for nothing, and writes nothing outside this
folder. Every part runs in processes of its own: a kernel that does not end is stopped, one that ends with an error is noted, and the
others run all the same.
"""

from __future__ import annotations

import argparse
import base64
import collections
import ctypes
import hashlib
import importlib.util
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).resolve().parent
FORMAT = 1
SHARED_BYTES_ATTRIBUTE = 8
JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6
MODES = ("interleave", "swizzle", "l2_promotion", "oob_fill")
NO_TIME = "skipped: no time was left"
ATTRIBUTES = {"clock_khz": 13, "sms": 16, "memory_clock_khz": 36, "major": 75, "minor": 76}


class CudaError(Exception):
    """What the driver says, by its name."""


class Driver:
    """Launches through the CUDA driver."""

    def __init__(self) -> None:
        os.environ["CUDA_CACHE_DISABLE"] = "1"
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.modules: dict[str, ctypes.c_void_p] = {}
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def call(self, function: str, *arguments: Any) -> None:
        error = getattr(self.cuda, function)(*arguments)
        if error:
            name = ctypes.c_char_p()
            self.cuda.cuGetErrorName(error, ctypes.byref(name))
            raise CudaError((name.value or b"CUDA_ERROR_%d" % error).decode())

    def describe(self) -> dict[str, Any]:
        """The GPU, the driver, and the clocks."""
        name, number, found = ctypes.create_string_buffer(256), ctypes.c_int(), {}
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDriverGetVersion", ctypes.byref(number))
        found = {"gpu": name.value.decode(), "cuda": number.value}
        for key, attribute in ATTRIBUTES.items():
            self.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, self.device)
            found[key] = number.value
        return {**found, **management()}

    def function(self, text: bytes, entry: str) -> ctypes.c_void_p:
        key = hashlib.sha256(text).hexdigest()
        if key not in self.modules:
            log = ctypes.create_string_buffer(4096)
            options = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES)
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
            module = ctypes.c_void_p()
            try:
                self.call("cuModuleLoadDataEx", ctypes.byref(module), text + b"\0", 2, options, values)
            except CudaError as error:
                message = log.value.decode("utf-8", "replace").strip()
                raise CudaError("refused: " + (message or str(error))[:500]) from None
            self.modules[key] = module
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), self.modules[key], entry.encode())
        return found

    def tensor_map(self, call: dict[str, Any]) -> bytes:
        """The 128 bytes that the driver encodes."""
        raw = (ctypes.c_uint8 * 192)()
        aligned = -(-ctypes.addressof(raw) // 64) * 64

        def array(kind: Any, name: str) -> Any:
            return (kind * 5)(*call[name])

        head = (ctypes.c_void_p(aligned), call["data_type"], call["rank"], ctypes.c_uint64(call["address"]))
        tensor = (array(ctypes.c_uint64, "dims"), array(ctypes.c_uint64, "strides"))
        tail = (array(ctypes.c_uint32, "element_strides"), *(call[name] for name in MODES))
        try:
            if call.get("im2col"):
                corners = (array(ctypes.c_int32, "lower"), array(ctypes.c_int32, "upper"))
                self.call("cuTensorMapEncodeIm2col", *head, *tensor, *corners, call["channels"], call["pixels"], *tail)
            else:
                self.call("cuTensorMapEncodeTiled", *head, *tensor, array(ctypes.c_uint32, "box"), *tail)
        except CudaError as error:
            raise CudaError(f"refused: a tensor map: {error}") from None
        return ctypes.string_at(aligned, 128)

    def run(self, text: bytes, case: dict[str, Any], inputs: list[bytes]) -> list[bytes]:
        """Launch a kernel once; its outputs, and the bytes of its tensor maps."""
        function = self.function(text, case["entry"])
        if case["shared_bytes"]:
            self.call("cuFuncSetAttribute", function, SHARED_BYTES_ATTRIBUTE, case["shared_bytes"])
        held = []
        try:
            for data in [*inputs, *(bytes(size) for size in case["outputs"])]:
                held.append(ctypes.c_uint64())
                self.call("cuMemAlloc_v2", ctypes.byref(held[-1]), ctypes.c_size_t(max(len(data), 16)))
                self.call("cuMemcpyHtoD_v2", held[-1], data, ctypes.c_size_t(len(data)))
            maps = [self.tensor_map({**call, "address": held[array].value}) for array, call in case["maps"]]
            given = [*held, *(ctypes.create_string_buffer(raw, 128) for raw in maps)]
            pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(value) for value in given))
            self.call("cuLaunchKernel", function, case["grid"], 1, 1, case["block"], 1, 1, case["shared_bytes"], None, pointers, None)
            self.call("cuCtxSynchronize")
            found = []
            for number, size in enumerate(case["outputs"], len(inputs)):
                output = ctypes.create_string_buffer(size)
                self.call("cuMemcpyDtoH_v2", output, held[number], ctypes.c_size_t(size))
                found.append(output.raw)
            return found + [self.tensor_map(call) for _, call in case["maps"]]
        finally:
            for address in held:
                self.cuda.cuMemFree_v2(address)


def management() -> dict[str, Any]:
    """What the management library says about the first GPU: the driver's version, and the clocks in MHz; nothing without the library."""
    found: dict[str, Any] = {}
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return found
    if library.nvmlInit_v2():
        return found
    version, device, clock = ctypes.create_string_buffer(80), ctypes.c_void_p(), ctypes.c_uint()
    if not library.nvmlSystemGetDriverVersion(version, 80):
        found["driver"] = version.value.decode()
    if not library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
        for name, function in (("mhz", library.nvmlDeviceGetClockInfo), ("most_mhz", library.nvmlDeviceGetMaxClockInfo)):
            for kind, number in (("sm", 1), ("memory", 2)):
                if not function(device, number, ctypes.byref(clock)):
                    found[kind + "_" + name] = clock.value
    library.nvmlShutdown()
    return found


def load_driver(path: str | None) -> Any:
    """The driver, or the class ``Driver`` of a Python file in its place."""
    if path is None:
        return Driver()
    spec = importlib.util.spec_from_file_location("driver", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Driver()


# ------------------------------------------------------------------------------------------------ the process that launches


def send(**line: Any) -> None:
    """One line for the process that waits."""
    print(json.dumps(line), flush=True)


def launch(driver_path: str | None) -> None:
    """Launch the cases whose names are read, one line about the begin and one about the end of each."""
    names = json.load(sys.stdin)
    cases = json.loads((FOLDER / "manifest.json").read_text())["cases"]
    try:
        driver = load_driver(driver_path)
        send(about=driver.describe())
    except (OSError, CudaError) as error:
        send(failed=str(error))
        return
    pool = (FOLDER / "inputs.bin").read_bytes()
    for name in names:
        case = cases[name]
        send(begin=name)
        start, state, outputs = time.monotonic(), "ok", []
        try:
            inputs = [pool[at : at + size] for at, size in case["inputs"]]
            outputs = driver.run((FOLDER / case["kernel"]).read_bytes(), case, inputs)
        except CudaError as error:
            state = str(error)
        packed = [base64.b64encode(zlib.compress(data, 1)).decode() for data in outputs]
        send(end=name, state=state, outputs=packed, seconds=round(time.monotonic() - start, 4))
        if state != "ok" and not state.startswith("refused"):
            # An error ends the context: another process runs the rest.
            os._exit(0)


# ---------------------------------------------------------------------------------------------------- the process that waits


def run_process(names: list[str], driver: str | None, seconds: float, end: float, receive: Callable[[dict[str, Any]], None]) -> str:
    """Start a process for some cases; why it ended: "the process ended", "hang" if nothing came for so many seconds, or `NO_TIME`.

    What it prints about errors, such as the driver's lines about an assertion, is not shown; if it ends by itself, the last line is given.
    """
    command = [sys.executable, "-B", str(Path(__file__).resolve()), "--launch", *(["--driver", driver] if driver else [])]
    environment = {**os.environ, "CUDA_CACHE_DISABLE": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", env=environment, cwd=str(FOLDER))
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    lines: queue.Queue[str | None] = queue.Queue()
    stream = process.stdout
    last: collections.deque[str] = collections.deque(maxlen=1)

    def read() -> None:
        with stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    messages = threading.Thread(target=last.extend, args=(process.stderr,), daemon=True)
    messages.start()
    threading.Thread(target=read, daemon=True).start()
    try:
        process.stdin.write(json.dumps(names))
        process.stdin.close()
        while True:
            line = lines.get(timeout=max(0.0, min(seconds, end - time.monotonic())))
            if line is None:
                messages.join(1)
                return ": ".join(["the process ended", *(line.strip() for line in last)])
            receive(json.loads(line))
    except queue.Empty:
        return NO_TIME if time.monotonic() > end else "hang"
    except (OSError, ValueError):
        return "the process ended"
    finally:
        process.kill()
        process.wait()


class Recorder:
    """Runs the parts and keeps what they give."""

    def __init__(self, manifest: dict[str, Any], driver: str | None) -> None:
        self.manifest, self.driver = manifest, driver
        self.about: dict[str, Any] = {}
        self.failed = ""
        self.now: str | None = None
        self.done: dict[str, dict[str, Any]] = {}
        self.outputs: list[bytes] = []
        self.size = 0

    def receive(self, line: dict[str, Any]) -> None:
        if "about" in line:
            self.about = line["about"]
        elif "failed" in line:
            self.failed = line["failed"]
        elif "begin" in line:
            self.now = line["begin"]
        elif "end" in line:
            self.now = None
            self.note(line["end"], line["state"], [zlib.decompress(base64.b64decode(data)) for data in line["outputs"]], line["seconds"])

    def note(self, name: str, state: str, outputs: list[bytes], seconds: float) -> None:
        places = []
        for data in outputs:
            places.append([self.size, len(data)])
            self.outputs.append(data)
            self.size += len(data)
        case = self.manifest["cases"][name]
        self.done[name] = {
            "state": state,
            "seconds": seconds,
            "outputs": places,
            "kernel_hash": case["kernel_hash"],
            "inputs_hash": case["inputs_hash"],
        }

    def run_part(self, part: str, end: float) -> None:
        cases = self.manifest["cases"]
        names = [name for name in cases if cases[name]["part"] == part]
        start = time.monotonic()
        while True:
            left = [name for name in names if name not in self.done]
            if not left:
                break
            if time.monotonic() > end:
                for name in left:
                    self.note(name, NO_TIME, [], 0.0)
                break
            alone = cases[left[0]]["alone"]
            before, self.now = len(self.done), None
            why = run_process(left[:1] if alone else left, self.driver, self.manifest["seconds_of_a_launch"], end, self.receive)
            if self.now is not None:
                self.note(self.now, why, [], 0.0)
            elif len(self.done) == before:
                for name in left:
                    self.note(name, "not run: " + (self.failed or why), [], 0.0)
        states = [self.done[name]["state"] for name in names]
        ok = states.count("ok")
        others = "" if ok == len(names) else f", {len(names) - ok} ended otherwise"
        print(f"  {part}: {ok} of {len(names)} kernels ran{others} ({time.monotonic() - start:.1f} s)", flush=True)

    def write(self, path: Path) -> None:
        data = b"".join(self.outputs)
        record = {
            "format": FORMAT,
            "target": self.manifest["target"],
            "kit": self.manifest["kit"],
            "manifest_hash": hashlib.sha256((FOLDER / "manifest.json").read_bytes()).hexdigest(),
            "outputs_hash": hashlib.sha256(data).hexdigest(),
            "about": {**self.about, "system": platform.platform(), "python": platform.python_version()},
            "cases": self.done,
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (("results.json", json.dumps(record, indent=1).encode()), ("outputs.bin", data)):
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def check_files(manifest: dict[str, Any]) -> None:
    for name, digest in manifest["files"].items():
        path = FOLDER / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            sys.exit(f"{name} is missing or damaged: unpack the folder again")


def fitting(manifest: dict[str, Any], about: dict[str, Any]) -> str:
    """What to say if the GPU is not the one that the kernels are for."""
    have, want = [about.get("major"), about.get("minor")], manifest["compute_capability"]
    if have == want:
        return ""
    text = "this folder is for GPUs of compute capability {}.{} ({}); {} has {}.{}: ask for the folder of that target"
    return text.format(*want, manifest["target"], about.get("gpu"), *have)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the kernels of this folder on the GPU, and write one file of results.")
    parser.add_argument("--parts", help="only these parts, separated by commas")
    parser.add_argument("--driver", help="a Python file with a class Driver in place of libcuda.so.1, for tests")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.launch:
        launch(given.driver)
        return 0
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    check_files(manifest)
    parts = given.parts.split(",") if given.parts else manifest["parts"]
    unknown = [part for part in parts if part not in manifest["parts"]]
    if unknown:
        parser.error("no such part: {}; the parts are {}".format(", ".join(unknown), ", ".join(manifest["parts"])))
    recorder = Recorder(manifest, given.driver)
    seconds = manifest["seconds_of_a_launch"]
    run_process([], given.driver, seconds, time.monotonic() + seconds, recorder.receive)
    if not recorder.about:
        sys.exit("no GPU can be used: " + (recorder.failed or "the process that looked for one ended"))
    print("{gpu}, compute capability {major}.{minor}, CUDA {cuda}".format(**recorder.about), flush=True)
    refused = fitting(manifest, recorder.about)
    if refused:
        sys.exit(refused)
    print(f"{len(parts)} parts; each kernel may take {seconds} s, all {manifest['seconds']} s", flush=True)
    end = time.monotonic() + manifest["seconds"]
    path = FOLDER / f"results-{manifest['target']}.zip"
    for part in parts:
        try:
            recorder.run_part(part, end)
        except KeyboardInterrupt:
            print("interrupted: the file has what is done")
            break
        finally:
            recorder.write(path)
    print(f"wrote {path} ({path.stat().st_size} bytes): send this file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
