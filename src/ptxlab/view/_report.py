"""The report of launches: one HTML page that needs nothing else, with findings, estimated timeline, lines with counters, and rooflines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from ptxlab.diagnostics import Diagnostic, Place
from ptxlab.profile import LineCounts, Profile
from ptxlab.profile.model.memory import TENSOR
from ptxlab.tables import TENSOR_MEMORY_COLUMNS
from ptxlab.view._profile import ARRAY_HEADINGS, array_rows, estimate_words, summary_words

__all__ = ["report_page"]

_COLUMNS = (
    *("executions", "shared_wavefronts", "global_sectors", "bytes_to_shared", "bytes_from_shared"),
    *("copy_wavefronts", "operand_wavefronts", "tensor_operations", "barrier_waits", "mbarrier_waits", "other_waits"),
)
_PATH = (-1, "critical path")
_MOST_STEPS = 100_000
"""Of the critical path that are shown, the last ones."""
_MOST_SOURCE = 1 << 20
"""Bytes of a source file that is shown."""


def report_page(launches: Iterable[tuple[Profile, Iterable[Diagnostic]]]) -> str:
    """The page's text.

    Parameters
    ----------
    launches : the profile of each launch, and what checks have reported; the page shows one of them at a time

    Examples
    --------
    >>> import numpy as np, ptxlab
    >>> text = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { bar.sync 0; ret; }"
    >>> page = report_page([(ptxlab.loads(text).kernel().launch(block=64, profile=True).profile, ())])
    >>> page.startswith("<!doctype html>"), "http" in page
    (True, False)
    """
    folder = files("ptxlab.view") / "report"
    page = (folder / "page.html").read_text(encoding="utf-8")
    parts = {
        "/*CSS*/": (folder / "page.css").read_text(encoding="utf-8"),
        "/*DATA*/": json.dumps([_data(*launch) for launch in launches], separators=(",", ":")).replace("</", "<\\/"),
        "/*JS*/": (folder / "page.js").read_text(encoding="utf-8"),
    }
    for mark, text in parts.items():
        page = page.replace(mark, text, 1)
    return page


def _data(found: Profile, findings: Iterable[Diagnostic]) -> dict[str, Any]:
    estimate = found.estimate
    waits = found.waits_by_line()
    names = [*_COLUMNS, "bank conflicts", "estimated waits"]
    of = {each.place.line: _name(each.source) for each in found.instructions}
    counts = {line.place.line: line for line in found.lines() if line.place is not None}
    ptx = [
        {
            "line": number,
            "name": str(number),
            "text": text,
            "of": of.get(number, ""),
            "counts": _numbers(counts.get(number), waits.get(number, 0.0)),
        }
        for number, text in enumerate(found.sample.launch.module.text.splitlines(), 1)
    ]
    waits_of: dict[str, float] = {}
    for number, part in waits.items():
        waits_of[of.get(number, "")] = waits_of.get(of.get(number, ""), 0.0) + part
    source = [
        {
            "line": line.place.line,
            "name": _name(line.place),
            "text": _text(line.place),
            "counts": _numbers(line, waits_of.get(_name(line.place), 0.0)),
        }
        for line in found.lines("source")
        if line.place is not None
    ]
    spans = () if estimate is None else estimate.spans
    tracks = sorted(
        {(span.cta, span.track) for span in spans}, key=lambda key: (key[0], not key[1].startswith("warp"), len(key[1]), key[1])
    )
    path = () if estimate is None else estimate.path[-_MOST_STEPS:]
    if path:
        tracks.insert(0, _PATH)
    kinds = sorted({span.kind for span in (*spans, *path)})
    places = {key: number for number, key in enumerate(tracks)}
    lines = [op.line for op in found.sample.launch.program.ops]
    return {
        "kernel": found.kernel,
        "target": found.target,
        "words": [*summary_words(found), *([] if estimate is None else estimate_words(found, estimate))],
        "findings": [f"{each.code}: {each.message}" for each in findings],
        "cycles": 0 if estimate is None else round(estimate.cycles),
        "clock": 1.0 if estimate is None else estimate.parameters.clock,
        "roofline": [] if estimate is None else [[name, round(cycles)] for name, cycles in estimate.roofline.items()],
        "arrays": [ARRAY_HEADINGS, *array_rows(found)] if found.arrays else [],
        "columns": names,
        "ptx": ptx,
        "source": source,
        "tracks": [track if cta < 0 else f"CTA {cta} {track}" for cta, track in tracks],
        "memory": _memory(found, lines),
        "kinds": kinds,
        "spans": [
            [place, kinds.index(span.kind), lines[span.op], round(span.begin, 1), round(span.end, 1)]
            for place, span in (*((places[span.cta, span.track], span) for span in spans), *((0, span) for span in path))
        ],
    }


def _memory(found: Profile, lines: list[int]) -> dict[str, Any]:
    """What lies in shared and tensor memory of the first CTAs: the rows of the picture, and in each what is held from when until when."""
    spans = () if found.estimate is None else found.estimate.memory
    rows = sorted({(span.cta, span.space) for span in spans})
    kinds = sorted({span.kind for span in spans})
    sizes = [max(span.end for span in spans if (span.cta, span.space) == row) for row in rows]
    return {
        "rows": [f"CTA {cta} {space}" for cta, space in rows],
        "units": ["columns" if space == TENSOR else "bytes" for _, space in rows],
        "sizes": [TENSOR_MEMORY_COLUMNS if space == TENSOR else size for (_, space), size in zip(rows, sizes, strict=True)],
        "kinds": kinds,
        "held": [
            [rows.index((span.cta, span.space)), span.first, span.end, kinds.index(span.kind), lines[span.op]]
            + [round(time, 1) for time in (span.begin, span.written, span.until)]
            for span in spans
        ],
    }


def _numbers(line: LineCounts | None, waits: float) -> list[float]:
    if line is None:
        return []
    return [*(getattr(line.counts, name) for name in _COLUMNS), line.counts.bank_conflicts, round(waits, 5)]


def _name(place: Place | None) -> str:
    return "" if place is None else f"{place.file}:{place.line}"


def _text(place: Place) -> str:
    """A line of the source, if its file is there."""
    path = Path(place.file)
    if path.is_file() and path.stat().st_size < _MOST_SOURCE:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if place.line <= len(lines):
            return lines[place.line - 1]
    return path.name
