"""What a launch executes, and what it costs: counters by instruction, PTX line, source line and warp role, and occupancy.

``counters`` holds what is exact. A model of time takes its numbers from there.
"""

from __future__ import annotations

from ptxlab.profile._profile import InstructionCounts, LineCounts, ProductCounts, Profile
from ptxlab.profile.counters.columns import COLUMNS, Column, Counts
from ptxlab.profile.counters.roles import Role
from ptxlab.profile.occupancy import Assembled, Occupancy, occupancy

__all__ = [
    "COLUMNS",
    "Assembled",
    "Column",
    "Counts",
    "InstructionCounts",
    "LineCounts",
    "Occupancy",
    "ProductCounts",
    "Profile",
    "Role",
    "occupancy",
]
