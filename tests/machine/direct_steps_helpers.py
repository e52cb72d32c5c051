"""A kernel that executes lists of steps, which random tests make: compiled once, and run with compiled code and with handlers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import ptxlab
from ptxlab.machine.warp import context_words
from tests.machine.launch_helpers import kernel

BARRIERS, MOST = 3, 24
"""The mbarriers of a CTA, and the steps of a warp."""
MBARRIERS = f".shared .align 8 .b64 mb[{BARRIERS + 1}];"

ARRIVALS = {
    "arrive": "mbarrier.arrive.shared::cta.b64 state, [bar];",
    "arrive without a state": "mbarrier.arrive.shared::cta.b64 _, [bar];",
    "several arrivals": "mbarrier.arrive.shared::cta.b64 state, [bar], amount;",
    "arrive and expect": "mbarrier.arrive.expect_tx.shared::cta.b64 state, [bar], amount;",
    "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], amount;",
    "anywhere": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];",
    "several anywhere": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar], amount;",
    "arrive and expect anywhere": "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [bar], amount;",
    "expect anywhere": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
}
OTHERS = {
    "complete": "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
    "drop": "mbarrier.arrive_drop.shared::cta.b64 state, [bar];",
    "no completion": "mbarrier.arrive.noComplete.shared::cta.b64 state, [bar], 1;",
    "wait": "and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount;",
    "test": "and.b32 amount, amount, 1; mbarrier.test_wait.parity.shared::cta.b64 done, [bar], amount;",
    "again": "mbarrier.inval.shared::cta.b64 [bar]; mbarrier.init.shared::cta.b64 [bar], amount;",
    "overwrite": "st.shared.u32 [bar], amount;",
}

STEPS = [*ARRIVALS, *OTHERS]
META = 1 << 20
LIMITS = (1, 2, 3, 4, 31, 32, 33, META - 1, META)
CHECKS = ("none", "none", ("memory", "barrier", "tmem", "descriptor", "register"), ("operands",))
"""Those beside which compiled code may arrive."""


def interpreter(steps: dict[str, str], before: str = "", after: str = "") -> ptxlab.Kernel:
    """A kernel whose warps execute each its list: kind, address in the window, amount, lanes, and what is added by odd lanes."""
    cases = "".join(f"S{number}:\n{text}\nbra NEXT;\n" for number, text in enumerate(steps.values()))
    labels = ", ".join(f"S{number}" for number in range(len(steps)))
    body = f"""
    .reg .pred done, mine, end;
    .reg .b32 kind, bar, amount, lanes, odd, count, n, ta, slot;
    .reg .b64 list;
    .reg .b16 ctas;
    ld.param.u64 list, [steps];
    ld.param.u32 count, [n_steps];
    shr.u32 r1, r19, 5; mul.wide.u32 rd1, r1, {MOST * 20}; add.u64 list, list, rd1;
    mul.wide.u32 rd1, r19, {8 * MOST + 8}; add.u64 out, out, rd1;
    mov.u32 r2, mb; and.b32 r2, r2, 0xffffff;
    ld.param.u32 r3, [expected];
    setp.eq.u32 p, tid, 0;
    {"".join(f"@p mbarrier.init.shared::cta.b64 [mb+{8 * number}], r3;" for number in range(BARRIERS))}
    {before}
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 n, 0;
LOOP:
    setp.ge.u32 end, n, count;
    @end bra END;
    ld.global.u32 kind, [list]; ld.global.u32 bar, [list+4]; ld.global.u32 amount, [list+8];
    ld.global.u32 lanes, [list+12]; ld.global.u32 odd, [list+16];
    shr.u32 r1, lanes, lane; and.b32 r1, r1, 1; setp.eq.u32 mine, r1, 1;
    and.b32 r1, lane, 1; mad.lo.u32 bar, r1, odd, bar; add.u32 bar, bar, r2;
    cvt.u16.u32 ctas, amount;
    mov.u64 state, 0; setp.ne.u32 done, n, n;
    @!mine bra NEXT;
    ways: .branchtargets {labels};
    brx.idx kind, ways;
    {cases}
NEXT:
    bar.warp.sync 0xffffffff;
    selp.u64 rd1, 0x4000000000000000, 0, done; or.b64 state, state, rd1;
    st.global.u64 [out], state; add.u64 out, out, 8; add.u64 list, list, 20; add.u32 n, n, 1;
    bra LOOP;
END:
    ld.param.u32 r1, [meets];
    setp.eq.u32 p, r1, 0;
    @p bra DONE;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    {after}
