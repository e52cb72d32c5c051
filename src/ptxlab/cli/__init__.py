"""The command line: one module for each command."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; the libraries it needs are imported here, not with the package."""
    from ptxlab.cli._main import cli

    cli()
