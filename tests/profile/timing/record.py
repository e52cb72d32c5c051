"""Record times and counters on a GPU: ``python -m tests.profile.timing.record OUTPUT``.

Needs an sm_90a GPU, cupy, ptxas; and ncu for counters.

Writes ``times.json`` (whole kernels, from CUDA graphs of several launches), ``micro.json`` (cycles), ``accesses_counters.json`` and
``kernels_counters.json`` (ncu). Each names the GPU, the driver and the tools. ``python -m tests.profile.timing.record condense OUTPUT``
makes of them the data that tests read.
"""

from __future__ import annotations

import csv
import ctypes
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware.suite._gpu import CLUSTER_ATTRIBUTE, Device, _Attribute, _Config, compile_all
from tests.hardware.suite._kernel import Kernel, entry, packed
from tests.hardware.suite._tools import tools
from tests.profile.timing import accesses
from tests.profile.timing.cases import CASES
from tests.profile.timing.micro import MICRO, cycles

ACCESS_METRICS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "smsp__l1tex_shared_requests.sum",
    *(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum" for what in ("requests", "sectors") for op in ("ld", "st", "red", "atom")),
    *(f"l1tex__t_{what}_pipe_lsu_mem_global_op_ldgsts.sum" for what in ("requests", "sectors")),
    "l1tex__t_requests_mem_global_op_ldgsts.sum",
    "l1tex__t_sectors_mem_global_op_ldgsts.sum",
    "smsp__inst_executed.sum",
)
KERNEL_METRICS = (
    "sm__cycles_elapsed.max",
    "gpu__time_duration.sum",
    "smsp__inst_executed.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "launch__registers_per_thread",
    "launch__occupancy_limit_blocks",
    "sm__warps_active.avg.per_cycle_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
)
LAUNCHES, REPEATS = 20, 9
LEAST = 0.5
"""Cycles of an instruction; if there are fewer, the assembler has made one of many."""
CLOCK = entry("clock", "out", """
mov.u64 %d2, %clock64; mov.u32 %r1, 1000000; cvt.rn.f32.u64 %f1, %d2;
SPIN: fma.rn.f32 %f1, %f1, %f1, %f1; sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN;
mov.u64 %d4, %clock64; sub.u64 %d4, %d4, %d2; st.global.u64 [%out], %d4; st.global.f32 [%out+8], %f1;
""")  # fmt: skip
"""Runs for some milliseconds, and stores how many cycles they were."""


