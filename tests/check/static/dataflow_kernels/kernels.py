"""All wrong kernels with the codes that a run reports, and the rules that they break."""

from __future__ import annotations

from dataclasses import replace

from tests.check.static.dataflow_kernels import copy_mistakes, tensor_mistakes
from tests.check.static.dataflow_kernels.run_codes import RUN_CODES

_CODES = {name: code for code, names in RUN_CODES.items() for name in names}
MISTAKES = tuple(replace(each, code=_CODES.get(each.name, "")) for each in (*tensor_mistakes.MISTAKES, *copy_mistakes.MISTAKES))
RULES = tuple(dict.fromkeys(mistake.rule for mistake in MISTAKES))
