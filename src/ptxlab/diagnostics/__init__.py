"""Diagnostics: what is wrong, where, why, and how to fix it."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.diagnostics._codes import CODES, CodeInfo
from ptxlab.diagnostics._diagnostic import (
    Diagnostic,
    Place,
    Severity,
    diagnose,
)
from ptxlab.diagnostics._error import PtxlabError
from ptxlab.diagnostics._wording import clean_line, ranges

if TYPE_CHECKING:
    from ptxlab.diagnostics._render import render_json, render_report, render_sarif, render_text
else:
    __getattr__ = deferred(__name__, {"_render": ("render_json", "render_report", "render_sarif", "render_text")})

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
