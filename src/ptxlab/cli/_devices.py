"""``ptxlab devices``: the devices of the virtual driver."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ptxlab.cli._output import emit, refusing
from ptxlab.cuda.devices import visible_targets
from ptxlab.cuda.products import PRODUCTS, WARP_SIZE
from ptxlab.interop.session import Settings

__all__ = ["devices"]

_CLOCK, _SHARED, _L2 = 13, 97, 38
"""Numbers of attributes."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
def devices(as_json: bool) -> None:
    """List the devices that programs see: those of PTXLAB_DEVICES, else the one of PTXLAB_TARGET.

    PTXLAB_DEVICES names products or targets, such as "b200" or "2x h200". CUDA_VISIBLE_DEVICES chooses among them.
    """
    with refusing(None, err=True):
        settings = Settings.from_environment()
        rows = [_row(target, number, settings.sms) for number, target in enumerate(visible_targets(settings.target))]
    if as_json:
        emit([], "json", devices=rows)
        return
    table = Table("device", "name", "target", "SMs", "memory", "shared memory of a CTA", "L2 cache", "clock")
    for row in rows:
        table.add_row(
            str(row["device"]),
            row["name"],
            row["target"],
            str(row["sms"]),
            f"{row['memory'] / (1 << 30):.1f} GiB",
            f"{row['shared_per_cta'] >> 10} KiB",
            f"{row['l2'] / (1 << 20):.1f} MiB",
            f"{row['clock'] / 1000:.0f} MHz",
        )
    Console().print(table)


def _row(target: str, number: int, sms: int | None) -> dict[str, Any]:
    product = PRODUCTS.get(target, PRODUCTS["sm_100a"])
    return {
        "device": number,
        "name": product.name,
        "target": target,
        "sms": sms or product.sms,
        "warp": WARP_SIZE,
        "memory": product.memory,
        "shared_per_cta": product.attributes[_SHARED],
        "l2": product.attributes[_L2],
        "clock": product.attributes[_CLOCK],
    }
