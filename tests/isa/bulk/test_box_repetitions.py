"""Copies of boxes by compiled code: the same bytes, statistics and findings as by the handler, in whatever order they come.

One kernel executes lists of steps that tests make, one list for each warp, so it is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.engine import repetitions
from ptxlab.engine.llvm import _known_executions
from ptxlab.isa.bulk import _tensor
from ptxlab.machine.warp import context_words
from tests.repetition_helpers import note_handled

from .box_step_helpers import (
    BARRIERS,
    BOX,
    GLOBAL,
    HANDLED,
    MOST,
    SIZE,
    STEPS,
    TENSOR,
    Step,
    both,
    fresh,
    loads,
    step,
)


@pytest.fixture(autouse=True)
def _count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note the calls of the handler that go as far as to copy."""
    note_handled(monkeypatch, _tensor, "start", HANDLED)
    HANDLED.clear()
    yield
    HANDLED.clear()


def test_the_handler_is_called_once_for_a_tensor_map() -> None:
    """Wherever the box is and goes; a later launch does not call it at all."""
    fresh()
    lists = {(0, 0): [step("expect", amount=12 * BOX), step("arrive"), *loads(12), step("wait")]}
    for times in (1, 0):
        out, result, handled = both(lists)
        assert result.ok
        assert len(handled) == times
        assert result.stats.services[STEPS["load"].split()[0]] == 12
    first = out[0, :BOX].view(np.uint16).reshape(8, 8, 8)
    assert np.array_equal(first[0], TENSOR.view(np.uint16)[0, :64].reshape(8, 8))
    assert len({out[0, BOX * n : BOX * (n + 1)].tobytes() for n in range(12)}) == 12


@pytest.mark.parametrize("options", [{"check": "all"}, {"check": ("race",)}, {"check": "all", "policy": "random"}], ids=str)
def test_the_handler_is_always_called(options: dict[str, Any]) -> None:
    """Where something observes copies."""
    lists = {(0, 0): [step("expect", amount=6 * BOX), step("arrive"), *loads(6), step("wait")]}
    _, result, handled = both(lists, **options)
    assert result.completed
    assert len(handled) >= 6


@pytest.mark.parametrize("options", [{"policy": "lazy"}, *({"policy": "random", "seed": seed} for seed in range(4))], ids=str)
def test_copies_that_perform_later(options: dict[str, Any]) -> None:
    """The handler is called up to the first time that a copy has performed, and in later launches not at all."""
    fresh()
    some = [step("expect", amount=6 * BOX), step("arrive"), *loads(6), step("wait")]
    for first in (True, False):
        _, result, handled = both({(0, 0): [*some, *some[:-1], step("wait", amount=1)]}, **options)
        assert result.ok
        assert 1 <= len(handled) <= 6 if first else not handled


@pytest.mark.parametrize("options", [{"policy": "lazy"}, *({"policy": "random", "seed": seed} for seed in range(4))], ids=str)
def test_copies_partly_outside_that_perform_later(options: dict[str, Any]) -> None:
    """The handler is called for them, though it is not for those that are inside."""
    fresh()
    places = [(0, 0), (-16, 0), (16, 16), (0, 60), (0, 1 << 30)]
    steps = [step("load", dst=BOX * n, at=at) for n, at in enumerate(places)]
    for _ in range(2):
        out, result, handled = both({(0, 0): [step("expect", amount=BOX * len(places)), step("arrive"), *steps, step("wait")]}, **options)
        assert result.ok
    assert len(handled) == 3
    assert not out[0, BOX * 4 : BOX * 5].any()


@pytest.mark.parametrize("last", ["invalidate", "overwrite"])
@pytest.mark.parametrize("options", [{"policy": "lazy"}, *({"policy": "random", "seed": seed} for seed in range(6))], ids=str)
def test_objects_that_end_before_a_copy_performs(last: str, options: dict[str, Any]) -> None:
    """The bytes come in any case."""
    fresh()
    some = [step("expect", amount=6 * BOX), step("arrive"), *loads(6), step("wait")]
    out = [both({(0, 0): [*some, *loads(3, bar=1), step(last, bar=1)]}, **options)[0] for _ in range(2)]
    assert np.array_equal(*out)


