"""Scopes and variables: registers with their lanes, special registers, barriers, outstanding operations, operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxlab.debug._points import DebugError
from ptxlab.debug._registers import RegisterValues
from ptxlab.debug._session import Session

__all__ = ["Variables"]

Rows = list[dict[str, Any]]


class Variables:
    """What has been shown since the launch stopped, by number."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shown: list[Callable[[], Rows]] = []

    def forget(self) -> None:
        """The launch moves: numbers begin anew."""
        self._shown.clear()

    def scopes(self, choose: Callable[[], object]) -> Rows:
        """The scopes of a frame; ``choose`` looks at its thread."""

        def scope(name: str, rows: Callable[[], Rows], expensive: bool = False) -> dict[str, Any]:
            def shown() -> Rows:
                choose()
                return rows()

            return {"name": name, "variablesReference": self._keep(shown), "expensive": expensive}

        session = self._session
        return [
            *([scope("Locals", self._locals) | {"presentationHint": "locals"}] if session.variables() else []),
            scope("Registers", self._registers) | {"presentationHint": "registers"},
            scope("Special registers", lambda: [_row(n, values[session.focus.lane]) for n, values in session.special().items()]),
            scope("Barriers", lambda: [self._record(f"{each['kind']} {i}", each) for i, each in enumerate(session.barriers())]),
            scope("Operations", lambda: [self._record(f"operation {each['number']}", each) for each in session.operations()]),
            scope("Operands", self._operands, expensive=True),
        ]

    def rows(self, reference: int, start: int, count: int) -> Rows:
        """The variables of a number, or some of them."""
        if not 1 <= reference <= len(self._shown):
            raise KeyError(f"variablesReference {reference}")
        found = self._shown[reference - 1]()
        return found[start : start + count] if count else found[start:]

    def evaluated(self, value: Any) -> dict[str, Any]:
        """The result of an expression."""
        shown = self._value("result", value)
        return {"result": shown["value"], "variablesReference": shown["variablesReference"]}

    def _keep(self, rows: Callable[[], Rows]) -> int:
        self._shown.append(rows)
        return len(self._shown)

    # -------------------------------------------------------------------------------------------------------------- values

    def _locals(self) -> Rows:
        return [
            self._value(each["name"], "no value" if each["value"] is None else each["value"]) | {"type": each["type"]}
            for each in self._session.variables()
        ]

    def _registers(self) -> Rows:
        return [self._register(each) for each in self._session.registers()]

    def _register(self, each: RegisterValues) -> dict[str, Any]:
        lane = self._session.focus.lane
        row = _row(each.name, lane_text(each, lane)) | {"type": f".{each.type}", "evaluateName": each.name}
        row["variablesReference"] = self._keep(lambda: [_row(f"lane {n}", lane_text(each, n)) for n in range(32)])
        if each.bits == 64 and not each.undefined[lane]:
            row["memoryReference"] = hex(each.raw[lane])
        return row

    def _operands(self) -> Rows:
        try:
            view = self._session.operands()
        except DebugError as error:
            return [_row("none", error.diagnostic.message)]
        shown = [self._value(f"{name} .{view.types[name]} {list(values.shape)}", values.tolist()) for name, values in view.values.items()]
        return [
            _row("instruction", f"{view.opcode}, line {view.line}"),
            *shown,
            *(self._record(name, dict(fields)) for name, fields in view.facts),
        ]

    def _record(self, name: str, record: dict[str, Any]) -> dict[str, Any]:
        return self._value(name, record)

    def _value(self, name: str, value: Any) -> dict[str, Any]:
        """A value, of which lists and records can be opened."""
        if isinstance(value, dict) and value:
            short = ", ".join(f"{key} {item}" for key, item in list(value.items())[:3])
            return _row(name, short) | {"variablesReference": self._keep(lambda: [self._value(str(k), item) for k, item in value.items()])}
        if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple | dict):
            reference = self._keep(lambda: [self._value(f"[{n}]", item) for n, item in enumerate(value)])
            return _row(name, f"{len(value)} rows") | {"variablesReference": reference, "indexedVariables": len(value)}
        return _row(name, " ".join(map(str, value)) if isinstance(value, list) else value)


def _row(name: str, value: Any) -> dict[str, Any]:
    return {"name": name, "value": str(value), "variablesReference": 0}


def lane_text(each: RegisterValues, lane: int) -> str:
    """A register in a lane: its value, its bits, and which of them are undefined."""
    undefined = each.undefined[lane]
    if undefined == (1 << each.bits) - 1:
        return "no value"
    bits = f" ({each.raw[lane]:#x})" if each.bits > 1 else ""
    return f"{each.value(lane)}{bits}" + (f", bits {undefined:#x} undefined" if undefined else "")
