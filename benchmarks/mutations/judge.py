"""Run a kernel with one synchronisation changed, and say what ptxlab made of it, and on what evidence."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import ptxlab
from ptxlab import ptx

from .adversary import ADVERSARIES, against
from .exact import observe
from .expected import NOTHING, Expected
from .letter import awaited, fenced
from .mutants import Mutant, mutants
from .observers import observed_by, reached

SCHEDULES: tuple[tuple[str, int], ...] = (("eager", 0), ("lazy", 0), ("random", 1), ("random", 2), ("random", 3))
CHECKS = ("race", "memory", "barrier", "tmem", "descriptor", "register")
BUDGET = 3_000_000
_MORE = 4
"""Times the instructions of the kernel itself, what a mutant may execute that nothing was said about."""
_SECONDS = 6
"""Of processor time."""

PROPOSALS: dict[str, str] = {
    "barrier": r"bar\.sync|\ba barrier\b|(come to|arrive at) barrier \d",
    "barrier.cluster": r"barrier\.cluster",
    "mbarrier.arrive": r"mbarrier\.arrive|arrive on an? m?barrier",
    "mbarrier.wait": r"mbarrier\.try_wait|wait on (its|the|that) m?barrier|wait with (the other )?parity",
    "bytes": "expect_tx",
    "cp.async.wait": r"cp\.async\.wait",
    "cta_group": "cta_group::2",
}
"""What a repair says that puts back an instruction of a family; a family that is absent is named by itself."""


class Unsound(Exception):
    """A kernel in which other findings are made as it stands than those that are expected, or whose results an adversary changes."""


@dataclass(frozen=True)
class Run:
    """One launch: what was found, the results, none if it did not come to its end, and how many warp-instructions it took.

    ``expected``: what is found in the kernel as it stands, too.
    """

    findings: tuple[Any, ...]
    expected: tuple[Any, ...]
    results: dict[str, Any]
    instructions: int

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of what was found."""
        return tuple(sorted({d.code for d in self.findings}))

    @property
    def repairs(self) -> str:
        """Texts of the repairs."""
        return " ".join(d.fix for d in self.findings)

    @property
    def bits(self) -> tuple[tuple[str, bytes], ...]:
        """The results, to be compared."""
        return tuple((name, array.tobytes()) for name, array in self.results.items())


@dataclass(frozen=True)
class Reason:
    """Why a mutant that nothing was said about is not redundant: who shows it, in which launch, and what."""

    by: str
    size: str
    schedule: str
    what: str


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, and whether the removed instruction was proposed.

    ``redundant``: nothing was reported at any size under any schedule, the results are the same there and against the adversaries, and the
    exact shadow, which forgets nothing, finds all conflicting accesses ordered as before (it is not asked where it is slow). ``survived``:
    nothing was reported, but one of these is not so, which ``reasons`` tells. ``explored``: the launches, as (size, who ran it).
    """

    kernel: str
    model: str
    mutant: Mutant
    text: str
    state: str
    codes: tuple[str, ...] = ()
    proposed: bool = False
    repairs: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    explored: tuple[tuple[str, str], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Site:
    """A launch of a kernel as a model of ordering wants it.

    Where sizes are compiled in, each launch has a kernel of its own, of the same instructions.
    """

    launch: Any
    kernel: Any
    source: Any
    program: Any
    executable: Any

    @classmethod
    def of(cls, launch: Any, kernel: Any, model: str) -> Site:
        """Under ``spec`` with tcgen05.wait::ld before registers of tcgen05.ld are used, and with tcgen05.fence.

        No compiler emits the fence: where the source has none, with fences wherever they may count.
        """
        source, text = kernel, kernel.module.ast.text
        if model == "spec":
            wanted = awaited(text if "tcgen05.fence::" in text else fenced(text))
            source = ptxlab.loads(wanted, file=kernel.module.ast.file)[kernel.name]
        return cls(launch, kernel, source, *source.variant(False, True))

    def text(self, mutant: Mutant) -> str:
        """The line of a mutant."""
        return ptx.line_text(self.source.module.ast, mutant.line).strip()

    def run(self, program: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Launch with ``program`` in place of the kernel's own."""
        with self.kernel.replaced(program, self.executable):
            return self.launch.launch(check=CHECKS, **options)


