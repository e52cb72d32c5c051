"""Bulk copies of contiguous bytes by compiled code: the same bytes, statistics and findings as by the handler, in whatever order they come.

One kernel executes lists of steps that tests make, one list for each warp, so it is compiled once.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.optimised_helpers import optimise_race_check

from .box_step_helpers import MOST, SIZE, Step
from .line_step_helpers import BYTES, KINDS, LINE_STEPS, LOADS, STORES, both, count_lines, fresh, inputs, step

__all__ = ["count_lines"]

LINE = 256
FENCE = step("fence", lanes=0xFFFF_FFFF)
PEER = 1 << 24
"""What is added to an address of shared memory for that of the second CTA."""


@pytest.fixture(autouse=True)
def _count(count_lines: None) -> None:
    optimise_race_check()


def lines(count: int, kind: str = "load", **fields: Any) -> list[Step]:
    """Copies of different bytes to different places, all on one mbarrier."""
    return [step(kind, **{"dst": 512 * number, "at": 1024 * number, "size": LINE, **fields}) for number in range(count)]


def awaited(copies: list[Step], size: int) -> list[Step]:
    return [FENCE, step("expect", amount=size), step("arrive"), *copies, step("wait")]


@pytest.mark.parametrize("check", ["none", "race"])
def test_the_handler_is_called_once_for_a_size(check: str) -> None:
    """Wherever the bytes are and go; without checks a later launch does not call it at all."""
    fresh()
    copies = [step("load", dst=512 * n, at=1024 * n + 16 * (n % 3), size=(256, 16, 512)[n % 3]) for n in range(15)]
    for times in (3, 0 if check == "none" else 3):
        out, result, handled = both({(0, 0): awaited(copies, 5 * (256 + 16 + 512))}, check=check)
        assert result.ok
        assert handled == times
    data = inputs()
    for n in range(15):
        first, size = 1024 * n + 16 * (n % 3), (256, 16, 512)[n % 3]
        assert np.array_equal(out[512 * n : 512 * n + size], data[first : first + size])


@pytest.mark.parametrize("policy", ["lazy", "random"])
def test_the_handler_is_always_called(policy: str) -> None:
    """Where copies perform later."""
    _, result, handled = both({(0, 0): awaited(lines(6), 6 * LINE)}, policy=policy)
    assert result.completed
    assert handled == 6


@pytest.mark.parametrize("check", ["none", "race"])
@pytest.mark.parametrize("kind", ["load anywhere", "exchange", "sum", "maximum", "multicast"])
def test_other_ctas(kind: str, check: str) -> None:
    fresh()
    many, times = kind == "multicast", 8
    dst, at = (0 if many else PEER) + 8192, 1024 if many or kind == "load anywhere" else 0
    copies = [step(kind, dst=dst + LINE * n, bar=0 if many else PEER, amount=(3, 1, 2)[n % 3], at=at * n, size=LINE) for n in range(times)]
    expects = [step("expect", bar=rank, amount=times * LINE) for rank in (0, PEER)]
    out, _, handled = both({(0, 0): [FENCE, *expects, *copies]}, check=check)
    assert handled == 1
    first = out[SIZE + 8192 :] if not many else out[8192:]
    expected = {"exchange": np.full(LINE, 0xEE, np.uint8), "sum": np.full(LINE // 4, 0xDDDDDDDC, np.uint32).view(np.uint8)}
    assert np.array_equal(first[:LINE], expected.get(kind, np.full(LINE, 0xEE, np.uint8) if kind == "maximum" else inputs()[:LINE]))


@pytest.mark.parametrize("check", ["none", "race"])
@pytest.mark.parametrize("lanes", [3, 0x8000_0010, 0xFFFF_FFFF])
@pytest.mark.parametrize("kind", ["load", "store", "store some bytes", "reduce"])
def test_lanes_with_addresses_of_their_own(kind: str, lanes: int, check: str) -> None:
    """The handler executes them once, one after the other."""
    fresh()
    count = lanes.bit_count()
    steps = [step(kind, dst=64 + 4096 * n, at=8192 * n, size=64, lanes=lanes, apart=128, amount=0xF00F) for n in range(3)]
    before = [step("expect", amount=count * 64 * 3), step("arrive")] if kind == "load" else []
    after = [step("wait")] if kind == "load" else [step("wait for stores", lanes=lanes)]
    out, result, handled = both({(0, 0): [FENCE, *before, *steps, *after]}, check=check)
    assert handled == count
    assert result.ok
    assert not np.array_equal(out, np.concatenate([np.full(2 * SIZE, 0xEE, np.uint8), inputs()]))
    assert result.stats.services[LINE_STEPS[kind].split(" [")[0]] == 3


@pytest.mark.parametrize("kind", ["load of each lane", "store of each lane"])
def test_sizes_of_their_own(kind: str) -> None:
    """Each lane copies 16 bytes more than the one before; each size is known after one execution."""
    fresh()
    steps = [step(kind, dst=0, at=2048 * n, size=16, lanes=0xFF, apart=256) for n in range(5)]
    total = 5 * sum(16 * (lane + 1) for lane in range(8))
    before, after = ([step("expect", amount=total), step("arrive")], [step("wait")]) if "load" in kind else ([], [])
    out, result, handled = both({(0, 0): [FENCE, *before, *steps, *after]})
    assert result.ok
    assert handled == 8
    for lane in range(8):
        size, data = 16 * (lane + 1), inputs()
        if "load" in kind:
            assert np.array_equal(out[256 * lane : 256 * lane + size], data[8192 + 256 * lane :][:size])
            assert (out[256 * lane + size : 256 * (lane + 1)] == 0xEE).all()


def test_bytes_of_a_mask() -> None:
    fresh()
    masks = [0, 1, 0x8000, 0xFFFF, 0x5A5A, 0x0FF0]
    steps = [step("store some bytes", at=64 * n + 32, dst=0, size=48, amount=mask) for n, mask in enumerate(masks)]
    out, result, handled = both({(0, 0): [FENCE, *steps, step("wait for stores")]})
    assert result.ok
    assert handled == 1
    expected = inputs()
    for n, mask in enumerate(masks):
        chosen = np.tile([bool(mask >> bit & 1) for bit in range(16)], 3)
        expected[64 * n + 32 : 64 * n + 80][chosen] = 0xEE
    assert np.array_equal(out[2 * SIZE :], expected)


@pytest.mark.parametrize("kind", ["load", "store"])
def test_a_lane_whose_address_is_not_legal(kind: str) -> None:
    """Those before it have copied; the finding names all lanes of the instruction."""
    fresh()
    good = step(kind, dst=0, at=0, size=64, lanes=0xFF, apart=512)
    bad = step(kind, dst=64, at=BYTES - 1024, size=64, lanes=0xFF, apart=512)
    out, result, handled = both({(0, 0): [step("expect", amount=2048), good, bad]})
    assert [each.code for each in result.diagnostics] == ["M402"]
    assert ("lanes", "0-7") in result.diagnostics[0].details
    assert handled == 8
    if kind == "store":
        assert (out[-1024:-960] == 0xEE).all()


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"at": 8}, "C901"),
        ({"at": BYTES - 16}, "M402"),
        ({"at": -(1 << 20)}, "M401"),
        ({"dst": 8}, "C901"),
        ({"dst": PEER}, "C903"),
        ({"dst": SIZE - 16}, "C903"),
        ({"dst": 5 << 24}, "M407"),
        ({"bar": 4}, "C901"),
        ({"bar": PEER}, "C904"),
        ({"bar": 16}, "B503"),
        ({"size": 24}, "C902"),
        ({"size": 8}, "C902"),
    ],
)
def test_operands_that_are_not_legal_after_others(bad: dict[str, Any], code: str) -> None:
    wrong = {"at": 1024, "size": LINE, **bad}
    _, result, _ = both({(0, 0): [step("expect", amount=4 * LINE), *lines(3), step("load", **wrong)]})
    assert [each.code for each in result.diagnostics] == [code]


@pytest.mark.parametrize(
    ("kind", "bad", "code"),
    [
        ("store", {"at": 8}, "C901"),
        ("store", {"at": BYTES}, "M402"),
        ("store", {"dst": PEER}, "C903"),
        ("store some bytes", {"dst": 4}, "C901"),
        ("reduce", {"size": 40}, "C902"),
        ("exchange", {"at": SIZE}, "C903"),
        ("exchange", {"at": 24}, "C901"),
        ("sum", {"bar": PEER}, "C904"),
        ("multicast", {"amount": 0}, "C905"),
        ("multicast", {"amount": 5}, "C905"),
        ("multicast", {"dst": 2 << 24}, "M407"),
        ("multicast", {"bar": 2 << 24}, "M407"),
    ],
)
def test_other_operands_that_are_not_legal(kind: str, bad: dict[str, Any], code: str) -> None:
    right = {"dst": 4096, "at": 1024, "size": 64, "amount": 3}
    steps = [step("expect", bar=rank, amount=4096) for rank in (0, PEER)]
    _, result, _ = both({(0, 0): [*steps, *[step(kind, **right)] * 3, step(kind, **{**right, **bad})]})
    assert [each.code for each in result.diagnostics] == [code]


@pytest.mark.parametrize("kind", ["exchange", "sum"])
@pytest.mark.parametrize("distance", [-64, -16, 0, 16, 48, 64])
def test_bytes_that_overlap(kind: str, distance: int) -> None:
    """Of a copy inside of one CTA: the handler reads all of them before it writes one."""
    fresh()
    fill = [step("load", dst=1024, at=0, size=512), step("load", dst=4096, at=512, size=512)]
    steps = [step(kind, dst=2048, at=1024, size=64), step(kind, dst=1152 + distance, at=1152, size=64)]
    out, result, handled = both({(0, 0): [step("expect", amount=2 * 512 + 2 * 64), *fill, *steps]})
    assert result.ok
    assert handled == 2 + (abs(distance) < 64)
    if kind == "exchange":
        assert np.array_equal(out[1152 + distance : 1216 + distance], inputs()[128:192])


@pytest.mark.parametrize("what", ["overwrite", "invalidate"])
def test_an_object_that_is_no_more(what: str) -> None:
    _, result, _ = both({(0, 0): [step("expect", amount=4 * LINE), *lines(3), step(what), step("load", size=LINE)]})
    assert [each.code for each in result.diagnostics] == ["B515" if what == "overwrite" else "B514"]


def test_somebody_waits() -> None:
    fresh()
    waits = [step("wait", amount=n & 1) for n in range(4)]
    brings = [part for n in range(4) for part in (step("expect", amount=2 * LINE), step("arrive"), *lines(2, dst=LINE * n))]
    _, result, handled = both({(0, 0): waits, (0, 1): brings})
    assert result.ok
    assert handled == 1


@pytest.mark.parametrize("lanes", [1, 0xF])
def test_bytes_that_complete_a_phase_in_the_midst(lanes: int) -> None:
    """The next lanes copy in the next phase."""
    fresh()
    steps = [step("load", dst=0, at=0, size=64, lanes=lanes, apart=64)] * 3
    for amount in (64, 128, 256):
        _, result, _ = both(
            {(0, 0): [step("expect", amount=amount), step("arrive"), *steps], (0, 1): [step("wait"), step("wait", amount=1)]}
        )
        assert all(each.code[0] in "BH" for each in result.diagnostics)


def test_too_many_bytes_that_nobody_expects() -> None:
    size = 16384 - 4096
    steps = [step("load", dst=0, at=0, size=size, lanes=0xFF, apart=0)] * 12
    _, result, _ = both({(0, 0): steps})
    assert [each.code for each in result.diagnostics] == ["B506"]


def test_a_receiver_that_has_exited() -> None:
    lists = {(0, warp): [step("exit", lanes=0xFFFFFFFF)] for warp in (0, 1)}
    lists[1, 0] = [
        *lines(2, "multicast", amount=2, dst=PEER, bar=PEER),
        step("multicast", dst=0, bar=PEER, amount=2, size=LINE),
    ]
    _, result, _ = both(lists)
    assert result.diagnostics[0].code == "M407"


@pytest.mark.parametrize(
    ("steps", "codes"),
    [
        ([step("write", dst=512, lanes=2), *lines(4)], {"X102", "X116"}),
        ([*lines(4), step("write", dst=512)], {"X103", "X116"}),
        ([*lines(4), step("read", dst=512, at=16384)], {"X103", "X116"}),
        ([*lines(2), *lines(2)], {"X103", "X116"}),
        ([*lines(4, "store"), step("write", dst=512)], {"X104", "X119"}),
        ([*lines(4, "store"), *lines(4)], {"X104", "X119"}),
        ([step("store", at=0, dst=64 * n, size=64, lanes=0xF, apart=16) for n in range(3)], {"X112", "X119"}),
    ],
)
def test_races(steps: list[Step], codes: set[str]) -> None:
    _, result, _ = both({(0, 0): [FENCE, step("expect", amount=8 * LINE), *steps]}, check="race")
    assert {each.code for each in result.diagnostics} & codes


def random_steps(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp, mostly legal ones."""
    found, kinds = [], [*LOADS * 3, *STORES * 2, "expect", "expect", "arrive", "wait", "wait for stores", "fence", "write", "read"]
    for _ in range(choice.randrange(4, MOST)):
        kind = choice.choice(kinds)
        rank = own if choice.random() < 0.7 else own ^ 1
        if kind not in ("load anywhere", "exchange", "sum", "maximum", "multicast", "expect", "arrive"):
            rank = own
        bar, dst = rank << 24 | 8 * choice.randrange(2), rank << 24 | choice.choice((0, 1024, 2048, 4096, 1152))
        amount = choice.choice((1, 2, 3)) if kind == "multicast" else choice.choice((64, 128, 256, 0xABC1))
        at, size, apart = 16 * choice.randrange(256), choice.choice((16, 64, 128)), choice.choice((0, 16, 64, 64, 64, 128))
        if choice.random() < bold:
            at, size = choice.choice((at, 8, -16, BYTES - 64)), choice.choice((size, 0, 8, 8192))
            bar, dst = choice.choice((bar, 4, 2 << 24)), choice.choice((dst, 24, SIZE - 64, 3 << 24))
        lanes = choice.choice((1, 1, 1 << 31, 1 << 7, 3, 0xF0, 0xFFFF_FFFF))
        if kind in ("expect", "arrive"):
            lanes &= -lanes
        found.append(step(kind, dst, bar, amount, at, size, lanes, apart if kind in KINDS else 0))
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 30),
    bold=st.sampled_from([0.0, 0.0, 0.1]),
    arrivals=st.sampled_from([1, 2, 4, 30]),
    check=st.sampled_from(["none", "race"]),
)
def test_any_lists(seed: int, bold: float, arrivals: int, check: str) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta, bold) for cta in (0, 1) for warp in (0, 1)}
    both(lists, arrivals, check=check)
