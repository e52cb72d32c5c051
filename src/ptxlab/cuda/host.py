"""What the virtual driver asks of the program that has installed it: settings, launches and where findings go."""

from __future__ import annotations

from typing import Any, Protocol

from ptxlab.diagnostics import Diagnostic, Place
from ptxlab.machine import Kernel, Module, Result

__all__ = ["Host", "HostSettings"]


class HostSettings(Protocol):
    """The settings of a session that the driver looks at."""

    @property
    def target(self) -> str: ...

    @property
    def sms(self) -> int | None: ...

    @property
    def keep_going(self) -> bool: ...

    @property
    def conceals_refusals(self) -> bool: ...

    @property
    def leaks(self) -> bool: ...

    @property
    def follows_memory(self) -> bool: ...


class Host(Protocol):
    """Runs launches with the settings of a program, and records what is found: a session."""

    @property
    def settings(self) -> HostSettings: ...

    def launch(self, kernel: Kernel, site: Place | None, *, grid: tuple[int, ...], **options: Any) -> Result:
        """Launch a kernel; `KernelError` is raised for errors."""

    def note(self, diagnostic: Diagnostic) -> None:
        """Record a finding."""

    def loaded(self, module: Module) -> None:
        """Learn that the program has loaded a module."""
