"""Data flow of PTX text: what is known of registers, threads and paths, and the rules that read it.

`analyse` gives the findings of one lowered kernel. Nothing is executed; what is not known is not reported.
"""

from ptxlab.check.static.dataflow._kernel import Report
from ptxlab.check.static.dataflow.analyse import analyse

__all__ = ["Report", "analyse"]
