"""Loops of bulk copies of contiguous bytes, right ones and ones with a mistake: compiled code gives what handlers give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.isa.bulk import _linear
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise_race_check
from tests.repetition_helpers import both_ways, note_handled

from .line_loop_helpers import BODIES, BYTES, CLUSTER, CTAS, EXPECT, FILL, GROUP, READ, WAIT, expected, inputs, launch, text_of

TURNS = 12
HANDLED: list[int] = []
"""The lines of the bulk copies that the handler has executed, for each lane."""
COPIES = tuple(name for name in BODIES if "threads" not in name)


@pytest.fixture(autouse=True)
def _count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    optimise_race_check()
    note_handled(monkeypatch, _linear, "start", HANDLED)
    yield
    HANDLED.clear()


def both(text: str, **options: Any) -> tuple[Any, Any, ptxlab.Result, int]:
    """What a launch gives, which is the same if handlers execute each copy; and how often they do."""
    (out, totals), result, handled, by_handlers = both_ways(lambda: launch(text, TURNS, **options), HANDLED)
    assert len(handled) <= len(by_handlers)
    return out, totals, result, len(handled)


@pytest.mark.parametrize("options", [{"check": "none"}, {"check": "race"}, {"check": "all"}, {}])
@pytest.mark.parametrize("name", COPIES)
def test_right_loops(name: str, options: dict[str, Any]) -> None:
    out, totals, result, handled = both(text_of(name), **options)
    assert result.diagnostics == ()
    assert all(map(np.array_equal, (out, totals), expected(name, TURNS)))
    lanes = 16 if "lanes" in name or "some" in name else 1
    assert handled <= lanes * CTAS


LATE = "setp.eq.u32 q, i, 9;"
"""One turn, in which compiled code executes the copies."""
MORE, FEWER = EXPECT.replace(str(BYTES), str(BYTES + 16)), EXPECT.replace(str(BYTES), str(BYTES - 16))
FENCE, BEYOND = "fence.proxy.async;", BYTES * TURNS * CTAS
OVERWRITE = f"{LATE} @q st.shared.u32 [filled], i;"
MISTAKES: dict[str, tuple[str, dict[str, str], str]] = {
    #                           the loop, what is replaced, and a code of a finding
    "no wait":                  ("load", {WAIT: ""}, "X103"),
    "no wait in one turn":      ("load", {WAIT: f"{LATE} @q bra ON; {WAIT} ON:"}, "X103"),
    "a write before the copy":  ("load", {EXPECT: f"{LATE} @q st.shared.u32 [own], i; bar.sync 0; {EXPECT}"}, "X102"),
    "a write after the copy":   ("load", {WAIT: f"{LATE} @q st.shared.u32 [own], i; {WAIT}"}, "X103"),
    "no barrier":               ("load", {CLUSTER: ""}, "X103"),
    "too many bytes expected":  ("load", {EXPECT: f"{LATE} @!q bra ON; {MORE} bra OFF; ON: {EXPECT} OFF:"}, "H601"),
    "too few bytes expected":   ("load of lanes", {EXPECT: f"{LATE} @!q bra ON; {FEWER} bra OFF; ON: {EXPECT} OFF:"}, "X103"),
    "a size of 8 bytes more":   ("load of a register's size", {"@one cp": f"{LATE} @q add.u32 size, size, 8; @one cp"}, "C902"),
    "another size":             ("load of a register's size", {"@one cp": f"{LATE} @q sub.u32 size, size, 64; @one cp"}, "H601"),
    "lanes, no wait":           ("load of lanes", {WAIT: f"{LATE} @q bra ON; {WAIT} ON:"}, "X103"),
    "lanes, one place":         ("load of lanes", {"add.u32 to, b, to;": f"add.u32 to, b, to; {LATE} @q mov.u32 to, b;"}, "X103"),
    "lanes, one is misaligned": ("load of lanes", {"add.u32 to, b, to;": "add.u32 to, b, to; setp.eq.u32 q, tid, 7; @q add.u32 to, to, i;"},
                                 "C901"),
    "multicast, no wait":       ("multicast", {WAIT: f"{LATE} @q bra ON; {WAIT} ON:"}, "X103"),
    "multicast to one CTA":     ("multicast", {"@q cp": "setp.eq.u32 more, i, 9; @more mov.b16 both, 1; @q cp"}, "H601"),
    "no fence":                 ("exchange", {FILL: FILL.replace(FENCE, f"{LATE} @q bra ON; {FENCE} ON:")}, "X102"),
    "no barrier before":        ("exchange", {"bar.sync 0;": f"{LATE} @q bra OFF; bar.sync 0; OFF:"}, "X104"),
    "no wait for the peer":     ("exchange", {WAIT: f"{LATE} @q bra ON; {WAIT} ON:"}, "X103"),
    "source overwritten":       ("exchange", {WAIT: f"{OVERWRITE} {WAIT}"}, "X104"),
    "sum, no wait":             ("sum", {WAIT: f"{LATE} @q bra ON; {WAIT} ON:"}, "X103"),
    "store, no wait":           ("store", {GROUP: f"{OVERWRITE} {GROUP}"}, "X104"),
    "lanes, stores to one":     ("store of lanes", {"from, out, w;": f"from, out, w; {LATE} @q mov.u64 from, out;"}, "X103"),
    "stores, no wait":          ("store of lanes", {"cp.async.bulk.wait_group 0;": ""}, "X104"),
    "lanes, beyond the array":  ("store of lanes", {"from, out, w;": f"from, out, w; {LATE} @q add.u64 from, from, {BEYOND};"}, "M402"),
    "mask, no wait":            ("store of some bytes", {"cp.async.bulk.wait_group 0;": ""}, "X104"),
    "threads, no wait":         ("all copies of threads", {"cp.async.wait_all;": f"{LATE} @q bra ON; cp.async.wait_all; ON:"}, "X111"),
    "threads, an early read":   ("all copies of threads", {"cp.async.wait_all;": f"{READ} cp.async.wait_all;"}, "X111"),
}  # fmt: skip


@pytest.mark.parametrize("check", ["race", "all"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, check: str) -> None:
    loop, changes, code = MISTAKES[name]
    text = text_of(loop)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    _, _, result, _ = both(text, check=check)
    codes = {each.code for each in result.diagnostics}
    assert code in codes


@pytest.mark.parametrize("name", ["load", "multicast", "store of lanes", "store of some bytes", "reduction of lanes"])
def test_memory_that_is_not_all_defined(name: str) -> None:
    """Some memory has undefined bits, of which the host is told when it reads them; the second launch copies them."""
    loaded, found = ptxlab.loads(text_of(name)).kernel(), []
    for way in (context_words._table_of_repetitions, lambda launch: 0):
        device = ptxlab.Device("sm_100a")
        given, out = device.array(inputs(TURNS)), device.empty((CTAS, TURNS, BYTES // 4), np.uint32)
        totals, results = device.empty((CTAS, BYTES // 4), np.uint32), []
        HANDLED.clear()
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            patch.setattr(context_words, "_table_of_repetitions", way)
            for given_now, out_now in ((given, out), (out, given)):
                args = [given_now, out_now, totals, TURNS]
                result = loaded.launch(grid=CTAS, cluster=CTAS, block=BYTES // 4, args=args, device=device, check="all")
                results.append(([str(each) for each in result.diagnostics], result.stats.services))
            read = [each.numpy().tobytes() for each in (out, given, totals)]
        found.append((results, read, [str(each.message) for each in warned], len(HANDLED)))
    first, second = found
    assert first[:3] == second[:3]
    assert bool(first[2]) == ("load" in name or "multicast" in name or "reduction" in name)
    assert first[3] < second[3]
