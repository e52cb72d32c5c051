"""The benchmarks measure what they say: their loops run, and a figure that is missed is named."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.approximate import COUNT, INSTRUCTIONS, approximate
from benchmarks.compare import ROOT, compare, rows, slower
from benchmarks.generated import addresses, services
from benchmarks.required import REQUIRED, missed
from benchmarks.workloads import options

import ptxlab


@pytest.mark.parametrize("name", services())
def test_loops_run_and_are_counted(name: str) -> None:
    loop = services()[name]
    kernel = ptxlab.loads(loop.text).kernel()
    maps = [] if loop.box is None else [ptxlab.TensorMap(np.ones(loop.box[::-1], np.float16), box=loop.box, swizzle="128B")]
    counts = []
    for turns in (1, 3):
        result = kernel.launch(grid=1, block=128, args=[None, turns, *maps], check="none")
        assert result.diagnostics == ()
        counts.append(result.stats.instructions)
    assert counts[1] - counts[0] >= 2 * (loop.times or 16)


@pytest.mark.parametrize("opcode", INSTRUCTIONS)
def test_loops_of_approximate_instructions_run(opcode: str) -> None:
    kernel = ptxlab.loads(approximate(opcode)).kernel()
    counts = [kernel.launch(grid=1, block=128, args=[None, turns], check="none").stats.instructions for turns in (1, 3)]
    assert counts[1] - counts[0] == 4 * 2 * (COUNT + 3)


def test_every_sort_of_address_is_found() -> None:
    assert {name: sum(call() for call in calls) for name, calls in addresses().items()} == {
        "operands": 2 * 4 * (64 + 128 + 256) * 16,
        "operands, 4 bits": 4 * (64 + 128 + 256) * 64,
        "accumulators": 64 * 128 + 128 * 256 * 2 + 256 * 128,
        "scale factors": 4 * (128 * 5 + 256 * 6),
        "fragments": 4 * 32 * 128,
    }


def results(speedup: float, scalar: float) -> dict[str, object]:
    return {"workloads": {"attention": {"speedup": {"none": speedup, "default": 0.1}}}, "units": {"scalar_ns": scalar}}


def test_what_is_missed_is_named() -> None:
    assert missed({}) == []
    assert missed(results(8, 50)) == []
    assert missed(results(7.99, 50.1)) == ["flash attention: times faster than the interpreter", "scalar code, a warp-instruction"]


def test_every_loop_of_the_machine_is_a_figure() -> None:
    assert {r.path[2] for r in REQUIRED if r.path[:2] == ("units", "service_us")} <= set(services())


def test_rows_are_judged_by_their_ratio_but_default_checks_and_the_import() -> None:
    assert slower("launch attention common", 0.1, 1.051)
    assert not slower("launch attention common", 0.1, 1.05)
    assert not slower("launch attention default", 0.1, 1.3)
    assert not slower("fresh cold default", 2, 1.3)
    assert slower("fresh cold common", 2, 1.3)
    assert not slower("fresh import", 0.001, 1.3)
    assert slower("fresh import", 0.21, 1)
    assert slower("detached attention common", 0.1, 1.03, 1.02)
    assert not slower("detached attention common", 0.1, 1.02, 1.02)


def test_common_checks_are_checks_of_a_launch() -> None:
    kernel = ptxlab.loads(".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { ret; }").kernel()
    assert kernel.launch(grid=1, block=32, args=[], **options("common")).ok


@pytest.mark.sweep
def test_two_trees_are_compared_in_pairs() -> None:
    """The tree with itself: both sides measure, and the ratio is that of the pairs."""
    launches = ("launch attention none", "added attention common", "detached attention common")
    of_each_kind = (*launches, "service bar.sync", "prepared nvf4", "approximate div.full.f32")
    assert {*of_each_kind, "fresh import"} <= set(rows())
    ours, theirs, ratio = compare("service bar.sync", ROOT, ROOT, pairs=3)
    assert ours > 0
    assert theirs > 0
    assert 0.02 < ratio < 50
