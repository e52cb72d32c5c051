"""``ptxlab record-kit``: kernels for a GPU that somebody has; ``ptxlab import-records``: what their results say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ptxlab.cli._output import JSON, refusing, writing

__all__ = ["import_records", "record_kit"]


@click.command()
@click.option("--target", required=True, help="The target of the GPU: sm_90a, sm_100a, sm_103a, sm_110a, sm_120a or sm_121a.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="The folder to write; default: ptxlab-TARGET.")
@click.option("--parts", help="Only these parts, separated by commas.")
def record_kit(target: str, output: Path | None, parts: str | None) -> None:
    """Write a folder of kernels, with a script that runs them on a GPU of the target and writes one file of results.

    The script needs Python and the driver only. `ptxlab import-records` reads the file.
    """
    from ptxlab import silicon

    if target not in silicon.TARGETS:
        raise click.UsageError(f"there is no kit for {target!r}; the targets are {', '.join(silicon.TARGETS)}")
    chosen, known = parts.split(",") if parts else [], silicon.parts_of(target)
    if unknown := [part for part in chosen if part not in known]:
        raise click.UsageError(f"{target} has no part {', '.join(unknown)}; its parts are {', '.join(known)}")
    folder = output or Path(f"ptxlab-{target}")
    with writing(folder):
        counts = silicon.write_kit(target, folder, chosen)
    click.echo("\n".join(f"{part:16} {count:4} kernels: {silicon.PARTS[part].purpose}" for part, count in counts.items()))
    click.echo(f"wrote {folder}; on a computer with the GPU: python3 {folder}/record.py")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), help="Write the results and what they show into this folder.")
@JSON
def import_records(file: Path, into: Path | None, form: str | None) -> None:
    """Compare FILE, the results of a record kit, with what ptxlab gives for the same kernels, bit for bit.

    Exit status: 0 no differences, 1 differences, 2 a file that cannot be used.
    """
    from ptxlab import silicon

    with refusing(form):
        report = silicon.compare(silicon.read_results(file))
    if into is not None:
        with writing(into):
            silicon.write_evidence(report, into)
    click.echo(json.dumps(report.as_dict()) if form == "json" else report.text())
    sys.exit(1 if report.differences else 0)
