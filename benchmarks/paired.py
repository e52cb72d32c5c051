"""The measuring process of `benchmarks.compare`: one row; each line of standard input asks for one measurement, in seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Measure = Callable[[], float]


def _timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _launch(row: str) -> Measure:
    import ptxlab

    from .workloads import KERNELS, WORKLOADS, options

    name, check = row.split()
    work = WORKLOADS[name]
    kernel = ptxlab.load(KERNELS / f"{work.ptx}.ptx").kernel()
    arguments = work.arguments(work.arrays())

    def once() -> None:
        kernel.launch(**work.geometry, args=arguments, **options(check)).raise_for_errors()

    once()
    return lambda: _timed(once)


def _added(row: str) -> Measure:
    """The time that checks add to a launch: with and without them, one right after the other."""
    name, check = row.split()
    checked, plain = _launch(f"{name} {check}"), _launch(f"{name} none")
    return lambda: checked() - plain()


def _detached(row: str) -> Measure:
    """Launches after a session of the debugger, which has been closed; plain launches in a version without a debugger."""
    try:
        from ptxlab.debug import Session
    except ModuleNotFoundError:
        return _launch(row)
    import ptxlab

    text = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { bar.sync 0; ret; }"
    with Session(ptxlab.loads(text).kernel().prepare(block=64)) as session:
        session.run()
    return _launch(row)


def _scalar(_: str) -> Measure:
    from .worker import scalar

    return lambda: float(scalar("1")["seconds"][0])


def _service(row: str) -> Measure:
    from .worker import services

    return lambda: float(services(row, "1")["seconds"][0])


def _approximate(opcode: str) -> Measure:
    """The time of 1,000 warp-instructions: the four warps of the loop execute each instruction 250 times."""
    from .approximate import COUNT, approximate
    from .worker import per_instruction

    return lambda: 250 * float(per_instruction(approximate(opcode), (1, 801), 1, COUNT)["seconds"][0])


def _parse(_: str) -> Measure:
    import ptxlab

    from .workloads import KERNELS

    texts = [path.read_text() for path in sorted(KERNELS.glob("*.ptx"))]
    return lambda: _timed(lambda: [ptxlab.loads(text) for text in texts])


def _prepared(row: str) -> Measure:
    from .numerics import CASES, prepared_steps

    loop, _ = prepared_steps(**CASES[row])
    return lambda: _timed(lambda: [loop() for _ in range(3)])


def _fresh(row: str) -> Measure:
    if row == "import":
        return lambda: _timed(lambda: __import__("ptxlab"))

    from .worker import cold

    check = row.partition(" ")[2]
    return lambda: _timed(lambda: cold(check))


def main(row: str) -> None:
    """Answer until standard input ends; a fresh row answers once."""
    kind, _, rest = row.partition(" ")
    kinds = {"launch": _launch, "scalar": _scalar, "service": _service, "parse": _parse, "prepared": _prepared, "fresh": _fresh}
    kinds |= {"added": _added, "approximate": _approximate, "detached": _detached}
    measure = kinds[kind](rest)
    if kind == "fresh":
        print(measure())
        return
    measure()
    for _ in sys.stdin:
        print(measure(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
