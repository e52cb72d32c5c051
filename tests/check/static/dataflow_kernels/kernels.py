"""All wrong kernels, and the rules that they break."""

from __future__ import annotations

from tests.check.static.dataflow_kernels import copy_mistakes, tensor_mistakes

MISTAKES = (*tensor_mistakes.MISTAKES, *copy_mistakes.MISTAKES)
RULES = tuple(dict.fromkeys(mistake.rule for mistake in MISTAKES))
