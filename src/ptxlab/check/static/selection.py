"""Which findings of lint are shown: codes that are selected or ignored, comments in the text, configuration, and what a change adds."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ptxlab.diagnostics import CODES, Diagnostic

__all__ = ["Selection", "added", "at_base", "configured", "github_annotations", "kept", "statistics"]

_COMMENT = re.compile(r"//\s*ptxlab:\s*ignore(?:\[([^\]]*)\])?")
_KEYS = {"select": list, "ignore": list, "target": str, "version": str, "dataflow": bool}


@dataclass(frozen=True)
class Selection:
    """The codes that are shown: those that begin with one of ``select`` (all if it is empty), and with none of ``ignore``."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def __contains__(self, code: str) -> bool:
        return (not self.select or code.startswith(self.select)) and not (self.ignore and code.startswith(self.ignore))

    @staticmethod
    def codes(text: str) -> tuple[str, ...]:
        """The codes, or beginnings of codes, of a list with commas; ValueError if no code begins so.

        >>> Selection.codes("L1, X102")
        ('L1', 'X102')
        """
        given = tuple(part.strip().upper() for part in text.split(",") if part.strip())
        for each in given:
            if not any(code.startswith(each) for code in CODES):
                raise ValueError(f"no diagnostic code begins with {each!r}")
        return given


def kept(found: Iterable[Diagnostic], selection: Selection, text: str) -> list[Diagnostic]:
    """The findings that are selected, and that no comment ``// ptxlab: ignore[CODE, ...]`` on their line of the text suppresses."""
    lines = text.splitlines()
    return [d for d in found if d.code in selection and not _is_ignored(d, lines)]


def _is_ignored(diagnostic: Diagnostic, lines: list[str]) -> bool:
    place = diagnostic.place
    if place is None or not 0 < place.line <= len(lines):
        return False
    comment = _COMMENT.search(lines[place.line - 1])
    if comment is None:
        return False
    codes = [code.strip().upper() for code in (comment[1] or "").split(",") if code.strip()]
    return not codes or diagnostic.code in codes


def configured(start: Path) -> dict[str, object]:
    """The table ``[tool.ptxlab]`` of the nearest ``pyproject.toml`` above a folder; empty if there is none."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("ptxlab", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
        for key, value in table.items():
            if key not in _KEYS:
                raise ValueError(f"{path}: [tool.ptxlab] has no key {key!r}; its keys are {', '.join(_KEYS)}")
            if not isinstance(value, _KEYS[key]):
                raise ValueError(f"{path}: {key} in [tool.ptxlab] must be of type {_KEYS[key].__name__}")
        return dict(table)
    return {}


def at_base(file: Path, base: str) -> str:
    """The text of a file at a commit of its git repository; empty if the commit does not have it."""
    folder = file.resolve().parent
    known = subprocess.run(
        ["git", "-C", folder, "rev-parse", "--verify", f"{base}^{{commit}}"], capture_output=True, text=True, check=False
    )
    if known.returncode:
        raise ValueError(f"--diff: git knows no commit {base!r} in {folder}")
    shown = subprocess.run(["git", "-C", folder, "show", f"{base}:./{file.name}"], capture_output=True, check=False)
    return "" if shown.returncode else shown.stdout.decode("utf-8", "replace")


def added(now: Iterable[Diagnostic], before: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings that the earlier text did not have; lines that only moved are the same."""
    old = Counter(_identity(d) for d in before)
    found = []
    for diagnostic in now:
        identity = _identity(diagnostic)
        if old[identity]:
            old[identity] -= 1
        else:
            found.append(diagnostic)
    return found


def _identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return diagnostic.code, re.sub(r"\bline \d+", "line", diagnostic.message), diagnostic.excerpt.strip()


def statistics(found: Iterable[Diagnostic]) -> str:
    """How often each code was found, the most frequent first."""
    counts = Counter((d.code, d.severity) for d in found)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(f"{count:6} {code}  {severity:7} {CODES[code].title}" for (code, severity), count in rows)


def github_annotations(found: Iterable[Diagnostic]) -> Iterator[str]:
    """The findings as workflow commands of GitHub Actions."""
    levels = {"error": "error", "warning": "warning", "note": "notice"}
    for d in found:
        where = ""
        if d.place is not None:
            where = f" file={_property(d.place.file)},line={d.place.line},col={d.place.column},title={_property(f'{d.code}')}"
        text = d.message + (f" Fix: {d.fix}" if d.fix else "")
        yield f"::{levels[d.severity]}{where}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
