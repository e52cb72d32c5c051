"""Reads of device memory that race: findings only where the value is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import codes, kernel, run, store

SHARED = ".shared .align 16 .b8 s[2048];"


IN_PLACE = """
and.b32 r1, tid, 7;
mul.wide.u32 rd1, r1, 4;
add.u64 rd1, rd1, out;
ld.global.u32 r2, [rd1];
mad.lo.u32 r3, r2, 3, 1;
shr.u32 r4, r3, 1;
xor.b32 r3, r3, r4;
setp.lt.u32 p, tid, 8;
{guard} st.global.u32 [rd1], r3;
"""
"""A program of eight elements in two warps: redundant threads load what the owners overwrite, and compute, but do not store."""
POLICIES: list[dict[str, Any]] = [{"policy": "eager"}, {"policy": "lazy"}, *({"policy": "random", "seed": seed} for seed in range(4))]


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_redundant_threads_of_an_in_place_kernel(options: dict[str, Any]) -> None:
    out = np.arange(64, dtype=np.uint32)
    value = out[:8] * 3 + 1
    result = kernel(IN_PLACE.format(guard="@p")).launch(block=64, args=[out], **options)
    assert result.diagnostics == ()
    assert (out[:8] == (value ^ value >> 1)).all()


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_redundant_threads_that_store_too(options: dict[str, Any]) -> None:
    result = kernel(IN_PLACE.format(guard="")).launch(block=64, args=[np.arange(64, dtype=np.uint32)], **options)
    assert "X114" in codes(result)


@pytest.mark.parametrize("options", POLICIES, ids=str)
@pytest.mark.parametrize("use", ["st.global.u32 [at+256], r2;", "setp.eq.u32 p, r2, 3; @p bra L; L:"])
def test_a_racing_value_that_is_used(options: dict[str, Any], use: str) -> None:
    body = f"setp.eq.u32 p, tid, 0; @p st.global.u32 [out], 7; ld.global.u32 r2, [out]; setp.lt.u32 q, tid, 32; @q bra END; {use} END:"
    result = kernel(body).launch(block=64, args=[np.zeros(128, np.uint32)], **options)
    assert codes(result) == ["X114"]
    assert dict(result.diagnostics[0].details)["used by"]


BETWEEN = """
and.b32 r1, tid, 7;
mul.wide.u32 rd1, r1, 4;
add.u64 rd1, rd1, out;
ld.global.u32 r2, [rd1];
mad.lo.u32 r3, r2, 3, 1;
setp.eq.u32 p, cta, 0;
setp.lt.and.u32 p, tid, 8, p;
@p st.global.u32 [rd1], r3;
"""
"""A grid in which CTA 0 overwrites what the others load, too, and compute from."""
ELSEWHERE = {
    "their own places": ("setp.eq.u32 q, cta, 2; @q st.global.u32 [at+256], r3;", "@q st.global.u32 [at+256], r3;"),
    "the same places": ("@!p st.global.u32 [rd1], r3;", "@!p st.global.u32 [rd1], r3;"),
    "a branch": ("setp.gt.u32 q, cta, 1; setp.eq.and.u32 q, r2, 3, q;\n@q bra L; L:", "@q bra L;"),
}


@pytest.mark.parametrize("options", POLICIES, ids=str)
@pytest.mark.parametrize("cluster", [1, 2])
def test_redundant_ctas_of_an_in_place_kernel(options: dict[str, Any], cluster: int) -> None:
    out = np.arange(512, dtype=np.uint32)
    result = kernel(BETWEEN).launch(grid=8, block=32, cluster=cluster, args=[out], **options)
    assert result.diagnostics == ()
    assert (out[:8] == np.arange(8) * 3 + 1).all()


@pytest.mark.parametrize("options", POLICIES, ids=str)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("use", ELSEWHERE)
def test_redundant_ctas_that_use_what_they_load(options: dict[str, Any], cluster: int, use: str) -> None:
    text, by = ELSEWHERE[use]
    result = kernel(f"{BETWEEN}\n{text}\n").launch(grid=8, block=32, cluster=cluster, args=[np.arange(1024, dtype=np.uint32)], **options)
    assert set(codes(result)) == {"X114"}
    assert any(by in dict(found.details).get("used by", "") for found in result.diagnostics) or use == "the same places"


def test_what_a_release_orders_is_no_race() -> None:
    """Another CTA reads the value after it has acquired a flag, and stores it."""
    body = """
setp.eq.u32 p, cta, 0;
@!p bra WAIT;
st.global.u32 [out], 5;
fence.acq_rel.gpu;
st.relaxed.gpu.global.u32 [out+64], 1;
bra END;
WAIT: ld.acquire.gpu.global.u32 r2, [out+64];
setp.eq.u32 q, r2, 0;
@q bra WAIT;
ld.global.u32 r3, [out];
st.global.u32 [at+512], r3;
END:
"""
    result = kernel(body).launch(grid=3, block=1, args=[np.zeros(512, np.uint32)])
    assert result.diagnostics == ()


def test_writes_of_different_bits_race() -> None:
    result = kernel("st.global.u32 [out], tid;").launch(block=64, args=[np.zeros(64, np.uint32)])
    assert codes(result) == ["X114"]
    assert codes(kernel("st.global.u32 [out], 5;").launch(block=64, args=[np.zeros(64, np.uint32)])) == ["X123"]


@pytest.mark.parametrize("keep", [False, True])
def test_more_device_memory_than_a_second_run_copies(monkeypatch: pytest.MonkeyPatch, keep: bool) -> None:
    monkeypatch.setattr("ptxlab.machine.launch.execution._MOST_KEPT", 1 << 20)
    device = ptxlab.Device("sm_100a")
    held = device.array(np.zeros(1 << 21, np.uint8))
    racing = IN_PLACE.format(guard="@p") + "atom.shared.exch.b32 r5, [s+64], tid; ld.shared.u32 r4, [s];"
    result = kernel(racing, shared=SHARED).launch(block=64, args=[np.zeros(64, np.uint32)], device=device, keep_inputs=keep)
    why = "not known: 2 MiB of device memory are in use, and 1 are copied for a second run; keep_inputs=True copies all"
    found = [(each.code, dict(each.details)["used by"]) for each in result.diagnostics]
    assert sorted(found) == ([] if keep else [("M411", why), ("X114", why)])
    assert held.numpy().sum() == 0


def test_a_bundle_tests_its_findings_too(tmp_path: Path) -> None:
    for use, expected in (("", []), (store("r1"), ["M411"])):
        result = run(f"ld.shared.u32 r1, [s];\n{use}", shared=SHARED, keep_inputs=True)[1]
        result.save_bundle(tmp_path / "launch.ptxlab")
        again, _ = ptxlab.read_bundle(tmp_path / "launch.ptxlab").run()
        assert codes(result) == codes(again) == expected
