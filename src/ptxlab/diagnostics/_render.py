"""Diagnostics as text for people, and as JSON and SARIF for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from ptxlab.diagnostics._codes import CODES
from ptxlab.diagnostics._diagnostic import Diagnostic, Place
from ptxlab.diagnostics._groups import Group, grouped
from ptxlab.diagnostics._wording import clean_line

__all__ = ["render_json", "render_report", "render_sarif", "render_text"]

_WIDTH = 110
_LARGEST_SOURCE = 1 << 22
_MOST_LINES = 60
"""The lines of a report that hold whole findings; the first one is always whole."""
_MOST_HEADLINES = 12
_BRIEF = ("earlier, in the source", "occurrences")
"""The details of findings that are shown in a few lines (`CodeInfo.brief`)."""
_SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}

Segment = tuple[str, str]


def render_text(diagnostics: Iterable[Diagnostic], color: bool = False) -> str:
    """Write diagnostics for a person.

    Each has its headline, the PTX line with a caret, its line of source code where the file is at hand, the
    facts, the reason and the fix.

    Parameters
    ----------
    diagnostics : what to write, in this order
    color : whether to add the colours of a terminal

    Examples
    --------
    >>> from ptxlab.diagnostics import Diagnostic, Place
    >>> finding = Diagnostic("X100", "error", "no such register", fix="declare it")
    >>> print(render_text([finding.at(Place("k.ptx", 7, 10, 3), " add.s32 %r1, %r2, %r3;")]))
    error[X100]: no such register
      --> k.ptx:7:10
      7 |  add.s32 %r1, %r2, %r3;
        |          ^^^
      fix: declare it
    """
    sources: dict[str, list[str]] = {}
    return "\n\n".join(_text(_segments(d, sources), color) for d in diagnostics)


def render_report(diagnostics: Iterable[Diagnostic], color: bool = False, more: str = "") -> str:
    """Write the findings of a run for a person, on about a screen.

    Findings of one cause are one block, with their number. Causes come before consequences. Beyond 60 lines there is a line for each
    cause, at most 12.

    Parameters
    ----------
    diagnostics : the findings
    color : whether to add the colours of a terminal
    more : how to see what is left out, for the last line

    Examples
    --------
    >>> from ptxlab.diagnostics import Diagnostic, Place
    >>> race = Diagnostic("X101", "error", "st.shared writes bytes 0x0-0x3", source=Place("k.py", 4))
    >>> fault = Diagnostic("M402", "error", "write of 4 bytes past the end of argument c")
    >>> print(render_report([race, race, fault]))
    error[M402]: write of 4 bytes past the end of argument c
    <BLANKLINE>
    error[X101]: st.shared writes bytes 0x0-0x3
      source: k.py:4:1
      more like this: 1 (1 occurrence)
    """
    sources: dict[str, list[str]] = {}
    blocks: list[str] = []
    lines = 0
    groups = grouped(diagnostics)
    for group in groups:
        block = _text(_segments(group.first, sources, group), color)
        lines += block.count("\n") + 2
        if blocks and lines > _MOST_LINES:
            break
        blocks.append(block)
    rest = groups[len(blocks) :]
    headlines = [_text(_headline(group), color) for group in rest[:_MOST_HEADLINES]]
    if len(rest) > _MOST_HEADLINES:
        left_out = sum(len(group.findings) for group in rest[_MOST_HEADLINES:])
        headlines.append(f"and {left_out} findings of {len(rest) - _MOST_HEADLINES} other causes")
    if rest and more:
        headlines.append(more)
    return "\n\n".join([*blocks, "\n".join(headlines)] if headlines else blocks)


def _headline(group: Group) -> Iterator[Segment]:
    first = group.first
    yield f"{first.severity}[{first.code}]", _SEVERITY_STYLES[first.severity]
    where = first.source or first.place
    times = f" ({len(group.findings)} times)" if len(group.findings) > 1 else ""
    yield f": {first.message}{times}" + (f" --> {where}" if where else ""), ""


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """Write diagnostics as a JSON array of objects; empty fields are left out.

    Examples
    --------
    >>> from ptxlab.diagnostics import Diagnostic
    >>> render_json([Diagnostic("X100", "note", "so it is")])
    '[{"code": "X100", "severity": "note", "message": "so it is"}]'
    """
    return json.dumps([d.as_dict() for d in diagnostics], ensure_ascii=False)


def _segments(d: Diagnostic, sources: dict[str, list[str]], group: Group | None = None) -> Iterator[Segment]:
    yield f"{d.severity}[{d.code}]", _SEVERITY_STYLES[d.severity]
    yield f": {d.message}", "bold"
    brief = d.code in CODES and CODES[d.code].brief
    if d.place:
        yield f"\n  --> {d.place}", "blue"
        yield from _excerpt(d.place, "" if brief else d.excerpt, _SEVERITY_STYLES[d.severity])
    if d.source:
        yield "\n  source: ", "blue"
        yield str(d.source), ""
        yield from _excerpt(d.source, "" if brief else _source_line(d.source, d.place, sources), "blue")
    details = [item for item in d.shown_details() if not brief or item[0] in _BRIEF]
    others = "" if group is None else group.others
    for name, value in (*details, ("more like this", others), *(() if brief else (("why", d.reason), ("fix", d.fix)))):
        if value:
            yield f"\n  {name}: ", "green" if name == "fix" else "blue"
            yield value, ""


def _excerpt(place: Place, line: str, style: str) -> Iterator[Segment]:
    if not line.strip():
        return
    shown, column, length = window(clean_line(line).rstrip(), place.column, max(place.length, 1), _WIDTH)
    number = str(place.line)
    yield f"\n  {number} | ", "blue"
    yield shown, ""
    if place.column and column <= len(shown) + 1:
        yield f"\n  {' ' * len(number)} | ", "blue"
        yield " " * (column - 1) + "^" * length, style


def _source_line(source: Place, place: Place | None, sources: dict[str, list[str]]) -> str:
    """The line of source code, if the file stands where it says or beside the PTX file."""
    if source.file not in sources:
        sources[source.file] = _read(source.file, place)
    lines = sources[source.file]
    return lines[source.line - 1] if 0 < source.line <= len(lines) else ""


def _read(file: str, place: Place | None) -> list[str]:
    beside = [] if place is None else [Path(place.file).parent / file]
    for path in (Path(file), *beside):
        try:
            if path.is_file() and path.stat().st_size <= _LARGEST_SOURCE:
                return path.read_text(encoding="utf-8", errors="replace").split("\n")
        except (OSError, ValueError):
            continue
    return []


def _text(block: Iterable[Segment], color: bool) -> str:
    if not color:
        return "".join(text for text, _ in block)
    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", legacy_windows=False, width=_WIDTH)
    console.print(Text.assemble(*block), soft_wrap=True, end="")
    return out.getvalue()


def window(line: str, column: int, length: int, width: int) -> tuple[str, int, int]:
    """Cut a long line to ``width`` characters around a stretch of it; return it with the stretch's new column and length.

    Examples
    --------
    >>> window("a" * 50 + "bcd" + "e" * 50, column=51, length=3, width=21)
    ('…aaaaaaaabcdeeeeeeee…', 10, 3)
    """
    if len(line) <= width:
        return line, column, length
    length = min(length, width - 2)
    first = min(max(column - 1 - (width - length) // 2, 0), len(line) - width)
    cut = line[first : first + width]
    if first > 0:
        cut = "…" + cut[1:]
    if first + width < len(line):
        cut = cut[:-1] + "…"
    return cut, column - first, length


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Json = dict[str, Any]


def render_sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """Write diagnostics as a SARIF log: one run, a rule for each code, a result for each finding.

    The location of a result is the place in the source that the PTX was compiled from, if it is known; the place in the PTX is then a
    related location.

    Examples
    --------
    >>> from ptxlab.diagnostics import Diagnostic, Place
    >>> log = json.loads(render_sarif([Diagnostic("X100", "error", "no such register").at(Place("k.ptx", 7, 10, 3))]))
    >>> log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    {'startLine': 7, 'startColumn': 10, 'endColumn': 13}
    """
    from importlib import metadata

    found = list(diagnostics)
    codes = sorted({d.code for d in found})
    driver = {"name": "ptxlab", "version": metadata.version("ptxlab"), "rules": [_rule(code) for code in codes]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(d, codes.index(d.code)) for d in found]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False)


def _rule(code: str) -> Json:
    rule: Json = {"id": code}
    if info := CODES.get(code):
        rule |= {"shortDescription": {"text": info.title}, "defaultConfiguration": {"level": info.severity}}
        if info.section:
            rule["help"] = {"text": f"PTX ISA, section: {info.section}"}
    return rule


def _result(d: Diagnostic, index: int) -> Json:
    facts = [*(f"{name}: {value}" for name, value in d.details), *(f"{n}: {v}" for n, v in (("why", d.reason), ("fix", d.fix)) if v)]
    result: Json = {"ruleId": d.code, "ruleIndex": index, "level": d.severity, "message": {"text": "\n".join([d.message, *facts])}}
    ptx = None if d.place is None else _location(d.place, d.excerpt)
    if d.source:
        result["locations"] = [_location(d.source, "")]
        if ptx is not None:
            result["relatedLocations"] = [{"id": 0, "message": {"text": "the PTX that was compiled from it"}, **ptx}]
    elif ptx is not None:
        result["locations"] = [ptx]
    return result


def _location(place: Place, excerpt: str) -> Json:
    region: Json = {"startLine": max(place.line, 1)}
    if place.column > 0:
        region["startColumn"] = place.column
        if place.length:
            region["endColumn"] = place.column + place.length
    if excerpt.strip():
        region["snippet"] = {"text": excerpt}
    path = PurePath(place.file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
