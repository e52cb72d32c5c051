"""``ptxlab warmup``: compile ahead what a first launch would compile."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from ptxlab.cli._output import refusing

__all__ = ["warmup"]


@click.command()
@click.argument("ptx", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the timings as JSON.")
def warmup(ptx: tuple[Path, ...], as_json: bool) -> None:
    """Fill the code cache: the helpers of every launch, and every kernel of the PTX files."""
    from ptxlab import machine

    timings: dict[str, float] = {}
    with refusing("json" if as_json else None):
        for name, compile_part in machine.warmup_parts(ptx):
            start = time.perf_counter()
            compile_part()
            timings[name] = time.perf_counter() - start
            if not as_json:
                click.echo(f"{timings[name]:8.3f} s  {name}")
    if as_json:
        click.echo(json.dumps(timings))
