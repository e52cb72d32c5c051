"""What compiled code does to the clocks of a warpgroup's warps, compared with a plain model of shares, groups and waits."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptxlab.check.model import Component, Row, rule_table
from ptxlab.check.race.clocks.clocks import Agent, Clocks, Rows, joined
from ptxlab.check.race.clocks.warpgroup_clock import WarpgroupClock
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.check.race.shadow.shadow_words import HANDLED, WARPGROUP_COMMIT, WARPGROUP_SHARE, WARPGROUP_WAIT, AgentWord, StateWord
from ptxlab.engine.context import Context, Word

WARPS, GROUPS, CTAS = 8, 2, 2
"""The warps of a CTA, its warpgroups, and the CTAs of the cluster."""
MOST = 3
"""No wait leaves more groups pending."""
SHARE, COMMIT, WAIT = 0, 1, 2
OPS = [(HANDLED | WARPGROUP_SHARE, 0, 0), (HANDLED | WARPGROUP_COMMIT, 0, 0)]
OPS += [(HANDLED | WARPGROUP_WAIT, 0, pending) for pending in range(MOST + 1)]


class Model:
    """One warpgroup, with everything that its operations have had before them."""

    def __init__(self) -> None:
        self.clock = 0
        self.before: dict[int, Rows] = {}
        self.executed = [0] * 4
        self.groups: list[list[int]] = [[] for _ in range(4)]

    def share(self, member: int, rows: Rows) -> None:
        number = self.executed[member] = self.executed[member] + 1
        self.before[number] = joined(self.before.get(number), rows)
        self.clock = min(self.executed)

    def end(self, member: int, pending: int) -> int:
        """The number of the last operation for which a warp waits, 0 if it waits for none."""
        complete = len(self.groups[member]) - pending
        return self.groups[member][complete - 1] if complete > 0 else 0

    def wait(self, member: int, pending: int, rows: Rows, number_of_slot: int, agents: list[Agent]) -> None:
        number = self.end(member, pending)
        for row in (Row.EXECUTION, Row.TENSOR):
            at = number_of_slot + Component.DONE
            rows[row, at] = max(rows[row, at], number)
        if number:
            for other in agents:
                at = other.main.number + Component.EARLY
                rows[Row.EXECUTION, at] = max(rows[Row.EXECUTION, at], self.before[number][Row.EXECUTION, at])


class Cluster:
    """Clocks that compiled code moves, and the same ones that the model moves."""

    def __init__(self) -> None:
        ctas = tuple(SimpleNamespace(shared=np.zeros(64, np.uint8)) for _ in range(CTAS))
        self.clocks = Clocks(1, ctas, WARPS, "practice")
        self.shadow = Shadow(np.array(OPS, np.uint64), rule_table("practice"))
        self.shadow.drain(0, 0, 0)
        self.contexts = [Context() for _ in self.clocks.agents]
        self.models = [Model() for _ in range(CTAS * GROUPS)]
        self.slots: dict[int, int] = {}
        for agent, context in zip(self.clocks.agents, self.contexts, strict=True):
            context.words[Word.QUADRANT] = agent.warp % 4
            agent.words[AgentWord.CONTEXT] = context.address
        self.expected = [agent.rows.copy() for agent in self.clocks.agents]

    def _until_done(self, agent: Agent, act: Any, op: int) -> None:
        self.shadow.header[:] = agent.header
        group = WarpgroupClock.of(self.clocks, agent, 1 << (MOST + 1).bit_length(), [None] * len(OPS))
        self.slots[agent.index // 4] = group.slot.number
        while not act(op):
            group.enlarge(agent.rows.shape[1])

    def step(self, index: int, what: int, pending: int = 0) -> None:
        agent, model, member = self.clocks.agents[index], self.models[index // 4], index % 4
        if what == SHARE:
            model.share(member, self.expected[index])
            group = self.clocks.warpgroups.get((index // WARPS, index % WARPS // 4))
            if group is not None and model.clock > group.slot.clock:
                self._until_done(agent, self.shadow.issue_of_group, 0)
                assert np.array_equal(group.newest(), model.before[model.clock])
        self._until_done(agent, self.shadow.step_of_group, what + pending if what == WAIT else what)
        if what == COMMIT:
            model.groups[member].append(model.executed[member])
        elif what == WAIT:
            model.wait(member, pending, self.expected[index], self.slots[index // 4], self.clocks.agents)
        self.check(index)

    def check(self, index: int) -> None:
        rows, expected = self.clocks.agents[index].rows, self.expected[index]
        assert np.array_equal(rows[:, : expected.shape[1]], expected)

    def widen(self) -> None:
        """All rows become wider."""
        width = self.clocks.rows.shape[2]
        while self.clocks.rows.shape[2] == width:
            self.clocks.slot(None, "more")
        more = self.clocks.rows.shape[2] - width
        self.expected = [np.pad(rows, ((0, 0), (0, more))) for rows in self.expected]
        for model in self.models:
            model.before = {number: np.pad(rows, ((0, 0), (0, more))) for number, rows in model.before.items()}

    def advance(self, index: int) -> None:
        """A warp's own clock, and what it knows of another one."""
        self.clocks.tick(self.clocks.agents[index])
        self.expected[index] = self.clocks.agents[index].rows.copy()

    def acquire(self, index: int, other: int) -> None:
        self.clocks.acquire(self.clocks.agents[index], self.clocks.agents[other].shared.copy())
        self.expected[index] = self.clocks.agents[index].rows.copy()


@pytest.mark.parametrize("ahead", [0, 3, 40])
@pytest.mark.parametrize("seed", range(4))
def test_steps_in_any_order(seed: int, ahead: int) -> None:
    """Warps execute some shares before the others do, and commit and wait on their own."""
    choice, cluster = Random(f"{seed}, {ahead}"), Cluster()
    for turn in range(3000):
        index = choice.randrange(CTAS * WARPS)
        what = choice.choice((SHARE, SHARE, COMMIT, WAIT, "advance", "advance", "acquire"))
        if what == "advance":
            cluster.advance(index)
        elif what == "acquire":
            cluster.acquire(index, choice.randrange(CTAS * WARPS))
        else:
            model, member, pending = cluster.models[index // 4], index % 4, choice.randrange(MOST + 1)
            reached = model.executed[member] if what == SHARE else model.end(member, pending) if what == WAIT else 0
            # A wait is over when the operation has performed.
            if reached <= model.clock + ahead * (what == SHARE):
                cluster.step(index, what, pending if what == WAIT else 0)
        if turn == 1500 and seed % 2:
            cluster.widen()
    assert min(model.clock for model in cluster.models) > 20


def test_nothing_is_done_before_something_is_judged() -> None:
    cluster = Cluster()
    cluster.step(0, SHARE)
    agent = cluster.clocks.agents[0]
    cluster.shadow.header[:] = agent.header
    cluster.shadow.words[StateWord.SUSPECT_COUNT] = 1
    before = agent.rows.copy()
    assert not any(cluster.shadow.step_of_group(op) for op in range(len(OPS)))
    assert np.array_equal(agent.rows, before)
