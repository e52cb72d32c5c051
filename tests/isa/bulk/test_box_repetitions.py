"""Copies of boxes by compiled code: the same bytes, statistics and findings as by the handler, in whatever order they come.

One kernel executes lists of steps that tests make, one list for each warp, so it is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ptxlab
from ptxlab.engine import repetitions
from ptxlab.engine.llvm import _direct_services
from ptxlab.isa.bulk import _box_words, _tensor
from ptxlab.machine.warp import context_words

Step = tuple[int, ...]
HANDLED: list[int] = []
"""The lines of the instructions whose handler was called."""


@pytest.fixture(autouse=True)
def _count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note the calls of the handler that go as far as to copy."""
    issue = _tensor.start

    def count(warp: Any, *rest: Any, **more: Any) -> Any:
        HANDLED.append(warp.op.line)
        return issue(warp, *rest, **more)

    monkeypatch.setattr(_tensor, "start", count)
    HANDLED.clear()
    yield
    HANDLED.clear()


SIZE, MOST = 16384, 24
"""The bytes of the buffer of a CTA, and the steps of a warp."""
LOAD = "cp.async.bulk.tensor.2d{group}.shared::{space}.global.mbarrier::complete_tx::bytes{multicast} [dst], [m, {{c0, c1}}], [bar]{mask};"
STEPS = {
    "load": LOAD.format(group="", space="cta", multicast="", mask=""),
    "load anywhere": LOAD.format(group="", space="cluster", multicast="", mask=""),
    "load of a pair": LOAD.format(group=".cta_group::2", space="cluster", multicast="", mask=""),
    "multicast": LOAD.format(group="", space="cluster", multicast=".multicast::cluster", mask=", ctas"),
    "multicast of a pair": LOAD.format(group=".cta_group::2", space="cluster", multicast=".multicast::cluster", mask=", ctas"),
    "expect": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
    "arrive": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];",
    "wait": "and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount;",
    "rewrite": """
        mul.wide.u32 rd1, amount, 128; add.u64 rd1, maps, rd1; mov.u32 i, 0;
        WORD: ld.global.u64 rd2, [rd1]; st.global.u64 [m], rd2;
        add.u64 rd1, rd1, 8; add.u64 m, m, 8; add.u32 i, i, 1; setp.lt.u32 q, i, 16; @q bra WORD;
    """,
    "overwrite": "st.shared.u32 [bar], amount;",
    "invalidate": "mbarrier.inval.shared::cta.b64 [bar];",
    "exit": "exit;",
    "store": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {c0, c1}], [dst]; cp.async.bulk.commit_group;",
    "wait for stores": "cp.async.bulk.wait_group 0;",
}
KINDS = {name: number for number, name in enumerate(STEPS)}
BARRIERS = 2
GLOBAL = 8
"""The number of the first tensor map in global memory; that of the parameters are 0 and 1."""


MAPS = f"""
mov.b64 m, map0; cvta.param.u64 m, m;
mul.wide.u32 rd1, which, 128; add.u64 m, m, rd1;
setp.ge.u32 q, which, {GLOBAL}; sub.u32 r1, which, {GLOBAL}; mul.wide.u32 rd1, r1, 128; add.u64 rd1, rd1, maps; selp.u64 m, rd1, m, q;
"""


@cache
def kernel() -> ptxlab.Kernel:
    return ptxlab.loads(text_of(STEPS, MAPS)).kernel()


