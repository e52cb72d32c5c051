"""``ptxlab profile``: tables, JSON, options, and what ptxas adds."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import ptxlab
from ptxlab.cli._main import cli
from ptxlab.interop import toolkit
from ptxlab.profile import Assembled

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.file 1 "scatter.cu"
.visible .entry scatter(.param .u64 to)
.reqntid 64
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 words[4096];
  .loc 1 7 0
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, words;
  mad.lo.u32 %r3, %r1, 8, %r2;
  .loc 1 8 0
  st.shared.u32 [%r3], %r1;
  .loc 1 9 0
  mad.wide.u32 %rd2, %r1, 32, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""
"""Words 8 bytes apart: two in each bank that is used. Words 32 bytes apart: each in a sector of its own, which 4 sectors would hold."""


@pytest.fixture
def launch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("scatter.ptx").write_text(TEXT)
    path = Path("launch.toml")
    path.write_text('ptx = "scatter.ptx"\ngrid = 300\n[[args]]\nname = "A"\narray = {shape = [512], dtype = "uint32"}\n')
    return path


def called(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["profile", *map(str, arguments)], catch_exceptions=False)


def rows(output: str, *titles: str) -> dict[str, list[str]]:
    """The rows of the last table: the first words, and the numbers after them."""
    table = output.partition(titles[0])[2]
    found = re.findall(r"^ +(\S.*?)  +(\(?\d.*)$", table, re.MULTILINE)
    return {name: numbers.split() for name, numbers in found}


def test_source_lines(launch_file: Path) -> None:
    done = called(launch_file)
    assert done.exit_code == 0
    assert done.output.startswith("scatter for sm_90a: 300 of 300 CTAs executed\n")
    assert rows(done.output, "source line") == {
        "scatter.cu:8": ["600", "1,200", "(600)"],
        "scatter.cu:9": ["1,800", "19,200", "(16,800)"],
    }
    everything = rows(called(launch_file, "--all").output, "source line")
    assert everything["scatter.cu:7"] == ["2,400"]


def test_lines_of_ptx(launch_file: Path) -> None:
    assert rows(called(launch_file, "--by", "ptx").output, "PTX line") == {
        "16 st.shared.u32 [%r3], %r1;": ["600", "1,200", "(600)"],
        "19 st.global.u32 [%rd2], %r1;": ["600", "19,200", "(16,800)"],
    }


def test_json(launch_file: Path) -> None:
    done = called(launch_file, "--json", "--only", "0,0")
    found = json.loads(done.output)
    profile = found["profile"]
    assert (found["ok"], profile["kernel"], profile["ctas"]) == (True, "scatter", 1)
    assert profile["totals"]["shared_wavefronts"] == 4
    assert profile["totals"]["global_sectors"] == 64
    assert [(line["place"], line["counts"]["executions"]) for line in profile["source_lines"]] == [
        ("scatter.cu:7", 8),
        ("scatter.cu:8", 2),
        ("scatter.cu:9", 6),
    ]
    assert profile["roles"][0]["warps"] == [0, 1]
    assert set(profile["totals"]) <= set(profile["counters"])
    assert profile["counters"]["shared_wavefronts"]["fidelity"] == "hardware"


def test_the_footprint_of_arrays(launch_file: Path) -> None:
    """All CTAs write the same 64 sectors."""
    assert rows(called(launch_file).output, "array")["to"] == ["2,048", "2,048"]
    found = json.loads(called(launch_file, "--json").output)["profile"]["footprint"]
    assert {name: found[name] for name in ("read", "written", "either", "written_by_ctas", "reuse")} == {
        "read": 0,
        "written": 2048,
        "either": 2048,
        "written_by_ctas": 300 * 2048,
        "reuse": 0.0,
    }
    assert [each["name"] for each in found["arrays"]] == ["to"]


def test_checks_are_off_unless_they_are_named(launch_file: Path) -> None:
    """CTAs write their numbers to the same words."""
    Path("scatter.ptx").write_text(TEXT.replace("  st.global.u32 [%rd2], %r1;", "  mov.u32 %r1, %ctaid.x; st.global.u32 [%rd2], %r1;"))
    assert called(launch_file).exit_code == 0
    done = called(launch_file, "--check", "race")
    assert done.exit_code == 1
    assert "error[X114]" in done.output
    assert "scatter.cu:9" in done.output


def test_a_file_that_cannot_be_read_is_wrong_use(tmp_path: Path) -> None:
    done = called(tmp_path / "missing.toml")
    assert done.exit_code == 2
    assert "missing.toml" in done.output


def test_a_timeline_for_perfetto_in_nanoseconds(launch_file: Path) -> None:
    called(launch_file, "--timeline", "t.json")
    found = json.loads(Path("t.json").read_text())
    estimate = json.loads(called(launch_file, "--json").output)["profile"]["estimate"]
    spans = [event for event in found["traceEvents"] if event["ph"] == "X"]
    path = [event for event in spans if event["pid"] == 0]
    clock = ptxlab.profile.parameters_of("sm_90a").clock
    nanoseconds = estimate["nanoseconds"] - ptxlab.profile.parameters_of("sm_90a").launch / clock
    assert path[-1]["ts"] + path[-1]["dur"] == pytest.approx(nanoseconds / 1000, abs=0.002)
    assert all(one["ts"] + one["dur"] == pytest.approx(two["ts"]) for one, two in itertools.pairwise(path))
    names = {event["args"]["name"] for event in found["traceEvents"] if event["name"] == "process_name"}
    assert names == {"scatter, estimated", "CTA 0", "CTA 1"}


def test_a_bundle_gives_the_same_profile(launch_file: Path) -> None:
    CliRunner().invoke(cli, ["run", str(launch_file), "--check", "none", "--bundle", "kept.ptxlab"], catch_exceptions=False)
    from_file, from_bundle = (json.loads(called(path, "--json").output)["profile"] for path in (launch_file, "kept.ptxlab"))
    assert from_bundle["totals"] == from_file["totals"]
    assert from_bundle["occupancy"] == from_file["occupancy"]


def test_registers_that_ptxas_names(launch_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """255 registers x 32 lanes are 32 units of 256: two warps in each of four partitions, so 4 CTAs of two warps."""
    monkeypatch.setattr(toolkit, "assembled", lambda text, target, kernel: Assembled(255, 16, 24, 40))
    output = called(launch_file).output
    assert "ptxas: 255 registers, 16 bytes of spill stores, 24 bytes of spill loads" in output
    assert "an SM holds 4 CTAs (8 of 64 warps), limited by registers\n" in output
    monkeypatch.setattr(toolkit, "assembled", lambda text, target, kernel: None)
    output = called(launch_file).output
    assert "an SM holds 32 CTAs (64 of 64 warps), limited by CTA slots and threads; registers are not known\n" in output


def test_lines_are_of_ptx_or_of_the_source(launch_file: Path) -> None:
    array = np.zeros(512, np.uint32)
    profile = ptxlab.load("scatter.ptx").kernel().launch(args=[array], check="none", profile=True).profile
    with pytest.raises(ptxlab.LaunchError) as caught:
        profile.lines("sass")
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("A310", "by must be one of 'ptx', 'source', not 'sass'")
