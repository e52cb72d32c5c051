"""Write a folder that times kernels on a GPU without any package: ``python -m tests.profile.timing.kit FOLDER``. Needs ptxas, and no GPU.

``python3 kit_runner.py OUTPUT`` in that folder needs the driver alone. ``python -m tests.profile.timing.kit condense RESULTS`` makes of its
results the data that tests read.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.suite._kernel import HEAD, Kernel, entry, packed
from tests.hardware.suite._tools import version_9_0
from tests.profile.timing.accesses import DATA
from tests.profile.timing.cases import CASES
from tests.profile.timing.cluster_micro import CLUSTER_MICRO, launches, streams
from tests.profile.timing.micro import MICRO

HERE = Path(__file__).parent
BLOCK = 1 << 17
"""Bytes of an array that are kept; the runner repeats them."""
LEAST = 0.5
"""Cycles of an instruction; if there are fewer, the assembler has made one of many."""
SOME = 0x7F1234560000
AGAIN = ("fence.", "bulk.", "tensor.", "cluster.", "mbarrier.", "ld.", "st.global", "red.", "atom.", "cp.async", "stream.c")
"""Micro-benchmarks that are recorded again, so that the device can be compared with the one that recorded the others."""
STAMP = entry("stamp", "out", """
mov.u32 %r1, %smid; mov.u64 %d2, %clock64; mov.u64 %d3, %globaltimer; mad.wide.u32 %d1, %r1, 16, %out;
setp.eq.u32 %p1, %t, 0; @%p1 st.global.v2.u64 [%d1], {%d2, %d3};
""").replace("k_stamp", "stamp")  # fmt: skip


def _jobs() -> Iterator[tuple[str, Kernel, int | None]]:
    """Name, kernel, and how many times it executes what is measured."""
    for name, micro in CLUSTER_MICRO.items():
        yield f"micro/{name}", micro.kernel, micro.count
    for kernel in (*launches(), *streams()):
        yield kernel.name, kernel, None
    for name, case in sorted(CASES.items(), key=lambda item: not item[0].startswith(("cluster/", "copies/", "cuda/"))):
        yield name, case.make(), None
    for name, micro in MICRO.items():
        if name.startswith(AGAIN):
            yield f"micro/{name}", micro.kernel, micro.count


class Kit:
    """Modules, blocks of data and jobs, as they are found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: dict[str, str] = {}
        self.loose: list[str] = []
        self.blocks = bytearray()
        self.places: dict[str, list[int]] = {}
        self.jobs: dict[str, Any] = {}

    def module(self, kernel: Kernel) -> str:
        if not kernel.module:
            self.loose.append(kernel.text)
            return f"loose{(len(self.loose) - 1) // 64}.cubin"
        if kernel.text not in self.modules:
            self.modules[kernel.text] = f"module{len(self.modules)}.cubin"
        return self.modules[kernel.text]

    def block(self, array: Any) -> list[int] | None:
        size = BLOCK // array.itemsize
        flat = np.ascontiguousarray(array.reshape(-1)[:size] if array.flags.c_contiguous else array.flat[:size])
        raw = flat.tobytes()
        if not any(raw):
            return None
        key = hashlib.sha256(raw).hexdigest()
        if key not in self.places:
            self.places[key] = [len(self.blocks), len(raw)]
            self.blocks += raw
        return self.places[key]

    def add(self, name: str, kernel: Kernel, count: int | None) -> None:
        arrays = kernel.arrays
        numbers = {id(array): number for number, array in enumerate(arrays)}
        args: list[Any] = []
        for argument in kernel.args:
            if isinstance(argument, np.ndarray):
                args.append(["buffer", numbers[id(argument)]])
            elif isinstance(argument, TensorMap):
                raw = argument.encode(SOME)
                assert raw[:8] == SOME.to_bytes(8, "little")
                args.append(["map", [numbers[id(argument.base)], raw.hex()]])
            else:
                args.append(["raw", packed(argument, {}).hex()])
        self.jobs[name] = {
            "kind": "time" if count is None else "micro",
            "module": self.module(kernel),
            "entry": kernel.symbol,
            "grid": kernel.dims,
            "block": kernel.block,
            "shared": kernel.shared_bytes,
            "cluster": kernel.cluster,
            "args": args,
            "buffers": [[array.size * array.itemsize, self.block(array)] for array in arrays],
            "out": 0,
            "count": count,
        }

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = {binary: version_9_0(text) for text, binary in self.modules.items()}
        texts |= {f"loose{i // 64}.cubin": HEAD + "".join(self.loose[i : i + 64]) for i in range(0, len(self.loose), 64)}
        texts["stamp.cubin"] = HEAD + STAMP
        for binary, text in texts.items():
            source = self.folder / binary.replace("cubin", "ptx")
            source.write_text(text)
            subprocess.run(["ptxas", "-arch=sm_90a", str(source), "-o", str(self.folder / binary)], check=True)
            source.unlink()
        (self.folder / "blocks.bin").write_bytes(self.blocks)
        (self.folder / "jobs.json").write_text(json.dumps(self.jobs))
        shutil.copy(HERE / "kit_runner.py", self.folder)


def write(folder: Path) -> None:
    kit = Kit(folder)
    for name, kernel, count in _jobs():
        kit.add(name, kernel, count)
    kit.write()
    print(len(kit.jobs), "jobs,", len(kit.modules), "modules")


def condense(results: Path) -> None:
    """Add the results of a kit to the data that tests read: times with the clocks of the timed launches, and cycles of micro-benchmarks.

    Clocks of different SMs differ: of a micro-benchmark on all of them, the cycles are the median of its warps.
    """
    (_, about), *found = map(json.loads, results.read_text().splitlines())
    kernels, micro = (json.loads((DATA / f"{name}_h200.json").read_text()) for name in ("kernels", "micro"))
    assert about["gpu"] == kernels["tools"][0]
    for name, result in found:
        if "error" in result:
            continue
        if "ns" in result:
            times = {"ns": statistics.median(result["ns"])} | {key: result[key] for key in ("clock", "registers")}
            kernels["kernels"][name] = times | {k: v for k, v in kernels["kernels"].get(name, {}).items() if k == "ncu"}
        elif (short := name.removeprefix("micro/")) in CLUSTER_MICRO:
            cycles = result["warps"][1] if "grid" in short else min(result["cycles"])
            if cycles >= LEAST * result["count"]:
                micro["measured"][short] = [result["count"], cycles]
    for name, data in (("kernels", kernels), ("micro", micro)):
        (DATA / f"{name}_h200.json").write_text(json.dumps(data, indent=0))


if __name__ == "__main__":
    if sys.argv[1] == "condense":
        condense(Path(sys.argv[2]))
    else:
        write(Path(sys.argv[1]))
