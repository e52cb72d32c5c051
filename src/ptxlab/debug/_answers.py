"""What a command answers: as text, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ptxlab.debug._report import Stop

__all__ = ["Answer", "short", "stopped", "table"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has found: a stop, or a value that JSON can hold; and the same as text."""

    text: str
    stop: Stop | None = None
    value: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"stop": self.stop.as_dict()} if self.stop is not None else {"value": _json_value(self.value)}


def _json_value(value: Any) -> Any:
    """The value with texts in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _json_value(item) for name, item in value.items()}
    return [_json_value(item) for item in value] if isinstance(value, list | tuple) else value


def stopped(stop: Stop) -> Answer:
    """Where a motion has ended."""
    return Answer(stop.as_text(), stop)


def table(rows: Sequence[dict[str, Any]]) -> Answer:
    """Records, one a line."""
    lines = ["  ".join(f"{name} {short(value)}" for name, value in row.items()) for row in rows]
    return Answer("\n".join(lines) or "none", None, list(rows))


def short(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, list):
        return "[" + "; ".join(short(item) for item in value) + "]"
    return " ".join(f"{name} {short(item)}" for name, item in value.items()) if isinstance(value, dict) else str(value)
