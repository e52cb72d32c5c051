"""Calls of functions with and without a body."""

from __future__ import annotations

import pytest

import ptxlab
from tests.machine.launch_helpers import kernel, run, store

SHOWS = {
    "test_parameters_in_memory_and_nested_calls": ("call{.uni}", "ret{.uni}"),
    "test_memory_from_the_stack": ("alloca.*", "stacksave.*", "stackrestore.*"),
}

TOP = """
.extern .func (.param .b32 retval) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 c);
.extern .func missing (.param .b64 m);
.global .align 1 .b8 text[40] = {{TEXT}};
.global .align 1 .b8 word[4] = {97, 98, 99, 0};
.func (.reg .b32 out) square (.reg .b32 in)
{
    .reg .pred p;
    setp.gt.s32 p, in, 20;
    @p bra BIG;
    mul.lo.s32 in, in, in;
    mov.b32 out, in;
    ret;
BIG:
    mov.b32 out, 7;
}
.func (.param .b32 out) sum (.param .align 8 .b8 pair[8], .param .b32 third)
{
    .reg .pred p;
    .reg .b32 a, b, c, r<3>;
    .local .b32 kept;
    ld.param.b32 a, [pair];
    ld.param.b32 b, [pair+4];
    ld.param.b32 c, [third];
    st.local.b32 [kept], a;
    setp.eq.s32 p, b, 3;
    mov.b32 r0, 1000;
    @p st.param.b32 [out], r0;
    @p ret;
    call (r1), square, (b);
    ld.local.b32 a, [kept];
    add.s32 r0, a, r1;
    add.s32 r0, r0, c;
    st.param.b32 [out], r0;
    ret;
}
.func first { call second; }
.func second { call first; }
.alias other, square;
""".replace("{{TEXT}}", "{" + ", ".join(str(b) for b in b"t%d %5.2f|%s|%llu|%c%%\n".ljust(40, b"\0")) + "}")

SUM = """
{
    .param .align 8 .b8 p0[8];
    .param .b32 p1;
    .param .b32 back;
    st.param.b32 [p0], tid;
    st.param.v2.b32 [p0], {tid, lane};
    mov.u32 r1, 100;
    st.param.b32 [p1], r1;
    call.uni (back), sum, (p0, p1);
    ld.param.b32 r4, [back];
}
"""


def square(value: int) -> int:
    return 7 if value > 20 else value * value


def test_parameters_in_registers() -> None:
    out, result = run(
        "call (r4), square, (tid); call.uni (r5), other, (5); add.s32 r4, r4, r5; add.s32 r4, r4, tid;" + store("r4"), top=TOP
    )
    assert result.diagnostics == ()
    assert out.tolist() == [square(t) + 25 + t for t in range(32)]


def test_parameters_in_memory_and_nested_calls() -> None:
    out, result = run(SUM + store("r4"), top=TOP)
    assert result.diagnostics == ()
    assert out.tolist() == [1000 if t == 3 else t + square(t) + 100 for t in range(32)]


def test_registers_for_parameters_in_memory_under_a_predicate() -> None:
    body = """
    .param .align 8 .b8 pair[8];
    st.param.v2.b32 [pair], {tid, lane};
    setp.lt.u32 p, tid, 8;
    mov.u32 r4, 5;
    @p call (r4), sum, (pair, tid);
    """
    out, result = run(body + store("r4"), top=TOP)
    assert result.diagnostics == ()
    assert out.tolist() == [1000 if t == 3 else t + square(t) + t if t < 8 else 5 for t in range(32)]


def test_blocks_with_variables_of_the_same_name() -> None:
    """Variables of different size in blocks of their own do not overlap."""
    body = "{ .param .b32 x; .local .b32 y; st.local.b32 [y], tid; st.param.b32 [x], tid; " + SUM + "ld.local.b32 r5, [y]; }"
    body += "{ .param .align 16 .b8 x[64]; .local .b64 y[9]; mov.b64 rd1, -1; st.local.b64 [y+64], rd1; st.param.b64 [x+56], rd1; }"
    out, _ = run(body + store("r5"), top=TOP)
    assert out.tolist() == list(range(32))


