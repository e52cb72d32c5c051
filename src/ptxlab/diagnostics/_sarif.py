"""Diagnostics as SARIF 2.1.0, the format that code-scanning services and editors read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from ptxlab.diagnostics._codes import CODES
from ptxlab.diagnostics._diagnostic import Diagnostic, Place

__all__ = ["render_sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Json = dict[str, Any]


def render_sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """Write diagnostics as a SARIF log: one run, a rule for each code, a result for each finding.

    The place in the PTX is the location of a result; the place in the source behind it is a related location.

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
    if d.place:
        result["locations"] = [_location(d.place, d.excerpt)]
    if d.source:
        result["relatedLocations"] = [{"id": 0, "message": {"text": "the source behind it"}, **_location(d.source, "")}]
    return result


def _location(place: Place, excerpt: str) -> Json:
    region: Json = {"startLine": max(place.line, 1)}
    if place.column > 0:
        region["startColumn"] = place.column
        if place.length:
            region["endColumn"] = place.column + place.length
    if excerpt.strip():
        region["snippet"] = {"text": excerpt}
    from urllib.parse import quote

    path = PurePath(place.file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
