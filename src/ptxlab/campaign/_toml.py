"""Reading the tables of a TOML file; every error names the file and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ptxlab.diagnostics import Place, PtxlabError, diagnose

__all__ = ["TYPE_NAMES", "TomlReader"]

MAX_TEXT = 16 << 20
TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", list: "a list", bool: "true or false", dict: "a table"}


class TomlReader:
    """Reads one file.

    Attributes
    ----------
    path, what : the file, and what it is, for messages
    line : the line that messages name, as far as it is known
    """

    def __init__(self, path: Path, what: str, error: type[PtxlabError]) -> None:
        self.path, self.what = path, what
        self.line = 1
        self._text = ""
        self._error = error

    def refuse(self, code: str, message: str, fix: str = "", line: int = 0, column: int = 1) -> PtxlabError:
        return self._error(diagnose(code, message, fix=fix).at(Place(str(self.path), line or self.line, column)))

    def table(self) -> dict[str, Any]:
        """The whole file."""
        try:
            if self.path.stat().st_size > MAX_TEXT:
                raise self.refuse("F101", f"the {self.what} is larger than {MAX_TEXT} bytes")
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise self.refuse("F101", f"cannot read the {self.what}: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise self.refuse("F101", f"the {self.what} is not UTF-8 text: byte {error.start}") from None
        try:
            self._text = text
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self.refuse("F102", f"not TOML: {error}", "", getattr(error, "lineno", 1), getattr(error, "colno", 1)) from None
        except (RecursionError, ValueError) as error:
            raise self.refuse("F102", f"not TOML that can be read: {error}") from None

    def tables(self, table: Mapping[str, Any], key: str) -> Iterator[tuple[Any, str]]:
        """Each of the tables ``[[key]]`` and its name for messages; what is refused meanwhile is refused at its line."""
        given = self.expect(table, key, (list,), self.what, default=[])
        lines = [n for n, line in enumerate(self._text.splitlines(), 1) if line.split("#")[0].split() == [f"[[{key}]]"]]
        for i, each in enumerate(given):
            self.line = lines[i] if len(lines) == len(given) else 1
            yield each, f"{key}[{i}]"
        self.line = 1

    def expect(self, table: Mapping[str, Any], key: str, kinds: tuple[type, ...], where: str, default: Any = None) -> Any:
        value = table.get(key, default)
        if value is None or (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            names = " or ".join(TYPE_NAMES[kind] for kind in kinds)
            raise self.refuse("F103", f"{where}: {key} must be {names}, not {'nothing' if value is None else repr(value)}")
        return value

    def known(self, table: Mapping[str, Any], keys: set[str], where: str) -> None:
        for key in table:
            if key not in keys:
                raise self.refuse("F103", f"{where}: unknown key {key!r}", fix=f"known keys: {', '.join(sorted(keys))}")
