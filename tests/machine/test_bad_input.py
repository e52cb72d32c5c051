"""Bad input of every sort: a diagnostic with its place, its exact text kept in ``bad_inputs.txt``.

After a deliberate change of a text: ``PTXLAB_REWRITE=1 pytest tests/machine/test_bad_input.py``, then read the difference.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

import ptxlab

from .bad_input_cases import BAD_INPUTS, BadInput

SHOWS = {
    "test_text": ("trap",),
}

GOLDEN = Path(__file__).with_name("bad_inputs.txt")
MARK = "=== "


def expected() -> dict[str, str]:
    blocks = GOLDEN.read_text().split(f"\n{MARK}") if GOLDEN.exists() else []
    return dict(block.removeprefix(MARK).split("\n", 1) for block in blocks)  # type: ignore[misc]


def outcome(bad: BadInput) -> str:
    """Whether it was refused or launched, and every diagnostic as text."""
    args = bad.args()
    before = [a.copy() for a in args if isinstance(a, np.ndarray)]
    try:
        result = ptxlab.loads(bad.text)[bad.kernel].launch(args=args, **bad.options)
    except ptxlab.PtxlabError as error:
        head, diagnostics = f"refused: {type(error).__name__}", error.diagnostics
    else:
        assert not result.ok
        head, diagnostics = "completed" if result.completed else "ended", result.diagnostics
    if head != "completed":
        after = [a for a in args if isinstance(a, np.ndarray)]
        assert all((a == b).all() for a, b in zip(before, after, strict=True)), "nothing may be written back"
    return "\n".join([head, *map(str, diagnostics)]).rstrip() + "\n"


@pytest.mark.parametrize("bad", BAD_INPUTS, ids=lambda bad: bad.name)
def test_text(bad: BadInput) -> None:
    started = time.process_time()
    found = outcome(bad)
    assert time.process_time() - started < 10
    if os.environ.get("PTXLAB_REWRITE"):
        texts = expected() | {bad.name: found}
        GOLDEN.write_text("\n".join(f"{MARK}{b.name}\n{texts[b.name]}" for b in BAD_INPUTS if b.name in texts))
    assert found == expected()[bad.name] or found == expected()[bad.name] + "\n"


def test_every_text_has_its_input() -> None:
    assert list(expected()) == [bad.name for bad in BAD_INPUTS]
