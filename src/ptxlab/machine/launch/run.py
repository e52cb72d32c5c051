"""Run a launch whose options are checked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.machine._device import Device
from ptxlab.machine.launch.arguments import bind_arguments
from ptxlab.machine.launch.configuration import LaunchConfiguration
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.launch.limits import shared_bytes
from ptxlab.machine.launch.reports import LaunchEnded
from ptxlab.machine.launch.result import Result, Stats
from ptxlab.machine.observe.observer import tracing
from ptxlab.machine.replay.replay import Replay

if TYPE_CHECKING:
    from ptxlab.machine._module import Kernel

__all__ = ["execute", "run"]


def run(
    kernel: Kernel,
    device: Device,
    options: LaunchConfiguration,
    args: Iterable[Any],
    started: float,
) -> Result:
    """Bind the arguments, run, and write arrays back if the kernel ran to its end."""
    program, executable = kernel.variant(options.contract, "race" in options.checks)
    trace = tracing(options.trace)
    shared_bytes(program, options.shared_bytes)
    addresses = device.module_addresses(kernel.module)
    values = list(args)
    arguments = bind_arguments(program.parameters, program.param_bytes, values, device, kernel.name)
    try:
        device.launches += 1
        replay = Replay.of(kernel, options, device, values, arguments, addresses) if options.keep_inputs else None
        launch = Launch(device, kernel.module.ast, program, executable, options, arguments.packed, addresses, trace=trace)
        result = execute(launch, started, replay)
        if result.completed:
            arguments.write_back()
        return result
    finally:
        arguments.release()


def execute(launch: Launch, started: float, replay: Replay | None) -> Result:
    """Run a launch until it ends, or until a finding ends it, and make its result."""
    notes: tuple[Diagnostic, ...] = ()
    completed = False
    try:
        launch.run()
        completed = True
    except LaunchEnded:
        pass
    finally:
        if launch.observer is not None:
            notes = launch.observer.finished()
    return Result((*launch.reports.diagnostics(), *notes), _stats(launch, started), completed, "".join(launch.printed), replay)


def _stats(launch: Launch, started: float) -> Stats:
    services: Counter[str] = Counter()
    for op, count in zip(launch.program.ops, launch.scheduler.services, strict=True):
        if count:
            services[op.opcode] += count
    return Stats(launch.scheduler.instructions, dict(services), launch.done_ctas, time.perf_counter() - started)
