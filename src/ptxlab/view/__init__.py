"""Pictures of layouts and descriptors: terminal text, SVG and HTML; and the layout explorer, a page that computes them itself.

Every ``draw_...`` function gives a `Picture`, which notebooks show by themselves.
"""

from ptxlab.view._bits import draw_descriptor, draw_explanation, draw_zero_columns
from ptxlab.view._estimated_timeline import estimated_timeline
from ptxlab.view._explorer import explorer_page, explorer_tables
from ptxlab.view._picture import EMPTY, Panel, Picture
from ptxlab.view._profile import profile_comparison, profile_tables
from ptxlab.view._provenance import draw_provenance
from ptxlab.view._registers import draw_fragment, draw_wgmma_fragment
from ptxlab.view._report import report_page
from ptxlab.view._shared_memory import draw_banks, draw_operand
from ptxlab.view._tensor_memory import draw_accumulator, draw_copy, draw_matrix_a, draw_metadata, draw_scale_factors

__all__ = [
    "EMPTY",
    "Panel",
    "Picture",
    "draw_accumulator",
    "draw_banks",
    "draw_copy",
    "draw_descriptor",
    "draw_explanation",
    "draw_fragment",
    "draw_matrix_a",
    "draw_metadata",
    "draw_operand",
    "draw_provenance",
    "draw_scale_factors",
    "draw_wgmma_fragment",
    "draw_zero_columns",
    "estimated_timeline",
    "explorer_page",
    "explorer_tables",
    "profile_comparison",
    "profile_tables",
    "report_page",
]