PRINT = """
{{
    .local .align 8 .b8 arguments[40];
    .param .b64 p0;
    .param .b64 p1;
    .param .b32 back;
    mov.u64 rd1, arguments;
    cvta.local.u64 rd1, rd1;
    st.b32 [rd1], tid;
    mov.b64 rd2, 0d4005BF0A8B145769;
    st.b64 [rd1+8], rd2;
    mov.u64 rd3, word;
    cvta.global.u64 rd3, rd3;
    st.b64 [rd1+16], rd3;
    mov.u64 rd4, -1;
    st.b64 [rd1+24], rd4;
    mov.u32 r1, 65;
    st.b32 [rd1+32], r1;
    mov.u64 rd5, text;
    cvta.global.u64 rd5, rd5;
    st.param.b64 [p0], rd5;
    st.param.b64 [p1], rd1;
    {guard} call.uni (back), vprintf, (p0, p1);
    ld.param.b32 r4, [back];
}}
"""


def test_printing() -> None:
    out, result = run("setp.lt.u32 p, tid, 2;" + PRINT.format(guard="@p") + store("r4"), top=TOP)
    assert result.diagnostics == ()
    assert result.stdout == "".join(f"t{t}  2.72|abc|18446744073709551615|A%\n" for t in range(2))
    assert out.tolist() == [5, 5, *[0] * 30]


def test_failed_assertion() -> None:
    body = """
    mov.u64 rd5, word;
    cvta.global.u64 rd5, rd5;
    setp.eq.u32 p, tid, 9;
    @p call.uni __assertfail, (rd5, rd5, 12, rd5, 1);
    """
    _, result = run(body, top=TOP)
    found = result.diagnostics[0]
    assert (found.code, found.message) == ("H606", "the assertion `abc` failed in abc")
    assert "abc:12" in str(found)
    assert not result.completed


FUNCTIONS = """
.func (.reg .b32 out) double (.reg .b32 in) { add.s32 out, in, in; ret; }
.func (.reg .b32 out) triple (.reg .b32 in) { mul.lo.s32 out, in, 3; ret; }
.func (.reg .b32 out) negated (.reg .b32 in) { neg.s32 out, in; ret; }
.func (.param .b32 out) other (.param .b32 in) { .reg .b32 a; ld.param.b32 a, [in]; add.s32 a, a, 1000; st.param.b32 [out], a; ret; }
.alias minus, negated;
.global .u64 table[3] = {double, minus, triple};
.const .u32 short[2] = {triple, double};
"""
"""Three functions of one signature, and one of another."""


@pytest.mark.parametrize(
    ("choice", "through"),
    [
        (
            "mov.u64 rd1, double; mov.u64 rd2, triple; mov.u64 rd3, minus;",
            "L: .calltargets double, triple, negated; call (r4), rd4, (tid), L;",
        ),
        (
            "mov.u64 rd1, double; mov.u64 rd2, triple; mov.u64 rd3, minus;",
            "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (r4), rd4, (tid), P;",
        ),
        ("ld.global.u64 rd1, [table]; ld.global.u64 rd2, [table+16]; ld.global.u64 rd3, [table+8];", "call (r4), rd4, (tid), table;"),
    ],
)
def test_calls_through_a_pointer(choice: str, through: str) -> None:
    """Each thread calls a function of its own."""
    body = f"""
    {choice}
    rem.u32 r1, tid, 3;
    setp.eq.u32 p, r1, 0;
    selp.b64 rd4, rd1, rd2, p;
    setp.eq.u32 p, r1, 2;
    selp.b64 rd4, rd3, rd4, p;
    {through}
    """
    out, result = run(body + store("r4"), top=FUNCTIONS)
    assert result.diagnostics == ()
    assert out.view("i4").tolist() == [(2 * t, 3 * t, -t)[t % 3] for t in range(32)]


def test_a_guard_and_a_short_pointer() -> None:
    body = """
    ld.const.u32 r1, [short];
    mov.u32 r4, 7;
    setp.gt.u32 p, tid, 4;
    @p call (r4), r1, (tid), short;
    """
    out, result = run(body + store("r4"), top=FUNCTIONS)
    assert result.diagnostics == ()
    assert out.tolist() == [3 * t if t > 4 else 7 for t in range(32)]


@pytest.mark.parametrize("pointer", ["0", "other", "first"])
def test_a_pointer_to_no_listed_function(pointer: str) -> None:
    body = f"L: .calltargets double, triple; mov.u64 rd1, {pointer}; call (r4), rd1, (tid), L;" + store("r4")
    _, result = run(body, top=FUNCTIONS + ".func first { ret; }")
    found = result.diagnostics[0]
    assert found.code == "H607"
    assert found.message.startswith("the call goes to 0x")
    assert found.message.endswith(", which is not the address of a function that it may call")
    assert not result.completed


