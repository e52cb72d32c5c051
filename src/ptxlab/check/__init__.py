"""Checks: static legality of instructions and modules."""

from ptxlab.check.static.followed import Followed
from ptxlab.check.static.lint import lint, lint_instruction, lint_module

__all__ = ["Followed", "lint", "lint_instruction", "lint_module"]
