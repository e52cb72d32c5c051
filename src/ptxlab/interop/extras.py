"""What a program lacks: one line that says what to install."""

from __future__ import annotations

from ptxlab.diagnostics import Diagnostic, diagnose

__all__ = ["EXTRAS", "missing"]

EXTRAS = {"triton": "triton", "torch": "torch", "cutlass": "cute"}
"""The extra of ptxlab that brings a package, by the name that a program imports."""


def missing(what: str, extra: str, code: str = "I301") -> Diagnostic:
    """Say what is not as it must be, and the command that mends it.

    Examples
    --------
    >>> print(missing("Triton is not installed", "triton"))
    error[I301]: Triton is not installed: pip install 'ptxlab[triton]'
    """
    return diagnose(code, f"{what}: pip install 'ptxlab[{extra}]'")