@dataclass(frozen=True)
class Subject:
    """A kernel with its launches by size."""

    name: str
    model: str
    sites: dict[str, Site]
    expected: Expected

    @classmethod
    def of(cls, name: str, kernel: Any, launches: dict[str, Any], model: str, expected: Expected = NOTHING) -> Subject:
        """See `Site`."""
        sites = {size: Site.of(launch, getattr(launch, "kernel", kernel), model) for size, launch in launches.items()}
        return cls(name, model, sites, expected)

    def launch(
        self,
        size: str,
        policy: str,
        seed: int,
        around: AbstractContextManager[None] | None = None,
        mutant: Mutant | None = None,
        budget: int = BUDGET,
    ) -> Run:
        """Launch the kernel, or a mutant of it. Notes are no findings."""
        site = self.sites[size]
        program = site.program if mutant is None else mutant.of(site.program)
        with around or nullcontext():
            result, found = site.run(program, policy=policy, seed=seed, model=self.model, max_instructions=budget)
        listed = [d for d in result.diagnostics if d.severity != "note"]
        expected = tuple(d for d in listed if place_of(d) in self.expected.findings and not self._names_mutant(d, mutant))
        other = tuple(d for d in listed if d not in expected)
        return Run(other, expected, found if result.completed else {}, result.stats.instructions)

    def _names_mutant(self, finding: Any, mutant: Mutant | None) -> bool:
        """Whether the repair of an expected finding names the removed instruction, and does not do so in the kernel as it stands."""
        if mutant is None or not proposes(mutant, finding.fix):
            return False
        as_it_stands = (d for run in self.sound.values() for d in run.expected)
        return not any(place_of(d) == place_of(finding) and proposes(mutant, d.fix) for d in as_it_stands)

    @cached_property
    def sound(self) -> dict[str, Run]:
        """What the kernel itself gives, by size, and the instructions that it takes at most.

        Nothing is found but what is expected, all of which is, and the results are always the same, also against the adversaries.
        """
        made = {}
        for size in self.sites:
            first = self.launch(size, *SCHEDULES[0])
            most = first.instructions
            if first.codes:
                raise Unsound(f"{size}: {first.codes[0]}: {first.findings[0].message}")
            others = [(f"{policy} {seed}", policy, seed, nullcontext()) for policy, seed in SCHEDULES[1:]]
            others += [(f"{name} {seed}", "random", seed, against(name)) for name, seed in ADVERSARIES]
            for who, policy, seed, around in others:
                run = self.launch(size, policy, seed, around)
                wrong, most = self.wrong(size, run, first), max(most, run.instructions)
                if wrong:
                    raise Unsound(f"{size}, {who}: {wrong}")
            made[size] = replace(first, instructions=most)
        found = {place_of(d) for run in made.values() for d in run.expected}
        for code, line in sorted(self.expected.findings - found):
            raise Unsound(f"{code} at line {line} is expected and not found")
        return made

    def wrong(self, size: str, run: Run, sound: Run | None = None) -> str:
        """What of a launch differs from the kernel's own; "" if nothing."""
        sound = sound or self.sound[size]
        if run.codes:
            return f"{run.codes[0]}: {run.findings[0].message}"
        if run.bits == sound.bits:
            return ""
        count = sum(int((array != sound.results[name]).sum()) for name, array in run.results.items())
        return f"{count} elements of the results differ"

    @cached_property
    def slow(self) -> frozenset[str]:
        """The sizes at which the exact shadow takes too long to be asked about each mutant."""
        slow = set()
        for size in self.sites:
            started = time.process_time()
            wrong = self.wrong(size, self.launch(size, *SCHEDULES[0], observed_by(observe)))
            if wrong:
                raise Unsound(f"{size}, exact shadow: {wrong}")
            if time.process_time() - started > _SECONDS:
                slow.add(size)
        return frozenset(slow)

    @cached_property
    def reached(self) -> dict[str, frozenset[int]]:
        """The instructions that each launch executes."""
        return {size: reached(partial(self.launch, size, *SCHEDULES[0])) for size in self.sites}


