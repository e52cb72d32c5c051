"""Checks: static legality of instructions and modules."""

from ptxlab.check.static.followed import Abandoned, Followed
from ptxlab.check.static.lint import Checked, lint, lint_instruction, lint_module

__all__ = ["Abandoned", "Checked", "Followed", "lint", "lint_instruction", "lint_module"]
