"""What deferred copies of threads bring, as the operand check notes it in compiled code."""

from __future__ import annotations

import numpy as np

from ptxlab.check.operands.words.deferred import noter
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.native import address_of


def test_sources_of_copies_of_all_sizes() -> None:
    """The last copy to a word wins; what is not read is zero."""
    choice = np.random.default_rng(3)
    rows, sources, boxed = np.zeros((300, 3), np.uint64), np.full(64, 7, np.uint64), np.ones(16, np.bool_)
    expected, brought = sources.tolist(), boxed.tolist()
    for row in rows:
        size = int(choice.choice((4, 8, 16)))
        read = int(choice.integers(size + 1))
        offset, address = size * int(choice.integers(240 // size)), int(choice.integers(1 << 40, 1 << 47)) * 16
        row[:] = offset, address, size | read << 8 | int(choice.integers(32)) << 16
        brought[offset // 16] = False
        for at in range(0, size, 4):
            expected[(offset + at) // 4] = address + at if at < read else NO_SOURCE
    noter()(address_of(rows), len(rows), address_of(sources), address_of(boxed))
    assert sources.tolist() == expected
    assert boxed.tolist() == brought
    assert expected.count(7) == 4
