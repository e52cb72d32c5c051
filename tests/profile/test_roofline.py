"""Products beside the peaks of tensor cores, and the position in the roofline model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab.cli._main import cli
from ptxlab.isa.operations.products import Rate
from ptxlab.profile import parameters_of
from ptxlab.profile.model.parameters import TARGETS
from tests.machine.product_kernels import WARP, WARPGROUP
from tests.profile.test_kernels import profile

PUBLISHED = {
    "sm_90a": (132, 1.83, {"tf32": 494.7, "f16": 989.4, "f8": 1978.9, "int8": 1978.9}),
    "sm_100a": (148, 1.85, {"f64": 37, "tf32": 1100, "f16": 2250, "f8": 4500, "int8": 4500, "f4": 9000}),
    "sm_103a": (148, 1.92, {"f64": 1.25, "tf32": 1100, "f16": 2250, "f8": 4500, "int8": 150, "f4": 14000}),
}
"""SMs, GHz, and published dense peaks in T/s."""


@pytest.mark.parametrize("target", TARGETS)
def test_peaks_are_those_that_are_published(target: str) -> None:
    sms, clock, published = PUBLISHED[target]
    for types, peak in published.items():
        found = parameters_of(target).peak(Rate(types, False)) * sms * clock / 1000
        assert found == pytest.approx(peak, rel=0.08), types
    known = parameters_of(target)
    assert known.peak(Rate("f8", True)) == 2 * known.peak(Rate("f8", False))
    assert "datasheet" in known.source("tensor_peaks") or "https://" in known.source("tensor_peaks")


def test_products_of_a_warpgroup_beside_the_peak() -> None:
    args = [np.ones((64, 16), np.float16), np.ones((8, 16), np.float16), np.zeros((128, 4), np.float32)]
    device = ptxlab.Device("sm_90a", sms=10)
    found = profile(WARPGROUP, block=128, args=args, device=device).estimate
    (use,) = found.position.tensor
    assert (use.rate, use.operations, use.peak) == ("f16", 2 * 64 * 8 * 16, 10 * 4096)
    assert found.position.fractions == {"f16": pytest.approx(use.operations / use.peak / found.cycles)}
    assert found.position.achieved == pytest.approx(use.operations / found.cycles)
    assert found.position.intensity is None
    assert found.as_dict()["roofline"]["tensor"][0]["fraction_of_peak"] == round(found.position.fractions["f16"], 4)


def test_products_of_a_warp_have_a_rate() -> None:
    args = [np.ones((16, 32), np.float16), np.ones((8, 32), np.float16), np.zeros((16, 8), np.float32)]
    (use,) = profile(WARP, block=32, args=args).estimate.position.tensor
    assert (use.rate, use.operations) == ("f16", 2 * 2 * 16 * 8 * 16)


MMA = """.version 8.7 .target sm_120a .address_size 64 .visible .entry k() {{ .reg .f32 %f<8>; .reg .b32 %r<12>;
  mma.sync.aligned.{shape}.row.col.{types} {{{d}}}, {{{a}}}, {{{b}}}, {{{d}}}{more}; ret; }}"""
F32, S32, REGISTERS = "%f0, %f1, %f2, %f3", "%r8, %r9, %r10, %r11", ["%r0, %r1, %r2, %r3", "%r4, %r5"]


@pytest.mark.parametrize(
    ("shape", "types", "d", "a", "b", "rate"),
    [
        ("m16n8k8", "f32.tf32.tf32.f32", F32, *REGISTERS, "tf32"),
        ("m16n8k16", "f32.bf16.bf16.f32", F32, *REGISTERS, "f16"),
        ("m16n8k32", "f32.e4m3.e5m2.f32", F32, *REGISTERS, "f8"),
        ("m16n8k32", "s32.s8.u8.s32", S32, *REGISTERS, "int8"),
    ],
)
def test_rates_of_types(shape: str, types: str, d: str, a: str, b: str, rate: str) -> None:
    text = MMA.format(shape=shape, types=types, d=d, a=a, b=b, more="")
    (use,) = profile(text, block=32).estimate.position.tensor
    assert use.rate == rate


def test_4_bit_floats_have_their_own_rate_only_in_their_own_kinds() -> None:
    plain = MMA.format(shape="m16n8k32", types="f32.e2m1.e2m1.f32", d=F32, a=REGISTERS[0], b=REGISTERS[1], more="").replace(
        "row.col.", "row.col.kind::f8f6f4."
    )
    scaled = MMA.format(
        shape="m16n8k64", types="f32.e2m1.e2m1.f32.ue8m0", d=F32, a=REGISTERS[0], b=REGISTERS[1], more=", %r6, {0, 0}, %r7, {0, 0}"
    ).replace("row.col.", "row.col.kind::mxf4.block_scale.scale_vec::2X.")
    assert [profile(text, block=32).estimate.position.tensor[0].rate for text in (plain, scaled)] == ["f8", "f4"]


def test_a_sparse_product_is_twice_as_fast() -> None:
    text = MMA.format(shape="m16n8k16", types="f32.f16.f16.f32", d=F32, a="%r0, %r1", b="%r4, %r5", more=", %r6, 0x0")
    text = text.replace("mma.sync.", "mov.b32 %r6, 0x44444444; mma.sp::ordered_metadata.sync.")
    (use,) = profile(text, block=32).estimate.position.tensor
    assert (use.rate, use.operations) == ("sparse f16", 2 * 16 * 8 * 16)


def test_the_position_in_words_and_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(MMA.format(shape="m16n8k16", types="f32.f16.f16.f32", d=F32, a=REGISTERS[0], b=REGISTERS[1], more=""))
    Path("k.toml").write_text('ptx = "k.ptx"\nblock = 32\n')
    words = CliRunner().invoke(cli, ["profile", "k.toml"], catch_exceptions=False).output
    assert "tensor cores reach 0% of the peak of f16 (2,243 T/s)" in words
    assert "T/s that tensor core allows; no DRAM traffic" in words
    found = json.loads(CliRunner().invoke(cli, ["profile", "k.toml", "--json"], catch_exceptions=False).output)
    roofline = found["profile"]["estimate"]["roofline"]
    assert (roofline["roof"], roofline["operations"], roofline["tensor"][0]["rate"]) == ("tensor core", 4096, "f16")
