"""Run a matrix multiplication that Triton compiled for sm_100a, and compare it with NumPy: `python examples/gemm/demo.py`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import ptxlab
from ptxlab import numerics

PTX = Path(__file__).resolve().parent / "matmul.ptx"
M, N, K = 512, 512, 512
TILE = 128
SHARED_BYTES = 98320


def inputs() -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    generator = np.random.default_rng(1)
    return tuple((generator.standard_normal(s) * 0.1).astype(np.float16) for s in ((M, K), (K, N)))  # type: ignore[return-value]


def silicon_bits(a: NDArray[np.float16], b: NDArray[np.float16]) -> NDArray[np.float16]:
    """The bits that tcgen05.mma computes: one fused step of 16 products at a time, added to the f32 accumulator, rounded at the end."""
    x, y = a.view(np.uint16), np.ascontiguousarray(b.T).view(np.uint16)
    acc = None
    for k in range(0, K, 16):
        part = slice(k, k + 16)
        acc = numerics.mma(arch="tcgen05", kind="f16", a="f16", b="f16", d="f32", A=x[:, part], B=y[:, part], C=acc)
    return acc.view(np.float32).astype(np.float16)


def launch(console: Console, a: NDArray[np.float16], b: NDArray[np.float16], c: NDArray[np.float16]) -> Any:
    """One CTA for each tile; Triton adds two pointers to scratch memory, which are null here."""
    kernel = ptxlab.load(PTX)["matmul"]
    grid = (M // TILE) * (N // TILE)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("CTAs"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("matmul for sm_100a", total=grid)
        return kernel.launch(
            grid=grid,
            block=128,
            shared_bytes=SHARED_BYTES,
            args=[a, b, c, M, N, K, K, N, N, None, None],
            check="all",
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def report(result: Any, seconds: float, worst: float, tolerance: float, equal: int, size: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    table.add_row("kernel", f"matmul, compiled by Triton for sm_100a ({PTX.name}, {len(PTX.read_text().splitlines()):,} lines)")
    table.add_row("problem", f"C[{M}, {N}] = A[{M}, {K}] @ B[{K}, {N}], float16 in and out, float32 accumulator")
    table.add_row("launch", f"{result.stats.ctas} CTAs of 128 threads, {SHARED_BYTES:,} bytes of shared memory each")
    table.add_row("executed", f"{result.stats.instructions:,} warp-instructions in {seconds:.2f} s, compilation included")
    families: Counter[str] = Counter()
    for opcode, count in result.stats.services.items():
        families[".".join(opcode.split(".")[:2]) if opcode.startswith(("tcgen05", "cp.")) else opcode.split(".")[0]] += count
    table.add_row("services", ", ".join(f"{name} {count:,}" for name, count in families.most_common(8)) or "none")
    table.add_row("checks", "nothing found" if not result.diagnostics else f"{len(result.diagnostics)} findings")
    table.add_row("float64", f"largest difference {worst:.2e} (allowed {tolerance:.2e})")
    table.add_row("bits", f"{equal:,} of {size:,} elements equal the bits of tcgen05.mma")
    return table


def main() -> int:
    console = Console()
    a, b = inputs()
    c = np.zeros((M, N), np.float16)
    started = time.perf_counter()
    result = launch(console, a, b, c)
    seconds = time.perf_counter() - started
    exact = a.astype(np.float64) @ b.astype(np.float64)
    worst = float(np.abs(c - exact).max())
    tolerance = float(2.0**-11 * np.abs(exact).max() + 1e-5)
    equal = int((c.view(np.uint16) == silicon_bits(a, b).view(np.uint16)).sum())
    good = result.ok and not result.diagnostics and worst <= tolerance and equal == c.size
    title = "[green]correct[/]" if good else "[red]wrong[/]"
    console.print(Panel(report(result, seconds, worst, tolerance, equal, c.size), title=title, expand=False))
    for diagnostic in result.diagnostics:
        console.print(str(diagnostic), markup=False, highlight=False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