@pytest.mark.parametrize("which", [0, 1, GLOBAL, GLOBAL + 2, GLOBAL + 3, GLOBAL + 5])
def test_boxes_that_are_not_wholly_inside(which: int) -> None:
    """The handler fills what is outside once for each part that is inside; where it is, its bytes count, too."""
    fresh()
    columns = {0: 256, 1: 512, GLOBAL: 256, GLOBAL + 2: 512, GLOBAL + 3: 128, GLOBAL + 5: 112}[which]
    rows = 40 if which == GLOBAL + 5 else 64
    places = [(0, 0), (16, 16), (-16, 0), (0, -1), (columns - 16, 0), (0, rows - 4), (columns, 0), (0, rows), (0, 1 << 30), (16, 8)]
    parts = 1 + 4 + 1  # the whole box, parts, and nothing, which three boxes have
    steps = [step("load", dst=BOX * n, at=at, which=which) for n, at in enumerate(places)]
    lists = {(0, 0): [step("expect", amount=BOX * len(places)), step("arrive"), *steps, step("wait")]}
    for times in (parts, 0):
        out, result, handled = both(lists)
        assert result.ok
        assert len(handled) == times
        assert not out[0, BOX * 6 : BOX * 9].any()


def test_stores() -> None:
    """To memory that is kept as it was, which the handler finds out for each part of it."""
    fresh()
    filled = [step("expect", amount=4 * BOX), step("arrive"), *loads(4), step("wait")]
    places = [(0, 1), (64, 40), (128, 56), (192, 60), (0, 16), (240, 3), (64, 24), (0, 60), (240, 8), (256, 0), (64, 70)]
    stores = [step("store", dst=BOX * (n % 4), at=at) for n, at in enumerate(places)]
    lists = {(0, 0): [*filled, *stores, step("wait for stores")]}
    for times in (1 + 1 + 3, 0):
        out, result, handled = both(lists)
        assert result.ok
        assert len(handled) == times
        assert result.stats.services["cp.async.bulk.commit_group"] == len(places)
    assert not np.array_equal(out[:, SIZE : SIZE + TENSOR.nbytes // 2], TENSOR.view(np.uint8).reshape(2, -1))
    for bad, code in (((-64, 0), "D724"), ((4, 0), "D724"), ((64, -1), "D724")):
        _, result, _ = both({(0, 0): [*filled, *stores, step("store", at=bad)]})
        assert [d.code for d in result.diagnostics] == [code]


@pytest.mark.parametrize("lanes", [3, 0x8000_0010, 0xFFFF_FFFF])
def test_lanes_that_store_the_same_box(lanes: int) -> None:
    """Each lane counts as progress; the handler executes them one after the other."""
    fresh()
    filled = [step("expect", amount=4 * BOX), step("arrive"), *loads(4), step("wait")]
    stores = [step("store", dst=BOX * (n % 4), at=(16 * n, 2 * n), lanes=lanes) for n in range(8)]
    lists = {(0, 0): [*filled, *stores, step("wait for stores", lanes=lanes)]}
    for times in (1 + lanes.bit_count(), 0):
        _, result, handled = both(lists)
        assert result.ok
        assert len(handled) == times


def test_lanes_that_store_different_boxes() -> None:
    """The handler is called where a coordinate, the place in shared memory or the tensor map differs."""
    text = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map0[128], .param .align 64 .b8 map1[128])
{
.shared .align 1024 .b8 buffer[32768];
.reg .pred p, q;
.reg .b32 i, x, y, at, tid, r;
.reg .b64 m, other;
mov.u32 tid, %tid.x;
setp.ge.u32 p, tid, 4;
@p exit;
mov.u32 i, 0;
FILL:
mad.lo.u32 at, i, 16, tid; shl.b32 at, at, 2; mov.u32 r, buffer; add.u32 r, r, at; mul.lo.u32 x, at, 77777; st.shared.u32 [r], x;
add.u32 i, i, 1; setp.lt.u32 p, i, 512; @p bra FILL;
bar.warp.sync 0xf;
mov.b64 m, map0; cvta.param.u64 m, m; mov.b64 other, map1; cvta.param.u64 other, other;
mov.u32 i, 0;
LOOP:
and.b32 r, i, 3;
mul.lo.u32 y, i, 8; mov.u32 x, 0; mov.u32 at, buffer;
setp.eq.u32 p, r, 1; @p mad.lo.u32 x, tid, 16, 0;
setp.eq.u32 p, r, 2; @p mad.lo.u32 at, tid, 1024, at;
setp.eq.u32 p, r, 3; setp.eq.and.u32 q, tid, 2, p; @q mov.b64 m, other;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {x, y}], [at];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
mov.b64 m, map0; cvta.param.u64 m, m;
add.u32 i, i, 1; setp.lt.u32 p, i, 32; @p bra LOOP;
ret;
}
"""
    found, table = [], context_words._table_of_repetitions
    for way in (lambda launch: 0, table, table):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            HANDLED.clear()
            device = ptxlab.Device("sm_100a")
            arrays = [device.array(np.zeros((256, 64), np.uint8)) for _ in range(2)]
            args = [ptxlab.TensorMap(array, box=(16, 8)) for array in arrays]
            result = ptxlab.loads(text).kernel().launch(grid=1, block=32, args=args, check="none", device=device)
            assert result.ok, result.diagnostics
            found.append(([array.numpy().tobytes() for array in arrays], result.stats.services, len(HANDLED)))
    (_, _, every), *_ = found
    assert [each[:2] for each in found] == [found[0][:2]] * 3
    assert every == 32 * 4
    assert all(24 * 4 <= times <= 24 * 4 + 8 for *_, times in found[1:])


def test_stores_to_an_array_of_the_host() -> None:
    """What is overwritten is kept: the handler is called for each part of the array."""
    text = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{
.shared .align 1024 .b8 buffer[16384];
.reg .pred p;
.reg .b32 i, y, zero;
mov.u32 i, %tid.x; setp.ne.u32 p, i, 0;
@p exit;
mov.u32 zero, 0;
LOOP:
shl.b32 y, i, 3; st.shared.u32 [buffer+64], y;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {zero, y}], [buffer];
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
add.u32 i, i, 1;
setp.lt.u32 p, i, 512;
@p bra LOOP;
ret;
}
"""
    loaded, found = ptxlab.loads(text).kernel(), []
    table = context_words._table_of_repetitions
    for way in (lambda launch: 0, table, table):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", way)
            HANDLED.clear()
            array = np.ones((4096, 1024), np.uint8)
            args = [ptxlab.TensorMap(array, box=(1024 // 8, 8))]
            result = loaded.launch(grid=1, block=32, args=args, check="none", keep_inputs=True)
            found.append((array.tobytes(), result.stats.services, result.stats.instructions, result.ok, len(HANDLED)))
    assert [each[:4] for each in found] == [found[0][:4]] * 3
    assert found[0][3]
    assert found[0][4] == 512
    assert found[1][4] == found[2][4] < 20


def test_places_in_the_period_of_the_swizzle() -> None:
    fresh()
    steps = [step("load", dst=BOX + 128 * (n % 4), at=(16, n), which=1) for n in range(16)]
    _, result, handled = both({(0, 0): [step("expect", amount=BOX * 16), step("arrive"), *steps]})
    assert result.ok
    assert len(handled) == 4


@pytest.mark.parametrize("kind", ["load", "load anywhere"])
def test_shared_memory_of_another_cta(kind: str) -> None:
    """`.shared::cta` reaches only that of the executing CTA, whatever earlier copies have told compiled code."""
    fresh()
    own = [step("expect", amount=4 * BOX), step("arrive"), step(kind, at=(0, 1)), step(kind, dst=2 * BOX, at=(0, 2))]
    _, result, _ = both({(0, 0): own, (1, 0): [step(kind, dst=4 * BOX, at=(0, 3))]})
    assert [each.code for each in result.diagnostics] == (["C903"] if kind == "load" else [])


@pytest.mark.parametrize("which", [1, GLOBAL + 1])
def test_what_compiled_code_does_not_copy(which: int) -> None:
    """Copies by several lanes, which are executed one after the other."""
    fresh()
    steps = loads(4, which=which, lanes=3)
    _, result, handled = both({(0, 0): [step("expect", amount=BOX * 4 * 2), step("arrive"), *steps, step("wait")]})
    assert result.ok
    assert len(handled) == 8


def test_rounded_elements() -> None:
    """A load rounds them, a store does not; infinities, NaNs and subnormals are among them."""
    fresh()
    steps = [step("load", dst=BOX * n, at=(4 * n, 3 * n), which=GLOBAL + 4) for n in range(12)]
    copies = [step("expect", amount=BOX * 12), step("arrive"), *steps, step("wait")]
    stores = [step("store", dst=BOX * n, at=(4 * n, 20), which=GLOBAL + 4) for n in range(6)]
    out, result, handled = both({(0, 0): [*copies, *stores, step("wait for stores")]})
    assert result.ok
    assert len(handled) == 2
    words = out[0, : BOX * 12].view(np.uint32)
    assert not (words & 0x1FFF).any()


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"at": (4, 0)}, "D724"),
        ({"dst": 64}, "C901"),
        ({"dst": 1 << 24}, "C903"),
        ({"dst": SIZE}, "C903"),
        ({"dst": 5 << 24}, "M407"),
        ({"bar": 4}, "C901"),
        ({"bar": 1 << 24}, "C904"),
        ({"bar": 8 * BARRIERS}, "B503"),
        ({"which": GLOBAL + 100}, "M4"),
    ],
)
def test_operands_that_are_not_legal_after_others(bad: dict[str, Any], code: str) -> None:
    lists = {(0, 0): [step("expect", amount=BOX * 4), step("arrive"), *loads(3), step("load", **bad)]}
    _, result, _ = both(lists)
    assert [d.code[: len(code)] for d in result.diagnostics] == [code]