class Timing(Device):
    """Times launches by events around a graph of them."""

    def prepare(self, number: int, kernel: Kernel) -> Callable[[Any], None]:
        """A function that launches the kernel in a stream; it keeps the memory."""
        function = self.function(number, kernel)
        held = {id(a): self.upload(a) for a in kernel.arrays}
        addresses = {name: int(array.data.ptr) for name, array in held.items()}
        given = [ctypes.create_string_buffer(raw, len(raw)) for raw in (packed(argument, addresses) for argument in kernel.args)]
        pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(raw) for raw in given))
        attribute = _Attribute(CLUSTER_ATTRIBUTE, value=(ctypes.c_uint * 16)(*kernel.cluster))
        count = int(kernel.cluster != (1, 1, 1))

        def launch(stream: Any) -> None:
            config = _Config(*kernel.dims, kernel.block, 1, 1, kernel.shared_bytes, stream, ctypes.pointer(attribute), count)
            self.check(self.driver.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None))

        launch.held = held, given  # type: ignore[attr-defined]
        return launch

    def upload(self, array: Any) -> Any:
        return self.cupy.asarray(np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def time(self, launch: Callable[[Any], None]) -> list[float]:
        """Nanoseconds of one launch, several times: each is the mean of a graph of launches, one after the other."""
        cupy = self.cupy
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            launch(ctypes.c_void_p(stream.ptr))
            stream.synchronize()
            stream.begin_capture()
            for _ in range(LAUNCHES):
                launch(ctypes.c_void_p(stream.ptr))
            graph = stream.end_capture()
            graph.upload(stream)
            found = []
            for _ in range(REPEATS + 2):
                start, stop = cupy.cuda.Event(), cupy.cuda.Event()
                start.record(stream)
                graph.launch(stream)
                stop.record(stream)
                stop.synchronize()
                found.append(cupy.cuda.get_elapsed_time(start, stop) * 1e6 / LAUNCHES)
        return found[2:]


def _clock(device: Timing, launch: Any) -> float:
    """Cycles of an SM in a nanosecond."""
    cupy = device.cupy
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    launch(None)
    stop.record()
    stop.synchronize()
    (array,) = launch.held[0].values()
    return float(array.get().view(np.uint64)[0] / (cupy.cuda.get_elapsed_time(start, stop) * 1e6))


def _empty() -> Iterable[Kernel]:
    """Kernels that do nothing: what a launch, a CTA, a cluster costs."""
    for grid in (1, 132, 1320, 13200, 132000):
        for block in (32, 128, 1024):
            name = f"empty.{grid}x{block}"
            yield Kernel(name, entry(name, "out", ""), (None,), grid, block, results=())
    for cluster in (2, 4, 8):
        name = f"empty.cluster{cluster}"
        yield Kernel(
            name, entry(name, "out", "", cluster=(cluster,)), (None,), 1320 // cluster * cluster, 128, results=(), cluster=(cluster, 1, 1)
        )
    for shared in (48, 100, 200):
        name = f"empty.shared{shared}"
        yield Kernel(name, entry(name, "out", ""), (None,), 1320, 128, shared * 1024, results=())


def _listed(which: str) -> dict[str, Kernel]:
    """What a step launches, by name."""
    if which == "accesses":
        return {name: accesses.kernel(name) for name in accesses.ACCESSES}
    if which == "micro":
        return {name: each.kernel for name, each in MICRO.items()}
    whole = {name: case.make() for name, case in CASES.items()}
    return whole if which == "kernels" else {kernel.name: kernel for kernel in _empty()} | whole


def _compile(which: str, folder: Path) -> None:
    kernels = list(_listed(which).values())
    clock = Kernel("clock", CLOCK, (np.zeros(2, np.uint64),), results=(0,))
    folder.mkdir()
    binaries, refused = compile_all([*kernels, clock], folder, 16)
    print("refused", {name: word[-200:] for name, word in refused.items()})
    (folder / "binaries.json").write_text(json.dumps(binaries))


def _launch(which: str, folder: Path) -> None:
    """Launch the kernels that have no result yet, appending a line for each; an error of the device ends the process."""
    binaries: dict[str, int] = json.loads((folder / "binaries.json").read_text())
    done = _results(folder)
    device = Timing(folder)
    clock = device.prepare(binaries["clock"], Kernel("clock", CLOCK, (np.zeros(2, np.uint64),), results=(0,)))
    with (folder / "results").open("a") as file:
        for name, kernel in _listed(which).items():
            if name in done or kernel.name not in binaries:
                continue
            try:
                found = _measured(device, which, name, device.prepare(binaries[kernel.name], kernel), clock)
            except RuntimeError as error:
                file.write(json.dumps([name, {"error": str(error)}]) + "\n")
                file.flush()
                os._exit(3)
            file.write(json.dumps([name, found]) + "\n")
            file.flush()


def _measured(device: Timing, which: str, name: str, launch: Any, clock: Any) -> dict[str, Any]:
    if which == "times":
        before = _clock(device, clock)
        measured = device.time(launch)
        return {"ns": [round(t, 1) for t in measured], "clock": [round(c, 4) for c in (before, _clock(device, clock))]}
    runs = []
    for _ in range(3 if which == "micro" else 1):
        launch(None)
        device.check(device.driver.cuCtxSynchronize())
        if which == "micro":
            runs.append(cycles(launch.held[0][id(MICRO[name].kernel.args[0])].get().tobytes()))
    return {"count": MICRO[name].count, "cycles": runs} if runs else {}


def _results(folder: Path) -> dict[str, Any]:
    path = folder / "results"
    return dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}


