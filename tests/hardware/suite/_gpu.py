"""Running a topic on a GPU: ptxas in parallel, then a process that launches; after a launch that faults or hangs another one goes on."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware.suite._kernel import HEAD, Kernel, packed
from tests.hardware.suite._record import Writer, path_of
from tests.hardware.suite._tools import ASSEMBLE, tools, version_9_0

SHARED_BYTES_ATTRIBUTE = 8
CLUSTER_ATTRIBUTE = 4
BATCH = 16
PATIENCE = 45
"""Seconds for all launches of a process."""
NVCC = ("nvcc", "-std=c++17", "--fmad=false", "-lineinfo")


def _compile(folder: Path, number: int, kernels: list[Kernel]) -> str | None:
    """Write ``NUMBER.cubin``; what the tool says where it refuses."""
    binary = folder / f"{number}.cubin"
    if kernels[0].cuda:
        source = folder / f"{number}.cu"
        source.write_text(kernels[0].text)
        command = [*NVCC, "-arch=sm_90a", "-cubin"]
    elif kernels[0].module:
        source = folder / f"{number}.ptx"
        source.write_text(version_9_0(kernels[0].text))
        command = [*ASSEMBLE]
    else:
        source = folder / f"{number}.ptx"
        source.write_text(HEAD + "".join(k.text for k in kernels))
        command = [*ASSEMBLE]
    done = subprocess.run([*command, str(source), "-o", str(binary)], capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()[-400:] or f"exit status {done.returncode}"


def _batches(kernels: list[Kernel]) -> list[list[Kernel]]:
    """Kernels that are compiled together: entries in PTX by the batch, those of one text in CUDA or of one module all."""
    ptx = [k for k in kernels if not k.cuda and not k.module]
    found = [ptx[i : i + BATCH] for i in range(0, len(ptx), BATCH)]
    whole = [k for k in kernels if k.cuda or k.module]
    return found + [[k for k in whole if k.text == text] for text in dict.fromkeys(k.text for k in whole)]


def compile_all(kernels: list[Kernel], folder: Path, workers: int) -> tuple[dict[str, int], dict[str, str]]:
    """Each kernel's binary by number, and the refusals."""
    batches = _batches(kernels)
    with ThreadPoolExecutor(workers) as pool:
        said = list(pool.map(lambda job: _compile(folder, *job), enumerate(batches)))
    binaries, refused = {}, {}
    again = [k for batch, word in zip(batches, said, strict=True) if word and not batch[0].cuda and not batch[0].module for k in batch]
    for number, (batch, word) in enumerate(zip(batches, said, strict=True)):
        if word is None:
            binaries |= {k.name: number for k in batch}
        elif batch[0].cuda or batch[0].module:
            refused |= {k.name: word for k in batch}
    first = len(batches)
    with ThreadPoolExecutor(workers) as pool:
        alone = list(pool.map(lambda job: _compile(folder, job[0], [job[1]]), enumerate(again, first)))
    for number, (kernel, word) in enumerate(zip(again, alone, strict=True), first):
        if word is None:
            binaries[kernel.name] = number
        else:
            refused[kernel.name] = word
    return binaries, refused


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class Device:
    """Launches through the driver; cupy holds the memory."""

    def __init__(self, folder: Path) -> None:
        import cupy

        self.cupy, self.folder = cupy, folder
        cupy.zeros(1)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.modules: dict[int, ctypes.c_void_p] = {}

    def check(self, error: int) -> None:
        if error:
            name = ctypes.c_char_p()
            self.driver.cuGetErrorName(error, ctypes.byref(name))
            raise RuntimeError((name.value or b"CUDA error").decode())

    def function(self, number: int, kernel: Kernel) -> ctypes.c_void_p:
        if number not in self.modules:
            self.modules[number] = ctypes.c_void_p()
            self.check(self.driver.cuModuleLoadData(ctypes.byref(self.modules[number]), (self.folder / f"{number}.cubin").read_bytes()))
        function = ctypes.c_void_p()
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), self.modules[number], kernel.symbol.encode()))
        if kernel.shared_bytes:
            self.check(self.driver.cuFuncSetAttribute(function, SHARED_BYTES_ATTRIBUTE, kernel.shared_bytes))
        return function

    def run(self, number: int, kernel: Kernel) -> list[bytes]:
        function = self.function(number, kernel)
        held: dict[int, Any] = {id(a): self.cupy.asarray(np.frombuffer(a.tobytes(), np.uint8)) for a in kernel.arrays}
        addresses = {name: int(array.data.ptr) for name, array in held.items()}
        given = [ctypes.create_string_buffer(raw, len(raw)) for raw in (packed(argument, addresses) for argument in kernel.args)]
        pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(raw) for raw in given))
        attribute = _Attribute(CLUSTER_ATTRIBUTE, value=(ctypes.c_uint * 16)(*kernel.cluster))
        count = int(kernel.cluster != (1, 1, 1))
        config = _Config(*kernel.dims, kernel.block, 1, 1, kernel.shared_bytes, None, ctypes.pointer(attribute), count)
        self.check(self.driver.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None))
        self.check(self.driver.cuCtxSynchronize())
        return [held[id(a)].get().tobytes() for a in kernel.outputs]


