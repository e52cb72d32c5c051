"""The terminal interface: panes with source, PTX, registers, memory, barriers and a timeline, and a line for commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.widgets import Footer, Input, Static

from ptxlab.debug._commands import Console
from ptxlab.debug._points import DebugError
from ptxlab.debug._session import Session
from ptxlab.debug.terminal import panes

__all__ = ["DebuggerApp"]

_KEYS = {"f5": "continue", "f6": "continue-back", "f7": "step", "f8": "back", "f9": "line", "f10": "line-back"}
_NAMES = {"continue-back": "back to stop", "back": "step back", "line-back": "line back"}
"""What the last line calls commands whose own names say less."""
_MOST_LINES = 5
"""Lines of the answer to a command."""


class _Commands(Input):
    """The line for commands: what is typed next neither overtakes a command nor is lost with it."""

    def __init__(self, execute: Callable[[str], None]) -> None:
        super().__init__(placeholder="a command: help lists them; show MEMORY ADDRESS chooses what the memory pane shows")
        self._execute = execute

    async def _on_key(self, event: Key) -> None:
        command = _KEYS.get(event.key)
        if event.key == "enter":
            command, self.value = self.value, ""
        if command is None:
            await super()._on_key(event)
        else:
            event.stop()
            event.prevent_default()
            self._execute(command)


class DebuggerApp(App[None]):
    """Shows a session.

    Parameters
    ----------
    session : what is debugged
    """

    CSS = """
    Static { border: solid $primary; height: 1fr; }
    #answer, #timeline { height: auto; max-height: 8; }
    Input { height: 3; }
    #right { width: 45%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"command('{command}')", _NAMES.get(command, command)) for key, command in _KEYS.items()),
        Binding("ctrl+q", "quit", "quit", priority=True),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._console = Console(session)
        self._memory = "shared", 0x400

    def compose(self) -> ComposeResult:
        """The panes."""
        with Horizontal():
            with Vertical():
                yield _pane("ptx", "PTX")
                yield _pane("source", "source")
            with Vertical(id="right"):
                yield _pane("registers", "registers")
                yield _pane("barriers", "barriers and operations")
                yield _pane("memory", "memory")
        yield _pane("timeline", "timeline")
        yield _pane("answer", "answer")
        yield _Commands(self.action_command)
        yield Footer()

    def on_mount(self) -> None:
        """Show where the launch stands."""
        self.call_after_refresh(self._show, self.session.where().as_text())
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        """Fill the panes anew."""
        self.call_after_refresh(self._show)

    def action_command(self, text: str) -> None:
        """Execute a command, and show its answer."""
        words = text.split()
        try:
            if words[:1] == ["show"] and len(words) == 3:
                self._memory = words[1], int(words[2], 0)
                answer = None
            elif words in (["quit"], ["q"]):
                self.exit()
                return
            else:
                answer = self._console.execute(text)
        except DebugError as error:
            self._show(str(error.diagnostic))
        except ValueError:
            self._show(f"{words[2]} is no address")
        else:
            self._show("" if answer is None else answer.text)

    def _show(self, answer: str | None = None) -> None:
        session = self.session
        found: dict[str, Callable[[int, int], str]] = {
            "ptx": lambda width, height: panes.program(session, height),
            "source": lambda width, height: panes.source(session, height),
            "registers": lambda width, height: panes.registers(session),
            "barriers": lambda width, height: panes.barriers(session),
            "memory": lambda width, height: panes.memory(session, *self._memory, height),
            "timeline": lambda width, height: panes.timeline(session, max(width, 1)),
        }
        for name, text in found.items():
            pane = self.query_one(f"#{name}", Static)
            pane.update(text(pane.content_size.width, max(pane.content_size.height, 1)))
        if answer is not None:
            self.query_one("#answer", Static).update("\n".join(answer.split("\n")[:_MOST_LINES]))


def _pane(name: str, title: str) -> Static:
    pane = Static(id=name, markup=False)
    pane.border_title = title
    return pane
