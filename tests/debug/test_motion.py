"""Motion through a launch, against values and orders computed by hand."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from ptxlab.debug import Focus, Position, Session

from .debug_kernels import CALL, EXCHANGE, LOOP, copies, output, prepared

LINES = [6, 7, 8, 9, *[11, 12, 13, 14] * 5, 15, 16, 17, 18, 19]
"""The lines that a thread of the loop executes."""


def test_lines_and_registers() -> None:
    with Session(prepared(LOOP)) as session:
        lines, sums = [session.where().line], []
        while (stop := session.step()).reason == "step":
            lines.append(stop.line)
            if stop.line == 12:
                sums.append(session.register("%r3").value(31))
        assert (stop.reason, session.result is not None and session.result.ok) == ("ended", True)
        assert lines == LINES
        assert sums == [0, 1, 3, 6, 10]
        assert output(session, 32) == [10 + t for t in range(32)]


def test_back_gives_the_state_before() -> None:
    with Session(prepared(LOOP, 64)) as session:
        digests = [session.digest()]
        while session.step_any().reason != "ended":
            digests.append(session.digest())
        assert len(digests) == 2 * len(LINES)
        assert len(set(digests)) == len(digests)
        for expected in reversed(digests[-6:]):
            session.step_any_back()
            assert session.digest() == expected
        session.step_any_back(1000)
        assert session.digest() == digests[0]
        assert session.step_any_back().reason == "start"


def test_step_back_of_one_warp() -> None:
    with Session(prepared(LOOP, 64)) as session:
        session.break_at("line", 18, "%tid.x == 40")
        stop = session.run()
        assert (stop.warp, stop.line, session.focus.lane) == (1, 18, 8)
        assert session.register("%r4").value(8) == 50
        assert session.step_back().line == 17
        assert session.register("%r4").undefined[8] == 0xFFFFFFFF
        assert session.step_back(2).line == 15
        assert session.step(3).line == 18


@pytest.mark.parametrize("hits", [1, 2, 5])
def test_hits_of_a_breakpoint(hits: int) -> None:
    with Session(prepared(LOOP)) as session:
        session.step(6)
        found = session.break_at("line", 11, hits=hits)
        if hits == 1:
            session.step_any_back(6)
        stop = session.run()
        assert stop.breakpoints == (found.number,)
        assert session.evaluate("%r2") == hits - 1
        assert session.evaluate("%r3") == sum(range(hits - 1))


def test_conditions_forwards_and_backwards() -> None:
    with Session(prepared(LOOP)) as session:
        found = session.break_at("instruction", "setp.lt", "%r2 == 3 or %r2 == 4")
        assert [session.run().line, session.evaluate("%r2")] == [13, 3]
        assert [session.run().line, session.evaluate("%r2")] == [13, 4]
        assert session.run().reason == "ended"
        for value in (4, 3):
            assert session.run_back().breakpoints == (found.number,)
            assert session.evaluate("%r2") == value
        assert session.run_back().reason == "start"
        assert session.position.step == 0
        session.delete(found.number)
        assert session.run().reason == "ended"


def test_calls_and_source_lines() -> None:
    with Session(prepared(CALL, 1)) as session:
        assert session.step_line().source == "kernel.cu:11:1"
        position = session.position
        stop = session.step_line()
        assert (stop.function, stop.source) == ("double", "kernel.cu:3:1")
        assert [(f.function, str(f.source)) for f in session.stack()] == [("double", "kernel.cu:3:1"), ("k", "kernel.cu:11:1")]
        assert session.evaluate("%x") == 7
        stop = session.out()
        assert (stop.function, stop.line) == ("k", 15)
        session.go_to(position)
        assert session.next_line().source == "kernel.cu:12:1"
        assert session.evaluate("%r2") == 14
        assert session.step_line_back().source == "kernel.cu:11:1"
        session.break_at("function", "double")
        assert session.run_back().function == "double"
        session.break_at("source", "kernel.cu:13")
        assert session.run().source == "kernel.cu:13:1"
        assert output(session, 1) == [14]


def test_barriers_and_asynchronous_events() -> None:
    with Session(copies(policy="lazy")) as session:
        assert session.to_barrier().line == 14
        lines = [session.to_asynchronous().line for _ in range(2)]
        assert lines == [17, 18]
        stop = session.to_asynchronous()
        assert (stop.event, stop.operation, stop.line) == ("performing", 0, 17)
        (barrier, *_) = session.barriers()
        assert {k: barrier[k] for k in ("kind", "phase", "pending", "expected", "bytes")} == {
            "kind": "mbarrier",
            "phase": 0,
            "pending": 0,
            "expected": 1,
            "bytes": 256,
        }
        assert {group["line"] for group in barrier["waiting"]} == {20}
        assert (session.to_asynchronous().operation, session.barriers()[0]["bytes"]) == (1, 128)


@pytest.mark.parametrize(("text", "block"), [(LOOP, 64), (EXCHANGE, 64), (CALL, 1)])
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_same_bits_as_a_plain_launch(text: str, block: int, policy: str) -> None:
    replay = prepared(text, block, policy=policy)
    _, memory = replay.run(check="none")
    with Session(replay) as session:
        assert session.run().reason == "ended"
        assert all(np.array_equal(a.data, b.data) for a, b in zip(session.launch.device.memory.live(), memory.live(), strict=True))
        assert session.launch.scheduler.instructions == replay.run(check="none")[0].stats.instructions


def walk(session: Session, chance: random.Random) -> None:
    """Make some random moves and choices."""
    moves: list[Any] = [session.step, session.step_any, session.step_back, session.step_any_back, session.to_asynchronous, session.run_back]
    for _ in range(12):
        outstanding = [each["number"] for each in session.operations() if each["can perform"]]
        if session.result is None and outstanding and chance.random() < 0.4:
            session.perform(chance.choice(outstanding))
        elif session.result is None and session.where().event == "blocked":
            session.thaw_all()
        elif session.result is None and session.where().event == "instruction" and chance.random() < 0.2:
            chance.choice([session.freeze, session.alone, session.thaw_all])()
        elif session.op() is not None or session.result is not None:
            move = chance.choice(moves[2:] if session.result is not None else moves)
            move()
        else:
            session.step_any()


@pytest.mark.parametrize("seed", range(6))
def test_random_walks_end_in_what_their_position_says(seed: int) -> None:
    for replay, policy in itertools.product((prepared(EXCHANGE, 64), copies()), ("lazy", "random")):
        with Session(replay, policy=policy, seed=seed) as session, Session(replay, policy=policy, seed=seed) as other:
            session.break_at("line", 14)
            walk(session, random.Random(seed))
            saved = Position.of(session.position.as_dict())
            other.go_to(saved)
            assert other.digest() == session.digest()


@pytest.mark.parametrize("policy", ["eager", "random"])
def test_lines_back_are_those_of_the_way_forward(policy: str) -> None:
    """From points anywhere, for threads of CTAs that wait, run and have ended: what stepping point by point has shown."""
    chance = random.Random(1)
    with Session(prepared(EXCHANGE, 64, grid=3, out=70, policy=policy)) as session:
        threads = [((x, 0, 0), warp, lane) for x in range(3) for warp in range(2) for lane in (0, 1)]
        begins: dict[Any, list[int]] = {thread: [] for thread in threads}
        lines: dict[Any, int] = {}
        while session.result is None:
            point = session.point
            for thread in threads if session.where().event == "instruction" and not point.again else ():
                warp, op = point.warp, point.op
                assert warp is not None
                assert op is not None
                if (warp.cta.ctaid, warp.warp_id) == thread[:2] and point.converged >> thread[2] & 1:
                    if lines.get(thread) != op.line:
                        begins[thread].append(point.step)
                    lines[thread] = op.line
            session.step_any()
        end = session.position
        for _ in range(40):
            step, thread = chance.randrange(end.step + 1), chance.choice(threads)
            session.go_to(Position(step, policy))
            session.focus = Focus(*thread)
            expected = max((each for each in begins[thread] if each < step), default=0)
            stop = session.step_line_back()
            assert (session.point.step, stop.reason) == (expected, "step" if begins[thread][0] < step else "start")
