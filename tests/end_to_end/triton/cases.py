"""Every kernel of this folder with its cases."""

from __future__ import annotations

from . import cases_gemm, cases_neural, cases_scalar
from .case_helpers import Family

CASES: dict[str, Family] = {**cases_gemm.CASES, **cases_neural.CASES, **cases_scalar.CASES}
