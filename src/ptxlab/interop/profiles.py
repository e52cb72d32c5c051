"""The profiles of the launches of a program: of launches of one kernel with the same grid, the last one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ptxlab.diagnostics import Diagnostic, Place
from ptxlab.interop import toolkit
from ptxlab.machine import Kernel, Result
from ptxlab.profile import Assembled, Profile

__all__ = ["KeptProfile", "Profiles"]

MOST_KEPT = 100
"""Different launches whose profiles are kept: each holds what some CTAs have executed."""


@dataclass(slots=True)
class KeptProfile:
    """``launches`` of a kernel with the same grid: where the last one is in the program, what it found, and its profile."""

    site: Place | None
    findings: tuple[Diagnostic, ...]
    profile: Profile
    launches: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        site = None if self.site is None else {"file": self.site.file, "line": self.site.line}
        return {"site": site, "launches": self.launches, "profile": self.profile.as_dict()}


@dataclass(slots=True)
class Profiles:
    """Adds to profiles what an assembler says, and keeps them.

    Attributes
    ----------
    kept : None if none are to be kept
    left : launches whose profiles were not kept because there were too many
    """

    kept: list[KeptProfile] | None = None
    left: int = 0
    _places: dict[tuple[Any, ...], KeptProfile] = field(default_factory=dict, repr=False)
    _assembled: dict[tuple[str, str, str], Assembled | None] = field(default_factory=dict, repr=False)

    def take(self, kernel: Kernel, site: Place | None, result: Result) -> Profile:
        """Take over the profile of a launch; returns it with the registers that the assembler has found, which its result has now, too."""
        asked = kernel.module.ast.text, kernel.module.target, kernel.name
        if asked not in self._assembled:
            self._assembled[asked] = toolkit.assembled(*asked)
        found = self._assembled[asked]
        profile: Profile = result.profile
        result.profile = profile = profile if found is None else profile.with_assembled(found)
        if self.kept is not None:
            self._keep((asked, profile.occupancy.ctas, profile.occupancy.threads), KeptProfile(site, result.diagnostics, profile))
        return profile

    def _keep(self, key: tuple[Any, ...], made: KeptProfile) -> None:
        assert self.kept is not None
        earlier = self._places.get(key)
        if earlier is not None:
            earlier.site, earlier.findings, earlier.profile = made.site, made.findings, made.profile
            earlier.launches += 1
        elif len(self.kept) < MOST_KEPT:
            self._places[key] = made
            self.kept.append(made)
        else:
            self.left += 1
