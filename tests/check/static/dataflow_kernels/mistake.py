"""One wrong kernel: a right kernel with one edit."""

from __future__ import annotations

from dataclasses import dataclass

from tests.check.static.dataflow_kernels.launches import base_text


@dataclass(frozen=True)
class Mistake:
    """A wrong kernel, and where its mistake shows.

    Parameters
    ----------
    name
        What is wrong, in a few words.
    base
        The right kernel: a file of this folder without its suffix.
    rule
        The rule that it breaks, one of ``RULES``.
    edits
        Pieces of the right kernel, each of which occurs once, and what stands there in the wrong one. Several pieces make one mistake.
    at
        Texts, each of which occurs on one line of the wrong kernel; a report names one of these lines.
    severity
        The highest that a report may have: ``error`` where a run reports each execution, ``warning`` where only some path is wrong or a run
        finds nothing, ``note`` for what is only useless.
    code
        The code that a run reports at one of these lines, or nothing.
    refused
        ptxas refuses the wrong kernel.
    """

    name: str
    base: str
    rule: str
    edits: tuple[tuple[str, str], ...]
    at: tuple[str, ...]
    severity: str = "error"
    code: str = ""
    refused: bool = False

    @property
    def text(self) -> str:
        """The wrong kernel."""
        text = base_text(self.base)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} occurs {text.count(old)} times in {self.base}.ptx")
            text = text.replace(old, new)
        return text

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the lines that a report may name, from 1."""
        lines = self.text.splitlines()
        found = []
        for piece in self.at:
            (line,) = (number for number, line in enumerate(lines, 1) if piece in line)
            found.append(line)
        return tuple(found)


def mistake(name: str, base: str, rule: str, *edits: tuple[str, str], at: str | tuple[str, ...], **more: str | bool) -> Mistake:
    """Return a wrong kernel; ``at`` may be one text."""
    return Mistake(name, base, rule, edits, (at,) if isinstance(at, str) else at, **more)  # type: ignore[arg-type]
