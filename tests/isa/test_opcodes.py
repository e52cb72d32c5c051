"""Every opcode of 212 real kernels is executed or refused by name; what is neither is unknown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptxlab.isa import CATALOGUE, is_known, load_all
from ptxlab.isa.catalogue import Control, Row, match, pure

load_all()
OPCODES = Path(__file__).with_name("data").joinpath("opcodes.txt").read_text().split()


def test_every_opcode_is_matched_or_known() -> None:
    assert len(OPCODES) > 650
    assert [o for o in OPCODES if not match(o) and not is_known(o)] == []


def test_every_opcode_is_executed() -> None:
    assert [o for o in OPCODES if not match(o)] == []


@pytest.mark.parametrize(
    "opcode",
    [
        "add.f31",
        "mul.wide.u64",
        "ld.global.b33",
        "cvt.rn.s32.f32",
        "fma.f32",
        "setp.lo.s32",
        "popc.u32",
        "shfl.sync.b32",
        "atom.global.sub.u32",
        "frobnicate.b32",
        "add.rn.rn.f32",
        "mul.u32.wide",
    ],
)
def test_wrong_opcodes_are_neither(opcode: str) -> None:
    assert not match(opcode)
    assert not is_known(opcode)


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("add.f32.rn.ftz", "add.rn.ftz.f32"),
        ("cvt.f32.f64.rz", "cvt.rz.f32.f64"),
        ("cvt.bf16x2.f32.relu.rn", "cvt.rn.relu.bf16x2.f32"),
        ("set.u32.lt.s32", "set.lt.u32.s32"),
        ("mad.lo.u32.cc", "mad.lo.cc.u32"),
    ],
)
def test_modifiers_may_stand_in_any_order(written: str, usual: str) -> None:
    """As the assembler takes them; the order of types is that of the operands."""
    found, expected = match(written), match(usual)
    assert [row for row, _ in found] == [row for row, _ in expected]
    assert [q.__dict__ for _, q in found] == [q.__dict__ for _, q in expected]
    assert found


@pytest.mark.parametrize(
    "opcode",
    [
        "cvt.rn.pzo.bf16.f32",
        "cvt.rz.satfinite.e2m1x2.f32",
        "add.rn.f32x2.f16x2.f32x2",
        "mul.rz.ftz.f16x2.f32x2.f32x2",
        "spdecompress.b8.b2.sp::2:4.x32",
        "tex.2d.v4.f32.s32",
        "multimem.red.global.add.f32",
    ],
)
def test_other_instructions_are_known_by_name(opcode: str) -> None:
    assert is_known(opcode)


def rows() -> list[Row]:
    return [row for listed in CATALOGUE.values() for row in listed]


def test_rows_are_complete() -> None:
    for row in rows():
        assert row.section, row.pattern
        assert row.outputs <= len(row.operands), row.pattern
        assert row.kind != "control" or isinstance(row.semantics, Control)


def test_rows_are_made_once_and_when_they_are_asked_for() -> None:
    def declare(pattern: str) -> None:
        pure(pattern, d="b32", a="b32", section="an invented one")(lambda x, q, a: a)

    try:
        declare("seldom.b32")
        assert "seldom" in CATALOGUE
        assert "seldom" in CATALOGUE._declared
        (first,) = CATALOGUE["seldom"]
        assert "seldom" not in CATALOGUE._declared
        declare("seldom.u32")
        assert CATALOGUE["seldom"][0] is first
        assert [row.pattern for row in CATALOGUE["seldom"]] == ["seldom.b32", "seldom.u32"]
    finally:
        del CATALOGUE["seldom"]
    assert "seldom" not in CATALOGUE


FAMILIES = """
import sys
from ptxlab.isa import CATALOGUE, load_all, load_families
from ptxlab.isa.catalogue import match
load_families()
for name in ("mma", "tcgen05", "wgmma"):
    assert name in CATALOGUE and f"ptxlab.isa.{name}" not in sys.modules
names, count = set(CATALOGUE), len(CATALOGUE)
assert match("add.f32") and match("mbarrier.init.shared::cta.b64") and "ptxlab.isa.tcgen05" not in sys.modules
assert match("tcgen05.fence::before_thread_sync") and "ptxlab.isa.wgmma" not in sys.modules
assert match("wgmma.fence.sync.aligned") and "ptxlab.isa.wgmma" in sys.modules and "ptxlab.isa.mma" not in sys.modules
load_all()
assert "ptxlab.isa.mma" in sys.modules and CATALOGUE["mma"]
assert set(CATALOGUE) == names and len(CATALOGUE) == count
"""


def test_families_of_the_tensor_cores_are_loaded_when_a_program_has_one() -> None:
    subprocess.run([sys.executable, "-c", FAMILIES], check=True)
