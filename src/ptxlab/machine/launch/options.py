"""The options of a launch, checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ptxlab.diagnostics import PtxlabError, diagnose

__all__ = ["CHECKS", "LaunchError", "Options", "dimensions", "selected_checks", "selected_ctas"]

CHECKS: dict[str, str] = {"memory": "M", "barrier": "B", "tmem": "T", "descriptor": "D", "register": "R", "race": "X"}
"""The checks by name, with the letter of the codes that they report."""

POLICIES = ("eager", "lazy", "random")
MODELS = ("practice", "spec")

Dim3 = tuple[int, int, int]


class LaunchError(PtxlabError):
    """A launch that was refused before anything ran."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `Kernel.launch` was asked for, with all defaults resolved; ``grid`` counts CTAs."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    explicit_cluster: bool
    shared_bytes: int
    policy: str
    seed: int
    model: str
    checks: frozenset[str]
    only: frozenset[int] | None
    """Indices of the clusters to run."""
    registers: int | None
    contract: bool
    tmem_offset: int
    max_instructions: int | None
    progress: Callable[[int, int], None] | None


def refuse(code: str, message: str, fix: str = "") -> LaunchError:
    """Make the error of a refused launch."""
    return LaunchError(diagnose(code, message, fix=fix))


def dimensions(name: str, value: Any) -> Dim3:
    """An int or a tuple of one to three positive ints as (x, y, z)."""
    parts = tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else (value,)
    try:
        numbers = [int(p) for p in parts if not isinstance(p, (bool, float, str))]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or len(numbers) != len(parts) or any(n < 1 for n in numbers):
        raise refuse("A308", f"{name} must be a positive int or one to three of them, not {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def selected_checks(check: str | Collection[str] | None) -> frozenset[str]:
    """The checks that a ``check`` argument names; an absent one is refused."""
    if check is None or check == "none":
        return frozenset()
    if check == "all":
        return frozenset(CHECKS)
    names = {check} if isinstance(check, str) else set(check)
    unknown = sorted(str(n) for n in names if n not in CHECKS)
    if unknown:
        raise refuse(
            "A310",
            f"there is no check named {', '.join(map(repr, unknown))}",
            fix=f"check takes 'all', 'none', or names out of {', '.join(map(repr, CHECKS))}",
        )
    return frozenset(names)


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise refuse("A310", f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return str(value)


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """An int in a range."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= int(value) <= high:
        raise refuse("A310", f"{name} must be an int from {low} to {high}, not {value!r}")
    return int(value)


def selected_ctas(only: Any, grid: Dim3, cluster: Dim3) -> frozenset[int] | None:
    """Indices of the clusters that hold the CTAs named by ``only``."""
    if only is None:
        return None
    across = tuple(-(-g // c) for g, c in zip(grid, cluster, strict=True))
    chosen = set()
    for entry in only:
        at = tuple(entry) if isinstance(entry, Iterable) else (entry,)
        if not 1 <= len(at) <= 3 or any(isinstance(i, bool) or not hasattr(i, "__index__") for i in at):
            raise refuse("A310", f"only takes CTA coordinates (x, y, z), not {entry!r}")
        x, y, z = (*map(int, at), 0, 0)[:3]
        if not (0 <= x < grid[0] and 0 <= y < grid[1] and 0 <= z < grid[2]):
            raise refuse("A310", f"only names CTA {(x, y, z)}, but the grid is {grid}")
        chosen.add(x // cluster[0] + across[0] * (y // cluster[1] + across[1] * (z // cluster[2])))
    return frozenset(chosen)
