"""Words that threads join from halves or bytes, with `or`, fields and permutations, before they multiply them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sweep_helpers import spread

from .part_kernels import ADDRESSES, load, with_b
from .warp_kernels import launch

HALVES = {
    "or": "shl.b32 %e4, {high}, 16;\n    or.b32 {to}, {low}, %e4;",
    "exclusive or": "shl.b32 %e4, {high}, 16;\n    xor.b32 {to}, %e4, {low};",
    "lop3": "shl.b32 %e4, {high}, 16;\n    lop3.b32 {to}, {low}, 0xffff, %e4, 0xEA;",
    "bfi": "bfi.b32 {to}, {high}, {low}, 16, 16;",
    "prmt": "prmt.b32 {to}, {low}, {high}, 0x5410;",
    "shf": "shl.b32 %e4, {low}, 16;\n    shf.l.wrap.b32 {to}, %e4, {high}, 16;",
    "mul": "mul.lo.u32 %e4, {high}, 65536;\n    or.b32 {to}, {low}, %e4;",
    "64 bits": "mov.b64 %rd10, {{{high}, 0}};\n    shl.b64 %rd10, %rd10, 16;\n    mov.b64 {{%e4, _}}, %rd10;\n    or.b32 {to}, %e4, {low};",
}
"""A word made of two registers, each of which has a half below zeros."""
LOADED_HALVES = {
    "into 32 bits": lambda space, i, to: load(space, "u16", to, 2 * i),
    "widened": lambda space, i, to: f"{load(space, 'u16', '%h8', 2 * i)}\n    cvt.u32.u16 {to}, %h8;",
    "cut out": lambda space, i, to: (
        f"{load(space, 'b32', '%e6', i // 2 * 4)}\n    " + (f"shr.u32 {to}, %e6, 16;" if i % 2 else f"and.b32 {to}, %e6, 0xffff;")
    ),
    "field": lambda space, i, to: f"{load(space, 'b32', '%e6', i // 2 * 4)}\n    bfe.u32 {to}, %e6, {i % 2 * 16}, 16;",
    "two bytes": lambda space, i, to: (
        f"{load(space, 'u8', '%e6', 2 * i)}\n    {load(space, 'u8', '%e7', 2 * i + 1)}\n    "
        f"shl.b32 %e7, %e7, 8;\n    or.b32 {to}, %e6, %e7;"
    ),
    "two bytes in 16 bits": lambda space, i, to: (
        f"{load(space, 'v2.u8', '{%h8, %h9}', 2 * i)}\n    shl.b16 %h9, %h9, 8;\n    or.b16 %h8, %h8, %h9;\n    cvt.u32.u16 {to}, %h8;"
    ),
    "packed bytes": lambda space, i, to: (
        f"{load(space, 'v2.b8', '{%b0, %b1}', 2 * i)}\n    mov.b16 %h8, {{%b0, %b1}};\n    cvt.u32.u16 {to}, %h8;"
    ),
}
"""How a half comes to the lower half of a register."""


def halves(space: str, how: str, join: str, order: tuple[int, ...] = (0, 1, 2, 3)) -> str:
    """B is joined from halves, in order or in another one."""
    lines = [LOADED_HALVES[how](space, i, f"%e{i}") for i in range(4)]
    for word in range(2):
        low, high = (f"%e{order[2 * word + i]}" for i in range(2))
        lines.append(HALVES[join].format(low=low, high=high, to=f"%r{24 + word}"))
    return with_b(space, *lines)


def findings(result: Any) -> set[str]:
    return {found.code for found in result.diagnostics}


@pytest.mark.parametrize(("join", "how", "space"), spread(2, HALVES, LOADED_HALVES, ADDRESSES))
def test_halves(join: str, how: str, space: str) -> None:
    result, right = launch(halves(space, how, join), check="operands")
    assert right
    assert result.diagnostics == ()
    result, right = launch(halves(space, how, join, (1, 0, 3, 2)), check="operands")
    assert not right
    (found,) = result.diagnostics
    assert found.code == "O104"
    assert found.message == "A and B are multiplied with different k: A[0, 0] is a[0, 0], but B[0, 0] is b[0, 1]"


@pytest.mark.parametrize(("join", "how"), spread(2, HALVES, LOADED_HALVES))
def test_halves_in_the_reference_interpreter(join: str, how: str) -> None:
    result, right = launch(halves("shared", how, join), backend="numpy", check="operands")
    assert right
    assert result.diagnostics == ()
    result, right = launch(halves("shared", how, join, (2, 3, 0, 1)), backend="numpy", check="operands")
    assert not right
    (found,) = result.diagnostics
    assert (found.code, found.fix) == ("O104", "give the registers of B in the order 1, 0, counted from 0")
