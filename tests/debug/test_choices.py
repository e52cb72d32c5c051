"""Freezing warps, and the order in which asynchronous operations perform."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxlab
from ptxlab.debug import DebugError, Position, Session
from ptxlab.machine.replay.bundle import write_bundle

from .debug_kernels import EXCHANGE, copies, output, prepared


def run_to_the_wait(session: Session) -> None:
    """Go to where both copies have been issued and none has performed."""
    session.break_at("line", 20)
    while len(session.operations()) < 2:
        session.run()
    session.delete(1)


def test_outstanding_operations() -> None:
    with Session(copies(), policy="lazy") as session:
        run_to_the_wait(session)
        first, second = session.operations()
        tile = session.launch.program.shared.variables["tile"]
        assert (first["number"], first["line"], first["warp"], first["can perform"]) == (0, 17, 0, True)
        assert (second["number"], second["line"]) == (1, 18)
        writes = {"does": "write", "memory": "shared of CTA (0, 0, 0)", "from": tile, "to": tile + 128, "bytes": 128}
        assert writes in first["accesses"]
        assert writes in second["accesses"]
        assert session.memory("shared", "tile", 4, "u8").tolist() == [255] * 4


@pytest.mark.parametrize(("order", "result"), [((0, 1), 2), ((1, 0), 1), ((1,), 1), ((), 2)])
def test_a_race_is_made_to_happen(order: tuple[int, ...], result: int) -> None:
    """A plain launch gives twos under every policy that performs in order; the second copy first gives ones."""
    with Session(copies(), policy="lazy") as session:
        run_to_the_wait(session)
        for number in order:
            assert session.perform(number).reason == "chosen"
            assert session.memory("shared", "tile", 1, "u32").tolist() == [number + 1]
        position = session.position
        assert session.run().reason == "ended"
        assert output(session, 32) == [result] * 32
        if order:
            session.go_to(position)
            session.step_any_back()
            session.step_any_back()
            assert [each["number"] for each in session.operations()] == sorted({0, 1} - set(order[:-1]))
            assert session.run().reason == "ended"
            assert output(session, 32) == [result] * 32


def test_a_choice_after_going_back_replaces_later_ones() -> None:
    with Session(copies(), policy="lazy") as session:
        run_to_the_wait(session)
        position = session.position
        session.perform(1)
        session.go_to(position)
        session.perform(0)
        session.run()
        assert output(session, 32) == [2] * 32


def test_a_position_is_reached_from_a_bundle(tmp_path: Path) -> None:
    with Session(copies(), policy="lazy") as session:
        run_to_the_wait(session)
        session.perform(1)
        session.step()
        position, digest = session.position, session.digest()
    write_bundle(tmp_path / "race.ptxlab", copies(policy="lazy"))
    with Session(ptxlab.read_bundle(tmp_path / "race.ptxlab")) as other:
        assert other.go_to(Position.of(position.as_dict())).line == position_line(other)
        assert other.digest() == digest
        other.run()
        assert output(other, 32) == [1] * 32


def position_line(session: Session) -> int:
    """The line at which the chosen thread stands."""
    op = session.op()
    assert op is not None
    return op.line


@pytest.mark.parametrize(("frozen", "last"), [(0, 0), (1, 1)])
def test_a_frozen_warp_stores_last(frozen: int, last: int) -> None:
    """Both warps store their number at one address, before a barrier; 100 and 200 are added by odd and even lanes, which then exchange."""
    with Session(prepared(EXCHANGE, 64)) as session:
        session.choose_thread(warp=frozen)
        session.freeze()
        stop = session.run()
        assert stop.event == "blocked"
        assert output(session, 1) == [1 - frozen]
        (waiting,) = [each for each in session.warps() if each["warp"] != frozen]
        assert [(g["line"], g["state"]) for g in waiting["groups"]] == [(10, "waits")]
        assert [each["frozen"] for each in session.warps()] == [frozen == 0, frozen == 1]
        session.thaw()
        assert session.run().reason == "ended"
        assert output(session, 5)[1:] == [last + 100, last + 200] * 2


def test_one_warp_alone_in_divergent_code() -> None:
    with Session(prepared(EXCHANGE, 64)) as session:
        session.choose_thread(warp=1, lane=0)
        session.break_at("line", 18, "%warpid == 1")
        assert session.run().line == 18
        session.freeze()
        instructions = session.launch.scheduler.instructions
        assert session.run().event in ("blocked", "ended")
        session.thaw_all()
        assert session.launch.scheduler.instructions < instructions + 100
        stop = session.run()
        assert (stop.reason, session.result is not None and session.result.ok) == ("ended", True)


def test_refused_choices() -> None:
    with Session(copies()) as session:
        with pytest.raises(DebugError) as caught:
            session.perform(0)
        assert caught.value.diagnostic.code == "G104"
        assert "under the policy lazy operations stay outstanding" in str(caught.value)
        session.run()
        with pytest.raises(DebugError, match="the launch has ended"):
            session.thaw_all()
        with pytest.raises(DebugError, match="the launch has no point 5000; it ends at"):
            session.go_to(Position(5000))
        assert session.where().reason == "ended"
        with pytest.raises(DebugError, match="no operation 9 is outstanding at point 0"):
            session.go_to(Position.of({"step": 3, "policy": "eager", "seed": 0, "choices": [[0, "perform", 9]]}))
        assert session.where().reason == "ended"
        with pytest.raises(DebugError, match="the position belongs to policy lazy and seed 0"):
            session.go_to(Position(3, "lazy"))


def test_sessions_of_one_launch_in_turn_and_at_once() -> None:
    """What sessions share is made once for a kernel; nothing of an execution is left in it."""
    replay = prepared(EXCHANGE, 64)
    found = []
    for _ in range(2):
        with Session(replay) as first, Session(replay) as second:
            first.break_at("line", 18, "%warpid == 1")
            stops = [session.run() for session in (first, second)]
            assert [stop.line for stop in stops] == [18, 0]
            found.append((first.digest(), second.digest()))
    assert found[0] == found[1]
    with pytest.raises(DebugError, match="the session is closed"):
        first.run()
