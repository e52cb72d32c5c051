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


VALUES = {
    "st.shared": ("st.shared.b32 [%r3], %r4;", "4 bytes at 0x400: earlier 0x00000000, later 0x00000001"),
    "st.global": ("st.global.b32 [%rd1], %r4;", "4 bytes at 0x0: earlier 0x00000000, later 0x00000001"),
    "stmatrix": ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4};", "4 bytes at 0x400: earlier 0x00000000, later 0x00000001"),
    "the third of four": ("st.global.v4.b32 [%rd1], {%r2, %r2, %r4, %r2};", "4 bytes at 0x8: earlier 0x00000000, later 0x00000001"),
    "a byte": ("add.u32 %r4, %r4, 254;\nst.global.b8 [%rd1+5], %r4;", "1 byte at 0x5: earlier 0xfe, later 0xff"),
    "8 bytes": (
        "cvt.u64.u32 %rd0, %r4;\nst.global.b64 [%rd1+8], %rd0;",
        "8 bytes at 0x8: earlier 0x0000000000000000, later 0x0000000000000001",
    ),
    "several stores to one place": (
        "add.u32 %r5, %r4, 16;\nst.global.b32 [%rd1], %r5;\nst.global.b32 [%rd1], %r4;",
        "4 bytes at 0x0: earlier 0x00000010, later 0x00000011",
    ),
    "two instructions": (
        "setp.eq.u32 %p1, %r4, 0;\n@%p1 st.global.b32 [%rd1+4], 3;\n@!%p1 st.global.b32 [%rd1+4], 9;",
        "4 bytes at 0x4: earlier 0x00000003, later 0x00000009",
    ),
    "an atomic and a store": (
        "setp.eq.u32 %p1, %r1, 0;\n@%p1 atom.global.add.u32 %r5, [%rd1], 5;\nsetp.eq.u32 %p1, %r1, 32;\n@%p1 st.global.b32 [%rd1], 1;",
        "4 bytes at 0x0: earlier 0x0000000e, later 0x00000001",
    ),
    "a loop": (
        "mov.u32 %r5, 0;\nLOOP:\nst.global.b32 [%rd1], %r4;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 100;\n@%p1 bra LOOP;",
        "4 bytes at 0x0: earlier 0x00000000, later 0x00000001",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_both_values_of_different_bits(name: str) -> None:
    """Warp 0 writes first."""
    body, expected = VALUES[name]
    found = launch(body, start=9, policy="lazy").diagnostics
    assert {d.code for d in found} <= {"X114", "X101"}
    assert dict(found[0].details)["values"] == expected


def test_values_of_two_ctas_and_of_a_shared_array_of_one() -> None:
    body = "mov.u32 %r5, %ctaid.x;\nst.global.b32 [%rd1], %r5;\nadd.u32 %r4, %r4, %r5;\nst.shared.b32 [%r3], %r4;"
    kernel = ptxlab.loads(f"{HEAD.strip()}\n{body}\nret;\n}}\n").kernel()
    found = {d.code: dict(d.details) for d in kernel.launch(grid=2, block=64, args=[np.zeros(4, np.int32)]).diagnostics}
    assert found["X114"]["values"] == "4 bytes at 0x0: earlier 0x00000000, later 0x00000001"
    assert found["X101"]["values"] == "4 bytes at 0x400: earlier 0x00000000, later 0x00000001"


def test_no_values_where_one_of_the_two_reads() -> None:
    body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 st.global.b32 [%rd1], %r1;\n@!%p1 ld.global.b32 %r5, [%rd1];\nst.global.b32 [%rd1+64], %r5;"
    assert all("values" not in dict(d.details) for d in launch(body).diagnostics if "reads" in d.message)


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


def test_the_note_takes_two_lines_and_json_has_all() -> None:
    (note,) = launch(BODIES["st.global"]).diagnostics
    assert ptxlab.diagnostics.render_report([note]) == (
        "note[X123]: st.global writes bytes 0x0-0x3 of argument 0 (a), to which st.global at line 13 writes the same bits, "
        "and nothing orders the two\n  --> <ptx>:13:1"
    )
    assert {"earlier", "later", "order that exists"} <= set(note.as_dict()["details"])
    assert note.fix
    assert note.excerpt
