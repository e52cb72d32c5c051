"""Cold compilation beside ptxas on the same PTX: ``python -m benchmarks.cold``.

Ten kernels, from small to 190,000 lines. ptxlab, in a new process with an empty cache, goes from the text to the end of one cluster; ptxas
assembles the entry with -O3. Both are processor time of one core: NumPy's BLAS gets one thread, since others spin for a while when there
is nothing to do. The start of Python and ``import ptxlab`` are not counted; the modules that ptxlab imports when it needs them are. Python
loads them from byte code, as it does where a package is installed.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from .generated import HEADER, START, STEP
from .unrolled import repeated, unrolled
from .workloads import KERNELS, SCALE, WORKLOADS

__all__ = ["COLD", "TIMES", "Cold", "allowed", "assembler", "measure", "table"]

TIMES, MORE = 2, 0.3
"""ptxlab may take so many times as long as ptxas, and so many seconds more."""
CHECKS = ("none", "all")
_INSTALL = "install nvidia-cuda-nvcc, or name a newer ptxas with --ptxas"
_STORE = """
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 4, %rd1;
    cvt.rn.f32.s32 %f1, %r2;
    add.f32 %f0, %f0, %f1;
    st.global.f32 [%rd1], %f0;
    ret;
}
"""
"""Without it ptxas would leave out all that is computed."""
_STEP_LINES = STEP.count("\n") - 1


@dataclass(frozen=True)
class Cold:
    """A kernel that is compiled: its text, the first entry of which is launched, with a geometry and arguments; ``note`` says what runs."""

    title: str
    text: Callable[[], str]
    geometry: dict[str, Any]
    arguments: Callable[[], list[Any]]
    note: str = "one cluster of the kernel of a test"

    @property
    def entry(self) -> str:
        """The name of the launched kernel."""
        return self.text().split(".entry", 1)[1].split("(", 1)[0].strip()


def _file(name: str) -> str:
    return (KERNELS / f"{name}.ptx").read_text()


def _workload(name: str, title: str) -> Cold:
    work = WORKLOADS[name]
    return Cold(title, partial(_file, work.ptx), work.geometry, lambda: work.arguments(work.arrays()))


def _causal() -> list[Any]:
    q, k, v, o = (np.zeros((1, 128, 64), np.float16) for _ in range(4))
    return [q, k, v, o, np.zeros((1, 128), np.float32), 128, SCALE, None, None]


def _straight(lines: int) -> Cold:
    """Scalar code without a loop, all of which executes."""
    text = HEADER + START + STEP * -(-lines // _STEP_LINES) + _STORE
    out = np.zeros(128, np.float32)
    return Cold(f"scalar code, {lines:,} lines", lambda: text, {"grid": 1, "block": 128}, lambda: [out, 1], "all lines execute")


def _long(lines: int, kernels: int = 1) -> Cold:
    """An unrolled kernel that returns after its first instructions, alone or with others in a module."""
    title = f"attention, unrolled, {lines:,} lines" + f"; {kernels} such kernels in the module" * (kernels > 1)
    geometry = {"grid": 1, "block": 128, "shared_bytes": 65568}
    nothing = [None, None, None, None, None, 0, 0.0, None, None]
    note = "returns after its first instructions; ptxas compiles all of the entry"

    def text() -> str:
        found = unrolled(_file("flash_causal_fp16"), lines)
        return repeated(found, kernels) if kernels > 1 else found

    return Cold(title, text, geometry, lambda: nothing, note)


COLD = {
    "scalar": _straight(100),
    "gemm_descriptors": _workload("gemm_descriptors", "GEMM, TMA, CTA pairs"),
    "gemm_pointers": _workload("gemm_pointers", "GEMM, pointers"),
    "causal": Cold("causal attention", partial(_file, "flash_causal_fp16"), {"grid": 1, "block": 128, "shared_bytes": 65568}, _causal),
    "attention": _workload("attention", "attention"),
    "scalar_5000": _straight(5_000),
    "scalar_20000": _straight(20_000),
    "unrolled_20000": _long(20_000),
    "many": _long(9_200, 20),
    "scalar_190000": _straight(190_000),
}
"""By name, from small to large."""


def launch(name: str, check: str) -> dict[str, float]:
    """From the text to the end of one cluster: processor time of this process."""
    import time

    import ptxlab

    cold = COLD[name]
    text, arguments = cold.text(), cold.arguments()
    started = time.process_time()
    module = ptxlab.loads(text)
    kernel = module[next(iter(module))]
    kernel.launch(**cold.geometry, args=arguments, check=check, only=[(0, 0, 0)]).raise_for_errors()
    return {"seconds": time.process_time() - started}


def allowed(ptxas: float) -> float:
    """The seconds that ptxlab may take where ptxas takes ``ptxas``."""
    return TIMES * ptxas + MORE


def assembler(names: Iterable[str], given: str | None = None) -> str:
    """The assembler for these kernels: the newest one that is installed, if none is given.

    Raises
    ------
    SystemExit
        if there is none, or it does not know the PTX ISA version or the target of a kernel
    """
    from ptxlab.interop.toolkit import installed_ptxas, release_of

    found = given or max(map(str, installed_ptxas()), key=lambda path: release_of(Path(path)), default=None)
    if found is None or shutil.which(found) is None:
        raise SystemExit(f"there is no ptxas{f' at {given}' if given else ''}: {_INSTALL}")
    heads = {_head(COLD[name].text()): name for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for head, name in heads.items():
            path = Path(folder) / f"{name}.ptx"
            path.write_text(head)
            done = subprocess.run(_command(found, path), capture_output=True, text=True)
            if done.returncode:
                release = ".".join(map(str, release_of(Path(found))))
                said = (done.stderr + done.stdout).strip().splitlines()[:1]
                raise SystemExit(f"{found}, release {release}, does not assemble {name}: {_INSTALL}\n{''.join(said)}")
    return found


def _head(text: str) -> str:
    """The directives of a module that say its version and target."""
    return "\n".join(line for line in text.splitlines() if line.startswith((".version", ".target", ".address_size"))) + "\n"


def _command(ptxas: str, path: Path) -> list[str]:
    target = path.read_text().split(".target", 1)[1].split()[0].strip(",")
    return [ptxas, "-O3", f"-arch={target}", "-o", "/dev/null", str(path)]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _assemble(path: Path, entry: str, ptxas: str) -> float:
    """Processor time of ptxas."""
    command = [*_command(ptxas, path), "--entry", entry]
    before = _children()
    subprocess.run(command, check=True, capture_output=True)
    return _children() - before


def measure(name: str, repeats: int, ptxas: str) -> dict[str, Any]:
    """Medians for one kernel; ptxas and ptxlab take turns."""
    from .__main__ import ONE_THREAD, byte_code_in, worker

    cold = COLD[name]

    def launched(check: str, byte_code: str) -> float:
        with tempfile.TemporaryDirectory() as cache:
            return float(worker(Path(cache), "cold_kernel", name, check, **byte_code_in(byte_code), **ONE_THREAD)["seconds"])

    runs: dict[str, list[float]] = {check: [] for check in ("ptxas", *CHECKS)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(cold.text())
        byte_code = str(Path(folder) / "byte_code")
        for check in CHECKS:
            launched(check, byte_code)
        for _ in range(repeats):
            runs["ptxas"].append(_assemble(path, cold.entry, ptxas))
            for check in CHECKS:
                runs[check].append(launched(check, byte_code))
    seconds = {key: median(found) for key, found in runs.items()}
    return {"title": cold.title, "note": cold.note, "lines": cold.text().count("\n"), "seconds": seconds}


def table(found: dict[str, dict[str, Any]]) -> Table:
    """The figures, and whether ptxlab takes no longer than it may."""
    made = Table(title=f"cold, seconds of processor time; at most {TIMES} times ptxas and {MORE} s", title_justify="left")
    for column in ("kernel", "lines", "ptxas -O3", "check='none'", "check='all'", "allowed", ""):
        made.add_column(column, justify="left" if column in ("kernel", "") else "right")
    for each in found.values():
        took, most = each["seconds"], allowed(each["seconds"]["ptxas"])
        verdict = "[green]met[/]" if took["all"] <= most else "without checks" if took["none"] <= most else "[red]not met[/]"
        numbers = (f"{value:.2f}" for value in (took["ptxas"], *(took[check] for check in CHECKS), most))
        made.add_row(each["title"], f"{each['lines']:,}", *numbers, verdict)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__)
    parser.add_argument("--kernels", nargs="+", default=list(COLD), choices=list(COLD))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ptxas", help="the assembler; default: the newest one that is installed")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    console = Console()
    ptxas = assembler(options.kernels, options.ptxas)
    found = {}
    for name in options.kernels:
        with console.status(name):
            found[name] = measure(name, options.repeats, ptxas)
    console.print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
