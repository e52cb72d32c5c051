"""Module variables: initialisers in memory, and arrays too large to be written out."""

from __future__ import annotations

import numpy as np

import ptxlab

HEADER = ".version 8.7\n.target sm_100a\n.address_size 64\n"


def read(declarations: str, *places: str) -> list[int]:
    """The 32-bit words at some places, read by a kernel."""
    body = "".join(f"ld.b32 %r1, [{place}]; st.global.b32 [%rd1+{4 * i}], %r1;\n" for i, place in enumerate(places))
    start = ".reg .b32 %r<9>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [out];"
    text = f"{HEADER}{declarations}\n.visible .entry k(.param .u64 out)\n{{\n{start}\n{body}ret;\n}}"
    out = np.zeros(len(places), np.uint32)
    ptxlab.loads(text).kernel().launch(block=1, args=[out]).raise_for_errors()
    return out.tolist()


def test_short_rows_are_filled_with_zeros() -> None:
    assert read(".global .b32 t[3][4] = {{1, 2}, {3, 4, 5, 6}, {7}};", "t+4", "t+12", "t+16", "t+28", "t+32", "t+36") == [2, 0, 3, 6, 7, 0]


def test_floats_vectors_and_addresses() -> None:
    found = read(
        ".global .f32 f = 1e300; .global .f64 g[2] = {2, -1.5}; .global .v2 .b16 h[2] = {{1, 2}, {3, 4}};", "f", "g+4", "g+12", "h+4"
    )
    assert found == [0x7F800000, 0x40000000, 0xBFF80000, 0x00040003]


def test_a_large_array_costs_what_its_initialiser_costs() -> None:
    assert read(".global .b32 t[1000000000] = {1, 2};", "t+4", "t+8", "t+3999999996") == [2, 0, 0]


def test_label_behind_an_endless_loop() -> None:
    text = HEADER + ".visible .entry k()\n{\n.reg .pred %p<2>; setp.eq.u32 %p1, 0, 0;\nL: @%p1 bra END;\nbra L;\nEND:\n}"
    assert ptxlab.loads(text).kernel().launch(block=32).ok
