"""What a launch executes, and what it costs: counters by instruction, PTX line, source line and warp role, and occupancy.

``counters`` holds what is exact. ``model`` estimates the time from there.
"""

from __future__ import annotations

from ptxlab.profile._profile import InstructionCounts, LineCounts, ProductCounts, Profile
from ptxlab.profile.advice import advice
from ptxlab.profile.counters.columns import COLUMNS, Column, Counts
from ptxlab.profile.counters.footprint import Footprint
from ptxlab.profile.counters.roles import Role
from ptxlab.profile.model.estimate import Estimate
from ptxlab.profile.model.parameters import Parameters, parameters_of
from ptxlab.profile.model.roofline import Position, TensorUse
from ptxlab.profile.occupancy import Assembled, Occupancy, occupancy

__all__ = [
    "COLUMNS",
    "Assembled",
    "Column",
    "Counts",
    "Estimate",
    "Footprint",
    "InstructionCounts",
    "LineCounts",
    "Occupancy",
    "Parameters",
    "Position",
    "ProductCounts",
    "Profile",
    "Role",
    "TensorUse",
    "advice",
    "occupancy",
    "parameters_of",
]
