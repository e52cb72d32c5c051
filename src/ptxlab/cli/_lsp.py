"""``ptxlab lsp``: the language server for editors."""

from __future__ import annotations

import click

__all__ = ["lsp"]


@click.command()
def lsp() -> None:
    """Serve an editor over standard input and output, by the Language Server Protocol.

    It needs the extra lsp: pip install 'ptxlab[lsp]'.
    """
    try:
        from ptxlab.editor.server import make_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.UsageError("the language server needs pygls: install it with pip install 'ptxlab[lsp]'") from None
    make_server().start_io()
