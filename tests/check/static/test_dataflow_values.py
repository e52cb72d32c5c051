"""Values and threads that the data flow knows, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab import ptx
from ptxlab.check.static.dataflow._flow import Flow, flow_of
from ptxlab.check.static.dataflow._paths import paths_of
from ptxlab.check.static.dataflow._point import Point
from ptxlab.engine import lower
from ptxlab.engine.lowering.matching import candidates
from ptxlab.isa.catalogue import match
from ptxlab.isa.native_ops import LaneAccess

HEADER = """.version 9.0
.target sm_100a
.address_size 64
.entry k(.param .u32 n) DIRECTIVES
{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 a[64]; .shared .align 16 .b8 b[64];
"""


def flow(body: str, directives: str = ".reqntid 64") -> Flow:
    module = ptx.parse(HEADER.replace("DIRECTIVES", directives) + body + "\nret;\n}\n", "k.ptx")
    return flow_of(lower(module, module.functions["k"]))


def stores(found: Flow) -> list[Point]:
    natives = found.program.natives
    return [point for index, point in sorted(found.points.items()) if isinstance(access := natives.get(index), LaneAccess) and access.write]


def address(body: str, directives: str = ".reqntid 64") -> Point:
    (store,) = stores(flow(body, directives))
    return store


def test_a_constant() -> None:
    store = address("mov.u32 %r1, 3; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, -4; st.shared.u32 [%r1+8], 0;")
    value = store.operands[0]
    assert value is not None
    assert value.constant == 16


def test_a_number_for_each_thread() -> None:
    store = address("mov.u32 %r1, %tid.x; mov.u32 %r2, b; mad.lo.u32 %r2, %r1, 4, %r2; st.shared.u32 [%r2], 0;")
    value = store.operands[0]
    assert value is not None
    assert value.exact
    assert np.asarray(value.data).tolist() == [0x440 + 4 * thread for thread in range(64)]
    assert value.root == "b"


def test_an_offset_from_a_parameter() -> None:
    first, second = stores(flow("ld.param.u32 %r1, [n]; add.u32 %r2, %r1, 12; st.shared.u32 [%r1], 0; st.shared.u32 [%r2], 0;"))
    a, b = first.operands[0], second.operands[0]
    assert a is not None
    assert b is not None
    assert a.symbol is not None
    assert a.symbol is b.symbol
    assert (a.data, b.data) == (0, 12)
    assert a.symbol.uniform


LOOP = """
mov.u32 %r1, 0; ld.param.u32 %r2, [n];
LOOP:
st.shared.u32 [%r1+1024], 0;
add.u32 %r1, %r1, 8;
setp.lt.u32 %p1, %r1, %r2;
@%p1 bra LOOP;
"""


def test_a_loop_begins_with_its_first_value() -> None:
    value = address(LOOP).operands[0]
    assert value is not None
    assert not value.exact
    assert value.first is not None
    assert value.first.constant == 1024


@pytest.mark.parametrize(
    ("predicate", "threads"),
    [
        ("setp.eq.u32 %p1, %r1, 0;", {0}),
        ("shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 1;", set(range(32, 64))),
        ("elect.sync _|%p1, 0xffffffff;", {0, 32}),
        ("ld.param.u32 %r2, [n]; setp.eq.u32 %p2, %r2, 0; setp.lt.and.u32 %p1, %r1, 16, %p2;", set(range(16))),
    ],
)
def test_threads_of_a_branch(predicate: str, threads: set[int]) -> None:
    found = flow(f"mov.u32 %r1, %tid.x; {predicate} @!%p1 bra END; st.shared.u32 [a], 0; END:")
    (store,) = stores(found)
    reached = found.reached[store.block]
    assert reached is not None
    assert set(np.flatnonzero(reached).tolist()) == threads


def test_without_a_fixed_block_there_may_be_1024_threads() -> None:
    assert (flow("", "").threads.count, flow("", "").threads.exact) == (1024, False)
    assert flow("", ".maxntid 96").threads.count == 96


TWICE = """
ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0;
@%p1 bra A; st.shared.u32 [a], 0;
A:
@SIGN%p1 bra B; st.shared.u32 [b], 0;
B:
"""


@pytest.mark.parametrize(("sign", "follows"), [("", True), ("!", False)])
def test_branches_on_one_parameter_go_together(sign: str, follows: bool) -> None:
    found = flow(TWICE.replace("SIGN", sign))
    first, second = stores(found)
    (paths,) = paths_of(found)
    assert (paths.path(first, lambda p: False, lambda p: p is second) is second) == follows
    assert paths.leads(first, second)


@pytest.mark.parametrize("inverted", [False, True])
def test_threads_behind_a_branch_that_is_known_for_some(inverted: bool) -> None:
    """Threads from 32 on always leave, by a predicate of which one part is not known; so they do by its negation."""
    joined = (
        "and.pred %p3, %p1, %p2; @!%p3 bra OUT;"
        if inverted
        else "not.pred %p1, %p1; not.pred %p2, %p2; or.pred %p3, %p1, %p2; @%p3 bra OUT;"
    )
    found = flow(
        f"mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; setp.lt.u32 %p1, %r1, 32; setp.gt.u32 %p2, %r2, 5;{joined} st.shared.u32 [a], 0; OUT:"
    )
    (store,) = stores(found)
    reached = found.reached[store.block]
    assert reached is not None
    assert reached.tolist() == [True] * 32 + [False] * 32


def test_halves_of_a_word_that_is_not_known() -> None:
    """``_`` stands for the half that is not written: the halves are not the same, whichever instruction unpacks them."""
    unpacked = (
        "ld.param.u64 %rd1, [n]; mul.lo.u64 %rd1, %rd1, %rd1; mov.b64 {%r1, _}, %rd1; mov.b64 {_, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd1;"
    )
    stored = "".join(f"st.shared.u32 [%r{number}], 0;" for number in (1, 2, 3, 4))
    low, high, both_low, both_high = (
        point.operands[0] for point in stores(flow(unpacked.replace("u64 %rd1, [n]", "u32 %r0, [n]; cvt.u64.u32 %rd1, %r0") + stored))
    )
    assert low is not None
    assert high is not None
    assert both_low is not None
    assert both_high is not None
    assert low.same(both_low)
    assert high.same(both_high)
    assert not low.same(high)


def test_equal_instructions_have_equal_results_however_they_were_looked_up() -> None:
    """What has been found for the first of them is kept; the second one is looked up anew."""
    program = "ld.param.u32 %r0, [n]; cvt.u64.u32 %rd1, %r0; mul.lo.u64 %rd1, %rd1, %rd1; mov.b64 {%r1, _}, %rd1; "
    flow(program)
    match.cache_clear()
    candidates.cache_clear()
    program += "mov.b64 {%r3, %r4}, %rd1; st.shared.u32 [%r1], 0; st.shared.u32 [%r3], 0;"
    low, both_low = (point.operands[0] for point in stores(flow(program)))
    assert low is not None
    assert both_low is not None
    assert low.same(both_low)


FLOATS = """
.reg .f32 %f<4>;
ld.shared.f32 %f1, [a]; mov.u32 %r3, 0;
LOOP:
mul.f32 %f2, %f1, 0f40000000;
setp.gt.f32 %p1, %f2, 0f00000000; setp.gt.f32 %p2, %f2, 0f00000000;
@%p1 bra NEXT;
st.shared.u32 [b], 0;
NEXT:
@%p2 st.shared.u32 [b], 1;
add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, %r0; @%p3 bra LOOP;
"""


def test_comparisons_of_one_calculated_number_go_together_until_it_is_calculated_again() -> None:
    found = flow(FLOATS)
    first, second = stores(found)
    guard = second.guard
    assert guard is not None
    assert guard.symbol is not None
    (multiplication,) = (op for op in found.program.ops if op.opcode == "mul.f32")
    assert guard.symbol.leaves == {multiplication.index}
    (paths,) = paths_of(found)
    assert paths.path(first, lambda _: False, lambda point: point is second) is second
    straight = flow(FLOATS.replace("@%p3 bra LOOP;", ""))
    first, second = stores(straight)
    (paths,) = paths_of(straight)
    assert paths.path(first, lambda _: False, lambda point: point is second) is None
