"""A kernel of any length: the body of a real one over and over, each copy with registers and labels of its own, as unrolling leaves it.

And a module with any number of such kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["repeated", "unrolled"]

_RANGE = re.compile(r"(%\w+?)<(\d+)>")
_SKIP = ".reg .pred %skip; .reg .b32 %one;\nmov.u32 %one, %nctaid.z;\nsetp.eq.u32 %skip, %one, 1;\n@%skip bra DONE;"


def unrolled(text: str, lines: int) -> str:
    """The module with its only kernel made at least ``lines`` long. A branch at its start skips all of it."""
    start = text.index("{\n", text.index(".entry")) + 2
    end = _closing_brace(text, start)
    body = text[start:end].splitlines()
    declarations = [line for line in body if line.strip().startswith(".reg") and _RANGE.search(line)]
    code = [line for line in body if line.strip() not in ("", "ret;") and line not in declarations]
    copies = -(-lines // len(code))
    counts = {m[1]: int(m[2]) for line in declarations for m in _RANGE.finditer(line)}
    longer = [_RANGE.sub(lambda m: f"{m[1]}<{int(m[2]) * copies}>", line) for line in declarations]
    whole = "\n".join(code)
    register = re.compile(f"({_any(counts)})" + r"(\d+)\b")
    label = re.compile(r"(?<![\w$.])(" + _any(re.findall(r"^\s*(\$?\w+):", whole, re.MULTILINE)) + r")(?![\w$])")

    def copy(i: int) -> str:
        renamed = register.sub(lambda m: f"{m[1]}{int(m[2]) + i * counts[m[1]]}", whole)
        return label.sub(lambda m: f"{m[1]}_{i}", renamed)

    return "\n".join([text[:start], *longer, _SKIP, *map(copy, range(copies)), "DONE:\nret;", text[end:]])


def repeated(text: str, count: int) -> str:
    """The module with so many copies of its only kernel, under names of their own."""
    start = text.index(".visible .entry")
    end = _closing_brace(text, text.index("{\n", start) + 2) + 1
    kernel = text[start:end]
    return text[:start] + "\n".join(kernel.replace("(", f"_{number}(", 1) for number in range(count)) + text[end:]


def _any(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, set(names)), key=len, reverse=True))


def _closing_brace(text: str, at: int) -> int:
    """Where the block ends that was opened before ``at``."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    raise ValueError("a block that does not end")
