"""`analyse`: all rules on one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxlab.check.static.dataflow._kernel import Kernel, Report
from ptxlab.check.static.dataflow.rules import (
    addresses,
    collectives,
    completion,
    constants,
    groups,
    maps,
    mbarriers,
    proxies,
    tensor_memory,
    transfers,
    unrolled,
    warpgroups,
)
from ptxlab.check.static.followed import Abandoned
from ptxlab.engine import Program
from ptxlab.native.collection import collection_paused

__all__ = ["analyse"]

Rule = Callable[[Kernel], Iterator[Report]]
_RULES: tuple[Rule, ...] = (
    *collectives.RULES,
    *tensor_memory.RULES,
    *transfers.RULES,
    *warpgroups.RULES,
    *groups.RULES,
    *mbarriers.RULES,
    *completion.RULES,
    *proxies.RULES,
    *maps.RULES,
    *addresses.RULES,
    *constants.RULES,
    *unrolled.RULES,
)


def analyse(program: Program, target: str, wanted: Callable[[], bool] = lambda: True) -> list[Report]:
    """The mistakes that the text of a kernel shows, one for each code and line, in the order of the text.

    ``wanted`` is asked before each rule; if it says no, `Abandoned` is raised.
    """
    found: dict[tuple[str, int], Report] = {}
    with collection_paused():
        kernel = Kernel(program, target)
        for rule in _RULES:
            if not wanted():
                raise Abandoned
            for report in rule(kernel):
                known = found.get((report.code, report.op.line))
                if known is None or (known.severity == "warning" and report.severity is None):
                    found[report.code, report.op.line] = report
    return sorted(found.values(), key=lambda report: (report.op.line, report.op.column, report.code))
