"""``ptxlab exec``: other schedules, bundles of all launches, expected arrays, and who wrote an element."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import ptxlab
from ptxlab.cli._inspect import Expected, Mmas, OtherSchedules, Writers
from ptxlab.interop.compilers import switched
from ptxlab.interop.session import Session, Settings
from tests.cli.test_exec import SCRIPT, needs_triton, run
from tests.docs.rule_page_helpers import asynchronous
from tests.machine.product_kernels import WARP

LOAD = "ld.shared.u32 %r1, [dyn];"
LATE, EARLY = asynchronous("", LOAD), asynchronous(LOAD, "")
"""A copy of a word through shared memory, with the wait of cp.async before the load and without."""
ADD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
ld.param.u64 %rd1, [a];
mov.u32 %r1, %ctaid.x;
cvt.rn.f32.u32 %f1, %r1;
fma.rn.f32 %f1, %f1, 0f4C800000, 0f3F800000;
red.global.add.f32 [%rd1], %f1;
ret;
}
"""


def session(*inspectors: Any, **settings: Any) -> Session:
    return Session(Settings().changed(keep_going=True, **settings), lambda _: None, inspectors=list(inspectors))


def launch(made: Session, text: str, **options: Any) -> np.ndarray[Any, Any]:
    array = np.array([7, 0], np.uint32)
    with switched(made):
        ptxlab.loads(text).kernel().launch(args=[array], block=1, shared_bytes=1024, **options)
    return array


def test_an_output_that_depends_on_the_schedule() -> None:
    made = session(OtherSchedules(3), check="none")
    assert launch(made, EARLY).tolist() == [7, 7]
    (found,) = made.diagnostics
    assert (found.code, found.message) == ("F106", "a[1] is 7 under the schedule eager and 5 under lazy")
    assert dict(found.details)["found under"] == "lazy"
    assert not made.ok


@pytest.mark.parametrize(("count", "policies"), [(1, []), (2, ["lazy"]), (4, ["lazy", "random 1", "random 2"])])
def test_as_many_schedules_as_asked_for(count: int, policies: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    plain = ptxlab.machine.replay.replay.Replay.run

    def noted(self: Any, *given: Any, **changes: Any) -> Any:
        ran.append(changes["policy"] + (f" {changes['seed']}" if changes["seed"] else ""))
        return plain(self, *given, **changes)

    monkeypatch.setattr(ptxlab.machine.replay.replay.Replay, "run", noted)
    made = session(OtherSchedules(count), check="none")
    launch(made, LATE)
    assert (ran, made.diagnostics) == (policies, [])
    # The schedule of the settings is the first one, and is not repeated.
    ran.clear()
    launch(session(OtherSchedules(3), check="none", policy="lazy"), LATE)
    assert ran == ["eager", "random 1"]


def test_findings_of_other_schedules_are_listed_once() -> None:
    made = session(OtherSchedules(5))
    launch(made, EARLY)
    assert sorted(found.code for found in made.diagnostics) == ["F106", "X111"]
    made = session(OtherSchedules(5))
    launch(made, ADD.replace("red.global.add.f32 [%rd1], %f1", "red.global.add.u32 [%rd1], %r1"), grid=4)
    assert made.diagnostics == []
    made = session(OtherSchedules(5))
    launch(made, ADD, grid=4)
    assert [found.code for found in made.diagnostics] == ["M410"], "the note about additions says it all"


def test_the_last_launch_is_compared_with_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([7, 7], np.uint32))
    right, wrong = (Expected.of(f"{name}={tmp_path / 'a.npy'}") for name in ("a", "b"))
    made = session(right, wrong)
    launch(made, LATE.replace("[%rd1+4], %r1", "[%rd1+4], 3"))
    found = right.difference()
    assert found is not None
    assert (found.code, found.message) == ("F105", "a[1] is 3, expected 7 (bit for bit); 1 of 2 elements differ")
    launch(made, LATE)
    assert right.difference() is None
    with pytest.raises(click.UsageError, match="no launch that ran to its end has an array argument b"):
        wrong.difference()
    np.save(tmp_path / "near.npy", np.array([7.5, 7]))
    near = Expected.of(f"a={tmp_path / 'near.npy'},atol=0.6")
    launch(session(near), LATE)
    assert near.difference() is None
    np.save(tmp_path / "long.npy", np.zeros(3))
    long = Expected.of(f"a={tmp_path / 'long.npy'}")
    launch(session(long), LATE)
    with pytest.raises(click.UsageError, match=r"a has the shape \[2\], and the file \[3\]"):
        long.difference()


@pytest.mark.parametrize("text", ["a", "a=", "=x.npy", "a=missing.npy", "a=HERE,close=1", "a=HERE,rtol", "a=HERE,rtol=x"])
def test_expectations_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(2))
    with pytest.raises(click.UsageError, match="--expect "):
        Expected.of(text.replace("HERE", str(tmp_path / "a.npy")))


def test_who_wrote_an_element() -> None:
    writers = Writers.of("a[ 1 ]")
    made = session(writers)
    launch(made, LATE)
    assert str(writers.provenance()).startswith("a[1] is 7, written once\n  CTA (0, 0, 0) warp 0 lane 0: st.global.u32, then 7")
    assert all(record.result.replay is None for record in made.launches), "only the inspector keeps the inputs"
    assert Writers.of("x[0][3,-17]").index == (3, -17)
    assert Writers.of("x[0][3,-17]").name == "x[0]"
    assert Writers.of("n[]").index == ()
    for text in ("a", "a[x]", "[1]", "a[1"):
        with pytest.raises(click.UsageError, match="give an array argument and an element"):
            Writers.of(text)
    with pytest.raises(click.UsageError, match="no launch that ran to its end has an array argument a"):
        Writers.of("a[0]").provenance()


