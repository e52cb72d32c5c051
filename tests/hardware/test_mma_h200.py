"""mma.sync and movmatrix against what an H200 computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab.silicon.parts.mma import CASES, Form, forms, module, words

SHOWS = {
    "test_form": ("mma.sync.aligned.(shape=m*", "movmatrix*"),
}

RECORD = Path(__file__).with_name("mma_h200.npz")
FORMS = {form.opcode: form for form in forms()}


def recorded() -> dict[str, np.ndarray]:
    """The registers of D by opcode."""
    found, at = {}, 0
    with np.load(RECORD) as data:
        results = data["results"]
        for opcode in data["opcodes"].tolist():
            size = CASES * 32 * max(FORMS[opcode].counts[2], 1)
            found[opcode] = results[at : at + size]
            at += size
    return found


RECORDED = recorded()


def run(form: Form, target: str) -> np.ndarray:
    result = np.zeros(CASES * 32 * max(form.counts[2], 1), np.uint32)
    given = [np.append(words(form, i).ravel(), np.uint32(0)) for i in range(3)]
    ptxlab.loads(module(form, target)).kernel().launch(grid=CASES, block=32, args=[*given, result]).raise_for_errors()
    return result


def test_all_forms_are_recorded() -> None:
    assert len(RECORDED) == 47


@pytest.mark.parametrize("opcode", RECORDED)
def test_form(opcode: str) -> None:
    wrong = np.flatnonzero(run(FORMS[opcode], "sm_90a") != RECORDED[opcode])
    assert not len(wrong), (len(wrong), wrong[:8])
