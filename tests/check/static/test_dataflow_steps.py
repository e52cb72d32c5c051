"""One execution of a kernel on known values: which iterations of loops it has, which threads, and what of it is certain."""

from __future__ import annotations

import numpy as np

from ptxlab.check.static.dataflow._unrolled import Execution, Step
from tests.check.static.test_dataflow_values import flow, stores

LOOP = "mov.u32 %r1, a; mov.u32 %r2, 0; NEXT: st.shared.u32 [%r1], 0; add.u32 %r1, %r1, 4; add.u32 %r2, %r2, 1; {}@%p1 bra NEXT;"


def stores_in(body: str) -> list[Step]:
    found = flow(body)
    indices = {point.op.index for point in stores(found)}
    return [step for step in Execution(found) if step.point.op.index in indices]


def addresses(body: str) -> list[int | None]:
    return [None if step.point.operands[0] is None else step.point.operands[0].constant for step in stores_in(body)]


def test_a_counted_loop_turns_as_often_as_it_does() -> None:
    body = LOOP.format("setp.lt.u32 %p1, %r2, 9; ")
    assert addresses(body) == [0x400 + 4 * turn for turn in range(9)]
    assert all(step.certain for step in stores_in(body))


def test_a_loop_of_unknown_length_turns_a_few_times() -> None:
    body = LOOP.format("ld.param.u32 %r3, [n]; setp.lt.u32 %p1, %r2, %r3; ")
    found = stores_in(body)
    assert addresses(body) == [0x400 + 4 * turn for turn in range(7)]
    assert [step.certain for step in found] == [True] + [False] * 6


def test_threads_that_part_join_again() -> None:
    body = """
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; mov.u32 %r2, 8;
    @%p1 bra LOW; mov.u32 %r2, 4; bra BOTH; LOW: mov.u32 %r2, 12;
    BOTH: mov.u32 %r3, a; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], 0;
    """
    (step,) = stores_in(body)
    value = step.point.operands[0]
    assert value is not None
    assert step.threads.all()
    assert np.asarray(value.data).tolist() == [0x40C] * 16 + [0x404] * 48


def test_a_branch_that_is_not_known_is_no_certain_way() -> None:
    inside, behind = stores_in(
        "ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra OUT; st.shared.u32 [a], 0; OUT: st.shared.u32 [b], 0;"
    )
    assert (inside.certain, behind.certain) == (False, True)


def test_branches_on_one_parameter_go_together() -> None:
    body = """
    ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST; st.shared.u32 [a], 0;
    FIRST: @!%p1 bra SECOND; st.shared.u32 [a+4], 0; SECOND: st.shared.u32 [a+8], 0;
    """
    assert addresses(body) == [0x400, 0x408]
