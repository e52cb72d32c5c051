"""What has been found out about an operand in an earlier launch of the process is true of a later one only if all of it is equal."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.check.operands.words.images import WordImage
from ptxlab.check.operands.words.repeated import Differences, Known
from ptxlab.engine.word_sources import HALVES_SHIFT
from ptxlab.native import address_of

from .gathered_kernels import HALVES, launch_halves, of_halves
from .word_kernels import STEP, TEXT, launch

WRONG_STEP = STEP.replace(" 2;", " 1;", 1)
FIX = "advance the start address of A by 32 bytes from instruction to instruction"
COPY = "cp.async.cg.shared.global [%r13], [%rd1], 16;"
WAIT = "cp.async.wait_all;"


def test_chunks_that_begin_alike() -> None:
    """The first words of all chunks are as far apart in both launches, but only in the first one the other words have equal steps."""
    for order in (range(8), HALVES):
        result, right = launch_halves(of_halves(256, order).replace(STEP, WRONG_STEP), 256)
        assert not right
        assert (result.diagnostics[0].code, result.diagnostics[0].fix) == ("O105", FIX)


BULK = TEXT
for _instead in {
    ".shared .align 8 .b64 done;": ".shared .align 8 .b64 done; .shared .align 8 .b64 full; .shared .align 16 .b8 other[2048];",
    "COPY:": f"""mov.u32 %r30, full;
    mov.u32 %r31, other;
    mad.lo.u32 %r31, %r1, 16, %r31;
    {COPY.replace("%r13", "%r31")}
    @%p2 mbarrier.init.shared::cta.b64 [%r30], 128;
    bar.sync 0;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
COPY:""",
    f"{COPY}\n    add": "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r13], [%rd1], 16, [%r30];\n    add",
    WAIT: f"{WAIT}\nFULL:\n    mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r30], 0;\n    @!%p7 bra FULL;",
}.items():
    BULK = BULK.replace(*_instead, 1)


def test_bulk_copies_of_the_same_words() -> None:
    """What bulk copies bring may stand as a descriptor needs it: it is not judged, though the words are those of threads before."""
    for text, codes in ((TEXT, {"O105"}), (BULK, set())):
        result, right = launch(text.replace(STEP, WRONG_STEP), check="operands")
        assert not right
        assert {found.code for found in result.diagnostics} == codes


@pytest.mark.parametrize("width", [1, 4])
def test_all_words_and_their_form_are_compared(width: int) -> None:
    base, places = 0x801000000000, np.arange(8, 24)
    sources = np.zeros(32, np.int64)
    sources[places] = base + 512 * np.arange(len(places))
    known = Known(2, 512, places, sources[places])
    differences = Differences([(places[:8], sources[8:16]), (places[8:], sources[16:24])], width)
    assert differences.starts == (8, 16)
    assert not differences.found(address_of(sources))
    moved = sources + 4096
    assert known.image(moved) == WordImage(base + 4096, 2, 512)
    assert not differences.found(address_of(moved))
    for place in places.tolist():
        other = moved.copy()
        other[place] += 4
        assert known.image(other) is None
        assert differences.found(address_of(other))
    apart = moved + (5 << HALVES_SHIFT)
    assert known.image(apart) is None
    assert differences.found(address_of(apart))
