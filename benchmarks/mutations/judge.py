"""Run a kernel with one synchronisation changed, and say what ptxlab made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ptxlab
from ptxlab.machine import _observer

from . import exact
from .letter import fenced
from .mutants import Mutant, mutants

SCHEDULES: tuple[tuple[str, int], ...] = (("eager", 0), ("lazy", 0), ("random", 1), ("random", 2), ("random", 3))
CHECKS = ("race", "memory", "barrier", "tmem", "descriptor", "register")
BUDGET = 3_000_000

PROPOSALS: dict[str, str] = {
    "barrier": r"bar\.sync|\ba barrier\b",
    "barrier.cluster": r"barrier\.cluster",
    "mbarrier.arrive": r"mbarrier\.arrive|arrive on an? m?barrier",
    "mbarrier.wait": r"mbarrier\.try_wait|wait on (its|the|that) m?barrier|wait with parity",
    "bytes": "expect_tx",
    "cp.async.wait": r"cp\.async\.wait",
    "cta_group": "cta_group::2",
}
"""What a repair says that puts back an instruction of a family; a family that is absent is named by itself."""


@dataclass(frozen=True)
class Run:
    """One launch: codes of what was found, texts of the repairs, and the results."""

    codes: tuple[str, ...]
    repairs: str
    results: bytes


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, and whether the removed instruction was proposed.

    ``redundant``: nothing was reported, the results are the same under all schedules, and the exact shadow, which forgets nothing, finds
    all conflicting accesses ordered as before. ``survived``: nothing was reported, but one of these is not so.
    """

    kernel: str
    model: str
    mutant: Mutant
    state: str
    codes: tuple[str, ...]
    proposed: bool


@dataclass(frozen=True)
class Subject:
    """A kernel with a launch of it, as a model of ordering wants it."""

    kernel: Any
    case: Any
    model: str
    program: Any
    executable: Any

    @classmethod
    def of(cls, kernel: Any, case: Any, model: str) -> Subject:
        """Under ``spec`` with the fences that no compiler emits."""
        file = kernel.module.ast.file
        source = kernel if model == "practice" else ptxlab.loads(fenced(Path(file).read_text()), file=file).kernel()
        return cls(kernel, case, model, *source.variant(False, True))

    def launch(self, program: Any, policy: str, seed: int, provider: str = "ptxlab.check.race") -> Run:
        """Launch with ``program`` in place of the kernel's own."""
        saved = self.kernel.variant(False, True)
        self.kernel._variants[False, True] = program, self.executable
        _observer._PROVIDERS["race"] = provider
        try:
            result, found = self.case.launch(check=CHECKS, policy=policy, seed=seed, model=self.model, max_instructions=BUDGET)
        finally:
            self.kernel._variants[False, True] = saved
            _observer._PROVIDERS["race"] = "ptxlab.check.race"
        listed = [d for d in result.diagnostics if d.code != "M410"]
        repairs = " ".join(d.fix for d in listed)
        results = b"".join(np.ascontiguousarray(a).tobytes() for a in found.values()) if result.completed else b""
        return Run(tuple(sorted({d.code for d in listed})), repairs, results)


def models(kernel: Any) -> tuple[str, ...]:
    """The models under which a kernel has mutants."""
    return ("practice", "spec") if any(op.opcode.startswith("tcgen05.") for op in kernel.program.ops) else ("practice",)


def judge(
    name: str, kernel: Any, case: Any, model: str = "practice", wanted: Callable[[int, Mutant], bool] = lambda *_: True
) -> Iterator[Verdict]:
    """Judge the mutants of a kernel that are ``wanted``, by their number and themselves."""
    subject = Subject.of(kernel, case, model)
    sound = subject.launch(subject.program, *SCHEDULES[0])
    assert not sound.codes, f"{name} is not clean: {sound.codes}"
    for number, mutant in enumerate(mutants(subject.program, model)):
        if wanted(number, mutant):
            yield _verdict(name, subject, mutant, sound)


def _verdict(name: str, subject: Subject, mutant: Mutant, sound: Run) -> Verdict:
    state = "redundant"
    for schedule in SCHEDULES:
        run = subject.launch(mutant.program, *schedule)
        if run.codes:
            proposal = PROPOSALS.get(mutant.family, re.escape(mutant.family))
            return Verdict(name, subject.model, mutant, "reported", run.codes, re.search(proposal, run.repairs) is not None)
        if run.results != sound.results:
            state = "survived"
    if state == "redundant" and subject.launch(mutant.program, *SCHEDULES[0], exact.__name__).codes:
        state = "survived"
    return Verdict(name, subject.model, mutant, state, (), False)
