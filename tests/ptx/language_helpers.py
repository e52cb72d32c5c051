"""Parsing of samples, with a check that the printed module is the same one."""

from __future__ import annotations

from typing import Any

from ptxlab.ptx import (
    Module,
    parse,
    to_text,
)

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def load(text: str) -> Module:
    """Parse, and check that the printed module is the same one."""
    module = parse(HEADER + text)
    assert parse(to_text(module)) == module
    return module


def item(text: str) -> Any:
    (only,) = load(text).items
    return only
