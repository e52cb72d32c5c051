"""``ptxlab diff``, and ``ptxlab run`` with bundles, as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result

from ptxlab.cli._diff import differences
from ptxlab.cli._main import cli

SCALE = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry scale(.param .u64 in, .param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r1, %r2, 64, %r1;
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r3, [%rd4];
    mul.lo.u32 %r3, %r3, 3;
    st.global.u32 [%rd5], %r3;
    ret;
}
"""
LAUNCH = """
ptx = "scale.ptx"
grid = 2
block = 64
[[args]]
name = "A"
array = {shape = [8, 16], dtype = "uint32", fill = "arange"}
[[args]]
name = "B"
array = {shape = [8, 16], dtype = "uint32"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scale.ptx").write_text(SCALE)
    (tmp_path / "launch.toml").write_text(LAUNCH)
    right = 3 * np.arange(128, dtype=np.uint32).reshape(8, 16)
    np.save(tmp_path / "right.npy", right)
    right[5, 7] = right[6, 15] = 1
    np.save(tmp_path / "wrong.npy", right)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ptxlab(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)


def test_equal(folder: Path) -> None:
    for rest in (["right.npy"], ["--launch", "launch.toml", "--name", "B"]):
        done = ptxlab("diff", "right.npy", *rest)
        assert (done.exit_code, done.output) == (0, "equal: 128 elements\n")


def test_the_first_wrong_tile_and_its_owner(folder: Path) -> None:
    done = ptxlab("diff", "wrong.npy", "--launch", "launch.toml", "--name", "B", "--tile", "2x4")
    assert done.exit_code == 1
    assert (
        done.output
        == """2 of 128 elements differ
first: B[5, 7] is 261, expected 1
in tile (2, 1) of 2x4: rows 4-5, columns 4-7, 1 of its elements differ
2 of 16 tiles differ
  . . . .
  . . . .
  . + . .
  . . . +

B[5, 7] is 261, written once
  CTA (1, 0, 0) warp 0 lane 23: st.global.u32, then 261
    scale.ptx:13:5 | st.global.u32 [%rd5], %r3;
  before the launch: 0