def test_transaction_counts_that_are_not_legal() -> None:
    """Bytes that nobody has expected are legal up to a limit."""
    fresh()
    expect = (1 << 20) - 1
    step_back = [step("expect", amount=expect)] * 2
    _, result, _ = both({(0, 0): [*loads(3), *step_back]})
    assert [d.code for d in result.diagnostics] == ["B506"]
    text = str(result.diagnostics[0])
    assert str(2 * expect - 3 * BOX) in text


def test_too_many_bytes_that_nobody_expects() -> None:
    """Compiled code leaves the copy to the handler that makes the count illegal: so does the loop of another kernel."""
    text = loop_kernel(1030)
    for table in (None, lambda launch: 0):
        with pytest.MonkeyPatch.context() as patch:
            if table is not None:
                patch.setattr(context_words, "_table_of_repetitions", table)
            HANDLED.clear()
            result = text.launch(grid=1, block=32, args=[ptxlab.TensorMap(TENSOR, box=(64, 8))], check="none")
        assert [d.code for d in result.diagnostics] == ["B506"]
        assert "becomes -1048576," in str(result.diagnostics[0])
        assert len(HANDLED) in (2, 1024)


def loop_kernel(turns: int) -> ptxlab.Kernel:
    return ptxlab.loads(f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{{
.shared .align 1024 .b8 buffer[1024];
.shared .align 8 .b64 mb;
.reg .pred p;
.reg .b32 i, zero;
mov.u32 i, %tid.x; setp.ne.u32 p, i, 0;
@p exit;
mbarrier.init.shared::cta.b64 [mb], 1;
mov.u32 zero, 0;
LOOP:
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [buffer], [map, {{zero, zero}}], [mb];
add.u32 i, i, 1;
setp.lt.u32 p, i, {turns};
@p bra LOOP;
ret;
}}
""").kernel()


@pytest.mark.parametrize("what", ["overwrite", "invalidate"])
def test_an_object_that_is_no_more(what: str) -> None:
    lists = {(0, 0): [step("expect", amount=BOX * 4), *loads(3), step(what), step("load")]}
    _, result, _ = both(lists)
    assert [d.code for d in result.diagnostics] == ["B515" if what == "overwrite" else "B514"]


def test_somebody_waits() -> None:
    """Compiled code completes the phase for which some lanes of a warp wait, and continues these."""
    fresh()
    waits = [step("wait", amount=n & 1) for n in range(4)]
    brings = [part for n in range(4) for part in (step("expect", amount=2 * BOX), step("arrive"), *loads(2, dst=BOX * n))]
    _, result, handled = both({(0, 0): waits, (0, 1): brings})
    assert result.ok
    assert len(handled) == 1


def test_tensor_maps_that_change_between_launches() -> None:
    """As parameters, and in global memory."""
    fresh()
    lists = {(0, 0): [step("expect", amount=6 * BOX), step("arrive"), *loads(3), *loads(3, which=GLOBAL, bar=0), step("wait")]}
    seen = set()
    for first in (0, 0, 2, 0, 3, 3):
        out, result, handled = both(lists, first=first)
        assert result.ok
        seen.add(out.tobytes())
        assert len(handled) <= 2
    assert len(seen) == 3


def test_a_tensor_map_that_is_rewritten() -> None:
    """By the thread that copies, in global memory."""
    fresh()
    steps = [step("expect", amount=12 * BOX), step("arrive")]
    for turn, source in enumerate((1, 3, 3, 2)):
        steps += [step("rewrite", amount=source, which=GLOBAL)]
        steps += [step("load", dst=BOX * (3 * turn + n), at=(16, 5 * n), which=GLOBAL) for n in range(3)]
    out, result, handled = both({(0, 0): [*steps, step("wait")]})
    assert result.ok
    assert len(handled) == 3
    assert np.array_equal(out[0, 3 * BOX : 6 * BOX], out[0, 6 * BOX : 9 * BOX])
    assert not np.array_equal(out[0, :BOX], out[0, 3 * BOX : 4 * BOX])


@pytest.mark.parametrize(("kind", "issuer"), [(kind, issuer) for kind in list(STEPS)[1:5] for issuer in (0, 1)])
def test_ctas_of_a_cluster(kind: str, issuer: int) -> None:
    """The even CTA's object counts the bytes of a pair."""
    fresh()
    pair, many = "pair" in kind, "multicast" in kind
    other = issuer if kind == "load" else issuer ^ 1
    signals = 0 if pair else other << 24
    copies = [
        step(kind, dst=(0 if many else other << 24) + BOX * n + (issuer << 24) * many, bar=signals, amount=(3, 1, 2)[n % 3], at=(16, n))
        for n in range(9)
    ]
    expects = [step("expect", bar=rank << 24, amount=9 * BOX) for rank in (0, 1)]
    out, result, handled = both({(issuer, 0): [*expects, *copies, step("expect", bar=0, amount=0)]})
    assert result.ok, result.diagnostics
    assert len(handled) == 1
    assert (out[:, :SIZE] != 0xEE).any()


@pytest.mark.parametrize("expected", [7, 8, 9])
@pytest.mark.parametrize("kind", ["multicast", "multicast of a pair"])
def test_a_receiver_waits(kind: str, expected: int) -> None:
    """The handler is called for one that completes a phase in the midst of a copy to two CTAs; a wait for others ends by its limit."""
    fresh()
    pair = "pair" in kind
    copies = [step(kind, dst=BOX * n, amount=3, at=(16, n)) for n in range(4 if pair else 8)]
    lists = {(0, 0): [step("wait")], (0, 1): [step("expect", amount=expected * BOX), step("arrive"), *copies]}
    _, result, handled = both(lists)
    assert result.ok
    assert len(handled) == (2 if pair and expected == 7 else 1)


def test_a_receiver_that_has_exited() -> None:
    lists = {(0, warp): [step("exit", lanes=0xFFFFFFFF)] for warp in (0, 1)}
    lists[1, 0] = [*loads(2, "multicast", amount=2, dst=1 << 24), *loads(1, "multicast", amount=3, dst=1 << 24)]
    _, result, _ = both(lists)
    assert result.diagnostics[0].code == "M407"


@pytest.mark.parametrize(("name", "value"), [("_MOST", 2), ("FACTOR", 0)])
def test_several_tensor_maps(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is full again and again; or all executions have one hash."""
    fresh()
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    monkeypatch.setattr(repetitions, name, value)
    if name == "FACTOR":
        monkeypatch.setattr(_known_executions, name, value)
    steps = [step("load", dst=BOX * (n % 12), at=(16, n), which=(0, 1, GLOBAL + 2, GLOBAL + 3)[n % 4]) for n in range(20)]
    _, result, handled = both({(0, 0): [step("expect", amount=20 * BOX), step("arrive"), *steps, step("wait")]})
    fresh()
    assert result.ok
    assert len(handled) == 4 if name == "FACTOR" else len(handled) > 4


def random_steps(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp, mostly legal ones."""
    found = []
    for _ in range(choice.randrange(4, MOST)):
        kind = choice.choice([*list(STEPS)[:5] * 3, "expect", "arrive", "expect", "wait", "rewrite", "store", "store", "wait for stores"])
        rank = own if choice.random() < 0.7 else own ^ 1
        bar = (own if kind in ("load", "wait", "store") else rank) << 24 | 8 * choice.randrange(BARRIERS)
        dst = (bar & ~0xFF) + choice.choice((0, 1024, 2048, 3072, 1152))
        amount = choice.choice((1, 2, 3)) if "multicast" in kind else choice.choice((BOX, 2 * BOX, 4 * BOX))
        if kind == "rewrite":
            amount = choice.randrange(1, 4)
        at = choice.choice((0, 16, 32, 64)), choice.randrange(0, 32)
        which = choice.choice((0, 1, *range(GLOBAL, GLOBAL + 6)))
        if kind == "rewrite":
            which = GLOBAL
        if choice.random() < bold:
            at = choice.choice((-16, 4, 480, 240, 112, 0)), choice.choice((-1, 36, 60, 64))
        if choice.random() < bold / 4:
            bar, dst = choice.choice((bar, 4, 2 << 24)), choice.choice((dst, 64, SIZE, 3 << 24))
        lanes = choice.choice((1, 1, 1, 1 << 31, 1 << 7, 3 if kind == "store" or choice.random() < bold else 1))
        found.append(step(kind, dst, bar, amount, at, lanes, which))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 30),
    bold=st.sampled_from([0.0, 0.1, 0.5]),
    arrivals=st.sampled_from([1, 2, 4, 30]),
    policy=st.sampled_from(["eager", "lazy", "random"]),
)
@example(seed=1, bold=0.0, arrivals=1, policy="lazy")  # a copy performs when the CTA has exited to which it goes
def test_any_lists(seed: int, bold: float, arrivals: int, policy: str) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta, bold) for cta in (0, 1) for warp in (0, 1)}
    both(lists, arrivals, policy=policy, seed=seed % 16)
