"""What the data flow has shown of the kernels of a text, kept for its next version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ptxlab import ptx
from ptxlab._digests import blake2b
from ptxlab.native import BoundedCache

if TYPE_CHECKING:
    from ptxlab.check.static.dataflow import Report
    from ptxlab.engine import Program

__all__ = ["Abandoned", "Followed"]

_MOST_KERNELS = 256
_Key = tuple[str, str, tuple[bytes, ...], int]


class Abandoned(Exception):
    """What kernels show is no longer wanted."""


class Followed:
    """The reports on kernels by the text that they depend on: after an edit, only kernels that it changes or moves are analysed again."""

    def __init__(self) -> None:
        self._known: BoundedCache[_Key, list[Report]] = BoundedCache(_MOST_KERNELS)

    def reports(
        self,
        module: ptx.Module,
        programs: dict[str, Program],
        called: Mapping[str, Sequence[ptx.Function]],
        target: str,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Iterator[list[Report]]:
        """What the data flow of each kernel shows, while it is ``wanted``; ``called``: the functions that each of them may reach."""
        from ptxlab.check.static.dataflow import analyse

        inside, outside = _parts(module)
        for name, program in programs.items():
            texts = (outside, *(inside[each.name] for each in called[name] if each.name in inside))
            # Messages name lines.
            key = name, target, texts, hash(tuple([op.line for op in program.ops]))
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = analyse(program, target, wanted)
            yield found


def _parts(module: ptx.Module) -> tuple[dict[str, bytes], bytes]:
    """Digests of the lines inside of the body of each function, by its name, and of all other lines."""
    lines = module.text.split("\n")
    inside: dict[str, bytes] = {}
    outside: list[str] = []
    at = 0
    for function in module.items:
        if isinstance(function, ptx.Function) and function.body is not None and function.body.statements:
            first, last = function.body.statements[0].line, function.body.statements[-1].line - 1
            if at <= first < last:
                outside += lines[at:first]
                inside[function.name] = _digest(lines[first:last])
                at = last
    return inside, _digest([*outside, *lines[at:]])


def _digest(lines: list[str]) -> bytes:
    return blake2b("\n".join(lines).encode(errors="surrogatepass")).digest()
