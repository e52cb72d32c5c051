"""Compilers' kernels as ``model="spec"`` wants them: with tcgen05.fence on both sides of everything that orders threads.

And with tcgen05.wait::ld before the registers of a load are used.

No compiler emits the fence, and LLVM moves uses of the registers above the wait, so that each of their tensor-memory kernels is a finding
as it stands.
"""

from __future__ import annotations

import re

__all__ = ["awaited", "fenced"]

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


_LOAD = re.compile(rf"{_GUARD}tcgen05\.ld\.[^{{]*\{{([^}}]*)\}}")
_WAIT = re.compile(rf"{_GUARD}tcgen05\.wait::ld\b")
_NAME = re.compile(r"%\w+")


def awaited(text: str) -> str:
    """A wait before the first line that names a register of a load before the wait of the compiler, in the order of the text."""
    made: list[str] = []
    loaded: set[str] = set()
    for line in text.splitlines():
        load = _LOAD.match(line)
        if _WAIT.match(line):
            loaded.clear()
        elif load is None and not loaded.isdisjoint(_NAME.findall(line)):
            made.append("tcgen05.wait::ld.sync.aligned;")
            loaded.clear()
        if load is not None:
            loaded.update(_NAME.findall(load[1]))
        made.append(line)
    return "\n".join(made) + "\n"
