"""Sparse wgmma.mma_async that compiled code repeats, with other metadata in each turn, as in `tests.isa.wgmma.test_repeated`.

That handlers compute what `numerics.mma` does is tested in `tests.isa.wgmma.test_sparse`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from .test_observed import both_ways, optimised
from .test_repeated import COMMIT, FENCE, IN_REGISTERS, WAIT, launched, module, product

__all__ = ["optimised"]

METADATA = "mad.lo.u32 %x, %i, 4099, %t; mul.lo.u32 %x, %x, 0x9E3779B1; shr.u32 %j, %x, 11; xor.b32 %x, %x, %j;"
PAIRS = f"{METADATA} and.b32 %x, %x, 0xAAAAAAAA; or.b32 %m, %x, 0x44444444;"
"""4, 6, 12 or 14."""
SINGLES = f"{METADATA} and.b32 %x, %x, 0x22222222; mad.lo.u32 %m, %x, 5, 0x44444444;"
"""4 or 14."""
DONE = f"{COMMIT} {WAIT} 0;"


def sparse(types: str, n: int, k: int, a: str = "%da", selector: int = 0, p: str = "%p") -> str:
    return product(types, n, k, a, p, sparse=True).replace("%m, 0,", f"%m, {selector},")


LOOPS = {
    "f16": PAIRS + FENCE + sparse("f32.f16.f16", 64, 32) + sparse("f32.f16.f16", 64, 32, selector=1, p="1") + DONE,
    "f16 D": PAIRS + FENCE + sparse("f16.f16.f16", 64, 32, selector=1) + DONE,
    "bf16": PAIRS + FENCE + sparse("f32.bf16.bf16", 32, 32, IN_REGISTERS) + DONE,
    "tf32": SINGLES + FENCE + sparse("f32.tf32.tf32", 40, 16) + sparse("f32.tf32.tf32", 40, 16, selector=1, p="1") + DONE,
    "tf32, A in registers": SINGLES + FENCE + sparse("f32.tf32.tf32", 40, 16, IN_REGISTERS, 1) + DONE,
    "bytes": PAIRS + FENCE + sparse("f32.e4m3.e5m2", 64, 64) + sparse("f32.e4m3.e5m2", 64, 64, IN_REGISTERS, p="1") + DONE,
    "in flight": PAIRS + FENCE + sparse("f32.e5m2.e5m2", 64, 64) + COMMIT + f"{WAIT} 2;",
    "no waits": PAIRS + FENCE + sparse("f32.f16.f16", 64, 32) * 5 + COMMIT,
    "turns": "and.b32 %j, %w, 3; setp.ne.u32 %r, %j, 1; @%r bra on; mov.u32 %j, 0; spin: add.u32 %j, %j, 1; setp.lt.u32 %r, %j, 300;"
    " @%r bra spin; on:" + PAIRS + FENCE + sparse("f32.f16.f16", 64, 32) + COMMIT + f"{WAIT} 1;",
}
WILD = {"float_values": False}
"""Elements are any bits: some are infinite or NaN."""


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("values", [{}, WILD], ids=["moderate", "wild"])
@pytest.mark.parametrize("threads", [128, 256])
def test_the_same_bits_and_statistics(name: str, values: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    known, found = launched(module(LOOPS[name], 40 if name == "no waits" else 12, **values), monkeypatch, threads)
    assert known
    assert found[0][3]
    assert not found[0][2]


@pytest.mark.parametrize("name", LOOPS)
def test_the_same_bits_as_of_later_operations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = module(LOOPS[name], 40 if name == "no waits" else 12)
    _, soon = launched(text, monkeypatch)
    _, later = launched(text, monkeypatch, policy="lazy")
    assert soon[0][0] == later[0][0]


@pytest.mark.parametrize("a", ["%da", IN_REGISTERS])
def test_integers(a: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = PAIRS + FENCE + sparse("s32.s8.u8", 64, 64, a) + sparse("s32.s8.u8", 64, 64, a, p="1") + DONE
    known, _ = launched(module(loop, float_values=False), monkeypatch)
    assert known


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", LOOPS)
def test_handlers_are_called_until_a_turn_is_known(name: str, check: str) -> None:
    handled = []
    for times in (20, 40):
        texts, (_, again, _) = both_ways(module(LOOPS[name], times), check=check)
        assert texts == ""
        handled.append(again[0])
    if name != "no waits":
        assert handled[1] <= handled[0]


IN_ONE_WARP = "setp.eq.u32 %r, %i, 30; setp.eq.and.u32 %r, %t, {thread}, %r; @%r and.b32 %m, %m, 0xFFF0FFFF; "


@pytest.mark.parametrize("thread", [0, 37, 64, 125])
@pytest.mark.parametrize("check", ["none", "all"])
def test_metadata_that_come_to_select_nothing(thread: int, check: str) -> None:
    loop = LOOPS["f16"].replace(FENCE, IN_ONE_WARP.format(thread=thread) + FENCE)
    texts, (_, again, handled) = both_ways(module(loop, 40), check=check)
    assert re.search(r"D707.*the sparsity metadata of row \d+, chunk \d is 0b0000, which selects nothing", texts)
    assert again[0] < handled[0] / 2


@pytest.mark.parametrize(("thread", "selector"), [(38, 0), (39, 0), (36, 1), (37, 1)])
def test_metadata_that_are_not_used(thread: int, selector: int) -> None:
    """The other selector takes those of these threads."""
    one = sparse("f32.f16.f16", 64, 32, selector=selector)
    texts, (_, again, handled) = both_ways(module(PAIRS + IN_ONE_WARP.format(thread=thread) + FENCE + one + DONE, 40), check="all")
    assert texts == ""
    assert again[0] < handled[0] / 2


CONSTANTS = {"f16": 0x4E6C9D84, "f16, A in registers": 0xC4D89E46, "bytes": 0x9D4CE684}
OTHER_FORMS = {"immediate": "{}", "constant in braces": "{{{}}}"}
OF_CONSTANTS = {
    "f16": sparse("f32.f16.f16", 64, 32) + sparse("f32.f16.f16", 64, 32, selector=1, p="1"),
    "f16, A in registers": sparse("f32.f16.f16", 64, 32, IN_REGISTERS, 1),
    "bytes": sparse("f32.e4m3.e5m2", 64, 64),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
@pytest.mark.parametrize("name", OF_CONSTANTS)
def test_metadata_of_a_constant(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits are those of products whose metadata a register holds."""
    products, constant = OF_CONSTANTS[name], CONSTANTS[name]
    known, found = launched(module(FENCE + products.replace("%m,", f"{OTHER_FORMS[form].format(constant)},") + DONE, 12), monkeypatch)
    _, others = launched(module(f"mov.b32 %m, {constant};" + FENCE + products + DONE, 12), monkeypatch)
    assert known
    assert not found[0][2]
    assert found[0][0] == others[0][0]