def test_a_function_that_calls_itself_through_a_pointer() -> None:
    top = ".func again (.reg .u64 f) { P: .callprototype _ (.reg .u64 _); call f, (f), P; }"
    _, result = run("mov.u64 rd1, again; call again, (rd1);", top=top)
    assert [d.code for d in result.diagnostics] == ["H607"]


STACK = """
.func (.reg .b32 out) filled (.reg .b32 count)
{
    .reg .b64 p, q;
    .reg .b32 i;
    .reg .pred more;
    cvt.u64.u32 q, count;
    alloca.u64 p, q, 16;
    and.b64 q, p, 15;
    st.local.b8 [p], count;
    cvt.u32.u64 out, q;
    ret;
}
"""


def test_memory_from_the_stack() -> None:
    """Different sizes in different threads; what a function takes is given back when it returns."""
    body = """
    .local .align 4 .b32 kept;
    st.local.b32 [kept], tid;
    stacksave.u64 rd1;
    shl.b32 r1, tid, 2;
    add.s32 r1, r1, 4;
    alloca.u32 r2, r1;
    st.local.b32 [r2], tid;
    add.s32 r3, r2, r1;
    st.local.b32 [r3+-4], lane;
    call (r5), filled, (r1);
    stacksave.u32 r6;
    sub.s32 r6, r6, r2;
    ld.local.b32 r7, [r2];
    ld.local.b32 r8, [kept];
    stackrestore.u64 rd1;
    stacksave.u64 rd2;
    sub.s64 rd2, rd2, rd1;
    cvt.u32.u64 r9, rd2;
    and.b32 r10, r2, 7;
    cvt.u64.u32 rd3, r2;
    sub.s64 rd3, rd1, rd3;
    cvt.u32.u64 r11, rd3;
    mad.lo.s32 r4, r7, 100, r8;
    add.s32 r4, r4, r5;
    add.s32 r4, r4, r6;
    add.s32 r4, r4, r9;
    add.s32 r4, r4, r10;
    mad.lo.s32 r4, r11, 10000, r4;
    """
    out, result = run(body + store("r4"), top=STACK)
    assert result.diagnostics == ()
    assert out.tolist() == [t * 101 + 10000 * (-(-(4 * t + 4) // 8) * 8) for t in range(32)]


def test_a_stack_that_is_too_small() -> None:
    _, result = run("mov.u64 rd1, 100000; alloca.u64 rd2, rd1; st.local.b32 [rd2], tid;")
    assert [d.code for d in result.diagnostics] == ["M408"]


REFUSED = [
    ("call first;", "U201", "first calls itself: recursion is not executed by this version of ptxlab"),
    ("call missing, (out);", "U210", "missing is declared but has no body"),
    ("call nowhere;", "U205", "the function nowhere is not declared"),
    ("call (r1), square;", "U207", "square has 1 results and 1 parameters, the call gives 1 and 0"),
    ("call rd1, (r1);", "U204", "call: a list of functions is missing"),
    ("call rd1, (r1), square;", "U204", "call: square names no list of functions"),
    ("L: .branchtargets A; A: call rd1, (r1), L;", "U204", "call: L names no list of functions"),
    ("P: .callprototype _ (.reg .b32 x); call rd1, (r1, r2), P;", "U207", "P has 0 results and 1 parameters, the call gives 0 and 2"),
    ("T: .calltargets square, sum; call (r1), rd1, (r1), T;", "U207", "sum has 1 results and 2 parameters, the call gives 1 and 1"),
    ("T: .calltargets nowhere; call rd1, T;", "U205", "the function nowhere is not declared"),
    ("T: .calltargets missing; call rd1, (rd2), T;", "U210", "missing is declared but has no body"),
    ("T: .calltargets first; call h, T;", "U206", "call: a pointer to a function is expected in a register of 32 or 64 bits"),
    ("T: .calltargets first; brx.idx r1, T;", "U204", "T names no .branchtargets list"),
    ("alloca.u64 rd1, rd2, 12;", "U206", "alloca.u64: the alignment must be a power of two of at most 2^23"),
]


@pytest.mark.parametrize(("body", "code", "message"), REFUSED)
def test_refusals(body: str, code: str, message: str) -> None:
    with pytest.raises(ptxlab.diagnostics.PtxlabError) as caught:
        _ = kernel(body, top=TOP).program
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [(code, message)]