def place_of(finding: Any) -> tuple[str, int]:
    """The code of a finding, and the line of its instruction, 0 if it has none."""
    return finding.code, finding.place.line if finding.place else 0


def proposes(mutant: Mutant, fix: str) -> bool:
    """Whether a repair puts back what a mutant lacks."""
    return re.search(PROPOSALS.get(mutant.family, re.escape(mutant.family)), fix) is not None


def models(kernel: Any) -> tuple[str, ...]:
    """The models under which a kernel has mutants."""
    return ("practice", "spec") if any(op.opcode.startswith("tcgen05.") for op in kernel.program.ops) else ("practice",)


def judge(
    name: str,
    kernel: Any,
    launches: Any,
    model: str = "practice",
    wanted: Callable[[int, Mutant], bool] = lambda *_: True,
    expected: Expected = NOTHING,
) -> Iterator[Verdict]:
    """Judge the mutants of a kernel that are ``wanted``, by their number and themselves.

    ``launches``: one, or several by size. What no launch executes is no mutant. A mutant is reported if something is found that is not
    ``expected`` of the kernel as it stands.
    """
    subject = Subject.of(name, kernel, launches if isinstance(launches, dict) else {"": launches}, model, expected)
    assert subject.sound
    executed = frozenset().union(*subject.reached.values())
    program = next(iter(subject.sites.values())).program
    found = (mutant for mutant in mutants(program, model) if mutant.index in executed)
    for number, mutant in enumerate(found):
        if wanted(number, mutant):
            yield _verdict(subject, mutant)


def _verdict(subject: Subject, mutant: Mutant) -> Verdict:
    verdict = partial(Verdict, subject.name, subject.model, mutant, next(iter(subject.sites.values())).text(mutant))
    sizes = [size for size in subject.sites if mutant.index in subject.reached[size]]
    explored, reasons = [], []
    for size in sizes:
        for policy, seed in SCHEDULES:
            schedule = f"{policy} {seed}" if policy == "random" else policy
            run = subject.launch(size, policy, seed, mutant=mutant)
            explored.append((size, schedule))
            if run.codes:
                repairs = tuple(dict.fromkeys(f"{d.code}: {d.fix}" for d in run.findings))
                return verdict("reported", run.codes, proposes(mutant, run.repairs), repairs, explored=tuple(explored))
            if wrong := subject.wrong(size, run):
                reasons.append(Reason("results", size, schedule, wrong))
    for size in sizes:
        for who, around, policy, seed in _evidence(exact=size not in subject.slow):
            run = subject.launch(size, policy, seed, around, mutant, _MORE * subject.sound[size].instructions)
            explored.append((size, who))
            if wrong := subject.wrong(size, run):
                reasons.append(Reason(who.rstrip(" 0123456789"), size, who, wrong))
    return verdict("survived" if reasons else "redundant", reasons=tuple(reasons), explored=tuple(explored))


def _evidence(exact: bool) -> Iterator[tuple[str, AbstractContextManager[None], str, int]]:
    """Who else runs a mutant that nothing was said about: name, around the launch, policy and seed."""
    if exact:
        yield "exact shadow", observed_by(observe), "eager", 0
    for name, seed in ADVERSARIES:
        yield f"{name} {seed}", against(name), "random", seed