def launch_all(kernels: list[Kernel], job: Path) -> None:
    """Launch the kernels that have no result yet, appending to the file of results; for the process of `record`."""
    binaries: dict[str, int] = pickle.loads((job / "binaries").read_bytes())
    done = read_results(job)
    device = Device(job)
    with (job / "results").open("ab") as file:
        for kernel in kernels:
            if kernel.name in done or kernel.name not in binaries:
                continue
            (job / "now").write_text(kernel.name)
            try:
                runs = [device.run(binaries[kernel.name], kernel) for _ in range(2 if kernel.module else 1)]
                pickle.dump((kernel.name, "ok" if runs[0] == runs[-1] else "two runs differ", runs[0]), file)
            except RuntimeError as error:
                pickle.dump((kernel.name, str(error), []), file)
                file.flush()
                os._exit(3)
            file.flush()


def read_results(job: Path) -> dict[str, tuple[str, list[bytes]]]:
    found: dict[str, tuple[str, list[bytes]]] = {}
    path = job / "results"
    if not path.exists():
        return found
    with path.open("rb") as file:
        while True:
            try:
                name, state, results = pickle.load(file)
            except EOFError:
                return found
            found[name] = state, results


def record(topic: str, kernels: list[Kernel], folder: Path) -> bool:
    """Run a topic and write its record; whether all kernels ran to their end."""
    writer = Writer(tools())
    with tempfile.TemporaryDirectory() as name:
        job = Path(name)
        binaries, refused = compile_all(kernels, job, 16)
        (job / "binaries").write_bytes(pickle.dumps(binaries))
        command = [sys.executable, "-m", "tests.hardware", "launch", topic, str(job)]
        while len(read_results(job)) < len(binaries):
            before = len(read_results(job))
            try:
                subprocess.run(command, check=False, timeout=PATIENCE)
                state = "the process ended"
            except subprocess.TimeoutExpired:
                state = "hang"
            if len(read_results(job)) == before:
                if not (job / "now").exists():
                    raise SystemExit(f"{topic}: nothing could be launched")
                with (job / "results").open("ab") as file:
                    pickle.dump(((job / "now").read_text(), state, []), file)
        found = read_results(job)
    for kernel in kernels:
        state, results = found.get(kernel.name, (f"refused: {refused.get(kernel.name)}", []))
        writer.add(kernel, state, results)
        if state != "ok":
            print(f"{topic}: {kernel.name}: {state}")
    writer.save(path_of(topic, folder))
    print(f"{topic}: {len(kernels)} kernels, {path_of(topic, folder).stat().st_size} bytes; {'; '.join(writer.tools)}")
    return all(kernel["state"] == "ok" for kernel in writer.kernels.values())
