"""How the reference reads docstrings: `name : what it is`, on one line; the type stands in the signature."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"(?<=^Parameters\n----------\n|^Attributes\n----------\n).*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(\w[\w, *]*) : ", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Puts descriptions on a line of their own, where NumPy's style has them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that is read."""
        if obj.docstring:
            obj.docstring.value = _SECTION.sub(lambda section: _ENTRY.sub(r"\1\n    ", section[0]), obj.docstring.value)
