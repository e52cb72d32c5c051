"""Values, formats and layouts (N1xx, L2xx)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]


CODES = (
    CodeInfo("D741", "error", "an operation on layouts that is not defined", "Canonical Layouts"),
    CodeInfo("D742", "error", "text that is not a layout in CuTe notation", "Canonical Layouts"),
    CodeInfo("N102", "error", "a format, value or mode that does not exist or does not fit"),
    CodeInfo("N101", "error", "an argument that an arithmetic function cannot take"),
    CodeInfo("D731", "error", "a value that a field of the descriptor cannot hold"),
    CodeInfo("D732", "error", "a tensor map that the driver refuses", "Tensor-map"),
)
