"""Compilers' kernels as the letter wants them: tcgen05.fence on both sides of everything that orders threads.

No compiler emits the instruction, so that each of its tensor-memory kernels is a finding under ``model="spec"`` as it stands.
"""

from __future__ import annotations

import re

__all__ = ["fenced"]

_GUARD = r"[ \t]*(?:@!?%\w+[ \t]+)?"
_LABEL = re.compile(r"\s*[\w$]+:")
_USE = re.compile(rf"{_GUARD}tcgen05\.(?:alloc|dealloc|mma|cp|shift|ld|st|wait)\b")
_RELEASE = re.compile(rf"{_GUARD}(?:bar\.(?:sync|arrive)|barrier\.(?:sync|arrive|cluster\.arrive)|mbarrier\.arrive)\b")
_ACQUIRE = re.compile(rf"{_GUARD}(?:bar\.sync|barrier\.(?:sync|cluster\.wait)|mbarrier\.(?:try_wait|test_wait))\b")


def fenced(text: str) -> str:
    """A fence before the first release behind uses of tensor memory, and before the first use behind an acquire.

    Behind a label anything may have gone before.
    """
    made: list[str] = []
    used = met = False
    for line in text.splitlines():
        used, met = (True, True) if _LABEL.match(line) else (used, met)
        if used and _RELEASE.match(line):
            made.append("tcgen05.fence::before_thread_sync;")
            used = False
        if met and _USE.match(line):
            made.append("tcgen05.fence::after_thread_sync;")
            met = False
        used |= bool(_USE.match(line))
        met |= bool(_ACQUIRE.match(line))
        made.append(line)
    return "\n".join(made) + "\n"
