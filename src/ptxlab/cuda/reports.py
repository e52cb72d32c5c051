"""Findings about the use of the driver, and what it returns for findings of launches."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.machine.memory.global_memory import DeviceMemory

__all__ = ["Report", "report_of", "result_of"]


class Report(IntEnum):
    """What the library reports, as in ``library/core.h``."""

    UNSUPPORTED = 1
    DOUBLE_FREE = 2
    FOREIGN_FREE = 3
    LAUNCH = 4
    READ = 5
    WRITE = 6


_ILLEGAL_ADDRESS, _MISALIGNED, _LAUNCH_FAILED = 700, 716, 719
_RESULTS = {"M401": _ILLEGAL_ADDRESS, "M402": _ILLEGAL_ADDRESS, "M403": _ILLEGAL_ADDRESS, "M404": _ILLEGAL_ADDRESS, "M405": _MISALIGNED}
"""The driver's results, by code of the finding that ends a launch; any other is an unspecified launch failure."""


def result_of(diagnostics: Iterable[Diagnostic]) -> int:
    """What the driver returns after a launch with these findings."""
    return next((_RESULTS[d.code] for d in diagnostics if d.code in _RESULTS), _LAUNCH_FAILED)


def report_of(report: Report, function: str, address: int, text: str, memory: DeviceMemory, site: Place | None) -> Diagnostic:
    """Make the diagnostic of a misuse of the driver."""
    details = (("called at", str(site)),) if site is not None else ()
    if report is Report.UNSUPPORTED:
        message = f"the program calls {function}, which the virtual driver does not have"
        return diagnose("I503", message + (f": {text}" if text else ""), details=details)
    if report is Report.LAUNCH:
        return diagnose("I505", f"the driver refuses a launch: {text}", details=details)
    if report in (Report.READ, Report.WRITE):
        refused = memory.refusal(address, int(text), report is Report.WRITE)
        return diagnose(refused.code, f"host code: {refused.message}", details=(*refused.fields.get("details", ()), *details))
    found = memory.find(address)
    if found is not None and found.freed and found.base == address:
        return diagnose("I504", f"{function} of {address:#x}, which was freed before: {found}", details=details)
    if found is not None and not found.freed and address < found.base + found.size:
        return diagnose("I504", f"{function} of {address:#x}, which is not the start of an allocation: {found}", details=details)
    return diagnose("I504", f"{function} of {address:#x}, where nothing is allocated", details=details)
