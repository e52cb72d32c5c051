"""Bulk copies (C9xx) and tensor maps used at run time (D72x)."""

from __future__ import annotations

from ptxlab.diagnostics.codes._info import CodeInfo

__all__ = ["CODES"]

_BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_TENSOR = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"

CODES = (
    CodeInfo("C901", "error", "a bulk copy with an address that is not aligned", _BULK),
    CodeInfo("C902", "error", "a bulk copy of a size that is not allowed", _BULK),
    CodeInfo("C903", "error", "a bulk copy outside shared memory", _BULK),
    CodeInfo("C904", "error", "a bulk copy whose mbarrier is not where the completion can be signalled", _TENSOR),
    CodeInfo("C905", "error", "a CTA mask that names CTAs which are not in the cluster", _TENSOR),
    CodeInfo("D721", "error", "a tensor map at an address that is not aligned", "Tensor-map"),
    CodeInfo("D722", "error", "the tensor map is not valid", "Tensor-map"),
    CodeInfo("D723", "error", "the tensor map has another rank or mode than the instruction", _TENSOR),
    CodeInfo("D724", "error", "coordinates that the tensor map does not allow", _TENSOR),
    CodeInfo("D726", "error", "a reduction that the tensor map's element type does not support", _TENSOR),
    CodeInfo("D727", "error", "tensormap.replace with a value that the field cannot hold", _REPLACE),
)
