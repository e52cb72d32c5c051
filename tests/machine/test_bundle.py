"""Replay bundles: what is written runs again to the same bits; whatever else a file holds is refused by name."""

from __future__ import annotations

import json
import random
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab
from ptxlab.machine import is_bundle, read_bundle
from ptxlab.machine.replay.bundle import write_bundle
from ptxlab.machine.replay.replay import Expectation
from tests.end_to_end.triton.case_helpers import kernel as real_kernel
from tests.end_to_end.triton.cases import CASES
from tests.machine.launch_helpers import kernel, store


@pytest.mark.compiler
def test_a_tensor_core_kernel_runs_again_to_the_same_bits(tmp_path: Path) -> None:
    case = CASES["gl_mm_fp16"]("256x256x128")
    ((_, out),) = case.outputs.items()
    started = {"policy": "random", "seed": 5, "only": [(1, 0, 0)]}
    result = real_kernel("gl_mm_fp16").launch(**case.geometry(), args=[*case.args, *case.scratch()], keep_inputs=True, **started)
    assert out.any()
    assert not out.all()
    result.save_bundle(tmp_path / "one.ptxlab")
    replay = read_bundle(tmp_path / "one.ptxlab")
    again, memory = replay.run()
    assert (again.completed, again.diagnostics, again.stats.instructions) == (True, (), result.stats.instructions)
    assert any(np.array_equal(p.view(memory).view(np.uint16), out.view(np.uint16)) for p in replay.arrays)
    again.save_bundle(tmp_path / "two.ptxlab")
    assert (tmp_path / "one.ptxlab").read_bytes() == (tmp_path / "two.ptxlab").read_bytes()


def test_arrays_keep_type_shape_and_strides(tmp_path: Path) -> None:
    out, wide = np.zeros(32, np.uint32), np.arange(24).astype(ml_dtypes.bfloat16).reshape(4, 6)[::-1, ::2]
    empty = np.zeros((3, 0), np.float16)
    launch = kernel(store("tid"), params=", .param .u64 wide, .param .u64 empty")
    launch.launch(block=32, args=[out, wide, empty], keep_inputs=True).save_bundle(tmp_path / "a.ptxlab")
    replay = read_bundle(tmp_path / "a.ptxlab")
    first, second, third = (placed.view(replay.memory) for placed in replay.arrays)
    assert first.tolist() == [0] * 32
    assert (second.dtype, second.tolist()) == (wide.dtype, wide.tolist())
    assert (third.dtype, third.shape) == (np.float16, (3, 0))
    found = replay.provenance("result", 9)
    assert (found.after, found.writers[0].lanes) == (9, (9,))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    result = kernel(store("tid"), top=".global .u32 counter = 3;").launch(block=32, args=[np.zeros(32, np.uint32)], keep_inputs=True)
    result.save_bundle(tmp_path / "bug.ptxlab")
    return tmp_path / "bug.ptxlab"


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, held: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)


def refusal(path: Path) -> str:
    with pytest.raises(ptxlab.PtxlabError) as caught:
        read_bundle(path)
    return str(caught.value).replace(str(path), "bug.ptxlab").split("\n")[0]


def test_what_is_no_bundle(bundle: Path) -> None:
    whole, held = bundle.read_bytes(), contents(bundle)
    assert is_bundle(bundle)
    bundle.write_bytes(b"PK\3\4" + whole[4:400])
    assert refusal(bundle) == "error[F107]: bug.ptxlab: File is not a zip file"
    write(bundle, {name: data for name, data in held.items() if name != "kernel.ptx"})
    assert refusal(bundle) == "error[F107]: bug.ptxlab: There is no item named 'kernel.ptx' in the archive"
    write(bundle, {**held, "manifest.json": b'{"bundle": 2}'})
    assert refusal(bundle) == "error[F107]: bug.ptxlab: its manifest is not of a bundle of format 1"
    write(bundle, {**held, "manifest.json": b"[" * 100_000})
    assert refusal(bundle).startswith("error[F107]: bug.ptxlab: ")
    bundle.unlink()
    assert refusal(bundle) == "error[F107]: bug.ptxlab: No such file or directory"
    assert is_bundle(bundle)
    assert not is_bundle(bundle.parent / "launch.toml")


