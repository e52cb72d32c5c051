"""What would help: statements that follow from the counters and the estimate of a profile, each with its numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptxlab.isa.effects import MbarrierWait

if TYPE_CHECKING:
    from ptxlab.profile._profile import Profile
    from ptxlab.profile.counters.columns import Counts
    from ptxlab.profile.model.estimate import Estimate

__all__ = ["advice"]

_PART = 0.25
"""Of the accesses of a line, or of the time of SMs, that must be avoidable."""
_BUSY = 0.2
"""Of the time that a resource is busy: what costs less than that is not the reason."""
_IDLE = 0.6
"""A resource that is busy for less of the time does not limit."""
_WAITS = 0.15
"""Of the time of warps that they wait at one line."""
_MOST = 3


def advice(profile: Profile) -> tuple[str, ...]:
    """The statements, those about bank conflicts first; none if there is no estimate.

    Parameters
    ----------
    profile : of a launch

    Examples
    --------
    >>> import numpy as np, ptxlab
    >>> kernel = ptxlab.loads('''.version 8.0 .target sm_90a .address_size 64
    ... .visible .entry k(.param .u64 a) { .reg .b32 %r<4>; .shared .align 16 .b8 tile[4096];
    ...   mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 128, 0; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
    ...   st.shared.u32 [%r2], %r1; ret; }''').kernel()
    >>> advice(kernel.launch(block=32, args=[np.zeros(1)], profile=True).profile)[0][:72]
    'line 4: bank conflicts: 32 wavefronts of shared memory, of which 1 would'
    """
    if profile.estimate is None:
        return ()
    estimate = profile.estimate
    found = (
        _conflicts(profile, estimate),
        _sectors(profile, estimate),
        _copies(profile, estimate),
        _fences(profile, estimate),
        _fill(profile),
    )
    return tuple(sentence for sentences in found for sentence in sentences)


def _conflicts(profile: Profile, estimate: Estimate) -> Iterator[str]:
    busy = estimate.occupied.get("shared memory", 0.0)
    for line, counts in _avoidable(profile, busy, "bank_conflicts", "shared_wavefronts"):
        yield (
            f"line {line}: bank conflicts: {counts.shared_wavefronts:,} wavefronts of shared memory, of which "
            f"{counts.shared_least:,} would do if words lay in different banks (padded rows, or a swizzle); shared memory is busy "
            f"{busy:.0%} of the time, and these are {counts.bank_conflicts / profile.totals.shared_wavefronts:.0%} of its wavefronts"
        )


def _sectors(profile: Profile, estimate: Estimate) -> Iterator[str]:
    busy = estimate.occupied.get("global memory", 0.0)
    for line, counts in _avoidable(profile, busy, "excess_sectors", "global_sectors"):
        yield (
            f"line {line}: {counts.global_sectors:,} sectors of global memory, of which {counts.global_least:,} would do if "
            f"the threads of a warp accessed neighbouring bytes; global memory is busy {busy:.0%} of the time"
        )


def _avoidable(profile: Profile, busy: float, excess: str, all_of_them: str) -> Iterator[tuple[int, Counts]]:
    """The lines with the most avoidable work and their counters; none if the memory is not ``busy`` enough for that to matter.

    ``excess`` and ``all_of_them`` are the counters of the avoidable work and of all of it.
    """
    lines = sorted(profile.lines(), key=lambda line: -getattr(line.counts, excess))[:_MOST]
    for line in lines if busy > _BUSY else ():
        if line.place is not None and getattr(line.counts, excess) > _PART * getattr(line.counts, all_of_them):
            yield line.place.line, line.counts


def _copies(profile: Profile, estimate: Estimate) -> Iterator[str]:
    """Waits for copies while nothing that copies need is busy: their latency is the reason."""
    copies = [span for span in estimate.spans if span.track == "TMA"]
    intervals = [(span.begin, span.end) for span in copies]
    on_path = sum(part for (track, _, _), part in estimate.path_parts.items() if track == "TMA")
    limits = max(estimate.occupied.get(name, 0.0) for name in ("TMA", "global memory", "tensor core", "shared memory"))
    ops = profile.sample.launch.program.ops
    waits = [(part, ops[index].line) for index, part in estimate.waits_of.items() if isinstance(ops[index].effects, MbarrierWait)]
    if not intervals or not waits or on_path < _WAITS or limits > _IDLE:
        return
    most, line = max(waits)
    if most < _WAITS:
        return
    together = sum(end - begin for begin, end in intervals) / _covered(intervals)
    repeated = len({(span.cta, span.op) for span in copies}) < len(copies)
    help = "more stages would help" if repeated else "no copy is repeated, so only other work meanwhile, such as more CTAs, would hide it"
    tma, memory = (estimate.occupied.get(name, 0.0) for name in ("TMA", "global memory"))
    yield (
        f"line {line}: warps wait {most:.0%} of their time for this mbarrier, and copies are {on_path:.0%} of the critical path, while TMA "
        f"is busy {tma:.0%} and global memory {memory:.0%} of the time: the latency of copies is the limit, not their bandwidth; while "
        f"there are any, {together:.1f} are in flight: {help}"
    )


def _fences(profile: Profile, estimate: Estimate) -> Iterator[str]:
    """Fences at wide scopes on the critical path."""
    ops = profile.sample.launch.program.ops
    parts: defaultdict[int, float] = defaultdict(float)
    for (_, kind, index), part in estimate.path_parts.items():
        if kind == "fence" and index >= 0:
            parts[ops[index].line] += part
    for line, part in sorted(parts.items(), key=lambda item: -item[1])[:_MOST]:
        if part > _WAITS:
            yield (
                f"line {line}: {part:.0%} of the critical path is a fence at the scope of the cluster or a wider one, which L2 answers; "
                "at the scope of the CTA there would be none"
            )


def _covered(intervals: list[tuple[float, float]]) -> float:
    """The time that at least one interval covers."""
    whole = last = 0.0
    for begin, end in sorted(intervals):
        whole += max(end - max(begin, last), 0.0)
        last = max(last, end)
    return whole or 1.0


def _fill(profile: Profile) -> Iterator[str]:
    """SMs without work, because their number does not divide that of the CTAs."""
    held = profile.occupancy
    fullest = -(-held.ctas // held.sms)
    idle = 1 - held.ctas / (fullest * held.sms)
    if idle > _PART:
        yield (
            f"{held.ctas:,} CTA{'s' * (held.ctas > 1)} on {held.sms} SMs: the fullest SM has {fullest:,}, and SMs have nothing to do "
            f"{idle:.0%} of that time: smaller or other tiles would fill them"
        )
