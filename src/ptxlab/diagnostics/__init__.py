"""Diagnostics: what is wrong, where, why, and how to fix it."""

from ptxlab.diagnostics._codes import CODES, CodeInfo
from ptxlab.diagnostics._diagnostic import (
    Diagnostic,
    Place,
    Severity,
    diagnose,
)
from ptxlab.diagnostics._error import PtxlabError
from ptxlab.diagnostics._render import clean_line, ranges, render_json, render_report, render_sarif, render_text

__all__ = [
    "CODES",
    "CodeInfo",
    "Diagnostic",
    "Place",
    "PtxlabError",
    "Severity",
    "clean_line",
    "diagnose",
    "ranges",
    "render_json",
    "render_report",
    "render_sarif",
    "render_text",
]