DONE:
    """
    return kernel(body, shared=MBARRIERS, params=", .param .u64 steps, .param .u32 n_steps, .param .u32 expected, .param .u32 meets")


Step = tuple[int, int, int, int, int]


def _nothing(launch: Any) -> None:
    """Permit no arrivals."""


def both_ways(
    loaded: ptxlab.Kernel, lists: list[list[Step]], expected: int, meets: bool, policy: str = "eager", check: Any = "none"
) -> Any:
    """What a launch gives with arrivals by compiled code; the same by the handlers is asserted to be equal."""
    length = max(map(len, lists))
    table = np.zeros((4, MOST, 5), np.uint32)
    for number, steps in enumerate(lists):
        table[number, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 5)
    found = []
    permit = context_words._permit_arrivals
    for way in (permit, _nothing):
        memories = []

        def noted(launch: Any, way: Any = way, memories: list[Any] = memories) -> None:
            memories.append(launch.host_memory)
            way(launch)

        out = np.zeros((128, MOST + 1), np.uint64)
        context_words._permit_arrivals = noted
        try:
            args = [out, table, length, expected, int(meets)]
            result = loaded.launch(grid=2, block=64, cluster=2, args=args, check=check, policy=policy)
        finally:
            context_words._permit_arrivals = permit
        texts = [str(d) for d in result.diagnostics]
        found.append((out.tolist(), texts, result.stats.services, result.stats.instructions, memories[0].progress[0]))
    assert found[0] == found[1]
    return found[0]


def place(choice: Random, own: int, bold: float) -> int:
    """An address, mostly that of an mbarrier of the own CTA."""
    if choice.random() < bold / 4:
        return choice.choice((own << 24 | 8 * BARRIERS, own << 24 | 4, 2 << 24, own << 24 | 1 << 20))
    return (own if choice.random() < 0.7 else own ^ 1) << 24 | 8 * choice.randrange(BARRIERS)


def some_lanes(choice: Random, bold: float) -> int:
    return choice.choice((3, 0x80000001, 0xF0, 0xFFFFFFFF)) if choice.random() < max(bold, 0.1) else 1 << choice.choice((0, 0, 0, 5, 31))


def lists_of(steps: Callable[[Random, int, float], list[Step]], seed: int) -> list[list[Step]]:
    """The lists of all warps."""
    choice = Random(seed)
    bold = choice.choice((0, 0.02, 0.2))
    return [steps(choice, own, bold) for own in (0, 0, 1, 1)]


def arrival_steps(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp; the bolder, the more mistakes."""
    found: list[Step] = []
    for _ in range(choice.randrange(MOST - 2)):
        there, lanes = place(choice, own, bold), some_lanes(choice, bold)
        if choice.random() < bold:
            step = choice.randrange(len(STEPS)), there, choice.choice(LIMITS), lanes, choice.choice((0, 8))
        else:
            name = choice.choice(
                ("arrive", "arrive without a state", "several arrivals", "wait", "test")
                if there >> 24 == own
                else ("anywhere", "several anywhere")
            )
            step = STEPS.index(name), there, choice.choice((0, 1) if name in ("wait", "test") else (1, 1, 2)), lanes, 0
        if choice.random() < 0.3:
            size, expects = choice.choice((1, 16)), choice.choice(("arrive and expect", "expect"))
            expects += " anywhere" * (there >> 24 != own)
            pair = [(STEPS.index("complete"), there, size, lanes, 0), (STEPS.index(expects), there, size, lanes, 0)]
            first, step = choice.choice((pair, pair[::-1]))
            found.append(first)
        found.append(step)
        if choice.random() < 0.2:
            found += apart(choice)
    return found[:MOST]


def apart(choice: Random) -> list[Step]:
    """Two lanes arrive, each at an object of another CTA."""
    where, size = 8 * choice.randrange(BARRIERS), choice.choice((1, 16))
    names = choice.choice((["anywhere"], ["several anywhere"], ["complete", "arrive and expect anywhere"]))
    return [(STEPS.index(name), where, size if len(names) == 2 else choice.choice((1, 2)), 3, 1 << 24) for name in names]


def commits(group: int) -> dict[str, str]:
    form = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one"
    return {
        "issue": f"tcgen05.shift.cta_group::{group}.down [ta];",
        "commit": f"{form}.shared::cluster.b64 [bar];",
        "another commit": f"{form}.shared::cluster.b64 [bar];",
        "generic": f"cvt.u64.u32 rd2, bar; cvta.shared.u64 rd2, rd2; {form}.b64 [rd2];",
        "many": f"{form}.shared::cluster.multicast::cluster.b64 [bar], ctas;",
        "wait": OTHERS["wait"],
        "test": OTHERS["test"],
        "arrive": ARRIVALS["arrive"],
        "overwrite": OTHERS["overwrite"],
    }


COMMITS = list(commits(1))


def committed(name: str, bar: int = 0, amount: int = 1, lanes: int = 1) -> Step:
    return COMMITS.index(name), 8 * bar, amount, lanes, 0


def commit_steps(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp; the bolder, the more mistakes."""
    found = [committed("issue", lanes=1)] * (choice.random() < 0.7)
    for _ in range(choice.randrange(MOST - 1)):
        lanes = some_lanes(choice, bold) if choice.random() < max(0.1, bold) else 1
        amount = choice.choice((1, 2, 3, 3, 0, 4) if choice.random() < bold else (1, 2, 3, 3))
        kinds = range(len(COMMITS)) if choice.random() < bold else range(1, COMMITS.index("overwrite"))
        there = place(choice, own, bold)
        if choice.random() >= bold and there >> 24 != own:
            kinds = range(1, COMMITS.index("wait"))
        found.append((choice.choice(kinds), there, amount, lanes, 0))
    return found
