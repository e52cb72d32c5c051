"""The texts around a mistake, and the refusal that the front end gives."""

from __future__ import annotations

import pytest

from ptxlab.ptx import PtxSyntaxError, parse

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
WRAP = {"module": HEADER + "%s", "body": HEADER + ".func f {\n%s\n}", "open": HEADER + ".func f {\n%s", "text": "%s"}


def refusal(where: str, text: str) -> str:
    """The whole text of the error of a mistake in a place of `WRAP`."""
    with pytest.raises(PtxSyntaxError) as error:
        parse(WRAP[where] % text, "k.ptx")
    return str(error.value)
