r"""What the site changes in its pages.

- It has two pages from outside this folder: `contributing.md` is CONTRIBUTING.md, `tests.md` is tests/README.md.
- It has the layout explorer.
- A link to a file that the site does not have becomes its text.
- A comment that begins with "on the site:" is shown: a sentence that only readers of the site need.
- What commands print is wrapped, but for pictures of layouts.
- In a table, GitHub wants ``\|`` for a bar in code, Python-Markdown a plain one.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from ptxlab.view import explorer_page

ROOT = Path(__file__).parents[1]
FROM_OUTSIDE = {"contributing.md": "CONTRIBUTING.md", "tests.md": "tests/README.md"}
"""Pages of the site, and the files that they show."""
EXPLORER = "explorer.html"
"""The layout explorer, which is written when the site is built."""

_LINK = re.compile(r"^```.*?^```$|(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)", re.MULTILINE | re.DOTALL)
"""A block of code, or a link to a file."""
_SITE_ONLY = re.compile(r"<!-- on the site: (.*?) -->", re.DOTALL)
_PRINTED = re.compile(r'(<div class="language-(?:console|text) )')
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages from outside and the explorer; MkDocs calls this."""
    for page, source in FROM_OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, EXPLORER, content=explorer_page(home="index.html")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change the text of a page; MkDocs calls this."""
    here = page.file.src_uri
    source = FROM_OUTSIDE.get(here, f"docs/{here}")
    markdown = _LINK.sub(lambda link: _on_the_site(link, here, source), markdown)
    markdown = _SITE_ONLY.sub(r"\1", markdown)
    return _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Mark what commands print; MkDocs calls this."""
    return html if page.file.src_uri.startswith("layouts/") else _PRINTED.sub(r"\1wrapped ", html)


def _on_the_site(link: re.Match[str], here: str, source: str) -> str:
    text, path, anchor = link.groups()
    if path is None:
        return link[0]
    target = os.path.normpath(os.path.join(os.path.dirname(source), path))
    pages = {file: page for page, file in FROM_OUTSIDE.items()}
    here_too = target in pages or target == f"docs/{EXPLORER}" or (target.startswith("docs/") and (ROOT / target).is_file())
    if not here_too:
        return text
    shown = pages.get(target, target.removeprefix("docs/"))
    return f"[{text}]({os.path.relpath(shown, os.path.dirname(here) or '.')}{anchor or ''})"
