"""Run the mutants of a kernel, and compare results and findings with those of the kernel itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ptxlab.engine import Executable
from ptxlab.engine.program import Program

from ..inputs import arrays_of
from ..judge import BUDGET, Unsound
from ..judge import CHECKS as SYNCHRONISATION
from ..kernels import kernels
from .mutants import Mutant, mutants
from .taken import products, record

__all__ = ["CHECKS", "UNTYPED", "Verdict", "judge", "judge_kernel"]

UNTYPED = "type of integers"
"""Element types where the array is one of bytes, so that nothing says which type they have."""

CHECKS = (*SYNCHRONISATION, "operands")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes
    ----------
    state : ``reported``; ``survived``: the results differ, and nothing was reported; ``harmless``: the results are the same, and nothing
        was reported; ``warned``: they are the same, and something was
    proposed : whether a fix names the original value
    """

    kernel: str
    mutant: Mutant
    state: str
    codes: tuple[str, ...] = ()
    proposed: bool = False
    fixes: tuple[str, ...] = ()


def judge(name: str, kernel: Any, launch: Any, wanted: Callable[[Mutant], bool] = lambda _: True) -> Iterator[Verdict]:
    """Judge the mutants of a kernel that are ``wanted``, in one launch of it."""
    program = kernel.variant(False, True)[0]

    def run(changed: Any) -> tuple[Any, dict[str, bytes]]:
        # Launches keep facts about a program with its executable.
        with kernel.replaced(changed, Executable(changed)):
            result, found = launch.launch(check=CHECKS, max_instructions=BUDGET)
        return result, {key: array.tobytes() for key, array in found.items()} if result.completed else {}

    result, sound = run(program)
    listed = [d for d in result.diagnostics if d.severity != "note"]
    if listed:
        raise Unsound(f"{listed[0].code}: {listed[0].message}")
    taken = record(run, program)
    untyped = any(array.dtype.kind in "iu" and array.itemsize == 1 for array in arrays_of(launch).values())
    for mutant in mutants(program, taken):
        if untyped and mutant.operator == "type":
            mutant = replace(mutant, operator=UNTYPED)
        if wanted(mutant):
            yield _verdict(name, mutant, *run(mutant.of(program)), sound)


def _verdict(name: str, mutant: Mutant, result: Any, found: dict[str, bytes], sound: dict[str, bytes]) -> Verdict:
    listed = [d for d in result.diagnostics if d.severity != "note"]
    codes = tuple(dict.fromkeys(d.code for d in listed))
    fixes = tuple(dict.fromkeys(f"{d.code}: {d.message} | {d.fix}" for d in listed))
    same = found == sound
    state = ("warned" if same else "reported") if listed else "harmless" if same else "survived"
    proposed = any(re.search(mutant.proposal, d.fix) is not None for d in listed)
    return Verdict(name, mutant, state, codes, proposed, fixes)


def judge_kernel(name: str, operator: str | None) -> tuple[str, list[Verdict], dict[str, str]]:
    """Judge the mutants of a kernel by its name: verdicts that can be sent to another process, and why the kernel was left out."""
    makers, _ = kernels()
    made = makers[name]()
    launch = next(iter(made.launches.values()))
    kernel = getattr(launch, "kernel", made.kernel)
    if not products(kernel.program):
        return name, [], {}
    try:
        found = list(judge(name, kernel, launch, lambda mutant: operator in (None, mutant.operator)))
    except Unsound as unsound:
        return name, [], {name: str(unsound)}
    return name, [replace(each, mutant=replace(each.mutant, of=_made)) for each in found], {}


def _made(program: Program) -> Program:
    raise AssertionError("the mutant has been judged")