def text_of(steps: dict[str, str], maps: str) -> str:
    """A kernel that executes lists of these steps; ``maps`` chooses the tensor map of a step."""
    cases = "".join(f"S{number}:\n{text}\nbra NEXT;\n" for number, text in enumerate(steps.values()))
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(
    .param .align 64 .b8 map0[128], .param .align 64 .b8 map1[128], .param .u64 p_maps, .param .u64 p_steps, .param .u32 p_count,
    .param .u32 p_arrivals, .param .u64 p_out)
{{
.shared .align 1024 .b8 buffer[{SIZE}];
.shared .align 8 .b64 mb[{BARRIERS + 1}];
.reg .pred p, q, done, mine, end;
.reg .b16 ctas;
.reg .b32 tid, lane, cta, warp, n, count, i, kind, dst, bar, c0, c1, amount, lanes, which, r1, r2, v;
.reg .b64 m, maps, list, out, rd1, rd2, rd3;
ld.param.u64 maps, [p_maps]; ld.param.u64 list, [p_steps]; ld.param.u32 count, [p_count]; ld.param.u64 out, [p_out];
mov.u32 tid, %tid.x; mov.u32 lane, %laneid; mov.u32 cta, %ctaid.x; shr.u32 warp, tid, 5;
mad.lo.u32 r1, cta, 2, warp; mul.wide.u32 rd1, r1, {MOST * 32}; add.u64 list, list, rd1;
mul.wide.u32 rd3, cta, {SIZE}; add.u64 out, out, rd3;
mov.u32 r2, buffer; shl.b32 i, tid, 2; mov.u32 v, 0xEEEEEEEE;
CLEAR: add.u32 r1, r2, i; st.shared.u32 [r1], v; add.u32 i, i, 256; setp.lt.u32 q, i, {SIZE}; @q bra CLEAR;
ld.param.u32 r1, [p_arrivals]; setp.eq.u32 p, tid, 0;
{"".join(f"@p mbarrier.init.shared::cta.b64 [mb+{8 * number}], r1;" for number in range(BARRIERS))}
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 n, 0;
LOOP:
setp.ge.u32 end, n, count;
@end bra END;
ld.global.v4.u32 {{kind, dst, bar, amount}}, [list]; ld.global.v4.u32 {{c0, c1, lanes, which}}, [list+16];
mov.u32 r1, buffer; and.b32 r1, r1, 0xffffff; add.u32 dst, dst, r1;
mov.u32 r1, mb; and.b32 r1, r1, 0xffffff; add.u32 bar, bar, r1;
cvt.u16.u32 ctas, amount;
{maps}
shr.u32 r1, lanes, lane; and.b32 r1, r1, 1; setp.eq.u32 mine, r1, 1;
@!mine bra NEXT;
ways: .branchtargets {", ".join(f"S{number}" for number in range(len(steps)))};
brx.idx kind, ways;
{cases}
NEXT:
bar.warp.sync 0xffffffff;
add.u64 list, list, 32; add.u32 n, n, 1;
bra LOOP;
END:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
shl.b32 i, tid, 2; mov.u32 r2, buffer;
DUMP: add.u32 r1, r2, i; ld.shared.u32 v, [r1]; cvt.u64.u32 rd3, i; add.u64 rd3, rd3, out; st.global.u32 [rd3], v;
add.u32 i, i, 256; setp.lt.u32 q, i, {SIZE}; @q bra DUMP;
ret;
}}
"""


def step(kind: str, dst: int = 0, bar: int = 0, amount: int = 0, at: tuple[int, int] = (0, 0), lanes: int = 1, which: int = 0) -> Step:
    return KINDS[kind], dst, bar, amount, *(c & 0xFFFFFFFF for c in at), lanes, which


TENSOR: NDArray[np.float16] = np.arange(64 * 256, dtype=np.uint16).view(np.float16).reshape(64, 256)
BYTES: NDArray[np.uint8] = np.random.default_rng(5).integers(0, 256, (64, 512), np.uint8)


def tensor_maps(tensor: Any, some_bytes: Any) -> list[ptxlab.TensorMap]:
    """Boxes of 1,024 bytes, the last one with elements that are rounded."""
    return [
        ptxlab.TensorMap(tensor, box=(64, 8), swizzle="128B"),
        ptxlab.TensorMap(some_bytes, box=(32, 32), swizzle="32B"),
        ptxlab.TensorMap(some_bytes, box=(64, 16)),
        ptxlab.TensorMap(tensor, box=(32, 16), swizzle="64B", dims=(128, 64), strides=(512,)),
        ptxlab.TensorMap(some_bytes, box=(16, 16), swizzle="64B", dims=(128, 64), strides=(512,), dtype="tf32"),
    ]


BOX = 1024


def launch(
    lists: dict[tuple[int, int], list[Step]], arrivals: int = 1, first: int = 0, **options: Any
) -> tuple[NDArray[np.uint8], ptxlab.Result]:
    """Run lists of steps by CTA and warp; the contents of shared memory and of the tensors. ``first``: the map that is the first one."""
    table = np.zeros((2, 2, MOST, 8), np.uint32)
    for (cta, warp), steps in lists.items():
        table[cta, warp, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 8)
        table[cta, warp, len(steps) :, 6] = 0
    device = ptxlab.Device("sm_100a")
    tensors = [device.array(each) for each in (TENSOR, BYTES)]
    found = tensor_maps(*tensors)
    found[0] = found[first]
    in_memory = np.stack([np.frombuffer(bytes(each), np.uint8) for each in found])
    out = np.zeros((2, SIZE), np.uint8)
    count = max(map(len, lists.values()))
    args = [found[0], found[1], in_memory, table, count, arrivals, out]
    result = kernel().launch(grid=2, block=64, cluster=2, args=args, device=device, **{"check": "none", **options})
    out = np.hstack([out, *(each.numpy().view(np.uint8).reshape(2, -1) for each in tensors)])
    return out, result


def both(lists: dict[tuple[int, int], list[Step]], arrivals: int = 1, **options: Any) -> tuple[NDArray[np.uint8], ptxlab.Result, list[int]]:
    """What a launch gives, which is the same if the handler completes each copy; and the calls of the handler."""
    found = []
    table = context_words._table_of_repetitions
    for way in (table, lambda launch: 0):
        memories: list[Any] = []

        def noted(launch: Any, way: Any = way, memories: list[Any] = memories) -> int:
            memories.append(launch.host_memory)
            address: int = way(launch)
            return address

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_words, "_table_of_repetitions", noted)
            HANDLED.clear()
            out, result = launch(lists, arrivals, **options)
        stats = result.stats.instructions, result.stats.services, memories[0].progress[0], result.completed
        found.append((out, result, list(HANDLED), stats, [str(d) for d in result.diagnostics]))
    first, second = found
    assert first[3:] == second[3:]
    assert np.array_equal(first[0], second[0])
    return first[:3]


def fresh() -> None:
    """Forget what earlier launches have told compiled code, also of other kernels with the same tensor maps."""
    kernel.cache_clear()
    _box_words._words_of.cache_clear()


def loads(count: int, kind: str = "load", **fields: Any) -> list[Step]:
    """Copies of different boxes to different places, all on one mbarrier."""
    return [step(kind, **{"dst": BOX * (number % 12), "at": (16 * (number % 5), 3 * number), **fields}) for number in range(count)]


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


@pytest.mark.parametrize("options", [{"policy": "lazy"}, {"policy": "random"}, {"check": "all"}, {"check": ("race",)}])
def test_the_handler_is_always_called(options: dict[str, Any]) -> None:
    """Where copies perform later, or something observes them."""
    lists = {(0, 0): [step("expect", amount=6 * BOX), step("arrive"), *loads(6), step("wait")]}
    _, result, handled = both(lists, **options)
    assert result.completed
    assert len(handled) >= 6


@pytest.mark.parametrize("which", [0, 1, GLOBAL, GLOBAL + 2, GLOBAL + 3])
def test_boxes_that_are_not_wholly_inside(which: int) -> None:
    """The handler fills what is outside; where it is, its bytes count, too."""
    fresh()
    columns = {0: 256, 1: 512, GLOBAL: 256, GLOBAL + 2: 512, GLOBAL + 3: 128}[which]
    places = [(0, 0), (16, 16), (-16, 0), (0, -1), (columns - 16, 0), (0, 60), (columns, 0), (0, 64), (0, 1 << 30), (16, 8)]
    steps = [step("load", dst=BOX * n, at=at, which=which) for n, at in enumerate(places)]
    out, result, handled = both({(0, 0): [step("expect", amount=BOX * len(places)), step("arrive"), *steps, step("wait")]})
    assert result.ok
    assert len(handled) == 1 + 7
    assert not out[0, BOX * 6 : BOX * 9].any()


def test_stores() -> None:
    """To memory that is kept as it was, which the handler finds out for each part of it; boxes partly outside are for the handler."""
    fresh()
    filled = [step("expect", amount=4 * BOX), step("arrive"), *loads(4), step("wait")]
    places = [(0, 1), (64, 40), (128, 56), (192, 60), (0, 16), (240, 3), (64, 24)]
    stores = [step("store", dst=BOX * (n % 4), at=at) for n, at in enumerate(places)]
    lists = {(0, 0): [*filled, *stores, step("wait for stores")]}
    for times in (1 + 1 + 2, 2):
        out, result, handled = both(lists)
        assert result.ok
        assert len(handled) == times
        assert result.stats.services["cp.async.bulk.commit_group"] == len(places)
    assert not np.array_equal(out[:, SIZE : SIZE + TENSOR.nbytes // 2], TENSOR.view(np.uint8).reshape(2, -1))
    for bad, code in (((-64, 0), "D724"), ((4, 0), "D724")):
        _, result, _ = both({(0, 0): [*filled, *stores[:2], step("store", at=bad)]})
        assert [d.code for d in result.diagnostics] == [code]


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


@pytest.mark.parametrize("which", [1, GLOBAL + 1, GLOBAL + 4])
def test_what_compiled_code_does_not_copy(which: int) -> None:
    """Rounded elements; copies by several lanes, which are executed one after the other."""
    fresh()
    rounded = which == GLOBAL + 4
    steps = loads(4, which=which, lanes=1 if rounded else 3)
    _, result, handled = both({(0, 0): [step("expect", amount=BOX * 4 * (1 if rounded else 2)), step("arrive"), *steps, step("wait")]})
    assert result.ok
    assert len(handled) == (4 if rounded else 8)


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
    """The handler completes the phase for which a warp waits, and continues it; compiled code copies before that."""
    fresh()
    waits = [step("wait", amount=n & 1) for n in range(4)]
    brings = [part for n in range(4) for part in (step("expect", amount=2 * BOX), step("arrive"), *loads(2, dst=BOX * n))]
    _, result, handled = both({(0, 0): waits, (0, 1): brings})
    assert result.ok
    assert len(handled) == 2


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


@pytest.mark.parametrize(("expected", "times"), [(7, 2), (8, 2), (9, 1)])
@pytest.mark.parametrize("kind", ["multicast", "multicast of a pair"])
def test_a_receiver_waits(kind: str, expected: int, times: int) -> None:
    """The handler is called for copies that complete a phase for which a warp waits; a wait for others ends by its limit."""
    fresh()
    pair = "pair" in kind
    copies = [step(kind, dst=BOX * n, amount=3, at=(16, n)) for n in range(4 if pair else 8)]
    lists = {(0, 0): [step("wait")], (0, 1): [step("expect", amount=expected * BOX), step("arrive"), *copies]}
    _, result, handled = both(lists)
    assert result.ok
    assert len(handled) == times


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
        monkeypatch.setattr(_direct_services, name, value)
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
        which = choice.choice((0, 1, GLOBAL, GLOBAL + 2, GLOBAL + 3))
        if kind == "rewrite":
            which = GLOBAL
        if choice.random() < bold:
            at = choice.choice((-16, 4, 500, 0)), choice.choice((-1, 60, 64))
        if choice.random() < bold / 4:
            bar, dst = choice.choice((bar, 4, 2 << 24)), choice.choice((dst, 64, SIZE, 3 << 24))
        lanes = choice.choice((1, 1, 1, 1 << 31, 1 << 7, 3 if choice.random() < bold else 1))
        found.append(step(kind, dst, bar, amount, at, lanes, which))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), bold=st.sampled_from([0.0, 0.0, 0.1]), arrivals=st.sampled_from([1, 2, 4, 30]))
def test_any_lists(seed: int, bold: float, arrivals: int) -> None:
    choice = Random(seed)
    lists = {(cta, warp): random_steps(choice, cta, bold) for cta in (0, 1) for warp in (0, 1)}
    both(lists, arrivals)


CTAS = 16
CONFLICT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_in, .param .u64 p_out, .param .u32 p_distance)
{
.shared .align 1024 .b8 buffer[1024];
.shared .align 8 .b64 mb;
.reg .pred p, q;
.reg .b32 i, x, y, row, cta, v, phase;
.reg .b64 in, out, at;
mov.u32 i, %tid.x; setp.ne.u32 p, i, 0;
@p exit;
ld.param.u64 in, [p_in]; ld.param.u64 out, [p_out]; ld.param.u32 row, [p_distance];
mov.u32 cta, %ctaid.x; shl.b32 y, cta, 3;
mbarrier.init.shared::cta.b64 [mb], 1;
LOOP:
mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], 1024;
shl.b32 x, i, 6;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [buffer], [map, {x, y}], [mb];
and.b32 phase, i, 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [mb], phase; @!q bra WAIT;
ld.shared.u32 v, [buffer+384];
mad.lo.u32 x, cta, 4, i; mul.wide.u32 at, x, 4; add.u64 at, at, out; st.global.u32 [at], v;
add.u32 i, i, 1; setp.lt.u32 q, i, 4; @q bra LOOP;
add.u32 row, row, cta; and.b32 row, row, 15; shl.b32 row, row, 3;
mov.u32 i, 0;
SPIN: add.u32 i, i, 1; setp.lt.u32 q, i, 30000; @q bra SPIN;
WRITE
ret;
}
"""
WRITES = {
    "st": "mul.wide.u32 at, row, 512; add.u64 at, at, in; st.global.u32 [at+384], row;",
    "box": """
        mov.u32 i, 0;
        STORE: shl.b32 x, i, 6; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, row}], [buffer];
        add.u32 i, i, 1; setp.lt.u32 q, i, 4; @q bra STORE;
    """,
}


@pytest.mark.parametrize("distance", [0, 8])
@pytest.mark.parametrize("way", WRITES)
def test_workers(distance: int, way: str) -> None:
    """What compiled code copies is marked: each CTA writes to a row that it has read itself, or that another CTA reads."""
    loaded, found = ptxlab.loads(CONFLICT.replace("WRITE", WRITES[way])).kernel(), []
    for workers in (1, 2, 2):
        tensor = np.arange(8 * CTAS * 256, dtype=np.uint16).reshape(-1, 256)
        out = np.zeros(4 * CTAS, np.uint32)
        args = [ptxlab.TensorMap(tensor, box=(64, 8)), tensor, out, distance]
        result = loaded.launch(grid=CTAS, block=32, args=args, check="none", workers=workers)
        found.append((out.tolist(), tensor.tobytes(), result.stats.services, result.stats.instructions, result.diagnostics))
        if workers == 2:
            assert result.stats.workers == (1 if distance else 2), result.stats.why_alone
    assert found[0] == found[1] == found[2]
