"""From a kernel and its arguments to the result of a launch: arguments are bound before it, and arrays change after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.machine.launch.arguments import bind_arguments, roots_of
from ptxlab.machine.launch.configuration import LaunchConfiguration, shared_bytes
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.launch.program_facts import facts_of, only_computes
from ptxlab.machine.launch.reports import LaunchEnded
from ptxlab.machine.launch.result import Result, Stats
from ptxlab.machine.memory.journal import Journal
from ptxlab.machine.observe.observer import tracing
from ptxlab.native.collection import collection_rare

if TYPE_CHECKING:
    from ptxlab.machine._device import Device
    from ptxlab.machine._module import Kernel
    from ptxlab.machine.memory.global_memory import DeviceMemory
    from ptxlab.machine.replay.replay import Replay

__all__ = ["execute", "prepare", "run"]

_MOST_KEPT = 1 << 28
"""Bytes of device memory that are copied for a second run."""


def prepare(kernel: Kernel, device: Device, options: LaunchConfiguration, args: Iterable[Any]) -> Replay:
    """Keep a launch that has not been run: bind the arguments, and copy the device memory."""
    shared_bytes(kernel.program, options.shared_bytes)
    addresses = device.module_addresses(kernel.module)
    values = list(args)
    arguments = bind_arguments(kernel.program.parameters, kernel.program.param_bytes, values, device, kernel.name)
    try:
        device.launches += 1
        from ptxlab.machine.replay.replay import Replay

        return Replay.of(kernel, options, device, values, arguments, addresses, device.memory.copy())
    finally:
        arguments.release()


def run(kernel: Kernel, device: Device, options: LaunchConfiguration, args: Iterable[Any], started: float) -> Result:
    """Bind the arguments, run, and change arrays if the kernel ran to its end."""
    checks = options.checks
    program, executable = kernel.variant(options.contract, "race" in checks, options.tracked, "operands" in checks, options.profile)
    trace = tracing(options.trace)
    facts = facts_of(program, executable)
    facts.of(shared_bytes, options.shared_bytes)
    addresses = device.module_addresses(kernel.module)
    values = list(args)
    alone = options.outside is None and device.memory.chooses_addresses

    def lend(places: Sequence[tuple[int, int]]) -> bool:
        if not alone or options.processes <= 1:
            return alone
        from ptxlab.machine.workers.processes import shared_with_processes

        return not shared_with_processes(places)

    arguments = bind_arguments(program.parameters, program.param_bytes, values, device, kernel.name, lend)
    journal: Journal | None = None
    completed = False
    try:
        device.launches += 1
        confirms = options.confirms and not facts.of(only_computes)
        roots = roots_of(arguments.packed, addresses) if confirms or options.keep_inputs else b""
        size = sum(allocation.size for allocation in device.memory.reached_from(roots)) if confirms else 0
        again = confirms and (options.keep_inputs or size <= _MOST_KEPT)

        def replay_of(memory: DeviceMemory) -> Replay:
            from ptxlab.machine.replay.replay import Replay

            return Replay.of(kernel, options, device, values, arguments, addresses, memory)

        replay = replay_of(device.memory.copy(roots)) if options.keep_inputs or (again and not alone) else None
        if replay is None and again:
            journal = Journal(device.memory, device.memory.reached_from(roots))
        elif arguments.lent:
            journal = Journal(device.memory, arguments.lent)

        def before() -> Replay:
            if replay is not None:
                return replay
            assert journal is not None
            return replay_of(journal.memory_before(roots))

        where = device, kernel.module.ast, program, executable, options, arguments.packed, addresses
        launch = Launch(*where, trace=trace, journal=journal)
        result = execute(launch, started, replay if options.keep_inputs else None, before if again else None, size)
        if launch.profiler is None:  # a profile makes its estimate when it is asked for it
            launch.forget()
        if result.completed:
            arguments.write_back()
            completed = True
        return result
    finally:
        if journal is not None:
            if not completed:
                journal.restore(arguments.lent)
            journal.forget()
        arguments.release()


def execute(launch: Launch, started: float, replay: Replay | None, second: Callable[[], Replay] | None, size: int = 0) -> Result:
    """Run a launch until it ends, or until a finding ends it, and make its result.

    ``replay`` goes into the result. ``second`` gives what runs the launch again where findings hold only if a value is used: before its
    end, where a finding ends it. Without it, or if the launch does not run to its end, all device memory counts as defined afterwards.
    These findings say so if the ``size`` of device memory is why there is no ``second``.
    """
    notes: tuple[Diagnostic, ...] = ()
    completed = False
    launch.observations.followed = second is not None and launch.options.tracked
    try:
        with collection_rare() if launch.observed else nullcontext():
            launch.run()
        completed = True
    except LaunchEnded:
        pass
    finally:
        if launch.observer is not None:
            notes = launch.observer.finished()
    if second is not None and launch.observer is not None and (completed or launch.observer.open_findings()):
        launch.reports.review(launch.observer.uses(cache(second), completed))
    elif not launch.facts.of(only_computes):
        launch.device.memory.forget_mirrors()
        if completed and second is None and size > _MOST_KEPT and launch.observer is not None:
            launch.reports.not_reviewed(launch.observer.open_findings(), size >> 20, _MOST_KEPT >> 20)
    profile = None if launch.profiler is None else launch.profiler.profile()
    return Result((*launch.reports.diagnostics(), *notes), Stats.of(launch, started), completed, "".join(launch.printed), replay, profile)
