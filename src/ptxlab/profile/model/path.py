"""The critical path of a replay: what the end of the launch waited for, step by step back to its begin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Link", "Span", "by_cause", "critical_path"]

RUN = "run"
"""The kind of spans in which a warp executes instructions."""


@dataclass(frozen=True, slots=True)
class Span:
    """What a warp or a unit did: ``begin`` to ``end`` in cycles; ``op`` is the instruction."""

    cta: int
    track: str
    kind: str
    op: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Link:
    """A span on the way to some time, and the link before it; between the two ``warp`` executed instructions."""

    before: Link | None
    span: Span
    warp: str


def critical_path(last: Link | None) -> tuple[Span, ...]:
    """The spans up to a link, in the order of time; each begins where the one before ends.

    Examples
    --------
    >>> start = Link(None, Span(0, "SM", "start of CTAs", 0, 0.0, 10.0), "warp 0")
    >>> end = Link(start, Span(0, "warp 1", "mbarrier", 7, 30.0, 45.0), "warp 0")
    >>> [(span.track, span.kind, span.begin, span.end) for span in critical_path(end)]
    [('SM', 'start of CTAs', 0.0, 10.0), ('warp 0', 'run', 10.0, 30.0), ('warp 1', 'mbarrier', 30.0, 45.0)]
    """
    return tuple(_backwards(last))[::-1]


def _backwards(last: Link | None) -> Iterator[Span]:
    link = last
    while link is not None:
        span, before = link.span, link.before
        begin = span.begin if before is None else max(span.begin, before.span.end)
        if span.end > begin:
            yield span if begin == span.begin else Span(span.cta, span.track, span.kind, span.op, begin, span.end)
        if before is not None and begin > before.span.end:
            yield Span(span.cta, link.warp, RUN, span.op, before.span.end, begin)
        link = before


def by_cause(path: tuple[Span, ...]) -> dict[tuple[str, str, int], float]:
    """The cycles of a path by track, kind and instruction, the longest first; time of running by track only (its instruction is -1)."""
    found: defaultdict[tuple[str, str, int], float] = defaultdict(float)
    for span in path:
        found[span.track, span.kind, -1 if span.kind == RUN else span.op] += span.end - span.begin
    return dict(sorted(found.items(), key=lambda item: -item[1]))
