"""What a diagnostic code stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CodeInfo", "Severity"]

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """What a code stands for.

    Attributes
    ----------
    code : the stable name, a letter for the area and three digits (``M401``)
    severity : the severity that diagnostics of this code have unless they say otherwise
    title : one line
    section : the section title of the PTX ISA that gives the rule, or an empty string
    """

    code: str
    severity: Severity
    title: str
    section: str = ""