"""
    )


def test_json(folder: Path) -> None:
    done = ptxlab("diff", "wrong.npy", "right.npy", "--json", "--tile", "8x8")
    assert done.exit_code == 1
    assert json.loads(done.output) == {
        "equal": False,
        "elements": 128,
        "different": 2,
        "first": {"index": [5, 7], "actual": "261", "expected": "1"},
        "tile": {"size": [8, 8], "first": [0, 0], "counts": [[1, 1]]},
        "owner": None,
    }
    assert json.loads(ptxlab("diff", "right.npy", "right.npy", "--json").output) == {"equal": True, "elements": 128}


def test_a_bundle_runs_and_compares_as_its_launch_file(folder: Path) -> None:
    assert ptxlab("run", "launch.toml", "--bundle", "bug.ptxlab", "--save", "one").exit_code == 0
    for name in ("scale.ptx", "launch.toml"):
        (folder / name).unlink()
    done = ptxlab("run", "bug.ptxlab", "--save", "two", "--policy", "random", "--seed", "4", "--check", "memory")
    assert (done.exit_code, done.output.split(":")[0]) == (0, "finished")
    for name in ("A", "B"):
        assert (folder / "one" / f"{name}.npy").read_bytes() == (folder / "two" / f"{name}.npy").read_bytes()
    done = ptxlab("diff", "wrong.npy", "--launch", "bug.ptxlab", "--name", "B")
    assert done.exit_code == 1
    assert "  CTA (1, 0, 0) warp 0 lane 23: st.global.u32, then 261\n    scale.ptx:13:5 |" in done.output


def test_a_bundle_is_checked(folder: Path) -> None:
    racy = SCALE.replace("    st.global.u32 [%rd5], %r3;", "    st.global.u32 [%rd2], %r1;")
    for text, status, code in ((SCALE, 0, set()), (racy, 1, {"X114", "F106"})):
        (folder / "scale.ptx").write_text(text)
        assert ptxlab("run", "launch.toml", "--check", "none", "--bundle", "bug.ptxlab").exit_code == 0
        done = ptxlab("check", "bug.ptxlab", "--seeds", "1", "--model", "spec", "--json")
        found = json.loads(done.output)
        assert (done.exit_code, found["schedules"]) == (status, 3)
        assert {d["code"] for d in found["diagnostics"]} == code


def test_a_bundle_of_a_launch_that_fails(folder: Path) -> None:
    (folder / "scale.ptx").write_text(SCALE.replace("add.s64 %rd5, %rd2, %rd3", "add.s64 %rd5, %rd2, 4096"))
    first = ptxlab("run", "launch.toml", "--bundle", "bug.ptxlab", "--json")
    again = ptxlab("run", "bug.ptxlab", "--json")
    assert (first.exit_code, again.exit_code) == (1, 1)
    one, two = (json.loads(done.output)["diagnostics"] for done in (first, again))
    assert one == two
    assert one[0]["code"] == "M402"


def test_wrong_use(folder: Path) -> None:
    np.save(folder / "text.npy", np.array(["a"]))
    np.save(folder / "row.npy", np.zeros(3))
    np.save(folder / "raw.npy", np.zeros((8, 16), "V3"))
    (folder / "bad.ptxlab").write_bytes(b"nothing")
    for arguments, text in (
        (["right.npy"], "give ACTUAL.npy, or --launch and --name"),
        (["right.npy", "--launch", "launch.toml"], "--launch and --name belong together"),
        (["right.npy", "right.npy", "--tile", "4"], "--tile takes rows and columns as 128x64, not '4'"),
        (["right.npy", "right.npy", "--tile", "0x4"], "--tile takes rows and columns as 128x64, not '0x4'"),
        (["right.npy", "row.npy"], "the shapes differ: expected [8, 16], actual [3]"),
        (["text.npy", "text.npy"], "only numbers can be compared, not <U1 and <U1"),
        (["right.npy", "raw.npy"], "uint32 and |V3 cannot be compared: the .npy file does not say what its bytes are"),
        (["no.npy", "row.npy"], "no.npy cannot be read as .npy: [Errno 2] No such file or directory: 'no.npy'"),
        (["right.npy", "--launch", "launch.toml", "--name", "C"], "launch.toml names no array 'C'; its arrays: A, B"),
        (["right.npy", "--launch", "bad.ptxlab", "--name", "B"], "error[F107]: bad.ptxlab: File is not a zip file"),
    ):
        done = ptxlab("diff", *arguments)
        assert done.exit_code == 2
        assert text in " ".join(done.output.split())


def test_types_that_files_do_not_name(folder: Path) -> None:
    values = np.arange(12).astype(ml_dtypes.bfloat16).reshape(3, 4)
    np.save(folder / "a.npy", values)
    values[1, 2] = 100
    np.save(folder / "b.npy", values)
    assert ptxlab("diff", "a.npy", "a.npy").exit_code == 0
    assert "1 of 12 elements differ\nfirst: element[1, 2] is" in ptxlab("diff", "a.npy", "b.npy").output


def test_pictures() -> None:
    zero = np.zeros((3, 300, 200))
    wrong = zero.copy()
    wrong[1, 299, 0] = wrong[2, 0, 0] = np.nan
    found = differences(zero, wrong, None, 0, 0)
    assert found is not None
    assert (found.index, found.tile, found.first, found.wrong, found.counts.shape) == ((1, 299, 0), (16, 16), (18, 0), 2, (19, 13))
    assert found.picture().splitlines()[18] == " ".join("+" + 12 * ".")
    assert differences(wrong, wrong.copy(), None, 0, 0) is None
    assert differences(zero, zero + 0.5, None, 0, 0.5) is None
    row = differences(np.zeros(20), np.r_[np.zeros(8), np.ones(12)], None, 0, 0)
    assert row is not None
    assert row.picture() == ". # #"
    scalar = differences(np.array(1), np.array(2), None, 0, 0)
    assert scalar is not None
    assert (scalar.index, scalar.first, scalar.picture()) == ((), (0, 0), "#")