def measure(which: str, folder: Path, out: Path) -> None:
    """Time kernels, or count cycles of micro-benchmarks."""
    _compile(which, folder)
    command = [sys.executable, "-m", "tests.profile.timing.record", "launch", which, str(folder)]
    while True:
        before = len(_results(folder))
        state = subprocess.run(command, check=False, timeout=200).returncode
        if state == 0 or len(_results(folder)) == before:
            break
    found = _results(folder)
    about = {"tools": tools(), "launches": LAUNCHES, "multiprocessors": 132}
    (out / f"{which}.json").write_text(json.dumps(about | {"measured": found}, indent=0))
    print(which, len(found), {name: each["error"] for name, each in found.items() if "error" in each})


def _known(metrics: Iterable[str]) -> list[str]:
    query = ["ncu", "--query-metrics-collection", "profiling", "--query-metrics", "--chip", "gh100"]
    said = subprocess.run(query, capture_output=True, text=True).stdout
    names = {line.split()[0] for line in said.splitlines() if line.strip()}
    if not names:
        return list(metrics)
    return [m for m in metrics if m.split(".")[0] in names or m.startswith("launch__")]


def counters(which: str, folder: Path, out: Path, metrics: tuple[str, ...]) -> None:
    _compile(which, folder)
    chosen = _known(metrics)
    print("metrics", chosen)
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(chosen)]
    run = [*command, sys.executable, "-m", "tests.profile.timing.record", "launch", which, str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=280)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]
    names = [name for name, result in _results(folder).items() if "error" not in result]
    print(which, len(rows), len(names), done.stderr[-300:], done.stdout[:300] if not rows else "")
    found = {name: [row.get(m, "") for m in chosen] for name, row in zip(names, rows, strict=False)}
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-1]
    (out / f"{which}_counters.json").write_text(json.dumps({"tools": [*tools(), version], "metrics": chosen, "kernels": found}, indent=0))


def condense(folder: Path) -> None:
    """Write the data that tests read, from the files of a recording: medians, the fewest cycles, and numbers in place of ncu's words."""
    given = {
        name: json.loads((folder / f"{name}.json").read_text()) for name in ("micro", "times", "accesses_counters", "kernels_counters")
    }
    counted, seen = given["accesses_counters"], given["kernels_counters"]
    rows = {name: [int(_number(word)) for word in words] for name, words in counted["kernels"].items()}
    cycles = {name: [each["count"], min(each["cycles"])] for name, each in given["micro"]["measured"].items()}
    micro = {name: pair for name, pair in cycles.items() if pair[1] >= LEAST * pair[0]}
    kernels = {name: {"ns": statistics.median(each["ns"]), "clock": each["clock"]} for name, each in given["times"]["measured"].items()}
    for name, words in seen["kernels"].items():
        kernels[name]["ncu"] = [_number(word) for word in words]
    about = {"tools": seen["tools"], "launches": given["times"]["launches"], "metrics": seen["metrics"]}
    for name, data in (
        ("accesses_h200", {"tools": counted["tools"], "metrics": counted["metrics"], "kernels": rows}),
        ("micro_h200", {"tools": given["micro"]["tools"], "measured": micro}),
        ("kernels_h200", about | {"kernels": kernels}),
    ):
        (accesses.DATA / f"{name}.json").write_text(json.dumps(data, indent=0))


def _number(word: str) -> float:
    value = float(word.replace(",", ""))
    return int(value) if value.is_integer() else value


def main(*arguments: str) -> None:
    if arguments[0] == "condense":
        condense(Path(arguments[1]))
        return
    if arguments[0] == "launch":
        _launch(arguments[1], Path(arguments[2]))
        return
    out = Path(arguments[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps: dict[str, Callable[[], None]] = {
            "times": lambda: measure("times", folder / "times", out),
            "micro": lambda: measure("micro", folder / "micro", out),
            "accesses": lambda: counters("accesses", folder / "accesses", out, ACCESS_METRICS),
            "kernels": lambda: counters("kernels", folder / "kernels", out, KERNEL_METRICS),
        }
        for name in arguments[1:] or steps:
            start = time.time()
            try:
                steps[name]()
            except Exception as error:
                print("FAILED", name, repr(error)[:400])
            print(name, round(time.time() - start), "s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