def test_metadata_in_braces(monkeypatch: pytest.MonkeyPatch) -> None:
    known, found = launched(module(LOOPS["f16"].replace("%m, ", "{%m}, "), 12), monkeypatch)
    _, others = launched(module(LOOPS["f16"], 12), monkeypatch)
    assert known
    assert found[0][0] == others[0][0]


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("form", OTHER_FORMS)
def test_handlers_of_constants_are_called_until_a_turn_is_known(form: str, check: str) -> None:
    loop = FENCE + OF_CONSTANTS["f16"].replace("%m,", f"{OTHER_FORMS[form].format(CONSTANTS['f16'])},") + DONE
    handled = []
    for times in (20, 40):
        texts, (_, again, _) = both_ways(module(loop, times), check=check)
        assert texts == ""
        handled.append(again[0])
    assert handled[1] <= handled[0]


@pytest.mark.parametrize("check", ["none", "all"])
def test_a_constant_that_selects_nothing(check: str) -> None:
    loop = FENCE + OF_CONSTANTS["f16"].replace("%m,", "0x44404444,") + DONE
    texts, _ = both_ways(module(loop, 20), check=check)
    assert re.search(r"D707.*the sparsity metadata of row \d+, chunk \d is 0b0000, which selects nothing", texts)


@pytest.mark.parametrize("name", ["f16", "bytes", "tf32, A in registers"])
def test_executions_that_leave_a_full_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions that compiled code has begun go on with handlers, with the metadata of the warps that have issued them."""
    monkeypatch.setattr("ptxlab.engine.repetitions._MOST", 6)
    known, _ = launched(module(LOOPS[name], 30), monkeypatch)
    assert known > 20
