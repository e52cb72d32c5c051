"""Registers of tcgen05.ld that are used before tcgen05.wait::ld, or without one; and the lanes that an address may name."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) .reqntid 128
{
.shared .align 4 .b32 slot;
.reg .b32 loaded, other, sum, tid, quarter, at, n;
.reg .b64 out;
.reg .pred p, q, r;
mov.u32 tid, %tid.x;
setp.lt.u32 p, tid, 32;
setp.eq.u32 q, tid, 200;
mov.u32 n, 3;
ld.param.u64 out, [a];
@p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
FENCE bar.sync 0; AFTER
ld.shared.b32 at, [slot];
shr.u32 quarter, tid, 5;
shl.b32 quarter, quarter, LANES;
add.u32 at, at, quarter;
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {tid};
tcgen05.wait::st.sync.aligned;
BODY
FENCE bar.sync 0; AFTER
ld.shared.b32 at, [slot];
@p tcgen05.dealloc.cta_group::1.sync.aligned.b32 at, 32;
ret;
}
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {loaded}, [at];\n"
WAIT = "tcgen05.wait::ld.sync.aligned;\n"
USE = "add.u32 sum, loaded, 1;\n"
STORE = "st.global.u32 [out], loaded;\n"

NEVER = [("R809", "note")]
EARLY = [("R809", "error")]

CASES = {
    "awaited": (LOAD + WAIT + USE, [], []),
    "used and then awaited": (LOAD + USE + WAIT, [], EARLY),
    "stored and then awaited": (LOAD + "@q " + STORE + WAIT, [], EARLY),
    "never awaited": (LOAD + USE, NEVER, EARLY),
    "never awaited and never used": (LOAD, [], []),
    "stored": (LOAD + "@q " + STORE, NEVER, EARLY),
    "overwritten": (LOAD + "mov.u32 loaded, 5;\n", NEVER, EARLY),
    "overwritten behind the wait": (LOAD + WAIT + "mov.u32 loaded, 5;\n" + USE, [], []),
    "a predicate computed from it": (LOAD + "setp.eq.u32 r, loaded, 1;\n" + WAIT, [], EARLY),
    "another register": (LOAD + "add.u32 sum, n, tid;\n", [], []),
    "two loads, one wait between": (LOAD + WAIT + LOAD.replace("loaded", "other") + USE + WAIT, [], []),
    "two loads, one is used": (LOAD + LOAD.replace("loaded", "other") + USE + WAIT, [], EARLY),
    "awaited on one path only": (LOAD + USE + "@q bra DONE;\n" + WAIT + "DONE:\n", NEVER, EARLY),
    "awaited on both paths": (LOAD + USE + "@q bra OTHER;\n" + WAIT + "bra DONE;\nOTHER:\n" + WAIT + "DONE:\n", [], EARLY),
    "awaited behind a loop": (
        "AGAIN:\n" + LOAD + USE + "sub.u32 n, n, 1;\nsetp.ne.u32 r, n, 0;\n@r bra AGAIN;\n" + WAIT,
        [],
        EARLY,
    ),
    "used in another block": (LOAD + "@q bra NEXT;\nNEXT:\n" + USE + WAIT, [], EARLY),
    "a wait for stores": (LOAD + USE + WAIT.replace("ld", "st"), NEVER, EARLY),
}


def found(body: str, model: str, lanes: int = 21, **options: object) -> list[tuple[str, str]]:
    text = KERNEL.replace("BODY", body).replace("LANES", str(lanes))
    text = text.replace("FENCE", "tcgen05.fence::before_thread_sync;").replace("AFTER", "tcgen05.fence::after_thread_sync;")
    result = ptxlab.loads(text).kernel().launch(args=[np.zeros(4, np.uint32)], model=model, **options)
    return [(d.code, d.severity) for d in result.diagnostics]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("model", ["practice", "spec"])
def test_uses(name: str, model: str) -> None:
    body, practice, spec = CASES[name]
    assert found(body, model, check="register") == (practice if model == "practice" else spec)
    listed = [code for code, _ in found(body, model)]
    if WAIT in body and "DONE" not in body:
        assert set(listed) <= {"R809"}
    # Without a wait, nothing orders the load with the release of its columns. That is a finding of the race check, and the only one.
    assert len(listed) <= 1
    assert listed == [] or listed[0] in ("R809", "X108", "X109")


def test_what_is_said() -> None:
    kernel = KERNEL.replace("LANES", "21").replace("FENCE", "").replace("AFTER", "")
    (note,) = ptxlab.loads(kernel.replace("BODY", LOAD + USE), file="k.ptx").kernel().launch(args=[None], check="register").diagnostics
    assert note.message == "add.u32 uses loaded, and no tcgen05.wait::ld follows the load"
    assert note.fix == "execute tcgen05.wait::ld.sync.aligned between the load and this instruction"
    assert dict(note.details)["in flight"] == "k.ptx:23:1 `tcgen05.ld.sync.aligned.32x32b.x1.b32 {loaded}, [at];`"
    body = LOAD + USE + STORE + WAIT
    (error,) = (
        ptxlab.loads(kernel.replace("BODY", body))
        .kernel()
        .launch(args=[np.zeros(1, np.uint32)], model="spec", check="register")
        .diagnostics
    )
    assert error.message == "add.u32 uses loaded before the tcgen05.wait::ld"
    assert dict(error.details)["other uses"] == "lines 25"


@pytest.mark.parametrize("load", [LOAD, "tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {loaded, other}, sum, [at];\n"])
def test_lane_0_stands_for_the_first_lane_of_a_warp_in_practice_only(load: str) -> None:
    """``lanes=32`` shifts the number of the warp out of the address."""
    target = {"device": ptxlab.Device("sm_103a")} if "red" in load else {}
    body = "tcgen05.st.sync.aligned.32x32b.x1.b32 [at+1], {tid};\ntcgen05.wait::st.sync.aligned;\n" + load + WAIT
    text = KERNEL.replace("BODY", body).replace("FENCE", "").replace("AFTER", "").replace("sm_100a", "sm_103a" if target else "sm_100a")
    codes = {}
    for model in ("practice", "spec"):
        for lanes in (21, 32):
            kernel = ptxlab.loads(text.replace("LANES", str(lanes)), file="k.ptx").kernel()
            result = kernel.launch(args=[None], model=model, check=["tmem"], **target)
            codes[model, lanes] = [d.code for d in result.diagnostics]
    assert codes == {("practice", 21): [], ("practice", 32): [], ("spec", 21): [], ("spec", 32): ["T623"]}
