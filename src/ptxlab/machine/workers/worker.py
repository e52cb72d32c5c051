"""A worker process: it runs clusters of a launch on its own copy of all memory, and reports what they have done."""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING, NoReturn

from ptxlab._records import dataclass
from ptxlab.machine.launch.reports import LaunchEnded
from ptxlab.machine.workers.accesses import AccessMaps, Groups, write_groups

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.memory.global_memory import Allocation

__all__ = ["RANGE", "Alone", "Done", "Part", "UnexpectedWrite", "Worker", "serve"]

RANGE = Struct("=qq")
"""The first cluster of a range, and the one behind its last."""


class Alone(Exception):
    """The launch must run with one worker; the text says why."""


class UnexpectedWrite(Exception):
    """A worker writes to an allocation of which it was expected that workers only read it."""


@dataclass(slots=True)
class Done:
    """CTAs that have ended since the last message, and instructions executed by this worker so far."""

    ctas: int
    instructions: int


@dataclass(slots=True)
class Part:
    """What a worker has done in all.

    Attributes
    ----------
    ctas, instructions, warps : CTAs that have ended, warp-instructions executed, warps started
    services : calls of services by instruction
    written : by the number of an allocation which bytes of it have been written; the file of results holds their values
    """

    ctas: int
    instructions: int
    warps: int
    services: list[int]
    written: dict[int, Groups]


class Worker:
    """What a launch asks of the worker that runs it."""

    def __init__(self, launch: Launch, allocations: list[Allocation], written: frozenset[int] | None) -> None:
        self._launch = launch
        self._allocations = allocations
        if written is not None:
            self._expect_writes(written)
        self._found = launch.reports.number
        scheduler = launch.scheduler
        self._before = launch.done_ctas, scheduler.instructions, launch.warps_started, list(scheduler.services)
        launch.device.memory.keep_only(allocations)
        self.maps = launch.marks = AccessMaps(allocations, launch.device.memory.rows)
        launch.replace_allocations(self.maps.rows)
        launch.options = replace(launch.options, progress=None, outside=None)
        scheduler.outside = None
        launch.employ(self)

    def _expect_writes(self, written: frozenset[int]) -> None:
        """Refuse writes to all allocations but those with these numbers."""
        only_read = [each for number, each in enumerate(self._allocations) if each.writable and number not in written]
        for each in only_read:
            each.writable = False

        def refuses_write(allocation: Allocation) -> None:
            if allocation in only_read:
                raise UnexpectedWrite

        self._launch.device.memory.refuses_write = refuses_write

    def leave(self, why: str) -> NoReturn:
        """End this worker: the launch must run with one."""
        raise Alone(why)

    def interleaves(self) -> None:
        """Another cluster starts before the resident one has ended."""
        if self._launch.policy == "lazy":
            self.leave("a cluster runs so long that others run beside it, and asynchronous operations wait")

    def run(self, clusters: range) -> Done:
        """Run clusters to their end."""
        launch = self._launch
        ended = launch.done_ctas
        launch.assign(clusters)
        launch.scheduler.run()
        if launch.policy == "random" and self.maps.next_cluster():
            self.leave("clusters access what others write, in an order that depends on all clusters")
        return Done(launch.done_ctas - ended, launch.scheduler.instructions - self._before[1])

    def finish(self, results: int) -> Part:
        """What has been done; `Alone` if it cannot be taken over. What has been written is copied to the file of results."""
        launch = self._launch
        launch.finish()
        if launch.observer is not None:
            launch.observer.finished()
            if launch.observer.unsettled():
                self.leave("a second run has to test findings")
        if launch.reports.number != self._found:
            self.leave("there are findings")
        if launch.printed:
            self.leave("the kernel prints")
        if launch.clipped:
            self.leave("a tensor copy writes up to the end of an allocation")
        ctas, instructions, warps, services = self._before
        executed = [now - before for now, before in zip(launch.scheduler.services, services, strict=True)]
        counted = launch.done_ctas - ctas, launch.scheduler.instructions - instructions, launch.warps_started - warps
        written = self.maps.written()
        try:
            for at, groups in written.items():
                write_groups(results, self._allocations[at], groups)
        except OSError as error:
            self.leave(f"there is no memory for results: {error}")
        return Part(*counted, executed, written)


def serve(
    launch: Launch,
    allocations: list[Allocation],
    written: frozenset[int] | None,
    first: range,
    others: int,
    results: int,
    connection: Connection,
) -> NoReturn:
    """Be a worker: run ranges of clusters, and then receive the numbers of the allocations whose reads are asked for.

    ``written`` are the numbers of the only allocations that are expected to be written, if not None: a write to another one ends the worker
    (`UnexpectedWrite`). Accesses to others need not be marked. ``others`` is a file with ranges that all workers read: each takes the first
    one that no other worker has taken. ``results`` is a file of this worker (`write_groups`). An exception that ends the worker is sent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that has made this one ends it
    status = 1
    try:
        gc.freeze()
        worker = Worker(launch, allocations, written)
        connection.send(worker.run(first))
        while clusters := _next_range(others):
            connection.send(worker.run(clusters))
        connection.send(worker.finish(results))
        connection.send(worker.maps.read(connection.recv()))
        status = 0
    except (Alone, UnexpectedWrite) as reason:
        connection.send(reason)
    except LaunchEnded:
        connection.send(Alone("a finding ends the launch"))
    finally:
        os._exit(status)


def _next_range(others: int) -> range | None:
    """Take the next range of the file; None if there is none."""
    import fcntl  # not on all systems

    fcntl.lockf(others, fcntl.LOCK_EX)  # the position of a file in memory is not advanced atomically
    try:
        record = os.read(others, RANGE.size)
    finally:
        fcntl.lockf(others, fcntl.LOCK_UN)
    return range(*RANGE.unpack(record)) if record else None
