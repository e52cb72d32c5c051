"""The estimated timeline of a launch as a file for Perfetto."""

from __future__ import annotations

import json
from typing import Any

from ptxlab.profile import Profile
from ptxlab.profile.model.path import Span

__all__ = ["estimated_timeline"]

_PATH = 0
"""The process of the critical path; CTA n is process n + 1."""
_NS_IN_US = 1000.0


def estimated_timeline(found: Profile) -> str:
    """The estimated timeline of the first CTAs, and the critical path, in the trace event format that Perfetto reads.

    Parameters
    ----------
    found : the profile of the launch

    Returns
    -------
    JSON; times are estimated nanoseconds from the begin of the kernel (as the format asks, numbers of microseconds)

    Examples
    --------
    >>> import numpy as np, ptxlab
    >>> text = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { bar.sync 0; ret; }"
    >>> found = ptxlab.loads(text).kernel().launch(block=64, profile=True).profile
    >>> events = json.loads(estimated_timeline(found))["traceEvents"]
    >>> sorted({event["args"]["name"] for event in events if event["name"] == "thread_name"})
    ['critical path', 'warp 0', 'warp 1']
    """
    estimate = found.estimate
    events: list[dict[str, Any]] = []
    if estimate is not None:
        ops = found.sample.launch.program.ops
        tracks: dict[tuple[int, str], int] = {(_PATH, "critical path"): 0}
        listed = [(_PATH, "critical path", f"{span.track}: {span.kind}", span) for span in estimate.path]
        listed += [(span.cta + 1, span.track, span.kind, span) for span in estimate.spans]
        for process, track, name, span in listed:
            thread = tracks.setdefault((process, track), len(tracks))
            op = ops[span.op]
            event = {"ph": "X", "pid": process, "tid": thread, "name": name, "args": {"line": op.line, "instruction": op.opcode}}
            events.append(event | _times(span, estimate.parameters.clock))
        for process in {process for process, _ in tracks}:
            title = f"{found.kernel}, estimated" if process == _PATH else f"CTA {process - 1}"
            events.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": title}})
        events += [
            {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": track}}
            for (process, track), thread in tracks.items()
        ]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))


def _times(span: Span, clock: float) -> dict[str, float]:
    begin, end = (round(cycles / clock, 1) / _NS_IN_US for cycles in (span.begin, span.end))
    return {"ts": begin, "dur": end - begin}
