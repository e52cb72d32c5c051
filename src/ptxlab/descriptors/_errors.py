"""Findings about descriptors, and the errors that they raise."""

from __future__ import annotations

from dataclasses import dataclass

from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["DescriptorError", "Finding", "TensorMapError"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that a descriptor breaks.

    Attributes
    ----------
    code : of the diagnostic that a run makes of it
    field : the attribute at fault
    message : what is wrong
    section : title of the section, or table, with the rule
    fix : what to do
    """

    code: str
    field: str
    message: str
    section: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.message} ({self.section})"


class DescriptorError(PtxlabError, ValueError):
    """A descriptor that cannot be built."""

    def __init__(self, message: str, reason: str = "", fix: str = "") -> None:
        super().__init__(diagnose("D731", message, reason=reason, fix=fix))


class TensorMapError(PtxlabError, ValueError):
    """A tensor map that the driver refuses to encode; ``argument`` names the argument at fault."""

    def __init__(self, argument: str, message: str, fix: str = "") -> None:
        super().__init__(diagnose("D732", f"{argument}: {message}", fix=fix))
        self.argument = argument
