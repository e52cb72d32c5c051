"""Record kits: kernels that anyone with a GPU runs, and what their results say about ptxlab."""

from ptxlab.silicon._case import TARGETS, Array, Case, Target
from ptxlab.silicon._compare import Comparison, Report, compare, write_evidence
from ptxlab.silicon._kit import PARTS, cases_of, parts_of, write_kit
from ptxlab.silicon._results import Outcome, RecordError, Results, read_results

__all__ = [
    "PARTS",
    "TARGETS",
    "Array",
    "Case",
    "Comparison",
    "Outcome",
    "RecordError",
    "Report",
    "Results",
    "Target",
    "cases_of",
    "compare",
    "parts_of",
    "read_results",
    "write_evidence",
    "write_kit",
]