CHANGES: list[tuple[str, Any, str]] = [
    ("kernel", "other", "error[A301]: <ptx> has no kernel named 'other'; its kernels: k"),
    ("kernel", None, "error[F108]: bug.ptxlab: kernel of the manifest: missing, or of the wrong type"),
    ("parameters", "00", "error[F108]: bug.ptxlab: parameters of the manifest: 1 bytes for parameters of 8 bytes"),
    ("variables", [], "error[F108]: bug.ptxlab: variables of the manifest: AttributeError: 'list' object has no attribute 'items'"),
    ("memory", [], "error[F108]: bug.ptxlab: memory of the manifest: ValueError: zip() argument 2 is longer than argument 1"),
]
OPTIONS: list[tuple[str, Any, str]] = [
    ("block", 2000, "error[A308]: block (2000, 1, 1) has 2000 threads; a CTA can have 1024"),
    ("policy", "never", "error[A310]: policy must be one of 'eager', 'lazy', 'random', not 'never'"),
    ("seed", "1", "error[A310]: seed must be an int from -9223372036854775808 to 18446744073709551616, not '1'"),
    (
        "grids",
        1,
        "error[A310]: there is no option named 'grids'",
    ),
]
ARRAYS: list[tuple[str, Any, str]] = [
    ("dtype", "|O", "ValueError: |O is no type of device memory"),
    ("dtype", "u99", "TypeError: data type 'u99' not understood"),
    ("shape", [1 << 40], "ValueError: result cannot have the shape [1099511627776]"),
    ("shape", [-1], "ValueError: result cannot have the shape [-1]"),
    ("address", 1, "ValueError: result lies outside of every allocation"),
]


def changed(bundle: Path, change: Any) -> str:
    held = contents(bundle)
    manifest = json.loads(held["manifest.json"])
    change(manifest)
    write(bundle, {**held, "manifest.json": json.dumps(manifest).encode()})
    return refusal(bundle)


@pytest.mark.parametrize(("key", "value", "text"), CHANGES)
def test_a_changed_manifest(bundle: Path, key: str, value: Any, text: str) -> None:
    assert changed(bundle, lambda m: m.update({key: value})) == text


@pytest.mark.parametrize(("key", "value", "text"), OPTIONS)
def test_changed_options(bundle: Path, key: str, value: Any, text: str) -> None:
    assert changed(bundle, lambda m: m["options"].update({key: value})) == text


@pytest.mark.parametrize(("key", "value", "text"), ARRAYS)
def test_changed_arrays(bundle: Path, key: str, value: Any, text: str) -> None:
    found = changed(bundle, lambda m: m["arrays"][0].update({key: value}))
    assert found == f"error[F108]: bug.ptxlab: arrays of the manifest: {text}"


EXPECTATIONS: list[tuple[dict[str, Any], str]] = [
    ({"name": "other"}, "ValueError: other is no array of the shape [32]"),
    ({"shape": [16]}, "ValueError: cannot reshape array of size 32 into shape (16,)"),
    ({"dtype": "<u8"}, "ValueError: cannot reshape array of size 8 into shape (32,)"),
    ({"dtype": "|O"}, "ValueError: |O is no type of device memory"),
    ({"rtol": "much"}, "ValueError: could not convert string to float: 'much'"),
    ({"atol": None}, "TypeError: float() argument must be a string or a real number, not 'NoneType'"),
]


@pytest.fixture
def expecting(bundle: Path) -> Path:
    value = np.arange(32).astype(ml_dtypes.bfloat16)
    replay = replace(read_bundle(bundle), expectations=(Expectation("result", value, 0.5, 0.25, False),))
    write_bundle(bundle, replay)
    return bundle


def test_expectations_come_back(expecting: Path) -> None:
    (found,) = read_bundle(expecting).expectations
    assert (found.name, found.rtol, found.atol, found.exact) == ("result", 0.5, 0.25, False)
    assert (found.value.dtype, found.value.tolist()) == (ml_dtypes.bfloat16, list(range(32)))


@pytest.mark.parametrize(("change", "text"), EXPECTATIONS)
def test_changed_expectations(expecting: Path, change: dict[str, Any], text: str) -> None:
    found = changed(expecting, lambda m: m["expectations"][0].update(change))
    assert found == f"error[F108]: bug.ptxlab: expectations of the manifest: {text}"


def test_expectations_without_values(expecting: Path) -> None:
    held = contents(expecting)
    del held["expected/0.npy"]
    write(expecting, held)
    assert refusal(expecting).startswith("error[F108]: bug.ptxlab: expectations of the manifest: ValueError: zip()")


def test_overlapping_memory(bundle: Path) -> None:
    found = changed(bundle, lambda m: m["memory"][1].update(address=m["memory"][0]["address"]))
    assert "overlaps another one, or is out of order" in found


def test_damaged_files_are_refused_or_run(bundle: Path) -> None:
    """One byte changed, anywhere: a diagnostic, or a launch."""
    whole = bundle.read_bytes()
    chosen = random.Random(7)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chosen.randrange(len(whole))] ^= chosen.randrange(1, 256)
        bundle.write_bytes(damaged)
        try:
            read_bundle(bundle)
        except ptxlab.PtxlabError:
            refused += 1
    assert refused > 100
