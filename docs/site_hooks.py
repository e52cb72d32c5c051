r"""What the site changes in the text of a page.

- A link out of this folder becomes its text: the site has only this folder.
- In a table, GitHub wants ``\|`` for a bar in code, Python-Markdown a plain one.
"""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:benchmarks|examples|src|tests)/[^)]*\)")
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    markdown = _OUTSIDE.sub(r"\1", markdown)
    return _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), markdown)
