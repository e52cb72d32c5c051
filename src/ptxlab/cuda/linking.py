"""Joining PTX texts into one module, as the driver's linker does."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["joined"]

_DIRECTIVE = re.compile(rb"^[ \t]*\.(?:version|target|address_size)\b[^\n]*$", re.MULTILINE)


def joined(texts: Sequence[bytes]) -> bytes:
    """Return one text: all of the first, and the others without their directives of version, target and address size."""
    plain = [text.split(b"\0", 1)[0] for text in texts]
    return b"\n".join([*plain[:1], *(_DIRECTIVE.sub(b"", text) for text in plain[1:])])
