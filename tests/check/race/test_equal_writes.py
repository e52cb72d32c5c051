"""Writes of the same bits that nothing orders: a note in practice, an error under spec; and of different bits, an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab.cli import main

HEAD = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<2>;
.shared .align 16 .b32 tile[128];
mov.u32 %r1, %tid.x;
mov.u32 %r2, 7;
mov.u32 %r3, tile;
shr.u32 %r4, %r1, 5;
ld.param.u64 %rd1, [a];
"""
FIRST_LINE = 13
SCHEDULES: list[dict[str, Any]] = [{"policy": "eager"}, {"policy": "lazy"}, *({"policy": "random", "seed": seed} for seed in range(3))]


def launch(body: str, start: int = 0, **options: Any) -> Any:
    kernel = ptxlab.loads(f"{HEAD.strip()}\n{body.strip()}\nret;\n}}\n").kernel()
    return kernel.launch(grid=1, block=64, args=[np.full(32, start, np.int32)], **options)


BODIES = {
    "st.shared": "st.shared.b32 [%r3], %r2;",
    "st.global": "st.global.b32 [%rd1], %r2;",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r2};",
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("start", [0, 7], ids=["memory holds something else", "memory holds the bits"])
@pytest.mark.parametrize("name", BODIES)
def test_writes_of_the_same_bits_are_one_note(name: str, start: int, schedule: dict[str, Any]) -> None:
    """Two warps write; the note names both lines."""
    body = f"{BODIES[name]}\n{BODIES[name]}"
    result = launch(body, start, **schedule)
    assert result.ok
    result.raise_for_errors()
    (note,) = result.diagnostics
    assert (note.code, note.severity) == ("X123", "note")
    details = dict(note.details)
    lines = {FIRST_LINE, FIRST_LINE + 1}
    assert note.place.line in lines
    assert any(f"at line {line} writes the same bits" in note.message for line in lines)
    assert BODIES[name] in details["earlier"]
    assert details["earlier"].startswith("warp ")
    assert details.get("occurrences", "1").isdigit()
    assert not str(note.message).count("\n")


@pytest.mark.parametrize("name", BODIES)
def test_an_error_under_spec(name: str) -> None:
    result = launch(BODIES[name], model="spec")
    assert not result.ok
    assert {d.code for d in result.diagnostics} == {"X114" if name == "st.global" else "X101"}


@pytest.mark.parametrize("model", ["practice", "spec"])
@pytest.mark.parametrize("name", BODIES)
def test_writes_of_different_bits_are_errors(name: str, model: str) -> None:
    result = launch(BODIES[name].replace("%r2", "%r4"), start=9, model=model)
    assert not result.ok
    assert {d.code for d in result.diagnostics} == {"X114" if name == "st.global" else "X101"}


@pytest.mark.parametrize("name", BODIES)
def test_ordered_writes_of_the_same_bits_are_no_note(name: str) -> None:
    body = f"setp.lt.u32 %p1, %r1, 32;\n@%p1 bra FIRST;\nbar.sync 0;\n{BODIES[name]}\nbra DONE;\nFIRST:\n{BODIES[name]}\nbar.sync 0;\nDONE:"
    assert launch(body).diagnostics == ()


def test_a_read_of_what_is_written_again_is_no_note() -> None:
    """Only writes are counted: here warp 1 reads while warp 0 writes the bits that are there."""
    body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 st.global.b32 [%rd1], %r2;\n@!%p1 ld.global.b32 %r5, [%rd1];"
    assert [d.code for d in launch(body, start=7, policy="random", seed=1).diagnostics if d.code == "X123"] == []


def test_shared_and_global_memory_have_a_note_each_with_a_count() -> None:
    body = "st.shared.b32 [%r3], %r2;\nst.shared.b32 [%r3+4], %r2;\nst.global.b32 [%rd1], %r2;\nst.global.b32 [%rd1+4], %r2;"
    result = launch(body)
    assert [d.code for d in result.diagnostics] == ["X123", "X123"]
    assert [dict(d.details)["occurrences"] for d in result.diagnostics] == ["2", "2"]


def test_the_note_names_both_lines_of_the_source() -> None:
    body = f".loc 1 21 1\n{BODIES['st.global']}\n.loc 1 34 1\n{BODIES['st.global']}"
    text = f'{HEAD.strip()}\n{body}\nret;\n}}\n.file 1 "kernel.py"\n'
    (note,) = ptxlab.loads(text).kernel().launch(grid=1, block=64, args=[np.zeros(4, np.int32)]).diagnostics
    details, source = dict(note.details), {FIRST_LINE + 1: 21, FIRST_LINE + 3: 34}
    earlier = int(details["earlier"].split("line ")[1].split(":")[0])
    assert note.source.line == source[note.place.line]
    assert details["earlier, in the source"].endswith(f"kernel.py:{source[earlier]}")


def test_exit_status_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(f"{HEAD.strip()}\n{BODIES['st.global']}\nret;\n}}\n")
    (tmp_path / "launch.toml").write_text('ptx = "k.ptx"\ngrid = 1\nblock = 64\nargs = [{name = "a", array = {shape = [4]}}]\n')
    for command in ("run", "check"):
        done = CliRunner().invoke(main, [command, str(tmp_path / "launch.toml")])
        assert (done.exit_code, "note[X123]" in done.output) == (0, True), done.output
