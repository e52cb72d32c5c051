"""The observers of launches by name: `ptxlab` registers here what stands above `ptxlab.machine`, which looks them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Provider(Protocol):
        """What provides the observer of a check: a module with these functions."""

        def concerns(self, program: Any, /) -> bool:
            """Whether there is anything to observe in launches of a program."""

        def observe(self, launch: Any, /) -> Any:
            """Return the observer of a launch."""

        def warm(self) -> None:
            """Compile what the observer needs into the cache."""


__all__ = ["PROFILER", "PROVIDERS", "TRACE"]

PROVIDERS: dict[str, Callable[[], Provider]] = {}
"""By the name of the check; called when a launch asks for it, so that nothing is imported before."""

TRACE: list[Callable[[Any], Any]] = []
"""Opens a trace at a path."""

PROFILER: list[Callable[[Any], Any]] = []
"""Makes the observer that counts what a launch executes."""
