"""cvta, mapa, isspacep: windows and ranks."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.isa.address_space import GLOBAL_BASE, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW

from .form_helpers import form, with_numpy


def one(opcode: str, *values: int) -> int:
    chosen = form(opcode, len(values))
    words = [np.array([v], np.uint32 if t in ("u32", "b32") else np.uint64) for v, t in zip(values, chosen.sources, strict=True)]
    return int(with_numpy(chosen, words)[0][0])


@pytest.mark.parametrize(("space", "window"), [("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW), ("global", 0)])
def test_there_and_back(space: str, window: int) -> None:
    address = 0x01000440 if window else GLOBAL_BASE + 64
    assert one(f"cvta.{space}.u64", address) == window + address
    assert one(f"cvta.to.{space}.u64", window + address) == address


def test_the_low_word_of_a_generic_shared_address_is_the_address() -> None:
    assert one("cvta.shared::cluster.u64", 0x03000400) & 0xFFFFFFFF == 0x03000400


def test_mapa_sets_the_rank() -> None:
    assert one("mapa.shared::cluster.u32", 0x01000440, 3) == 0x03000440
    assert one("mapa.u64", SHARED_WINDOW + 0x01000440, 0) == SHARED_WINDOW + 0x440
    assert one("getctarank.shared::cluster.u32", 0x05000440) == 5


def test_spaces_of_generic_addresses() -> None:
    """For .shared::cta, which asks for the executing CTA, see the records of clusters."""
    addresses = {"shared::cluster": SHARED_WINDOW + 0x400, "local": LOCAL_WINDOW, "param": PARAM_WINDOW + 0x380, "global": GLOBAL_BASE}
    for space in addresses:
        for other, address in addresses.items():
            assert one(f"isspacep.{space}", address) == (space == other)
    assert one("isspacep.global", 0x7FFF_1234_5670) == 1, "host memory that is attached at its own address"
