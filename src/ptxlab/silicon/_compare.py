"""Replaying what a GPU did: where ptxlab gives other bits, in words and as plain values; and what the results are evidence for."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab.isa
from ptxlab import machine
from ptxlab.descriptors import encode_tensor_map
from ptxlab.diagnostics import Diagnostic, PtxlabError
from ptxlab.isa.catalogue import Row, match
from ptxlab.silicon._case import Array, Case
from ptxlab.silicon._kit import parts_of
from ptxlab.silicon._results import Outcome, Results
from ptxlab.silicon.parts.timing import STEPS

__all__ = ["Comparison", "Report", "compare", "write_evidence"]

CUDA_ERRORS: Mapping[str, str] = {
    "B501": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "C901": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "C902": "ok",
    "D723": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "D724": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "D726": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "H603": "CUDA_ERROR_LAUNCH_FAILED",
    "H606": "CUDA_ERROR_ASSERT",
    "M401": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "M405": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "M406": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "M408": "CUDA_ERROR_ILLEGAL_ADDRESS",
}
"""Diagnostic code -> what a launch with this error gives on a GPU: as an H200 does; "ok" where it does not notice the error."""
_CHECKS = ("memory", "barrier", "tmem", "descriptor", "register")
_SHOWN_WORDS = 16


@dataclass(frozen=True)
class Comparison:
    """A case as a GPU and as ptxlab execute it.

    Attributes
    ----------
    difference : empty where they agree
    wrong : words that differ
    code : of a case of the part ``faults``: the diagnostic code that ptxlab gives
    """

    name: str
    outcome: Outcome
    difference: str = ""
    wrong: int = 0
    code: str = ""

    @property
    def family(self) -> str:
        """The instruction of the case, without its modifiers."""
        return ".".join(self.outcome.case.opcodes[0].split(".")[:2])


def replay(case: Case, check: str | tuple[str, ...] = _CHECKS) -> tuple[list[NDArray[Any]], tuple[Diagnostic, ...]]:
    """What a file of results has of a case, as ptxlab computes it, and what is wrong with the case."""
    module = machine.loads(case.text)
    device = machine.Device(module.target)
    held = [device.array(array.data) for array in (*case.inputs, *case.outputs)]

    def encoded(call: Mapping[str, Any]) -> bytes:
        return encode_tensor_map(**call, target=module.target)

    maps = [encoded({**each.call, "address": held[each.array].address}) for each in case.maps]
    only = [(cta, 0, 0) for cta in case.replayed] or None
    try:
        found = module[case.entry].launch(
            grid=case.grid,
            block=case.block,
            shared_bytes=case.shared_bytes,
            args=[*held, *maps],
            device=device,
            check=check,
            only=only,
        )
        diagnostics = found.diagnostics
    except PtxlabError as error:
        diagnostics = error.diagnostics
    outputs = [buffer.numpy() for buffer in held[len(case.inputs) :]]
    return outputs + [np.frombuffer(encoded(each.shown), np.uint8) for each in case.maps], tuple(diagnostics)


def _compared(name: str, outcome: Outcome) -> Comparison:
    case, state = outcome.case, outcome.state
    if case.kind == "time":
        return Comparison(name, outcome, "" if state == "ok" else f"the GPU: {state}")
    outputs, found = replay(case)
    errors = [d for d in found if d.severity == "error"]
    both = f"the GPU: {state}; ptxlab: {str(errors[0]).splitlines()[0] if errors else 'no error'}"
    if case.kind == "fault" and (state != "ok" or errors):
        code = errors[0].code if errors else ""
        expected = CUDA_ERRORS.get(code)
        agree = state == expected if expected else bool(code) and state.startswith("CUDA_ERROR_")
        text = both + (f", for which {expected} is expected" if expected else "")
        return Comparison(name, outcome, "" if agree else text, 0 if agree else 1, code)
    if state != "ok" or errors:
        return Comparison(name, outcome, both, 1)
    for array, ours, raw in zip(case.recorded, outputs, outcome.outputs, strict=True):
        silicon = np.frombuffer(raw, ours.dtype).reshape(ours.shape)
        differ = ours != silicon
        if case.replayed:
            chosen = np.zeros(len(ours), bool)
            chosen[list(case.replayed)] = True
            differ &= chosen.reshape(-1, *[1] * (ours.ndim - 1))
        if differ.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differ)), ours.shape))
            text = f"{int(differ.sum())} of {_judged(case, ours)} words differ; the first: {array.name}, {_place(array, at)}: "
            digits = 2 * ours.dtype.itemsize
            text += f"the GPU {int(silicon[at]):0{digits}x}, ptxlab {int(ours[at]):0{digits}x}" + _inputs(case, array, at)
            return Comparison(name, outcome, text, int(differ.sum()))
    return Comparison(name, outcome)


def _judged(case: Case, output: NDArray[Any]) -> int:
    return output.size // len(output) * len(case.replayed) if case.replayed else output.size


def _place(array: Array, at: tuple[int, ...]) -> str:
    return ", ".join(f"{axis} {i}" for axis, i in zip(array.axes, at, strict=True))


def _inputs(case: Case, output: Array, at: tuple[int, ...]) -> str:
    """The words of the inputs that belong to an element: those with its numbers along the axes that they share, but its register."""
    here = {axis: i for axis, i in zip(output.axes, at, strict=True) if axis != "register"}
    lines = []
    for array in case.inputs:
        words = array.data[tuple(here.get(axis, slice(None)) for axis in array.axes)].ravel()
        if words.size <= _SHOWN_WORDS:
            digits = 2 * words.dtype.itemsize
            lines.append(f"\n    {array.name}: " + " ".join(f"{int(word):0{digits}x}" for word in words))
    return "".join(lines)


@dataclass(frozen=True)
class Report:
    """All comparisons of a file of results."""

    results: Results
    comparisons: tuple[Comparison, ...]

    @property
    def differences(self) -> list[Comparison]:
        return [c for c in self.comparisons if c.difference]

    @property
    def not_recorded(self) -> list[str]:
        """Parts of the kit of which the file has no case."""
        parts = {c.outcome.part for c in self.comparisons}
        return [part for part in parts_of(self.results.target) if part not in parts]

    def counts(self, key: str) -> dict[str, tuple[int, int]]:
        """Cases that agree, and that differ, by "part" or "family"; times are not compared."""
        found: dict[str, tuple[int, int]] = {}
        for c in self.comparisons:
            name = c.outcome.part if key == "part" else c.family
            if c.outcome.case.kind != "time" or c.difference:
                agree, differ = found.get(name, (0, 0))
                found[name] = (agree + (not c.difference), differ + bool(c.difference))
        return found

    def times(self) -> Iterator[tuple[str, float]]:
        """Cycles of one step of the loop in the cases of the part ``timing``: one instruction, or one of each chain."""
        for c in self.comparisons:
            if c.outcome.case.kind == "time" and c.outcome.state == "ok":
                cycles = np.frombuffer(c.outcome.outputs[0], np.uint64)
                yield c.outcome.case.name, float(cycles.max()) / STEPS

    def errors(self) -> dict[str, Counter[str]]:
        """Diagnostic code -> what the GPU gave in the cases of the part ``faults`` with it, and how often."""
        found: dict[str, Counter[str]] = {}
        for c in self.comparisons:
            if c.code:
                found.setdefault(c.code, Counter())[c.outcome.state] += 1
        return dict(sorted(found.items()))

    def text(self) -> str:
        about = self.results.about
        lines = [f"{self.results.gpu}, driver {about['driver']}, target {self.results.target}: {len(self.comparisons)} cases"]
        if self.not_recorded:
            lines.append(f"not recorded: {', '.join(self.not_recorded)}")
        for key in ("part", "family"):
            lines += ["", f"{key:40} agree  differ"]
            lines += [f"{name:40} {agree:5}  {differ:6}" for name, (agree, differ) in self.counts(key).items()]
        if times := list(self.times()):
            lines += ["", "cycles of one step of the loop (for information)", *(f"{cycles:10.1f}  {name}" for name, cycles in times)]
        if errors := self.errors():
            lines += ["", f"{'error':6} {'the GPU':35} cases"]
            for code, states in errors.items():
                known = "" if code in CUDA_ERRORS else "  (not known before: any error agrees)"
                lines += [f"{code:6} {state:35} {count:5}{known}" for state, count in states.items()]
        for c in self.differences:
            lines += ["", c.name, f"  {c.difference}"]
        return "\n".join([*lines, "", f"{len(self.differences)} differences" if self.differences else "no differences"])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "target": self.results.target,
            "about": dict(self.results.about),
            "cases": len(self.comparisons),
            "not_recorded": self.not_recorded,
            "parts": {name: {"agree": a, "differ": d} for name, (a, d) in self.counts("part").items()},
            "families": {name: {"agree": a, "differ": d} for name, (a, d) in self.counts("family").items()},
            "cycles": dict(self.times()),
            "errors": {code: {"expected": CUDA_ERRORS.get(code), "gpu": dict(states)} for code, states in self.errors().items()},
            "differences": [{"case": c.name, "words": c.wrong, "text": c.difference} for c in self.differences],
        }


def compare(results: Results) -> Report:
    """Execute every case that a GPU executed."""
    return Report(results, tuple(_compared(name, outcome) for name, outcome in results.outcomes.items()))


# ------------------------------------------------------------------------------------------------------------------ evidence


def _choices(row: Row) -> set[tuple[str, str | None]]:
    """Everything that the groups of modifiers of a row can be."""
    return {(slot.name, value) for slot in row.slots for value in (*slot.choices, *([None] if slot.optional else []))}


def _chosen(row: Row, opcode: str) -> Iterator[tuple[str, str | None]]:
    """What the groups of a row are in an opcode."""
    for found, q in match(opcode):
        if found is row:
            values = row.values(q)
            yield from ((slot.name, values[slot.name]) for slot in row.slots)


def evidence(report: Report) -> dict[str, dict[str, str]]:
    """Part -> glob of catalogue patterns -> "all" if every choice of every modifier is shown, else "some".

    A form that any case contradicts is not in it. Errors and times are no evidence for what an instruction computes.
    """
    ptxlab.isa.load_all()
    judged = [c for c in report.comparisons if c.outcome.case.kind == "bits"]
    refuted = {row.pattern for c in judged if c.difference for opcode in c.outcome.case.opcodes[:1] for row, _ in match(opcode)}
    opcodes: dict[str, set[str]] = {}
    for c in judged:
        if not c.difference:
            opcodes.setdefault(c.outcome.part, set()).update(c.outcome.case.opcodes)
    every = set().union(*opcodes.values())
    rows = {id(row): row for opcode in every for row, _ in match(opcode) if row.pattern not in refuted}
    found = sorted(rows.values(), key=lambda row: row.pattern)
    partly = {row.pattern for row in found if not _choices(row) <= {choice for opcode in every for choice in _chosen(row, opcode)}}
    return {
        part: {row.pattern: "some" if row.pattern in partly else "all" for row in found if _shows(row, names)}
        for part, names in opcodes.items()
    }


def _shows(row: Row, opcodes: set[str]) -> bool:
    return any(found is row for opcode in opcodes for found, _ in match(opcode))


def write_evidence(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write the file of results and what it shows into a folder: data of tests, and of the coverage pages.

    Its name has the target and the GPU, and the parts if it lacks some: results of other parts stay beside it.
    """
    results = report.results
    parts = dict.fromkeys(c.outcome.part for c in report.comparisons) if report.not_recorded else ()
    name = " ".join([results.target, results.gpu.removeprefix("NVIDIA "), *parts])
    name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    data, shown = folder / f"{name}.zip", folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    data.write_bytes(results.raw)
    known = {
        "target": results.target,
        "gpu": results.gpu.removeprefix("NVIDIA "),
        "driver": results.about["driver"],
        "results": data.name,
        "sha256": hashlib.sha256(results.raw).hexdigest(),
        "differences": sorted(c.name for c in report.differences),
        "evidence": evidence(report),
    }
    shown.write_text(json.dumps(known, indent=1) + "\n")
    return data, shown
