"""Checks: static legality of instructions and modules."""

from ptxlab.check.static.followed import Followed
from ptxlab.check.static.lint import Checked, lint, lint_instruction, lint_module

__all__ = ["Checked", "Followed", "lint", "lint_instruction", "lint_module"]
