"""The tokens of any text, PTX or not yet: for editors, which must show a text while it is written."""

from __future__ import annotations

import re
from typing import NamedTuple

from ptxlab.ptx._cursor import COMMENT, NAME

__all__ = ["Token", "tokens"]


class Token(NamedTuple):
    """A piece of a text.

    ``kind`` is comment, string, word (a name with its parts, or a whole opcode), directive, number, punctuation, or other.
    """

    kind: str
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    rf"(?P<comment>{COMMENT}|/\*[\s\S]*+)"
    rf"|(?P<word>(?:{NAME}|_)(?:(?:\.|::)\w++)*+)"
    r"|(?P<directive>\.[A-Za-z_]\w*+(?:::\w++)*+)"
    r"|(?P<number>\.?+\d[\w.]*+)"
    r'|(?P<string>"(?:[^"\\\n]++|\\[^\n])*+"?+)'
    r"|(?P<punctuation>[-+*/%!~<>=?:;,|&^(){}\[\]@.])"
    r"|(?P<other>\S)",
    re.ASCII,
)


def tokens(text: str) -> list[Token]:
    """Split a text into tokens; what is no token of PTX is ``other``, one character each.

    >>> [token.text for token in tokens("@!%p1 ld.shared::cta.b32 %r1, [a+4]; // four")]
    ['@', '!', '%p1', 'ld.shared::cta.b32', '%r1', ',', '[', 'a', '+', '4', ']', ';', '// four']
    """
    return [Token(m.lastgroup or "other", m[0], *m.span()) for m in _TOKEN.finditer(text)]
