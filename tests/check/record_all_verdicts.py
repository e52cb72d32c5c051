"""Record what ptxas 13.5 says about instructions of all families: ``python -m tests.check.record_all_verdicts``.

Writes ``ptxas_verdicts_all.tsv.gz``: instruction, target, version, verdict (accept, reject, crash), first message, family, how the row was
made, and the row that it is an edit of. Of each family about half are random instructions of `grammar` that ptxas accepts; most others are
one edit away from one of them (`instructions.EDITS`, another target, another version); a few are random instructions that it refuses.
Nothing of the package takes part, so that what the linter knows has no influence on what it is asked.
"""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .batches import Verdict, judge
from .instructions import Instruction, Writer
from .test_verdicts import assembler

__all__ = ["LATEST", "TABLE", "TARGETS", "VERSIONS", "Row", "read", "rows"]

TABLE = Path(__file__).with_name("ptxas_verdicts_all.tsv.gz")
SEED = 13
EACH = 1800
"""Rows of each family."""
ACCEPTED, REFUSED = 0.5, 0.05
"""Shares of random instructions that ptxas accepts and refuses; the others are edits."""

TARGETS = {
    "sm_75": (7, 0), "sm_80": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4), "sm_88": (9, 0), "sm_89": (7, 8), "sm_90": (7, 8),
    "sm_90a": (8, 0), "sm_100": (8, 6), "sm_100a": (8, 6), "sm_100f": (8, 8), "sm_103": (8, 8), "sm_103a": (8, 8), "sm_103f": (8, 8),
    "sm_110": (9, 0), "sm_110a": (9, 0), "sm_110f": (9, 0), "sm_120": (8, 7), "sm_120a": (8, 7), "sm_120f": (8, 8), "sm_121": (8, 8),
    "sm_121a": (8, 8), "sm_121f": (8, 8),
}  # fmt: skip
"""Target -> the first version of the PTX ISA, from 7.0 on, that has it."""
VERSIONS = [(major, minor) for major, last in ((7, 8), (8, 8), (9, 4)) for minor in range(last + 1)]
LATEST = VERSIONS[-1]
_NEWER = [target for target, first in TARGETS.items() if first >= (7, 8) and target not in ("sm_88", "sm_89")]
_USUAL = {
    "wgmma": ["sm_90a"],
    "tcgen05": ["sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f"],
    **dict.fromkeys(("bulk", "tensor", "tensormap", "mbarrier"), _NEWER),
}
"""The targets that most instructions of a family are given."""

Judge = Callable[[Sequence[str], str, str], dict[str, Verdict]]


class Row(NamedTuple):
    """A row of the table; ``base`` is the number of the accepted row that this one is an edit of, -1 if it is none."""

    instruction: str
    target: str
    version: str
    outcome: str
    message: str
    family: str
    made: str
    base: int


class _Candidate(NamedTuple):
    instruction: Instruction
    target: str
    version: tuple[int, int]
    family: str
    made: str = "grammar"
    base: int = -1

    @property
    def key(self) -> tuple[str, str, str]:
        return self.instruction.text, self.target, "{}.{}".format(*self.version)


def _random(writer: Writer, family: str) -> _Candidate:
    random = writer.random
    version = LATEST if random.random() < 0.5 else random.choice(VERSIONS)
    known = [target for target, first in TARGETS.items() if first <= version]
    usual = [target for target in _USUAL.get(family, known) if target in known]
    target = random.choice(usual if usual and random.random() < 0.9 else known)
    if family in _USUAL and not usual and random.random() < 0.9:
        target = random.choice(_USUAL[family])
        version = random.choice([v for v in VERSIONS if v >= TARGETS[target]])
    return _Candidate(writer.instruction(family), target, version, family)


def _edit(writer: Writer, base: _Candidate, number: int) -> _Candidate | None:
    random = writer.random
    kind = random.random()
    if kind < 0.09:
        target = random.choice([t for t in TARGETS if t != base.target])
        return base._replace(target=target, made="other target", base=number)
    if kind < 0.18:
        known = [v for v in VERSIONS if v != base.version and (v >= TARGETS[base.target] or random.random() < 0.2)]
        return base._replace(version=random.choice(known or VERSIONS), made="other version", base=number)
    edited = writer.edited(base.instruction)
    return base._replace(instruction=edited[1], made=edited[0], base=number) if edited else None


def _judged(judge: Judge, candidates: Iterable[_Candidate]) -> dict[tuple[str, str, str], Verdict]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for candidate in candidates:
        instruction, target, version = candidate.key
        groups[target, version].append(instruction)
    found = {}
    for (target, version), instructions in groups.items():
        found.update({(i, target, version): verdict for i, verdict in judge(instructions, target, version).items()})
    return found


def rows(seed: int, each: int, judge: Judge) -> list[Row]:
    """The rows of a seed, ``each`` of every family."""
    writer = Writer(seed)
    known: dict[tuple[str, str, str], int] = {}
    made: list[Row] = []
    accepted: dict[str, list[tuple[_Candidate, int]]] = {family: [] for family in writer.syntaxes}
    refused = dict.fromkeys(writer.syntaxes, 0)
    edits = dict.fromkeys(writer.syntaxes, 0)

    def enter(candidate: _Candidate, verdict: Verdict) -> None:
        known[candidate.key] = len(made)
        made.append(Row(*candidate.key, *verdict, candidate.family, candidate.made, candidate.base))

    for _ in range(6):
        wanted = {f: round(each * ACCEPTED) - len(accepted[f]) for f in accepted}
        fresh = [_random(writer, f) for f, count in wanted.items() for _ in range(count * 5 // 4 + (8 if count else 0))]
        verdicts = _judged(judge, fresh)
        for candidate in fresh:
            verdict, family = verdicts[candidate.key], candidate.family
            if candidate.key in known:
                continue
            if verdict.outcome == "accept" and len(accepted[family]) < round(each * ACCEPTED):
                accepted[family].append((candidate, len(made)))
                enter(candidate, verdict)
            elif verdict.outcome != "accept" and refused[family] < round(each * REFUSED):
                refused[family] += 1
                enter(candidate, verdict)
    share = round(each * (1 - ACCEPTED - REFUSED))
    for _ in range(6):
        some = [
            _edit(writer, *writer.random.choice(bases))
            for f, bases in accepted.items()
            for _ in range((share - edits[f]) * 9 // 8)
            if bases
        ]
        fresh = [candidate for candidate in some if candidate is not None]
        verdicts = _judged(judge, fresh)
        for candidate in fresh:
            if candidate.key not in known and edits[candidate.family] < share:
                edits[candidate.family] += 1
                enter(candidate, verdicts[candidate.key])
    return made


def read() -> list[Row]:
    """The recorded table."""
    lines = gzip.decompress(TABLE.read_bytes()).decode().splitlines()[1:]
    return [Row(*cells[:7], int(cells[7])) for cells in (line.split("\t") for line in lines)]


def main() -> None:
    ptxas = assembler()
    if ptxas is None:
        sys.exit("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    lines = ["\t".join(Row._fields), *("\t".join(map(str, row)) for row in rows(SEED, EACH, lambda *given: judge(ptxas, *given)))]
    TABLE.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", 9, mtime=0))


if __name__ == "__main__":
    main()