def test_a_bundle_of_each_launch(tmp_path: Path) -> None:
    made = session(keep_inputs=True)
    made.keep = tmp_path / "kept"
    for _ in range(2):
        launch(made, LATE)
    assert sorted(path.name for path in made.keep.iterdir()) == ["k.2.ptxlab", "k.ptx", "k.ptxlab"]
    made = session(OtherSchedules(2))
    made.keep = tmp_path / "none"
    launch(made, LATE)
    assert not made.keep.exists()


def test_the_files_of_kernels_with_long_names(tmp_path: Path) -> None:
    """The names of CUTLASS's kernels have more characters than file systems take; two may differ in the last one."""
    made, names = session(keep_inputs=True), ["k" * 200, f"{'k' * 1000}1", f"{'k' * 1000}2"]
    made.keep = tmp_path
    for name in [*names, names[1]]:
        launch(made, LATE.replace(".entry k(", f".entry {name}("))
    short, one, two = ("k" * 200, *(f"{'k' * 183}-{hashlib.sha256(name.encode()).hexdigest()[:16]}" for name in names[1:]))
    expected = [f"{name}.{suffix}" for name in (short, one, two) for suffix in ("ptx", "ptxlab")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*expected, f"{one}.2.ptxlab"])


@needs_triton
@pytest.mark.compiler
def test_the_command(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full(60, 2, np.float32))
    np.save(tmp_path / "y.npy", np.full(60, 3, np.float32))
    options = ("--schedules", "3", "--keep-inputs", "--expect", "x=x.npy", "--provenance", "x[3]")
    done = run(tmp_path, SCRIPT, "60", options=options)
    assert done.returncode == 0, done.stderr
    assert "x[3] is 2.0, written once\n  CTA (0, 0, 0) warp 0 lane 3: st.global.b32, then 2.0" in done.stderr
    assert done.stderr.endswith("ptxlab: 1 launch on sm_100a, nothing found\n")
    assert sorted(path.name for path in (tmp_path / "ptxlab-kept").iterdir()) == ["double.ptx", "double.ptxlab"]
    done = run(tmp_path, SCRIPT, "60", options=("--expect", "x=y.npy", "--provenance", "x[59]", "--json"))
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [each["message"] for each in found["diagnostics"]] == ["x[0] is 2.0, expected 3.0 (bit for bit); 60 of 60 elements differ"]
    assert [(each["array"], each["index"], each["after"]) for each in found["provenance"]] == [("x", [59], "2.0")]


@needs_triton
@pytest.mark.compiler
def test_an_array_that_no_launch_has(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "60", options=("--provenance", "y[3]"))
    assert done.returncode == 2
    assert done.stderr.endswith("Error: --provenance: no launch that ran to its end has an array argument y\n")


def test_wrong_use_is_refused_before_the_script_runs(tmp_path: Path) -> None:
    for options in (("--expect", "x"), ("--provenance", "x"), ("--schedules", "0")):
        done = run(tmp_path, "print('never')", options=options)
        assert (done.returncode, done.stdout) == (2, "")


def test_a_script_without_launches_is_not_as_expected(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2))
    done = run(tmp_path, "print('no kernel')", options=("--expect", "x=x.npy"))
    assert done.returncode == 2
    assert done.stderr.endswith("Error: --expect: no launch that ran to its end has an array argument x\n")


@needs_triton
@pytest.mark.compiler
def test_a_launch_that_fails_is_reported_before_what_was_expected_of_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(60))
    done = run(tmp_path, SCRIPT, "62", options=("--expect", "x=x.npy", "--provenance", "x[0]", "--sarif", "found.sarif"))
    assert done.returncode == 1
    (result,) = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "M402"


def test_matrix_instructions_of_launches() -> None:
    products = Mmas()
    made = session(products)
    launch(made, LATE)
    with switched(made):
        args = [np.zeros((16, 32), np.float16), np.zeros((8, 32), np.float16), np.zeros((16, 8), np.float32)]
        ptxlab.loads(WARP).kernel().launch(block=32, args=args)
    ((name, found),) = products.records()
    assert (name, [record.shape for record in found]) == ("warp_mma", ["16x8x16", "16x8x16"])
    assert json.loads(json.dumps(found.as_dict()))[1]["types"] == {"a": "f16", "b": "f16", "d": "f32"}


def test_writers_of_operands() -> None:
    products, plain = Mmas(writers=True), Mmas()
    a, b = np.ones((16, 32), np.float16), np.ones((8, 32), np.float16)
    with switched(session(products, plain)):
        ptxlab.loads(WARP).kernel().launch(block=32, args=[a, b, np.zeros((16, 8), np.float32)])
    ((name, records),) = products.records()
    assert set(records.as_dict()[0]["writers"]) == {"a", "b"}
    text = products.text(name, records)
    assert text.startswith("matrix instructions of warp_mma:\nproduct  CTA")
    assert [writer["opcode"].split(".")[0] for writer in records.as_dict()[1]["writers"]["a"]] == ["ldmatrix"]
    assert text.splitlines()[4].startswith("A of products 0-1 written by CTA (0, 0, 0) warp 0 lanes 0-31: ldmatrix.sync")
    assert "B of products 0-1 written by CTA (0, 0, 0) warp 0" in text
    ((name, records),) = plain.records()
    assert plain.text(name, records) == f"matrix instructions of warp_mma:\n{records}"


def test_writers_without_matrix_instructions_are_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "print('never')", options=("--writers",))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("Error: --writers: list the matrix instructions with --mmas\n")
