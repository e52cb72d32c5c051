"""Judging the mutants of several kernels, on an executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ptxlab.campaign import Executors
from ptxlab.engine.program import Program

from .expected import EXPECTED, NOTHING
from .judge import Unsound, Verdict, judge, models
from .kernels import kernels
from .mutants import Mutant

__all__ = ["Choice", "judge_kernel", "judged"]


@dataclass(frozen=True)
class Choice:
    """Which mutants of a kernel are judged; ``kept`` is the folder of kernels that another machine has compiled."""

    kept: Path | None
    model: str | None
    line: int | None
    every: int
    first: int

    def wants(self, number: int, mutant: Mutant) -> bool:
        """Whether the mutant of this number is judged."""
        return number % self.every == self.first and self.line in (None, mutant.line)


def judged(names: list[str], choice: Choice, engine: Executors) -> Iterator[tuple[str, list[Verdict], dict[str, str]]]:
    """Judge the mutants of kernels on an executor: names, verdicts, and models that were left out with the reasons, as they end."""
    yield from engine.results(judge_kernel, ((name, choice) for name in names))


def judge_kernel(name: str, choice: Choice) -> tuple[str, list[Verdict], dict[str, str]]:
    """Judge the mutants of a kernel; the verdicts have no functions that make the mutants, so that they can be sent."""
    makers, _ = kernels(choice.kept)
    made = makers[name]()
    verdicts: list[Verdict] = []
    unsound: dict[str, str] = {}
    for model in models(made.kernel):
        if choice.model in (None, model):
            try:
                verdicts += judge(name, made.kernel, made.launches, model, choice.wants, EXPECTED.get((name, model), NOTHING))
            except Unsound as error:
                unsound[f"{name} ({model})"] = str(error)
    return name, [replace(each, mutant=replace(each.mutant, of=_made)) for each in verdicts], unsound


def _made(program: Program) -> Program:
    raise AssertionError("the mutant has been judged")
