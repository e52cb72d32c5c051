"""The registry of diagnostic codes; each area declares its own in a table beside its messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CODES", "CodeInfo", "Severity", "register_codes"]

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


CODES: dict[str, CodeInfo] = {}


def register_codes(*infos: CodeInfo) -> None:
    """Enter codes into the registry; a code stands once."""
    for info in infos:
        if CODES.get(info.code, info) != info:
            raise ValueError(f"diagnostic code {info.code} is declared twice")
        CODES[info.code] = info
