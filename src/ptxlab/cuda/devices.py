"""Which devices a program sees."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping

from ptxlab.cuda.core_types import ATTRIBUTES, DeviceDescription
from ptxlab.cuda.products import PRODUCTS
from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["describe", "visible_targets"]

_NAMED = {product.name.split()[-1].lower(): target for target, product in PRODUCTS.items()}
_ENTRY = re.compile(r"(?:(\d+)\s*x\s*)?([\w]+)")
_MOST = 16
_PCI_DEVICE = 34


def visible_targets(default: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """The targets of the devices of a program, in order.

    Parameters
    ----------
    default : the target of the only device if ``PTXLAB_DEVICES`` is not set
    environment : default: that of the process. ``PTXLAB_DEVICES`` lists products or targets, ``"b200"`` or ``"2x h200, b200"``;
        ``CUDA_VISIBLE_DEVICES`` chooses among them by number, as for other drivers

    Raises
    ------
    PtxlabError
        I506 if ``PTXLAB_DEVICES`` names an unknown device

    Examples
    --------
    >>> visible_targets("sm_100a", {"PTXLAB_DEVICES": "2x b200, h200", "CUDA_VISIBLE_DEVICES": "2,0"})
    ['sm_90a', 'sm_100a']
    """
    variables = os.environ if environment is None else environment
    targets = _listed(variables.get("PTXLAB_DEVICES", "")) or [default]
    chosen = variables.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return targets
    visible: list[str] = []
    for entry in chosen.split(","):
        number = entry.strip()
        if not number.isdigit() or int(number) >= len(targets):
            break
        visible.append(targets[int(number)])
    return visible


def _listed(text: str) -> list[str]:
    found: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _ENTRY.fullmatch(entry)
        name = match[2].lower() if match else ""
        target = _NAMED.get(name, name)
        if match is None or target not in PRODUCTS:
            known = ", ".join((*_NAMED, *PRODUCTS))
            raise PtxlabError(diagnose("I506", f"PTXLAB_DEVICES names {entry!r}, which is no device", fix=f"devices are {known}"))
        found += [target] * int(match[1] or 1)
    if len(found) > _MOST:
        raise PtxlabError(diagnose("I506", f"PTXLAB_DEVICES names {len(found)} devices; there can be {_MOST}"))
    return found


def describe(target: str, number: int, sms: int | None = None, memory: int | None = None) -> DeviceDescription:
    """What programs learn about a device; a target without a product is like a B200 of its own capability.

    Parameters
    ----------
    target, number : of the device
    sms, memory : multiprocessors, and bytes of memory at most; None: those of the product
    """
    product = PRODUCTS.get(target, PRODUCTS["sm_100a"])
    digits = int("".join(filter(str.isdigit, target)) or 100)
    values = dict(product.attributes) | {16: sms or product.sms, 75: digits // 10, 76: digits % 10, _PCI_DEVICE: 6 + number}
    described = DeviceDescription(name=product.name.encode(), total_bytes=min(product.memory, memory or product.memory))
    for attribute, value in values.items():
        described.attributes[attribute] = value
    described.uuid[:] = uuid.uuid5(uuid.NAMESPACE_URL, f"ptxlab:{target}:{number}").bytes
    assert max(values) < ATTRIBUTES
    return described
