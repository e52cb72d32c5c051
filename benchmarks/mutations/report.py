"""What became of the mutants, as data and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.table import Table

from .judge import Verdict

__all__ = ["as_data", "row", "table_of", "totals", "unexplained"]

_LONGEST = 160


def totals(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many mutants there are, in each state, and with the removed instruction proposed."""
    listed = list(verdicts)
    states = Counter(v.state for v in listed)
    counts = {state: states[state] for state in ("redundant", "reported", "survived")}
    return {"mutants": len(listed), **counts, "proposed": sum(v.proposed for v in listed)}


def _entry(verdict: Verdict) -> dict[str, Any]:
    mutant = verdict.mutant
    entry: dict[str, Any] = {
        "kernel": verdict.kernel,
        "model": verdict.model,
        "line": mutant.line,
        "instruction": verdict.text[:_LONGEST],
        "family": mutant.family,
        "how": mutant.how,
        "state": verdict.state,
    }
    if verdict.state == "reported":
        entry |= {"codes": verdict.codes, "proposed": verdict.proposed}
        return entry if verdict.proposed else entry | {"repairs": verdict.repairs}
    explored: dict[str, list[str]] = {}
    for size, who in verdict.explored:
        explored.setdefault(size, []).append(who)
    entry["explored"] = explored
    return entry | {"reasons": [asdict(reason) for reason in verdict.reasons]} if verdict.reasons else entry


def as_data(verdicts: list[Verdict], skipped: dict[str, str]) -> dict[str, Any]:
    """All there is to say, for JSON.

    Redundant mutants come with the launches that show nothing, survivors with the reasons why they are not redundant, and those for which
    something else was proposed with what that was.
    """
    by_model = {model: totals(v for v in verdicts if v.model == model) for model in dict.fromkeys(v.model for v in verdicts)}
    return {"totals": {"all": totals(verdicts), **by_model}, "skipped": skipped, "verdicts": [_entry(v) for v in verdicts]}


def row(name: str, model: str, verdicts: list[Verdict]) -> list[str]:
    """A line of the table."""
    count = totals(verdicts)
    rest = count["reported"] + count["survived"]
    shares = ((count["reported"], rest), (count["proposed"], count["reported"]))
    numbers = [str(count[key]) for key in ("mutants", "redundant", "reported", "survived")]
    return [name, model, *numbers, *(f"{100 * part / whole:.0f} %" if whole else "-" for part, whole in shares)]


def table_of(verdicts: list[Verdict]) -> Table:
    """A line for each kernel and model, and all together."""
    table = Table("kernel", "model", "mutants", "redundant", "reported", "survived", "of the rest reported", "proposed")
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.kernel, verdict.model), []).append(verdict)
    for (name, model), found in groups.items():
        table.add_row(*row(name, model, found))
    for model in dict.fromkeys(v.model for v in verdicts):
        table.add_row(*row("all", model, [v for v in verdicts if v.model == model]))
    table.add_row(*row("all", "", verdicts))
    return table


def unexplained(verdicts: list[Verdict]) -> Iterable[str]:
    """Survivors, each with a reason, and what was proposed in place of the removed instruction."""
    for v in verdicts:
        head = f"{v.kernel} ({v.model}) line {v.mutant.line}: {v.mutant.family} {v.mutant.how}"
        if v.state == "survived":
            reason = v.reasons[0]
            yield f"survived  {head}: {reason.by}, {reason.size}, {reason.schedule}: {reason.what}"
        elif v.state == "reported" and not v.proposed:
            yield f"elsewhere {head}: {v.repairs[0]}"
