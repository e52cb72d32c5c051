"""Findings about the use of the driver, and what it returns for findings of launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any

from ptxlab.cuda.memory import DriverMemory, ProgramMemory
from ptxlab.diagnostics import Diagnostic, Place, diagnose

__all__ = ["ConflictKind", "Report", "conflict_of", "left_of", "report_of", "result_of"]


class Report(IntEnum):
    """What the library reports, as in ``library/core.h``."""

    UNSUPPORTED = 1
    DOUBLE_FREE = 2
    FOREIGN_FREE = 3
    LAUNCH = 4
    READ = 5
    WRITE = 6


class ConflictKind(IntEnum):
    """How two operations conflict, as in ``library/core.h``."""

    WRITES = 1
    READS = 2
    OVERWRITES = 3
    HOST_WRITES = 4


_VERBS = {ConflictKind.WRITES: ("writes", "writes"), ConflictKind.READS: ("writes", "reads"), ConflictKind.OVERWRITES: ("reads", "writes")}
"""What the first and the second operation do to the bytes."""
_ORDER_THEM = (
    "record an event behind the first one (cuEventRecord) and let the stream of the second one wait for it (cuStreamWaitEvent), "
    "or wait for the first stream before the second call"
)
_FREE_LAST = "free the memory after the last operation that uses it"
_WAIT_FIRST = "wait for the stream, or for an event behind the operation, before the program writes there"

_ILLEGAL_ADDRESS, _MISALIGNED, _LAUNCH_FAILED = 700, 716, 719
_RESULTS = {"M401": _ILLEGAL_ADDRESS, "M402": _ILLEGAL_ADDRESS, "M403": _ILLEGAL_ADDRESS, "M404": _ILLEGAL_ADDRESS, "M405": _MISALIGNED}
"""The driver's results, by code of the finding that ends a launch; any other is an unspecified launch failure."""


def result_of(diagnostics: Iterable[Diagnostic]) -> int:
    """What the driver returns after a launch with these findings."""
    return next((_RESULTS[d.code] for d in diagnostics if d.code in _RESULTS), _LAUNCH_FAILED)


def conflict_of(conflict: Any, places: Sequence[Place | None], memory: DriverMemory) -> Diagnostic:
    """Make the diagnostic of two operations that nothing orders, or of memory that the program changes while an operation uses it.

    Parameters
    ----------
    conflict : a `ptxlab.cuda.core_types.Conflict`
    places : of the two calls
    memory : names the allocation
    """
    first, second = (bytes(what.value).decode(errors="replace") for what in conflict.what)
    found = memory.containing(conflict.address)
    where = f"[{conflict.address:#x}, {conflict.address + conflict.size:#x})"
    details: list[tuple[str, str]] = [] if found is None else [("allocation", str(found))]
    names = (first, second) if first != second else ("the first", "the second")
    details += [(f"{name} called at", str(place)) for name, place in zip(names, places, strict=True) if place is not None]
    if conflict.kind == ConflictKind.HOST_WRITES:
        message = f"the program changes memory that {first} on stream {conflict.streams[0]} uses, in {where}, before {second} waits for it"
        return diagnose("I509", message, fix=_WAIT_FIRST, details=tuple(details))
    did, does = _VERBS[ConflictKind(conflict.kind)]
    first, second = (f"{what} on stream {stream}" for what, stream in zip((first, second), conflict.streams, strict=True))
    message = f"{second} {does} bytes {where} that {first} {did}, and nothing orders them"
    return diagnose("I508", message, fix=_ORDER_THEM, details=tuple(details))


def left_of(left: Iterable[ProgramMemory], place_of: Callable[[int], Place | None]) -> list[Diagnostic]:
    """Make the notes about memory that the program has not freed: one for each place that allocates."""
    groups: dict[tuple[str, Place | None], list[int]] = {}
    for memory in left:
        groups.setdefault((memory.function, place_of(memory.made)), []).append(memory.size)
    return [
        diagnose(
            "I512",
            f"the program does not free {sum(sizes)} bytes of {function}, in {len(sizes)} allocation{'s' * (len(sizes) > 1)}",
            details=(("allocated at", str(place)),) if place is not None else (),
        )
        for (function, place), sizes in groups.items()
    ]


def report_of(report: Report, function: str, address: int, text: str, memory: DriverMemory, site: Place | None) -> Diagnostic | None:
    """Make the diagnostic of a misuse of the driver; None if it is no more than an error that the program is told of."""
    details: tuple[tuple[str, str], ...] = (("called at", str(site)),) if site is not None else ()
    if report is Report.UNSUPPORTED:
        message = f"the program calls {function}, which the virtual driver does not have"
        return diagnose("I503", message + (f": {text}" if text else ""), details=details)
    if report is Report.LAUNCH:
        return diagnose("I505", f"the driver refuses a launch: {text}", details=details)
    accesses = report in (Report.READ, Report.WRITE)
    if accesses and memory.of_host_code:
        refused = memory.refusal(address, int(text), report is Report.WRITE)
        return diagnose(refused.code, f"host code: {refused.message}", details=(*refused.fields.get("details", ()), *details))
    found = memory.find(address)
    if found is not None and found.freed and address < found.base + found.size:
        details += memory.history(found)
    if accesses:
        if found is None or not found.freed or address >= found.base + found.size:
            return None
        return diagnose("I510", f"{function} uses memory at {address:#x}, which was freed: {found}", fix=_FREE_LAST, details=details)
    if found is not None and found.freed and found.base == address:
        return diagnose("I504", f"{function} of {address:#x}, which was freed before: {found}", details=details)
    if found is not None and not found.freed and address < found.base + found.size:
        return diagnose("I504", f"{function} of {address:#x}, which is not the start of an allocation: {found}", details=details)
    return diagnose("I504", f"{function} of {address:#x}, where nothing is allocated", details=details)
