"""The command line. A command's module is imported when the command is used."""

from ptxlab.cli._main import cli as main

__all__ = ["main"]
