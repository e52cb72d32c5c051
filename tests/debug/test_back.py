"""Back by snapshots and compiled code, against the launch executed instruction by instruction in the NumPy back end."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from ptxlab.campaign.launchable import read_launchable
from ptxlab.debug import Focus, Position, Session, Stop
from ptxlab.engine.context import Word
from ptxlab.engine.lowering.frame import row_bytes
from ptxlab.isa.context import Wait
from ptxlab.machine import Replay
from tests.end_to_end.triton.case_helpers import kernel
from tests.sweep_helpers import one_in, part
from tests.time_helpers import processor_seconds, quickest, quickest_ratio

from .debug_kernels import EXCHANGE, MEETING, copies, prepared
from .gemm_kernels import NAMES, PART, compiled
from .test_motion import walk
from .test_values import TYPES

POLICIES = ("eager", "lazy", "random")
CASES = part(one_in(20, [(name, POLICIES[number % 3]) for number, name in enumerate(NAMES)]), lambda name, _: name in PART)
EXAMPLE = Path(__file__).parents[2] / "examples" / "gemm" / "launch.toml"


def stepped(session: Session, every: int) -> dict[int, str]:
    """Execute a launch point by point; digests of the first point of each instruction, of every so many points, and of the end."""
    found, seen = {}, set()
    while session.result is None:
        point = session.point
        kind = (point.event, point.op and point.op.opcode)
        if kind not in seen or not point.step % every:
            seen.add(kind)
            found[point.step] = session.digest()
        session.step_any()
    found[session.point.step] = session.digest()
    return found


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_forward_and_back_over_every_kind_of_instruction(name: str, policy: str) -> None:
    """Compiled code, snapshots and single steps give the same memories, registers, barriers and queues at the same point."""
    replay = compiled(name, policy=policy)
    with Session(replay) as plain, Session(replay) as session:
        digests = stepped(plain, 499)
        for step, expected in random.Random(1).sample(sorted(digests.items()), len(digests)):
            session.go_to(Position(step, policy))
            assert (session.point.step, session.digest()) == (step, expected)
            if session.result is None:
                session.step_any()
                session.step_any_back()
                assert session.digest() == expected


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_the_memory_of_a_plain_launch(name: str, policy: str) -> None:
    """In the debugger, with stops at every matrix instruction and asynchronous event, a kernel leaves the same bytes."""
    replay = compiled(name, policy=policy)
    result, memory = replay.run(check="none")
    with Session(replay) as session:
        while session.to_asynchronous().reason != "ended":
            pass
        assert session.launch.scheduler.instructions == result.stats.instructions
        assert all(np.array_equal(a.data, b.data) for a, b in zip(session.launch.device.memory.live(), memory.live(), strict=True))


@pytest.mark.sweep
def test_the_part_has_every_instruction_under_every_policy() -> None:
    rows = {name: {op.row.pattern for op in kernel(name).program.ops} for name in NAMES}
    assert set().union(*rows.values()) == set().union(*(rows[name] for name in PART))
    assert {POLICIES[NAMES.index(name) % 3] for name in PART if name.startswith("sm90_")} == set(POLICIES)
    assert {POLICIES[NAMES.index(name) % 3] for name in PART if not name.startswith("sm90_")} == set(POLICIES)


PARTS = {
    "warp": ("live",),
    "lanes": ("pc", "mask", "turn", "state", "op", "active", "again", "expired", "retried"),
    "order": ("rounds", "instructions"),
}
"""What a launch keeps of a warp that waits, of its only group of lanes, and of the schedule."""
WORDS = (Word.FUEL_LEFT, Word.LAST_SLICE, Word.SEEN_PROGRESS, Word.QUEUED)
"""What else it keeps of a warp, in its context."""


@pytest.mark.parametrize(("holder", "part"), [(holder, part) for holder, parts in PARTS.items() for part in parts])
def test_the_digest_holds_each_part_of_the_schedule(holder: str, part: str) -> None:
    with Session(prepared(EXCHANGE, 64)) as session:
        session.break_at("line", 10, "%warpid == 1")
        session.run()
        (first, second), order = session.launch.resident[0].warps, session.launch.scheduler
        assert (first.words[Word.FUEL_LEFT] > 0, second.words[Word.FUEL_LEFT]) == (True, 0)
        each = {"warp": first, "lanes": first.converged[0], "order": order}[holder]
        before, value = session.digest(), getattr(each, part)
        setattr(each, part, Wait(bool, tuple) if value is None else value + 1)
        assert session.digest() != before
        setattr(each, part, value)
        assert session.digest() == before
        for word in WORDS:
            first.words[word] += 1
            assert session.digest() != before
            first.words[word] -= 1
        assert session.digest() == before


def test_the_digest_holds_each_register_and_its_undefined_bits() -> None:
    with Session(prepared(TYPES, 64)) as session:
        digests = [session.digest()]
        rows = [(info, start) for info in session.launch.program.registers for start in (info.offset, info.shadow) if start >= 0]
        assert {start == info.shadow for info, start in rows} == {True, False}
        for warp in session.launch.resident[0].warps:
            frame = warp.rows.reshape(-1).view(np.uint8)
            for info, start in rows:
                for at in (start, start + row_bytes(info.bits) - 1):
                    frame[at] ^= 1
                    digests.append(session.digest())
                    frame[at] ^= 1
        assert len(set(digests)) == len(digests)
        assert session.digest() == digests[0]


@pytest.mark.parametrize("policy", POLICIES)
def test_many_snapshots(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot at every opportunity, and few that are kept."""
    monkeypatch.setattr("ptxlab.debug._snapshots._DISTANCE", 0)
    monkeypatch.setattr("ptxlab.debug._snapshots._COSTS", 0)
    monkeypatch.setattr("ptxlab.debug._snapshots._MOST", 16)
    meeting = prepared(MEETING, 64, out=128, grid=2, cluster=2, policy=policy)
    for replay in (prepared(EXCHANGE, 64, policy=policy), meeting, copies(policy=policy), compiled("gl_mm_i8", policy=policy)):
        with Session(replay) as plain, Session(replay) as session:
            digests = stepped(plain, 97)
            session.run()
            for step in sorted(digests, reverse=True):
                session.go_to(Position(step, policy))
                assert session.digest() == digests[step]


