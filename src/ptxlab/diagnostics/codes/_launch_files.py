"""Launch files."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]


CODES = (
    CodeInfo("F101", "error", "the launch file cannot be read"),
    CodeInfo("F102", "error", "the launch file is not TOML"),
    CodeInfo("F103", "error", "a key of the launch file is unknown, missing or of the wrong type"),
    CodeInfo("F104", "error", "an array of the launch file cannot be made"),
    CodeInfo("F106", "error", "an output depends on when asynchronous operations perform"),
    CodeInfo("F105", "error", "an output differs from what the launch file expects"),
)
