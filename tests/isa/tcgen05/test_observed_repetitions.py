"""Executions of tcgen05.mma that compiled code repeats while checks observe the launch: the same bits, statistics and findings."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import ptxlab
from ptxlab.check.race.shadow import shadow
from ptxlab.isa.tcgen05 import _mma
from ptxlab.machine.warp.warp import Warp
from tests.optimised_helpers import optimise
from tests.repetition_helpers import note_handled
from tests.sweep_helpers import spread

TURNS, CTAS = 7, 3
HANDLED: list[int] = []
"""The lines of the instructions whose handler was called."""
SUSPECTS: list[tuple[int, ...]] = []
"""What the shadow memory of the race check has found."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat executions although functions are not optimised yet, and count those that the handler completes."""
    optimise(monkeypatch)
    note_handled(monkeypatch, _mma, "launch", HANDLED)
    suspects = shadow.Shadow.suspects

    def note(self: shadow.Shadow) -> Any:
        found = suspects(self)
        SUSPECTS.extend(map(tuple, np.delete(found, 4, axis=1).tolist()))  # without the address in host memory
        return found

    monkeypatch.setattr(shadow.Shadow, "suspects", note)


MMA = "tcgen05.mma.cta_group::1.kind::f16 [d], ad, bd, idesc, acc;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [done], parity; @!q bra WAIT;"
COPY = "ld.global.v4.b32 {x0, x1, x2, x3}, [from]; st.shared.v4.b32 [to], {x0, x1, x2, x3};"
SYNC = "bar.sync 0;"
FENCE = "fence.proxy.async.shared::cta;"
STEP = "add.u64 ad, ad, 2; add.u64 bd, bd, 2;"
LAST_STEP = "add.u64 ad, ad, 6; @late add.u64 bd, bd, 6;"
MULTIPLY = f"setp.ne.u32 acc, n, 0; {MMA}"
LOADED = ", ".join(f"f{i}" for i in range(64))
STORED = "\n".join(f"st.global.f32 [out+{4 * i}], f{i};" for i in range(64))
TEXT = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry product(.param .u64 p_a, .param .u64 p_c)
{{
.reg .pred warp0, one, q, late, acc, more;
.reg .b32 tid, tile, slot, done, d, idesc, own, part, i, k, n, to, parity, cta, x<4>, y<4>;
.reg .b64 from, row, desc, ad, bd, out, w;
.reg .f32 f<64>;
.shared .align 1024 .b8 tiles[32768];
.shared .align 8 .b64 barrier;
.shared .align 4 .b32 columns;
mov.u32 tid, %tid.x; mov.u32 cta, %ctaid.x;
setp.lt.u32 warp0, tid, 32; setp.eq.u32 one, tid, 0;
mov.u32 tile, tiles; mov.u32 slot, columns; mov.u32 done, barrier;
@warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
@one mbarrier.init.shared::cta.b64 [done], 1;
ld.param.u64 row, [p_a];
mad.lo.u32 own, cta, 128, tid;
mul.wide.u32 w, own, {128 * TURNS}; add.u64 row, row, w;
shl.b32 own, tid, 7; add.u32 own, own, tile; and.b32 part, tid, 7;
mov.b32 idesc, 0x08100010;
bar.sync 0;
ld.shared.b32 d, [slot];
shr.u32 k, tile, 4; cvt.u64.u32 desc, k; or.b64 desc, desc, 0x4000404000010000;
mov.u32 i, 0; mov.u32 n, 0;
TURN:
setp.eq.u32 late, i, 4;
setp.eq.u32 q, i, 0;
@q bra FIRST;
sub.u32 parity, i, 1; and.b32 parity, parity, 1;
{WAIT}
FIRST:
mov.u32 k, 0; mov.u64 from, row;
CHUNK:
xor.b32 to, k, part; shl.b32 to, to, 4; add.u32 to, to, own;
{COPY}
add.u64 from, from, 16; add.u32 k, k, 1;
setp.lt.u32 q, k, 8;
@q bra CHUNK;
add.u64 row, row, 128;
{FENCE}
{SYNC}
@!one bra NEXT;
mov.u32 k, 0; mov.u64 ad, desc; mov.u64 bd, desc;
STEP:
{MULTIPLY}
{STEP}
add.u32 n, n, 1; add.u32 k, k, 1;
setp.lt.u32 q, k, 4;
@q bra STEP;
{COMMIT}
NEXT:
add.u32 i, i, 1;
setp.lt.u32 more, i, {TURNS};
@more bra TURN;
sub.u32 parity, i, 1; and.b32 parity, parity, 1;
{WAIT.replace("WAIT", "LAST")}
tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{LOADED}}}, [d];
tcgen05.wait::ld.sync.aligned;
ld.param.u64 out, [p_c];
mad.lo.u32 own, cta, 128, tid;
mul.wide.u32 w, own, 256; add.u64 out, out, w;
{STORED}
bar.sync 0;
@warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 d, 64;
ret;
}}
"""
FULL = "FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], parity; @!q bra FULL;"
BOX = "shl.b32 x0, i, 6; shl.b32 x1, cta, 7;"
CURRENT = "and.b32 k, i, 1; shl.b32 k, k, 10; cvt.u64.u32 w, k; add.u64 ad, ad, w; add.u64 bd, bd, w;"
BY_TENSOR = f"""FIRST:
bar.sync 0;
@!one bra NEXT;
and.b32 parity, i, 1; shl.b32 to, parity, 14; add.u32 to, to, tile;
{BOX}
mbarrier.arrive.expect_tx.shared::cta.b64 w, [full], 16384;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [p_a, {{x0, x1}}], [full];
{FULL}
"""
"""One thread copies, to two places in turn."""
TENSOR_TEXT = (
    TEXT[: TEXT.index("FIRST:")]
    .replace(".param .u64 p_a", ".param .align 64 .b8 p_a[128]")
    .replace(".shared .align 4", ".shared .align 8 .b64 filled;\n.shared .align 4")
    .replace(".b32 tid,", ".b32 full, tid,")
    .replace(
        "ld.param.u64 row, [p_a];",
        "mov.u32 full, filled; @one mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;",
    )
    + BY_TENSOR
    + TEXT[TEXT.index("mov.u32 k, 0; mov.u64 ad, desc;") :].replace("bd, desc;", f"bd, desc; {CURRENT} mov.u32 k, 0;")
)
ONE_PLACE = {CURRENT: "", "shl.b32 to, parity, 14;": "mov.u32 to, 0;"}
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {y0}, [d]; tcgen05.wait::ld.sync.aligned;"
OTHERS = "@warp0 bra OFF; setp.lt.u32 q, i, 3; @q bra OFF;"
COPY_OF_B = "ld.global.v4.b32 {x0, x1, x2, x3}, [from]; add.u32 y0, to, 16384; st.shared.v4.b32 [y0], {x0, x1, x2, x3};"
FURTHER, BACK = "@late add.u64 from, from, 128;", "@late sub.u64 from, from, 128;"
B_BESIDE_A = {"bd, desc;": "bd, desc; add.u64 bd, bd, 1024;"}
NO_COMMIT = f"@!late {COMMIT} @late mbarrier.arrive.shared::cta.b64 w, [done];"
BY_CP_ASYNC = {COPY: "cp.async.cg.shared.global [to], [from], 16;", FENCE: f"cp.async.wait_all; {FENCE}"}
ANOTHER_WARP = {
    "@!one bra NEXT;": "setp.eq.u32 q, tid, 32; @q bra ON; @!one bra NEXT; ON:",
    "bd, desc;": "bd, desc; setp.eq.u32 q, tid, 32; @q mov.u32 n, 9;",
    COMMIT: f"setp.eq.u32 q, tid, 32; @q bra NEXT; {COMMIT}",
}

Case: TypeAlias = tuple[dict[str, str], str, str]

CASES: dict[str, Case] = {
    #                               what is replaced, and a code that the race check and one that the operand check reports
    "right":                       ({}, "", ""),
    "by cp.async":                 (BY_CP_ASYNC, "", ""),
    "no wait":                     ({"@q bra FIRST;": "bra FIRST;"}, "X106", "O101"),
    "no wait in one turn":         ({WAIT: f"@late bra FIRST; {WAIT}"}, "X106", ""),
    "no fence in one turn":        ({FENCE: f"@late bra OFF; {FENCE} OFF:"}, "X102", ""),
    "no barrier in one turn":      ({f"{FENCE}\n{SYNC}": f"{FENCE} @late bra OFF; {SYNC} OFF:"}, "H601", "O101"),
    "a store after the product":   ({COMMIT: f"@late st.shared.b32 [tile], tid; {COMMIT}"}, "X106", ""),
    "a load after the product":    ({"NEXT:": f"NEXT: @!late bra OFF; {LOAD} OFF:"}, "X108", ""),
    "a load of the operand":       ({"NEXT:": "NEXT: @!late bra OFF; ld.shared.b32 y0, [own]; OFF:"}, "", ""),
    "another warp":                (ANOTHER_WARP, "X105", "O101"),
    "no commit in one turn":       ({COMMIT: NO_COMMIT}, "X106", ""),
    "a load nobody waits for":     ({COMMIT: NO_COMMIT, "NEXT:": f"NEXT: {OTHERS} {LOAD.split(';')[0]}; OFF:"}, "X105", ""),
    "B of its own":                ({COPY: f"{COPY} {COPY_OF_B}", **B_BESIDE_A}, "", ""),
    "B of the next turn":          ({COPY: f"{COPY} {FURTHER} {COPY_OF_B} {BACK}", **B_BESIDE_A}, "", "O105"),
    "no step":                     ({STEP: ""}, "", "O105"),
    "no step in one turn":         ({STEP: f"@late bra OFF; {STEP} OFF:"}, "", ""),
    "a step of A only":            ({STEP: "add.u64 ad, ad, 2; @!late add.u64 bd, bd, 2;"}, "", "O105"),
    "a step of 16 bytes":          ({STEP: STEP.replace(" 2;", " 1;")}, "", "O105"),
    "16 bytes in one turn":        ({STEP: f"@!late bra OFF; sub.u64 bd, bd, 1; OFF: {STEP}"}, "", "O105"),
    "other chunks in one turn":    ({"own;\nld.global": "own;\n@late xor.b32 to, to, 16;\nld.global"}, "", ""),
    "another turn in one turn":    ({"CHUNK:\n": "@late add.u64 from, from, 128;\nCHUNK:\n"}, "", ""),
    "words that are computed":     ({"st.shared.v4": "@late add.u32 x1, x1, 0; st.shared.v4"}, "", ""),
    "another number of columns":   ({MULTIPLY: f"@late mov.b32 idesc, 0x08080010; {MULTIPLY}"}, "", "O107"),
    "D is overwritten":            ({"setp.ne.u32 acc, n, 0;": "@late setp.ne.u32 acc, k, 0; @!late setp.ne.u32 acc, n, 0;"}, "", ""),
}  # fmt: skip
TENSOR_CASES: dict[str, Case] = {
    "right":                       ({}, "", ""),
    "no wait":                     ({"@q bra FIRST;": "bra FIRST;"}, "X106", ""),
    "no wait in one turn":         ({WAIT: f"@late bra FIRST; {WAIT}"}, "", ""),
    "no wait for the tile":        ({FULL: f"@late bra FULL; {FULL.replace('FULL', 'AGAIN')} FULL:"}, "X103", ""),
    "a store after the product":   ({COMMIT: f"@late st.shared.b32 [to], tid; {COMMIT}"}, "X106", ""),
    "a load after the product":    ({"NEXT:": f"NEXT: @!late bra OFF; {LOAD} OFF:"}, "X108", ""),
    "no step":                     ({STEP: ""}, "", "O105"),
    "no step in one turn":         ({STEP: f"@late bra OFF; {STEP} OFF:"}, "", ""),
    "a step of A only":            ({STEP: "add.u64 ad, ad, 2; @!late add.u64 bd, bd, 2;"}, "", "O105"),
    "a step of 16 bytes":          ({STEP: STEP.replace(" 2;", " 1;")}, "", "O105"),
    "16 bytes in one turn":        ({STEP: f"@!late bra OFF; sub.u64 bd, bd, 1; OFF: {STEP}"}, "", "O105"),
    "steps of another order":      ({STEP: f"@!late bra OFF; sub.u64 ad, ad, 4; sub.u64 bd, bd, 4; OFF: {STEP}",
                                     "mov.u32 k, 0;\nSTEP:": f"mov.u32 k, 0; @late {LAST_STEP}\nSTEP:"}, "", ""),
    "A of the turn before":        ({CURRENT: f"{CURRENT} @late xor.b64 ad, ad, 1024;"}, "", ""),
    "the tile of the turn before": ({CURRENT: f"{CURRENT} @late xor.b64 ad, ad, 1024; @late xor.b64 bd, bd, 1024;"}, "", ""),
    "one place":                   (ONE_PLACE, "", ""),
    "no copy in the last turn":    (ONE_PLACE | {"late, i, 4;": "late, i, 6;", BOX: f"@late bra OFF; {BOX}", FULL: f"{FULL} OFF:"}, "", ""),
    "another box in one turn":     ({BOX: f"{BOX} @late add.u32 x0, x0, 64;"}, "", ""),
    "half a box further":          ({"add.u32 to, to, tile;": "add.u32 to, to, tile; @late add.u32 to, to, 8192;"}, "", "O101"),
    "another number of columns":   ({MULTIPLY: f"@late mov.b32 idesc, 0x08080010; {MULTIPLY}"}, "", ""),
    "D is overwritten":            ({"setp.ne.u32 acc, n, 0;": "@late setp.ne.u32 acc, k, 0; @!late setp.ne.u32 acc, n, 0;"}, "", ""),
}  # fmt: skip
TOGETHER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def of_pairs(text: str) -> str:
    """A kernel of a CTA pair: each CTA has 128 of the 256 rows of A, and half of the rows of B."""
    for old, new in {
        "bar.sync 0;\nld.shared": f"fence.mbarrier_init.release.cluster; {TOGETHER}\nld.shared",
        f"{SYNC}\n@!one bra NEXT;": f"{TOGETHER}\nand.b32 y0, cta, 1; setp.eq.and.u32 q, y0, 0, one; @!q bra NEXT;",
        "bar.sync 0;\n@warp0": f"{TOGETHER}\n@warp0",
        COMMIT: f"{COMMIT.replace('.b64 [done];', '.multicast::cluster.b64 [done], peers;')}",
        "cta_group::1": "cta_group::2",
        "0x08100010": "0x10100010",
        ".reg .b32 tid,": ".reg .b16 peers;\n.reg .b32 tid,",
        "mov.u32 tid, %tid.x;": "mov.b16 peers, 3; mov.u32 tid, %tid.x;",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


ODD = "and.b32 y0, cta, 1; setp.eq.and.u32 q, y0, 1, late;"
"""In one turn of the second CTA of a pair."""
PAIR_CASES = {name: CASES[name] for name in ("right", "by cp.async", "no wait in one turn", "no fence in one turn", "no step")} | {
    name: CASES[name]
    for name in ("no step in one turn", "a step of A only", "a step of 16 bytes", "16 bytes in one turn", "B of the next turn")
}
PAIR_CASES |= {
    "B of the next turn in one CTA": (
        {COPY: f"{COPY} {ODD} @q add.u64 from, from, 128; {COPY_OF_B} @q sub.u64 from, from, 128;", **B_BESIDE_A}, "", "O105"
    ),
    "other chunks in one turn": ({"own;\nld.global": f"own;\n{ODD} @q xor.b32 to, to, 16;\nld.global"}, "", ""),
    "another turn in one turn": ({"CHUNK:\n": f"{ODD} @q add.u64 from, from, 128;\nCHUNK:\n"}, "", ""),
    "words that are computed":  ({"st.shared.v4": f"{ODD} @q add.u32 x1, x1, 0; st.shared.v4"}, "", ""),
}  # fmt: skip
KEEPING = """setp.ne.u32 acc, n, 0; mov.b32 idesc, 0x08080010; add.u32 y0, d, 32; add.u64 w, bd, 256;
tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [d], ad, bd, idesc, acc;
tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [y0], ad, w, idesc, acc;"""
"""Two products take one A, each with half of the columns of B."""
KEEPING_B = """setp.ne.u32 acc, n, 0; mov.b32 idesc, 0x04100010; add.u64 w, ad, 512;
tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill [d], ad, bd, idesc, acc;
tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::lastuse [d], w, bd, idesc, acc;"""
"""Two products take one B, each with half of the rows of A."""
KEPT = {
    "A": (KEEPING, TENSOR_TEXT),
    "A for one D": (KEEPING.replace("[y0]", "[d]"), TENSOR_TEXT),
    "B": (KEEPING_B, TENSOR_TEXT),
    "A of words": (KEEPING, TEXT),
    "A of words for one D": (KEEPING.replace("[y0]", "[d]"), TEXT),
    "B of words": (KEEPING_B, TEXT),
    "A of words in pairs": (KEEPING.replace("0x08080010", "0x10080010").replace("bd, 256", "bd, 128"), TEXT),
}
KEPT_CASES: dict[str, tuple[dict[str, str], str]] = {
    #                               what is replaced where it is there, and a code if A is kept for two D
    "right":                       ({}, ""),
    "no step":                     ({STEP: ""}, "O105"),
    "no step in one turn":         ({STEP: f"@late bra OFF; {STEP} OFF:"}, ""),
    "a step of A only":            ({STEP: "add.u64 ad, ad, 2; @!late add.u64 bd, bd, 2;"}, "O105"),
    "16 bytes in one turn":        ({STEP: f"@!late bra OFF; sub.u64 bd, bd, 1; OFF: {STEP}"}, "O105"),
    "A of the turn before":        ({CURRENT: f"{CURRENT} @late xor.b64 ad, ad, 1024;"}, ""),
    "another A":                   ({", ad, w,": ", desc, w,"}, ""),
    "another matrix in one turn":  ({"add.u64 w, ad, 512;": "add.u64 w, ad, 512; @late add.u64 bd, bd, 2;",
                                     "add.u64 w, bd, 256;": "add.u64 w, bd, 256; @late add.u64 w, w, 2;"}, ""),
    "the same rows":               ({"w, ad, 512;": "w, ad, 0;", "w, bd, 256;": "w, bd, 0;"}, ""),
    "discarded in one turn":       ({"setp.ne.u32 acc": f"@!late bra ON; {MMA} ON: setp.ne.u32 acc"}, ""),
    "one place":                   (ONE_PLACE, ""),
    "another box in one turn":     ({BOX: f"{BOX} @late add.u32 x0, x0, 64;"}, ""),
    "half a box further":          ({"add.u32 to, to, tile;": "add.u32 to, to, tile; @late add.u32 to, to, 8192;"}, ""),
    "another number of columns":   ({"0x08080010;": "0x08080010; @late mov.b32 idesc, 0x08040010;"}, ""),
    "D is overwritten":            ({"setp.ne.u32 acc, n, 0;": "@late setp.ne.u32 acc, k, 0; @!late setp.ne.u32 acc, n, 0;"}, ""),
}  # fmt: skip
CHECKS: dict[str, dict[str, Any]] = {"race": {"check": "race"}, "operands": {"check": "operands"}, "default": {}, "all": {"check": "all"}}


def launch(text: str, **options: Any) -> list[Any]:
    """What a launch gives."""
    size = 2 if "cta_group::2" in text else 1
    ctas = CTAS if size == 1 else 2 * size
    shape = 128 * ctas, 64 * TURNS
    a: Any = np.random.default_rng(7).integers(-4, 5, shape).astype(np.float16)
    if "p_a[128]" in text:
        a = ptxlab.TensorMap(a, box=(64, 128), swizzle="128B")
    b = [ptxlab.TensorMap(np.zeros(shape, np.uint16), box=(64, 128), swizzle="128B", dtype="bf16")] if "p_b[128]" in text else []
    c = np.zeros((128 * ctas, 64), np.float32)
    HANDLED.clear()
    SUSPECTS.clear()
    result = ptxlab.loads(text).kernel().launch(grid=ctas, cluster=size, block=128, args=[a, *b, c], **options)
    stats = result.stats.instructions, result.stats.services, result.completed
    return [
        [str(each) for each in result.diagnostics],
        c.tobytes(),
        stats,
        list(SUSPECTS),
        [each.code for each in result.diagnostics],
        list(HANDLED),
    ]


def both(text: str, **options: Any) -> tuple[list[str], list[int]]:
    """The codes of a launch, and the instructions that were handled; all else is the same if the handler completes each execution."""
    found = launch(text, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warp, "repeats", False)
        expected = launch(text, **options)
    assert found[:4] == expected[:4]
    return found[4], found[5]


def changed(changes: dict[str, str], text: str = TEXT) -> str:
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


KERNELS = {name: (TEXT, case) for name, case in CASES.items()} | {
    f"tiles: {name}": (TENSOR_TEXT, case) for name, case in TENSOR_CASES.items()
}


@pytest.mark.parametrize(("name", "checks"), spread(2, KERNELS, CHECKS))
def test_findings(name: str, checks: str) -> None:
    text, (changes, race, operands) = KERNELS[name]
    codes, handled = both(changed(changes, text), **CHECKS[checks])
    wanted = {"race": {race}, "operands": {operands}}.get(checks, {race, operands}) - {""}
    assert wanted <= set(codes)
    assert bool(codes) == bool(wanted)
    assert len(handled) < 6 * TURNS * CTAS


LATER: list[dict[str, Any]] = [{"policy": "lazy"}, {"policy": "random", "seed": 1}, {"policy": "random", "seed": 2}]


@pytest.mark.parametrize(("name", "options"), spread(2, KERNELS, range(len(LATER))))
def test_findings_of_products_that_perform_later(name: str, options: int) -> None:
    """Compiled code issues products and performs them, in all CTAs after it has performed some of one."""
    text, (changes, _, _) = KERNELS[name]
    codes, handled = both(changed(changes, text), check="all", **LATER[options])
    if name == "right":
        assert codes == []
        assert len(handled) < 3 * TURNS * CTAS


@pytest.mark.parametrize(("name", "checks"), spread(2, PAIR_CASES, CHECKS))
def test_findings_of_pairs(name: str, checks: str) -> None:
    changes, _, operands = PAIR_CASES[name]
    codes, handled = both(of_pairs(changed(changes)), **CHECKS[checks])
    assert operands in ("", *codes) or checks == "race"
    if name == "right":
        assert codes == []
        assert len(handled) == 6


@pytest.mark.parametrize(("name", "checks"), spread(2, KEPT_CASES, ("operands", "all")))
@pytest.mark.parametrize("kept", KEPT)
def test_findings_about_matrices_that_are_kept(kept: str, name: str, checks: str) -> None:
    """Compiled code repeats products that take a matrix from a collector buffer."""
    (body, kernel), (changes, code) = KEPT[kept], KEPT_CASES[name]
    text = changed({MULTIPLY: body}, kernel)
    text = changed({old: new for old, new in changes.items() if old in text}, text)
    codes, handled = both(of_pairs(text) if kept.endswith("pairs") else text, **CHECKS[checks])
    assert code in ("", *codes) or kept not in ("A", "A of words")
    if (name, checks) == ("right", "operands"):
        assert codes == []
        assert len(handled) <= 22


WORD_CASES = ("by cp.async", "other chunks in one turn", "another turn in one turn", "words that are computed", "a store after the product")


@pytest.mark.parametrize(("name", "checks"), spread(2, WORD_CASES, ("operands", "all")))
@pytest.mark.parametrize("kept", [name for name in KEPT if "words" in name])
def test_findings_about_words_that_are_kept(kept: str, name: str, checks: str) -> None:
    """The words of a matrix that is kept come from elsewhere in one turn."""
    text = changed(CASES[name][0], changed({MULTIPLY: KEPT[kept][0]}))
    codes, handled = both(of_pairs(text) if kept.endswith("pairs") else text, **CHECKS[checks])
    assert not [code for code in codes if code[0] == "O"]
    assert ("X106" in codes) == (name == "a store after the product" and checks == "all")
    assert len(handled) < 3 * TURNS * CTAS or checks == "all"


@pytest.mark.parametrize(
    "options",
    [{"model": "spec"}, {"model": "spec", "check": "operands"}, {"policy": "lazy"}, {"policy": "random"}, {"profile": True}],
    ids=str,
)
@pytest.mark.parametrize("case", ["right", "no wait in one turn", "another warp", "no step in one turn"])
def test_findings_of_other_models_and_policies(case: str, options: dict[str, Any]) -> None:
    both(changed(CASES[case][0]), **options)


@pytest.mark.parametrize(("checks", "most"), [("race", 5), ("operands", 9), ("all", 9)])
def test_the_handler_is_called_until_a_turn_is_known(checks: str, most: int) -> None:
    """Once for each instruction, again to see the step from the one before, and once in each further CTA."""
    codes, handled = both(TEXT, **CHECKS[checks])
    assert codes == []
    assert len(handled) == most + CTAS - 1


@pytest.mark.parametrize("checks", ["race", "operands", "all"])
def test_the_handler_is_called_until_tiles_are_known(checks: str) -> None:
    """Other tiles beside those of the instruction do not matter."""
    codes, handled = both(TENSOR_TEXT, **CHECKS[checks])
    assert codes == []
    assert len(handled) == 11


@pytest.mark.parametrize("checks", ["operands", "all"])
def test_tiles_of_another_array(checks: str) -> None:
    """In one turn the tile at a known place comes from another array, whose elements have another type."""
    copied = next(line for line in BY_TENSOR.splitlines() if line.startswith("cp."))
    other = {"p_a[128],": "p_a[128], .param .align 64 .b8 p_b[128],", copied: f"@late {copied.replace('[p_a', '[p_b')} @!late {copied}"}
    codes, _ = both(changed(other, TENSOR_TEXT), **CHECKS[checks])
    assert codes == ["O103"]


def test_a_step_within_a_tile_is_compared_once() -> None:
    """In the last turn the first instruction takes another k from the tile from which the one before has taken its own."""
    changes, _, _ = TENSOR_CASES["no copy in the last turn"]
    _, copied = both(changed(ONE_PLACE, TENSOR_TEXT), check="operands")
    _, handled = both(changed(changes, TENSOR_TEXT), check="operands")
    assert len(handled) == len(copied) + 1
