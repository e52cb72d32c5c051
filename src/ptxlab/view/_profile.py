"""A profile as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ptxlab.profile import COLUMNS, Counts, Estimate, LineCounts, Profile, advice

__all__ = ["ARRAY_HEADINGS", "array_rows", "estimate_words", "profile_comparison", "profile_tables", "summary_words"]

_LONGEST = 44
"""Characters of a line of PTX that are shown."""
_WAITS, _LEAST_SHOWN = 3, 0.01
"""Lines with waits that are named, and the least part of the time that is."""
_STEPS = 5
"""Of the critical path that are named."""
_EXACT = 100_000
"""Smaller numbers are shown as they are."""
_SUFFIXES = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True, slots=True)
class _Heading:
    """A column: its title, what it shows, and which of it is avoidable and stands in brackets."""

    title: str
    number: Callable[[Counts], int]
    avoidable: Callable[[Counts], int] | None = None

    def cell(self, counts: Counts) -> str:
        number, avoidable = self.number(counts), 0 if self.avoidable is None else self.avoidable(counts)
        shown = _short(number) if number else ""
        return f"{shown} ({_short(avoidable)})" if avoidable else shown


_HEADINGS = (
    _Heading("executed", lambda c: c.executions),
    _Heading("waits", lambda c: c.waits),
    _Heading("wavefronts\n(conflicts)", lambda c: c.shared_wavefronts, lambda c: c.bank_conflicts),
    _Heading("sectors\n(excess)", lambda c: c.global_sectors, lambda c: c.excess_sectors),
    _Heading("copied\nbytes", lambda c: c.bytes_to_shared + c.bytes_from_shared),
    _Heading("wavefronts of\ncopies, operands", lambda c: c.copy_wavefronts + c.operand_wavefronts),
    _Heading("tensor memory\nbytes", lambda c: c.tensor_memory_bytes),
    _Heading("tensor\noperations", lambda c: c.tensor_operations),
)


def profile_tables(found: Profile, by: str = "ptx", everything: bool = False) -> Group:
    """The tables of a profile, which a console of rich prints.

    Parameters
    ----------
    found : the profile
    by : ``"ptx"`` or ``"source"``: what a line is
    everything : show lines, too, whose instructions only execute

    Returns
    -------
    the occupancy in words, a table of the roles, one of the products, one of the arrays, and one of the lines; columns without numbers are
    left out. Large numbers are rounded; `Profile.as_dict` has them all
    """
    totals = found.totals
    shown = [heading for heading in _HEADINGS if heading.number(totals)]
    roles = _table("role", shown, zip((role.name for role in found.roles), found.role_totals(), strict=True))
    if len(found.roles) > 1:
        roles.add_section()
        roles.add_row("all", *(heading.cell(totals) for heading in shown))
    parts: list[Text | Table] = [Text(line) for line in summary_words(found)]
    parts.append(roles)
    if found.products:
        parts.append(_products(found))
    if found.arrays:
        parts.append(_arrays(found))
    lines = [line for line in found.lines(by) if everything or _costs(line.counts)]
    title = "source line" if by == "source" else "PTX line"
    parts.append(_table(title, shown, ((_title(line), line.counts) for line in lines)))
    if found.estimate is not None:
        parts += [Text(line) for line in estimate_words(found, found.estimate)]
    return Group(*parts)


def profile_comparison(first: Profile, second: Profile) -> Table:
    """A table of what two profiles differ in: the totals, and the estimates of time; it shows only what one of them has."""
    table = Table("", "first", "second", "second by first", box=SIMPLE, padding=(0, 1), pad_edge=False)
    rows = [(column.name, getattr(first.totals, column.name), getattr(second.totals, column.name)) for column in COLUMNS]
    names = {"bytes in different sectors, read": "read", "the same, written": "written"}
    rows += [(title, getattr(first.footprint, name), getattr(second.footprint, name)) for title, name in names.items()]
    if first.estimate is not None and second.estimate is not None:
        rows.append(("estimated cycles", round(first.estimate.cycles), round(second.estimate.cycles)))
    for name, one, other in rows:
        if one or other:
            table.add_row(name, _short(one), _short(other), f"{other / one:.2f}" if one else "")
    return table


def _table(title: str, headings: list[_Heading], rows: Iterable[tuple[str, Counts]]) -> Table:
    table = Table(box=SIMPLE, padding=0, pad_edge=False)
    table.add_column(title, overflow="fold")
    for heading in headings:
        table.add_column(heading.title, justify="right", no_wrap=True)
    for name, counts in rows:
        table.add_row(Text(name), *(heading.cell(counts) for heading in headings))
    return table


def _products(found: Profile) -> Table:
    table = Table("product", "types", "shape", "count", "operations", box=SIMPLE, padding=(0, 1), pad_edge=False)
    for each in found.products:
        table.add_row(Text(each.opcode), each.types, "x".join(map(str, each.shape)), f"{each.count:,}", f"{each.operations:,}")
    return table


def _arrays(found: Profile) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1), pad_edge=False)
    for title in ARRAY_HEADINGS:
        table.add_column(title, justify="left" if title == ARRAY_HEADINGS[0] else "right")
    for row in array_rows(found):
        table.add_row(*(Text(cell) for cell in row))
    return table


ARRAY_HEADINGS = ("array", "bytes", "bytes read", "bytes written", "read by CTAs", "CTAs that read a sector")


def array_rows(found: Profile) -> Iterator[tuple[str, ...]]:
    """The rows of a table of the footprints, whose columns are `ARRAY_HEADINGS`; the last row is of all arrays if there are several."""
    for each in (*found.arrays, *([found.footprint] if len(found.arrays) > 1 else [])):
        numbers = (each.size, each.read, each.written, each.read_by_ctas)
        yield each.name or "all", *(_short(number) if number else "" for number in numbers), f"{each.reuse:.2f}" if each.read else ""


def _title(line: LineCounts) -> str:
    if line.place is None:
        return "no source line"
    text = line.excerpt.strip()
    return f"{line.place.line:>4} {text[:_LONGEST]}" if text else str(line.place)


def _short(number: int) -> str:
    """A number with at most five digits.

    Examples
    --------
    >>> _short(99999), _short(147456), _short(268435456), _short(2 << 40)
    ('99,999', '147.5 k', '268.4 M', '2.2 T')
    """
    if number < _EXACT:
        return f"{number:,}"
    suffix = min((len(str(number)) - 1) // 3, len(_SUFFIXES) - 1)
    return f"{number / 1000**suffix:.1f} {_SUFFIXES[suffix]}"


def _costs(counts: Counts) -> bool:
    """Whether instructions do more than execute."""
    return any(heading.number(counts) for heading in _HEADINGS[1:])


def estimate_words(found: Profile, estimate: Estimate) -> Iterator[str]:
    """The estimate of time in words."""
    known = estimate.parameters
    time = f"{estimate.cycles:,.0f} cycles, {estimate.nanoseconds / 1000:,.1f} us at {known.clock:g} GHz"
    yield f"estimate for {known.target}: {time}; memory is warm"
    peak = max(estimate.roofline, key=lambda name: estimate.roofline[name])
    yield f"limited by {estimate.limiter}; {estimate.fraction_of_peak:.0%} of the peak of {peak}"
    yield from _position_words(estimate)
    yield _parts("an SM is busy with", estimate.occupied)
    yield _parts("warps wait for", estimate.waits)
    longest = sorted(found.waits_by_line().items(), key=lambda item: -item[1])[:_WAITS]
    yield "they wait most at " + ", ".join(f"line {line} ({part:.0%})" for line, part in longest if part >= _LEAST_SHOWN)
    lines = [op.line for op in found.sample.launch.program.ops]
    steps = list(estimate.path_parts.items())[:_STEPS]
    yield "on the critical path: " + "; ".join(f"{_step(key, lines)} {part:.0%}" for key, part in steps if part >= _LEAST_SHOWN)
    left = "" if estimate.replayed == estimate.ctas else "; the others take as long"
    yield f"{estimate.replayed} of the {estimate.ctas} CTAs of an SM were replayed, {estimate.resident} at once{left}"
    yield from advice(found)


def _position_words(estimate: Estimate) -> Iterator[str]:
    """The fractions of the peaks of products, and the position in the roofline model, in T operations in a second."""
    position, scale = estimate.position, estimate.parameters.clock / 1000
    if not position.tensor:
        return
    yield "tensor cores reach " + ", ".join(
        f"{position.fractions[each.rate]:.0%} of the peak of {each.rate} ({each.peak * scale:,.0f} T/s)" for each in position.tensor
    )
    achieved, attainable = position.achieved * scale, position.attainable * scale
    memory = "no DRAM traffic"
    if position.intensity is not None:
        side = "above" if position.intensity > position.ridge else "below"
        memory = f"{position.intensity:,.0f} operations for a byte of DRAM, {side} the ridge at {position.ridge:,.0f}"
    yield f"roofline: {achieved:,.0f} of {attainable:,.0f} T/s that {position.roof} allows; {memory}"


def _step(key: tuple[str, str, int], lines: list[int]) -> str:
    track, kind, op = key
    return f"{track}, {kind}" + (f" at line {lines[op]}" if op >= 0 else "")


def _parts(what: str, parts: dict[str, float]) -> str:
    return f"{what} " + ", ".join(f"{name} {part:.0%}" for name, part in parts.items() if part >= _LEAST_SHOWN)


def summary_words(found: Profile) -> Iterator[str]:
    """The occupancy in words."""
    held = found.occupancy
    yield f"{found.kernel} for {found.target}: {found.ctas} of {held.ctas} CTAs executed"
    if found.assembled is not None:
        needs = found.assembled
        yield f"ptxas: {needs.registers} registers, {needs.spill_stores} bytes of spill stores, {needs.spill_loads} bytes of spill loads"
    if not held.ctas_per_sm:
        yield f"no CTA fits an SM: {', '.join(held.limiters)}"
        return
    ctas = f"{held.ctas_per_sm} CTA{'s' * (held.ctas_per_sm > 1)} ({held.warps} of {held.most_warps} warps)"
    unknown = "" if held.registers else "; registers are not known"
    yield f"an SM holds {ctas}, limited by {' and '.join(held.limiters)}{unknown}"
    tail = f", the last with {held.tail} CTAs" if held.tail and held.waves > 1 else ""
    yield f"{held.sms} SMs run the grid in {held.waves:.2f} waves{tail}"