COMPILED = (
    *("mm_ptr_fp16", "mm_persistent_ws_fp16", "mm_host_desc_fp16_cta2", "gl_mm_i8", "flash_ws_fp16", "softmax_fp32"),
    *("sm90_mm_ws_fp16", "sm90_flash_fp16"),
)


def check_walk(number: int) -> None:
    """A random walk ends in the state of a launch that goes forward to the same position with the same choices."""
    chance = random.Random(number)
    policy = chance.choice(POLICIES)
    replays = (lambda: prepared(EXCHANGE, 64), copies, *(lambda name=name: compiled(name) for name in COMPILED))
    replay = replays[number % 10]()
    with Session(replay, policy=policy, seed=number) as session, Session(replay, policy=policy, seed=number) as other:
        instruction = chance.choice(sorted({op.opcode for op in session.launch.program.ops}))
        session.break_at("instruction", instruction, hits=chance.randrange(1, 4))
        if chance.random() < 0.5:
            session.step_any(chance.randrange(1, 200))
        walk(session, chance)
        other.go_to(Position.of(session.position.as_dict()))
        assert other.digest() == session.digest()


@pytest.mark.parametrize("number", [*range(10), 75, 795])
def test_random_walks(number: int) -> None:
    check_walk(number)


@pytest.mark.slow
@pytest.mark.parametrize("tens", range(1, 100))
def test_a_thousand_random_walks(tens: int) -> None:
    for number in range(10):
        check_walk(10 * tens + number)


def run_in_session(replay: Replay) -> None:
    """A launch in a session of its own, without stops."""
    with Session(replay) as session:
        assert session.run().reason == "ended"


def test_a_step_back_is_quick() -> None:
    """The example GEMM has 99,168 points; executed from its start in the NumPy back end a step back takes 8 seconds."""
    with Session(read_launchable(EXAMPLE).prepare()) as session:
        session.run()
        session.step_any_back()
        assert quickest(lambda: median(processor_seconds(session.step_back) for _ in range(5)), 0.2) < 0.2


def test_a_line_back_is_quick() -> None:
    """Of a thread whose CTA has ended long ago; its instructions end at point 6,184 of 99,168.

    It takes no longer than the launch in a session, half as long on an idle processor: 0.07 and 0.15 seconds.
    """
    replay = read_launchable(EXAMPLE).prepare()
    with Session(replay) as session:
        session.run()
        end = session.position

        def line_back() -> float:
            session.go_to(end)
            session.focus = Focus()
            stops: list[Stop] = []
            seconds = processor_seconds(lambda: stops.append(session.step_line_back()))
            assert stops[0].reason == "step"
            assert session.point.step < 6184
            return seconds

        assert quickest_ratio(line_back, lambda: processor_seconds(lambda: run_in_session(replay)), 1) <= 1


@pytest.mark.sweep
def test_a_launch_without_stops_takes_three_times_as_long_at_most() -> None:
    replay = read_launchable(EXAMPLE).prepare()
    plain = lambda: processor_seconds(lambda: replay.run(check="none"))  # noqa: E731
    assert quickest_ratio(lambda: processor_seconds(lambda: run_in_session(replay)), plain, 3) <= 3
