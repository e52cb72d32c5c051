"""Registers of tcgen05.ld that are read on one of two paths which join: what counts is the path that is executed."""

from __future__ import annotations

import pytest

import ptxlab
from ptxlab.check.race import _recorder
from ptxlab.machine.launch.program_facts import facts_of
from ptxlab.machine.warp import consumption
from ptxlab.machine.warp.consumption import Consumption

from .test_unawaited_loads import KERNEL, LOAD, USE, WAIT, found

TWO = LOAD.replace("x1", "x2").replace("{loaded}", "{loaded, other}")
USE_OTHER = "add.u32 sum, other, sum;\n"
ODD = "and.b32 sum, tid, 1;\nsetp.eq.u32 r, sum, 1;\n"
LANES = "setp.lt.u32 r, tid, 1000;\n"
THREE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {n};\ntcgen05.wait::st.sync.aligned;\n" + LOAD
PLACE = ".shared .align 4 .b8 buffer[512];\nmov.u32 other, buffer;\nmad.lo.u32 other, tid, 4, other;\n"
COPY = "cp.async.ca.shared.global [other], [out], 4;\n"
COPIED = "DONE:\ncp.async.wait_all;\n"

CASES = {
    #                                    the text, whether all registers are read, how many ends of blocks are noted
    "on the path that is executed": (LOAD + "@q bra DONE;\n" + USE + "DONE:\n", True, 1),
    "on the other path": (LOAD + "@!q bra DONE;\n" + USE + "DONE:\n", False, 1),
    "on both paths": (LOAD + "@q bra OTHER;\n" + USE + "bra DONE;\nOTHER:\n" + USE + "DONE:\n", True, 0),
    "on one path": (LOAD + USE, True, 0),
    "on no path": (LOAD + "@q bra DONE;\nadd.u32 sum, tid, 1;\nDONE:\n", False, 0),
    "before a wait": (LOAD + "@q bra DONE;\n" + USE + WAIT + "DONE:\n", True, 1),
    "behind a wait on the path": (LOAD + "@q bra DONE;\n" + WAIT + USE + "DONE:\n", True, 1),
    "in the last of three blocks": (LOAD + "@q bra DONE;\n" + USE + "@q bra DONE;\nadd.u32 sum, tid, 1;\nDONE:\n", True, 2),
    "before two more paths": (LOAD + "@q bra NEXT;\n" + USE + "NEXT:\n@q bra DONE;\nadd.u32 sum, tid, 1;\nDONE:\n", True, 1),
    "one before and one behind": (TWO + "@q bra DONE;\n" + USE + "DONE:\n" + USE_OTHER, True, 1),
    "one on the other path, and one behind": (TWO + "@!q bra DONE;\n" + USE + "DONE:\n" + USE_OTHER, False, 1),
    "only one of two": (TWO + "@q bra DONE;\n" + USE + "DONE:\n", False, 1),
    "each on a path of its own": (
        TWO + "@q bra NEXT;\n" + USE + "NEXT:\n@q bra DONE;\n" + USE_OTHER + "DONE:\n",
        True,
        2,
    ),
    "one of two on each path": (TWO + "@q bra OTHER;\n" + USE + "bra DONE;\nOTHER:\n" + USE_OTHER + "DONE:\n", False, 2),
    "in a loop": (
        LOAD + "AGAIN:\nsub.u32 n, n, 1;\nsetp.ne.u32 r, n, 0;\n@q bra NEXT;\n" + USE + "NEXT:\n@r bra AGAIN;\n",
        True,
        1,
    ),
    "and loaded again": (LOAD + "@q bra NEXT;\n" + USE + "NEXT:\n" + LOAD, False, 1),
    "loaded and read in a loop": (
        "AGAIN:\n" + LOAD + "sub.u32 n, n, 1;\nsetp.ne.u32 r, n, 0;\n@q bra NEXT;\n" + USE + "NEXT:\n@r bra AGAIN;\n",
        True,
        1,
    ),
    "not in the last turn of a loop": (
        "AGAIN:\n" + LOAD + "sub.u32 n, n, 1;\nsetp.eq.u32 r, n, 0;\n@r bra DONE;\n" + USE + "bra AGAIN;\nDONE:\n",
        False,
        0,
    ),
    "by half of the lanes": (ODD + LOAD + "@r bra DONE;\n" + USE + "DONE:\n", False, 1),
    "by all lanes": (LANES + LOAD + "@!r bra DONE;\n" + USE + "DONE:\n", True, 1),
    "by a store": (LOAD + "@q bra DONE;\n@q st.global.u32 [out], loaded;\nDONE:\n", True, 1),
    "by a service at the end": (LOAD + "@q bra DONE;\nnanosleep.u32 loaded;\nDONE:\n", True, 1),
    "before a service at the end": (LOAD + "@q bra DONE;\n" + USE + "nanosleep.u32 n;\nDONE:\n", True, 1),
    "by a service on the other path": (LOAD + "@!q bra DONE;\nnanosleep.u32 loaded;\nDONE:\n", False, 1),
    "by a copy at the end": (PLACE + THREE + "@q bra DONE;\n" + COPY.replace("4;", "4, loaded;") + COPIED, True, 1),
    "before a copy at the end": (PLACE + LOAD + "@q bra DONE;\n" + USE + COPY + COPIED, True, 1),
    "by a copy on the other path": (PLACE + THREE + "@!q bra DONE;\n" + COPY.replace("4;", "4, loaded;") + COPIED, False, 1),
    "at a branch": (LOAD + "@q bra DONE;\n" + USE + "bra DONE;\nDONE:\n", True, 1),
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_paths(name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(_recorder, "TRANSFER", 0)
        monkeypatch.setattr(_recorder, "TENSOR_WAITS", {False: 0, True: 0})
    body, read, _ = CASES[name]
    codes = {code for code, _ in found(body, "practice", check="race")}
    assert codes == ({"X108"} if not read else set() if WAIT in body else {"X109"})


def test_reading_does_not_count_in_the_model_spec() -> None:
    for name in ("on one path", "on the path that is executed"):
        assert found(CASES[name][0], "spec", check="race") == [("X108", "error")]


@pytest.mark.parametrize("name", CASES)
def test_compiled_code_notes_only_ends_behind_which_others_have_not_read(name: str) -> None:
    text = KERNEL.replace("BODY", CASES[name][0]).replace("LANES", "21").replace("FENCE", "").replace("AFTER", "")
    kernel = ptxlab.loads(text).kernel()
    program, executable = kernel.variant(False, True)
    assert program.noted_ends == frozenset(facts_of(program, executable).of(Consumption).read_at_ends)
    assert len(program.noted_ends) == CASES[name][2]
    assert kernel.variant(False, False)[0].noted_ends == frozenset()


def test_what_is_read_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []
    solve = consumption.entry_states
    monkeypatch.setattr(consumption, "entry_states", lambda program, *args: (solved.append(program.name), solve(program, *args))[1])
    body = CASES["on the path that is executed"][0]
    assert found(body, "practice", check="race") == [("X109", "note")]
    assert solved == ["k"]
