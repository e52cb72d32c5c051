"""Redundant threads: all load, one stores; their loads are no race, everything else is."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab

KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) .reqntid 128
{{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
setp.eq.u32 %p1, %r1, 0;
{body}
ret;
}}
"""


def codes(body: str) -> list[str]:
    result = ptxlab.loads(KERNEL.format(body=body)).kernel().launch(args=[np.zeros(64, np.uint32)])
    return [d.code for d in result.diagnostics]


def test_all_threads_load_and_one_stores() -> None:
    assert codes("ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1; @%p1 st.global.u32 [%rd1], %r3;") == []


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1; st.global.u32 [%rd1], %r1;",
        "ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1; @%p1 st.global.u32 [%rd1], %r3; @!%p1 st.global.u32 [%rd1+4], %r3;",
        "ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 mov.u32 %r4, 7; @%p1 st.global.u32 [%rd1], 5; mul.wide.u32 %rd2, %r1, 4; "
        "add.u64 %rd2, %rd2, %rd1; @!%p1 st.global.u32 [%rd2+16], %r4;",
    ],
)
def test_a_value_that_goes_elsewhere_is_a_race(body: str) -> None:
    assert "X114" in codes(body)


def test_all_threads_load_and_one_stores_before_a_finding_ends_the_launch() -> None:
    assert codes("ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1; @%p1 st.global.u32 [%rd1], %r3; ld.global.u32 %r4, [%rd1+4096];") == [
        "M402"
    ]


def test_a_race_that_gives_the_address_of_the_access_that_ends_the_launch() -> None:
    body = "setp.ge.u32 %p2, %r1, 96; @%p1 st.global.u32 [%rd1], 5000; @%p2 ld.global.u32 %r2, [%rd1]; mul.wide.u32 %rd2, %r2, 4; "
    body += "add.u64 %rd2, %rd2, %rd1; @%p2 ld.global.u32 %r3, [%rd2];"
    assert codes(body) == ["X114", "M402"]
