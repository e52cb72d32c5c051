"""Launch files, and campaigns: many launches of them on an executor."""

from ptxlab.campaign.cell import Cell, CellResult
from ptxlab.campaign.executors import Executors, executors
from ptxlab.campaign.plan import Campaign, CampaignError, Source, cells_of, read_campaign
from ptxlab.campaign.results import Case, ResultFile, cases, junit
from ptxlab.campaign.runner import run_cells

__all__ = [
    "Campaign",
    "CampaignError",
    "Case",
    "Cell",
    "CellResult",
    "Executors",
    "ResultFile",
    "Source",
    "cases",
    "cells_of",
    "executors",
    "junit",
    "read_campaign",
    "run_cells",
]
