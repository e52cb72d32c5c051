"""``ptxlab explain``: what a descriptor or address means."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import click

from ptxlab.cli._output import refusing
from ptxlab.descriptors import READINGS, DescriptorError
from ptxlab.descriptors import explain as explain_value
from ptxlab.layout import Major
from ptxlab.tables import MMA_KINDS, WGMMA_KINDS

__all__ = ["explain"]

_MAP_DIGITS = 256


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("value")
@click.option("--as", "as_", type=click.Choice(list(READINGS)), help="How to read the value (default: every way, the best first).")
@click.option("--kind", type=click.Choice(list(dict.fromkeys((*MMA_KINDS, *WGMMA_KINDS)))), help="The .kind of the instruction.")
@click.option("--major", type=click.Choice(["k", "mn"]), help="Major-ness of the operand.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--draw", is_flag=True, help="Draw the fields, and the layout that they describe.")
def explain(value: str, as_: str | None, kind: str | None, major: str | None, as_json: bool, draw: bool) -> None:
    """Say what VALUE means: its fields, the layout, whether it is legal, and what may have been meant.

    VALUE is a number (0x..., 0b..., decimal, negative as two's complement), the 256 hexadecimal digits of a tensor map in the order of its
    bytes, or @FILE with the 4, 8 or 128 bytes.
    """
    with refusing("json" if as_json else None):
        found = explain_value(_parse(value), as_, kind, cast("Major | None", major))
    if as_json:
        click.echo(json.dumps({"ok": not found.findings, **found.as_dict()}))
    else:
        click.echo(str(found))
        if draw:
            from ptxlab.view import draw_explanation

            click.echo(draw_explanation(found.best, kind, cast("Major | None", major)), nl=False)
    sys.exit(1 if found.findings else 0)


def _parse(text: str) -> int | bytes:
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise DescriptorError(f"cannot read {text[1:]}: {error.strerror}") from None
    digits = "".join(text.split())
    try:
        return bytes.fromhex(digits) if len(digits) == _MAP_DIGITS else int(digits, 0)
    except ValueError:
        raise DescriptorError(
            f"{text!r} is not a value",
            fix="give a number (0x..., 0b..., decimal), the 256 hexadecimal digits of a tensor map, or @FILE",
        ) from None
