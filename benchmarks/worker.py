"""One measurement in a process of its own; prints JSON. The parent sets the cache folder and the environment."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(task: str, *arguments: str) -> None:
    tasks = (launch, cold, cold_kernel, first_instruction, many_kernels, one_cluster)
    tasks += (interpret, scalar, services, parse, lint, lint_long, addresses, numerics)
    result = {f.__name__: f for f in tasks}[task](*arguments)
    result["peak_mib"] = _peak_mib()
    print(json.dumps(result))


def _peak_mib() -> float:
    """The most memory that this process has had; ``ru_maxrss`` is at least what the process had that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def timed(call: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    value = call()
    return value, time.perf_counter() - started


def launch(name: str, check: str, repeats: str) -> dict[str, Any]:
    """The first launch of this process, then more; the result is compared with float64."""
    import ptxlab

    from .workloads import KERNELS, WORKLOADS, options

    work = WORKLOADS[name]
    arrays = work.arrays()
    kernel = ptxlab.load(KERNELS / f"{work.ptx}.ptx").kernel()
    arguments = work.arguments(arrays)

    def once() -> Any:
        return kernel.launch(**work.geometry, args=arguments, **options(check))

    result, first = timed(once)
    result.raise_for_errors()
    warm = [timed(once)[1] for _ in range(int(repeats))]
    worst = float(abs(arrays[-1] - work.near(arrays)).max())
    return {"first_s": first, "warm_s": warm, "instructions": result.stats.instructions, "worst": worst, "good": worst <= work.tolerance}


def cold(check: str = "default") -> dict[str, Any]:
    """One CTA of causal attention: a kernel of about 2,000 instructions."""
    import numpy as np

    import ptxlab

    from .workloads import KERNELS, SCALE, attention, options

    generator = np.random.default_rng(1)
    q, k, v = ((generator.standard_normal((1, 128, 64)) * 0.5).astype(np.float16) for _ in range(3))
    o, lse = np.zeros_like(q), np.zeros((1, 128), np.float32)
    kernel = ptxlab.load(KERNELS / "flash_causal_fp16.ptx").kernel()
    arguments = [q, k, v, o, lse, 128, SCALE, None, None]
    kernel.launch(grid=1, block=128, shared_bytes=65568, args=arguments, **options(check)).raise_for_errors()
    worst = float(abs(o - attention(q, k, v, causal=True)).max())
    return {"worst": worst, "good": worst < 0.01}


def cold_kernel(name: str, check: str) -> dict[str, Any]:
    from .cold import launch

    return launch(name, check)


def one_cluster(size: str, check: str) -> dict[str, Any]:
    """Memory of one cluster of a large product, in MiB: the arrays, and what the process had before there were any and with them.

    Before, the same kernel multiplies small matrices.
    """
    import numpy as np

    import ptxlab

    from .workloads import KERNELS

    kernel = ptxlab.load(KERNELS / "mm_ptr_fp16.ptx").kernel()

    def run(n: int) -> dict[str, float]:
        own = _resident_mib()
        a, b, c = (np.full((n, n), value, np.float16) for value in (0.5, 0.25, 7))
        begun = _resident_mib()
        arguments = [a, b, c, *[n] * 6, None, None]
        kernel.launch(grid=(n // 128) ** 2, block=128, shared_bytes=98320, args=arguments, only=[(0, 0, 0)], check=check).raise_for_errors()
        launched = _peak_mib()
        # A row at a time: a comparison of whole arrays takes memory of its own.
        good = all(bool((row[:128] == (n / 8 if i < 128 else 7)).all() and (row[128:] == 7).all()) for i, row in enumerate(c))
        arrays = (a.nbytes + b.nbytes + c.nbytes) / 2**20
        return {"own_mib": own, "begun_mib": begun, "launched_mib": launched, "arrays_mib": arrays, "good": good, "worst": 0}

    run(256)
    return run(int(size))


def first_instruction(lines: str) -> dict[str, Any]:
    """A kernel of so many lines: from its text to the end of its first few instructions, after which it returns."""
    started, busy = time.perf_counter(), time.process_time()
    import ptxlab

    from .unrolled import unrolled
    from .workloads import KERNELS

    text, making = timed(lambda: unrolled((KERNELS / "flash_causal_fp16.ptx").read_text(), int(lines)))
    kernel = ptxlab.loads(text).kernel()
    nothing = [None if p.type == "u64" else 0 for p in kernel.parameters]
    result = kernel.launch(grid=1, block=128, shared_bytes=65568, args=nothing)
    result.raise_for_errors()
    return {
        "lines": text.count("\n"),
        "instructions": result.stats.instructions,
        "seconds": time.perf_counter() - started - making,
        "cpu_s": time.process_time() - busy - making,
    }


def many_kernels(count: str, lines: str) -> dict[str, Any]:
    """From the text of a module to the end of the first instructions of one kernel: of a module of so many, and of one of them alone."""
    import ptxlab

    from .unrolled import repeated, unrolled
    from .workloads import KERNELS

    long = unrolled((KERNELS / "flash_causal_fp16.ptx").read_text(), int(lines))
    texts = [repeated(long, 1), repeated(long, int(count))]

    def start(text: str) -> float:
        began = time.process_time()
        module = ptxlab.loads(text)
        kernel = module[next(iter(module))]
        nothing = [None if p.type == "u64" else 0 for p in kernel.parameters]
        kernel.launch(grid=1, block=128, shared_bytes=65568, args=nothing).raise_for_errors()
        return time.process_time() - began

    start(texts[0])
    alone, together = zip(*((start(texts[0]), start(texts[1])) for _ in range(3)), strict=True)
    return {"lines": texts[1].count("\n"), "alone_cpu_s": sorted(alone)[1], "together_cpu_s": sorted(together)[1]}


def interpret(name: str, repeats: str) -> dict[str, Any]:
    """The same source under TRITON_INTERPRET=1, on torch CPU tensors."""
    import torch

    from .workloads import WORKLOADS, source

    work = WORKLOADS[name]
    arrays = work.arrays()
    tensors = [torch.from_numpy(a) for a in arrays]
    module = source(work.source)
    _, first = timed(lambda: work.interpret(module, tensors))
    warm = [timed(lambda: work.interpret(module, tensors))[1] for _ in range(int(repeats))]
    worst = float(abs(arrays[-1] - work.near(arrays)).max())
    return {"first_s": first, "warm_s": warm, "worst": worst, "good": worst <= work.tolerance}


def per_instruction(text: str, counts: tuple[int, int], repeats: int, times: int = 0, further: Sequence[Any] = ()) -> dict[str, Any]:
    """Seconds per warp-instruction: the difference between a long and a short loop, so that launches cancel out.

    With ``times``: seconds for each of the instructions that stand so many times in a turn.
    """
    import ptxlab

    kernel = ptxlab.loads(text).kernel()
    options = {"grid": 1, "block": 128, "check": "none", "max_instructions": 1 << 40}
    kernel.launch(args=[None, 1, *further], **options).raise_for_errors()
    found = []
    for _ in range(repeats):
        short, long = (timed(lambda n=n: kernel.launch(args=[None, n, *further], **options)) for n in counts)
        long[0].raise_for_errors()
        executed = long[0].stats.instructions - short[0].stats.instructions
        found.append((long[1] - short[1]) / (times * (counts[1] - counts[0]) or executed))
    return {"seconds": found}


def scalar(repeats: str) -> dict[str, Any]:
    from .generated import ARITHMETIC

    return per_instruction(ARITHMETIC, (200, 20_000), int(repeats))


def services(name: str, repeats: str) -> dict[str, Any]:
    import numpy as np

    import ptxlab

    from .generated import services

    loop = services()[name]
    further = []
    if loop.box is not None:
        further = [ptxlab.TensorMap(np.ones(loop.box[::-1], np.float16), box=loop.box, swizzle="128B")]
    return per_instruction(loop.text, (20, 20 + 15_000 // (16 + 8 * loop.times)), int(repeats), loop.times, further)


def parse(repeats: str) -> dict[str, Any]:
    """Lines a second over every kernel of the tests."""
    import ptxlab

    from .workloads import KERNELS

    texts = [path.read_text() for path in sorted(KERNELS.glob("*.ptx"))]
    lines = sum(text.count("\n") for text in texts)
    ptxlab.loads(texts[0])
    seconds = [timed(lambda: [ptxlab.loads(text) for text in texts])[1] for _ in range(int(repeats))]
    return {"lines": lines, "lines_per_s": [lines / s for s in seconds]}


def lint(repeats: str) -> dict[str, Any]:
    """Lines a second that lint checks, of every kernel of the tests, in processor time: without the data flow, and with it."""
    from ptxlab.check import lint as check

    from .workloads import KERNELS

    texts = [path.read_text() for path in sorted(KERNELS.glob("*.ptx"))]
    lines = sum(text.count("\n") for text in texts)
    found: dict[str, list[float]] = {"lines_per_s": [], "dataflow_lines_per_s": []}
    for text in texts:
        check(text)
    for _ in range(int(repeats)):
        for name, dataflow in zip(found, (False, True), strict=True):
            began = time.process_time()
            for text in texts:
                check(text, dataflow=dataflow)
            found[name].append(lines / (time.process_time() - began))
    return {"lines": lines, **found}


def lint_long(count: str) -> dict[str, Any]:
    """Processor time in which lint checks a module of so many kernels of 9,200 lines, paths included."""
    from ptxlab.check import lint as check

    from .unrolled import repeated, unrolled
    from .workloads import KERNELS

    text = repeated(unrolled((KERNELS / "flash_causal_fp16.ptx").read_text(), 9200), int(count))
    began = time.process_time()
    check(text)
    return {"lines": text.count("\n"), "cpu_s": time.process_time() - began}


def addresses(repeats: str) -> dict[str, Any]:
    """Addresses a second of each sort, over the modes, sizes and shapes that kernels use; nothing comes from a cache of layouts."""
    from .generated import addresses, forget_layouts

    found = {}
    for name, calls in addresses().items():

        def once(calls: Any = calls) -> int:
            forget_layouts()
            return sum(call() for call in calls)

        once()
        runs = [timed(lambda: sum(once() for _ in range(10))) for _ in range(int(repeats))]
        found[name] = [count / seconds for count, seconds in runs]
    return {"addresses_per_s": found}


def numerics(repeats: str) -> dict[str, Any]:
    from .numerics import measure

    return {"cases": measure(int(repeats))}


if __name__ == "__main__":
    main(*sys.argv[1:])
