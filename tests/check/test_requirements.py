"""The PTX ISA version and the targets that rows need: the notation, and what the linter makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptxlab import lint, lint_instruction
from ptxlab.isa.catalogue import CATALOGUE, pure
from ptxlab.isa.requirements import conditions, needs
from ptxlab.isa.targets import TARGETS, parse_targets

REFUSED = [
    ("add.rn.f32x2 %rd1, %rd2, %rd3;", "sm_80", "7.0"),
    ("fma.rn.bf16 %h1, %h2, %h3, %h4;", "sm_75", "7.0"),
    ("redux.sync.add.s32 %r1, %r2, 0xffffffff;", "sm_75", "7.0"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [smem], {%r1};", "sm_80", "7.8"),
    ("cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;", "sm_90", "8.6"),
    ("ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];", "sm_90a", "8.8"),
]
"""Instructions of which ptxas says that the target, or the version, does not have them."""


@pytest.fixture
def conditional() -> Iterator[None]:
    """An invented instruction with a requirement for one of its types and one for an operand that may be missing."""
    requires = (
        needs("7.0", "sm_80"),
        needs("8.0", "sm_90", when={"type": "b64"}),
        needs("9.0", when={"c": "given"}, what="the third source"),
        needs(None, "sm_100f", when={"wide": "wide"}),
    )
    pure("invented{.wide}.(type=b32|b64)", d="type", a="type", c="?type", section="x", requires=requires)(lambda x, q, a, c: a)
    yield
    del CATALOGUE["invented"]


@pytest.mark.parametrize(
    ("instruction", "target", "version", "found"),
    [
        ("invented.b32 %r1, %r2;", "sm_80", "7.0", []),
        ("invented.b32 %r1, %r2;", "sm_75", "7.0", [("L106", "sm_75 does not have invented.b32")]),
        ("invented.b32 %r1, %r2;", "sm_80", "6.5", [("L108", ""), ("L107", "invented.b32 needs PTX ISA 7.0; the module has 6.5")]),
        ("invented.b64 %rd1, %rd2;", "sm_80", "8.0", [("L106", "sm_80 does not have invented with .b64")]),
        ("invented.b64 %rd1, %rd2;", "sm_90", "8.0", []),
        ("invented.b32 %r1, %r2, %r3;", "sm_80", "8.0", [("L107", "the third source needs PTX ISA 9.0; the module has 8.0")]),
        ("invented.wide.b32 %r1, %r2;", "sm_103a", "9.0", []),
        ("invented.wide.b32 %r1, %r2;", "sm_110f", "9.0", [("L106", "sm_110f does not have invented with .wide")]),
    ],
)
@pytest.mark.usefixtures("conditional")
def test_a_row(instruction: str, target: str, version: str, found: list[tuple[str, str]]) -> None:
    diagnostics = lint_instruction(instruction, target=target, version=version)
    assert [d.code for d in diagnostics] == [code for code, _ in found]
    assert [d.message for d, (_, text) in zip(diagnostics, found, strict=True) if text] == [text for _, text in found if text]
    module = f".version {version}\n.target {target}\n.entry k() {{ .reg .b32 %r<4>; .reg .b64 %rd<4>; {instruction} ret; }}"
    assert [d.code for d in lint(module)] == [code for code, _ in found]


def test_targets_of_a_text() -> None:
    assert parse_targets("sm_120") == {t for t in TARGETS if t.startswith(("sm_120", "sm_121"))}
    assert parse_targets("sm_100a") == {"sm_100a"}
    assert parse_targets("sm_103f sm_121a") == {"sm_103a", "sm_103f", "sm_107a", "sm_107f", "sm_121a"}
    with pytest.raises(ValueError, match="'sm_x' is no target"):
        parse_targets("sm_x")


def test_conditions() -> None:
    assert conditions({"a": "x|y", "b": None, "c": (None, "z")}) == {"a": ("x", "y"), "b": (None,), "c": (None, "z")}


@pytest.mark.parametrize(("instruction", "target", "version"), REFUSED, ids=[text.split()[0] for text, _, _ in REFUSED])
def test_what_the_assembler_refuses(instruction: str, target: str, version: str) -> None:
    found = lint_instruction(instruction, target=target, version=version)
    assert {d.code for d in found} & {"L106", "L107"}
