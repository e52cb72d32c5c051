"""Undefined bits in device memory: they stay between launches, and are reported where they are used or where the host reads them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from tests.machine.launch_helpers import details, kernel, store

SOURCE = '.file 1 "kernel.py"'
MASKED = "setp.lt.u32 p, lane, 16;\n.loc 1 7 3\n@p ld.global.u32 r1, [at];\n.loc 1 8 3\n"
"""Lanes 16 to 31 have no value in r1."""
TO_OTHER = "ld.param.u64 rd9, [other];\nmul.wide.u32 rd8, lane, 4;\nadd.u64 rd9, rd9, rd8;\n"
OTHER = ", .param .u64 other"
ORIGIN = (
    "kernel k, launch 1: <ptx>:27:1 `@p ld.global.u32 r1, [at];` (source kernel.py:7:3): its guard is false, and nothing else writes its "
    "register"
)


@pytest.fixture(autouse=True)
def _every_warning_is_expected() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ptxlab.UndefinedValueWarning)
        yield


@pytest.fixture
def device() -> ptxlab.Device:
    return ptxlab.Device("sm_100a")


def buffer(device: ptxlab.Device) -> ptxlab.Buffer:
    return device.array(np.zeros(32, np.uint32))


def launch(device: ptxlab.Device, body: str, *args: Any, **options: Any) -> tuple[ptxlab.Diagnostic, ...]:
    """The findings of a launch with one argument, or with two."""
    loaded = kernel(body, params=OTHER if len(args) > 1 else "", top=SOURCE)
    result = loaded.launch(block=32, args=list(args), device=device, **options)
    assert result.completed
    return result.diagnostics


def undefined(held: ptxlab.Buffer) -> list[int]:
    """The undefined bits of each word."""
    mirror = held.device.memory.allocation(held.address, 1).mirror
    return [0] * (held.nbytes // 4) if mirror is None else mirror.bits.view(np.uint32).tolist()


def left(device: ptxlab.Device) -> ptxlab.Buffer:
    """A buffer in which a launch leaves undefined words for lanes 16 to 31."""
    made = buffer(device)
    assert launch(device, MASKED + store("r1"), made) == ()
    return made


ALL = 0xFFFFFFFF
HALF = [0] * 16 + [ALL] * 16

# ------------------------------------------------------------------------------------------------------------------- launches


def test_a_store_to_a_device_buffer_is_no_finding(device: ptxlab.Device) -> None:
    assert undefined(left(device)) == HALF
    assert device.diagnostics == []


def test_arrays_are_read_by_the_host(device: ptxlab.Device) -> None:
    for options in ({}, {"device": device}):
        result = kernel(MASKED + store("r1"), top=SOURCE).launch(block=32, args=[np.zeros(32, np.uint32)], **options)  # type: ignore[arg-type]
        (found,) = result.diagnostics
        assert (found.code, found.message) == ("R808", "st.global.u32 stores r1, which is undefined")
    assert device.memory.mirrored() == []


def test_some_lanes_store_to_an_array(device: ptxlab.Device) -> None:
    """Lanes 16 to 23 store to a buffer, the others to an array of the host: the origin is reported, and not kept."""
    body = MASKED + TO_OTHER + "setp.lt.u32 q, lane, 24;\nselp.u64 rd9, at, rd9, q;\nst.global.u32 [rd9], r1;"
    held, array = buffer(device), np.zeros(32, np.uint32)
    (found,) = launch(device, body, held, array)
    assert (found.code, details(found)["lanes"]) == ("R808", "24-31")
    assert device.memory.mirrored() == []


def test_a_branch_of_a_later_launch(device: ptxlab.Device) -> None:
    (found,) = launch(device, "ld.global.u32 r2, [at];\nsetp.eq.u32 p, r2, 3;\n.loc 1 20 5\n@p bra L;\nL:", left(device))
    assert (found.code, found.message) == ("R802", "p is used here but has no value in this thread")
    assert (str(found.place), str(found.source)) == ("<ptx>:28:1", "kernel.py:20:5")
    assert (details(found)["lanes"], details(found)["origin"]) == ("16-31", ORIGIN)
    assert found.fix == "give the masked elements a value (other=0 in Triton), or do not store what is computed from them"


USES = {
    "an address": ("and.b32 r3, r2, 4;\ncvt.u64.u32 rd1, r3;\nadd.u64 rd1, rd1, out;\nld.global.u32 r4, [rd1];", "R802"),
    "an atomic": ("red.global.add.u32 [out], r2;", "R808"),
    "an array": ("st.global.u32 [rd9], r2;", "R808"),
}


@pytest.mark.parametrize("use", USES)
def test_uses_in_a_later_launch(device: ptxlab.Device, use: str) -> None:
    body, code = USES[use]
    held = left(device)
    found = launch(device, f"{TO_OTHER}ld.global.u32 r2, [at];\n{body}", held, np.zeros(32, np.uint32))
    assert {(each.code, details(each)["origin"]) for each in found} == {(code, ORIGIN)}
    assert launch(device, f"{TO_OTHER}ld.global.u32 r2, [at];\nmov.u32 r2, lane;\n{body}", held, np.zeros(32, np.uint32)) == ()


def test_an_atomic_on_undefined_memory(device: ptxlab.Device) -> None:
    held = left(device)
    (found,) = launch(device, "red.global.add.u32 [at], lane;", held)
    assert (found.code, found.message) == ("R808", "red.global reads undefined bits of memory")
    assert details(found)["origin"] == ORIGIN
    assert launch(device, "setp.lt.u32 p, lane, 16;\n@p red.global.add.u32 [at], lane;", left(device)) == ()


def test_a_copy_carries_them_on(device: ptxlab.Device) -> None:
    held, other = left(device), buffer(device)
    assert launch(device, f"{TO_OTHER}ld.global.u32 r2, [at];\nst.global.u32 [rd9], r2;", held, other) == ()
    assert undefined(other) == HALF
    (found,) = launch(device, "ld.global.u32 r2, [at];\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:", other)
    assert (found.code, details(found)["origin"]) == ("R802", ORIGIN)


@pytest.mark.parametrize("use", ["", store("r2")])
def test_arithmetic_that_the_same_buffer_takes(device: ptxlab.Device, use: str) -> None:
    held = left(device)
    assert launch(device, f"ld.global.u32 r2, [at];\nadd.u32 r2, r2, 1;\n{use}", held) == ()
    assert undefined(held) == HALF


def test_two_stores_of_one_origin(device: ptxlab.Device) -> None:
    held = buffer(device)
    launch(device, MASKED + "setp.lt.u32 q, lane, 20;\n@q " + store("r1") + "@!q " + store("r1"), held)
    (found,) = launch(device, "ld.global.u32 r2, [at];\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:", held)
    assert (found.code, details(found)["lanes"], details(found)["origin"]) == ("R802", "16-31", ORIGIN)


SHARED = ".shared .align 128 .b8 s[128]; .shared .align 8 .b64 mbar;"
BRANCH = "ld.shared.u32 r2, [r4];\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:"
TO_DEVICE = f"""{MASKED}mad.lo.u32 r4, lane, 4, s;
st.shared.u32 [r4], r1;
setp.eq.u32 q, lane, 0;
fence.proxy.async.shared::cta;
bar.sync 0;
@q cp.async.bulk.global.shared::cta.bulk_group [out], [s], 128;
@q cp.async.bulk.commit_group;
@q cp.async.bulk.wait_group 0;"""
FROM_DEVICE = f"""mad.lo.u32 r4, lane, 4, s;
setp.eq.u32 q, lane, 0;
@q mbarrier.init.shared::cta.b64 [mbar], 1;
bar.sync 0;
@q mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbar], 128;
@q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [out], 128, [mbar];
W: mbarrier.try_wait.parity.shared::cta.b64 t, [mbar], 0;
@!t bra W;
{BRANCH}"""
COPIED = f"""mad.lo.u32 r4, lane, 4, s;
cp.async.ca.shared.global [r4], [at], 4;
cp.async.wait_all;
{BRANCH}"""
POLICIES: list[dict[str, Any]] = [{"policy": "eager"}, {"policy": "lazy"}, {"policy": "random", "seed": 3}]


def with_shared(device: ptxlab.Device, body: str, held: ptxlab.Buffer, **options: Any) -> tuple[ptxlab.Diagnostic, ...]:
    result = kernel(body, shared=SHARED, top=SOURCE).launch(block=32, args=[held], device=device, **options)
    assert result.completed
    return result.diagnostics


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_bulk_copies(device: ptxlab.Device, options: dict[str, Any]) -> None:
    held = buffer(device)
    assert with_shared(device, TO_DEVICE, held, **options) == ()
    assert undefined(held) == HALF
    (found,) = with_shared(device, FROM_DEVICE, held, **options)
    assert (found.code, details(found)["lanes"]) == ("R802", "16-31")
    assert details(found)["origin"].startswith("kernel k, launch 1: <ptx>:27:1 `@p ld.global.u32 r1, [at];`")
    with pytest.warns(ptxlab.UndefinedValueWarning):
        held.numpy()
    message = "cp.async.bulk stores undefined bits to global memory, and the host reads it"
    assert (device.diagnostics[0].code, device.diagnostics[0].message) == ("R808", message)


@pytest.mark.parametrize("options", POLICIES, ids=str)
@pytest.mark.parametrize("body", [FROM_DEVICE, COPIED], ids=["bulk", "cp.async"])
def test_copies_of_memory_that_nothing_has_written(device: ptxlab.Device, body: str, options: dict[str, Any]) -> None:
    (found,) = with_shared(device, body, device.empty(32, np.uint32), **options)
    assert found.code == "M412"
    assert found.message.endswith(" reads bytes 0x0-0x7f of buffer uint32[32], which nothing has written")
    assert found.excerpt.strip().removeprefix("@q ").startswith("cp.async")
    assert dict(found.details)["used by"].endswith("`@p bra L;`")
    assert with_shared(device, body.replace(BRANCH, ""), device.empty(32, np.uint32), **options) == ()


@pytest.mark.parametrize("options", POLICIES, ids=str)
def test_cp_async(device: ptxlab.Device, options: dict[str, Any]) -> None:
    """Bytes after the source size are zeros, and so are those of an ignored source."""
    (found,) = with_shared(device, COPIED, left(device), **options)
    assert (found.code, details(found)["lanes"]) == ("R802", "16-31")
    assert details(found)["origin"].startswith("kernel k, launch 1: <ptx>:27:1 `@p ld.global.u32 r1, [at];`")
    size = "setp.lt.u32 p, lane, 16;\nselp.u32 r3, 4, {}, p;\n" + COPIED.replace("[at], 4;", "[at], 4, r3;")
    assert with_shared(device, size.format(0), left(device), **options) == ()
    low = size.replace("setp.eq.u32 p, r2, 3;", "and.b32 r2, r2, {};\nsetp.eq.u32 p, r2, 0;")
    assert with_shared(device, low.format(2, "0xffff0000"), left(device), **options) == ()
    (found,) = with_shared(device, low.format(2, "0xffff8000"), left(device), **options)
    assert details(found)["lanes"] == "16-31"
    ignored = "setp.gt.u32 p, lane, 15;\n" + COPIED.replace("[at], 4;", "[at], 4, p;")
    assert with_shared(device, ignored, left(device), **options) == ()


def test_single_bits(device: ptxlab.Device) -> None:
    held = buffer(device)
    assert launch(device, MASKED + "and.b32 r1, r1, 0x30;\n" + store("r1"), held) == ()
    assert undefined(held) == [0] * 16 + [0x30] * 16
    low = "ld.global.u32 r2, [at];\nand.b32 r2, r2, {};\nsetp.eq.u32 p, r2, 16;\n@p bra L;\nL:"
    assert launch(device, low.format("0xcf"), held) == ()
    (found,) = launch(device, low.format("0x10"), held)
    assert (found.code, details(found)["origin"]) == ("R802", ORIGIN)


# ----------------------------------------------------------------------------------------------------------------- overwriting


def test_defined_values_remove_them(device: ptxlab.Device) -> None:
    held = left(device)
    assert launch(device, "setp.lt.u32 p, lane, 30;\n@p " + store("tid"), held) == ()
    assert undefined(held) == [0] * 30 + [ALL] * 2
    assert launch(device, "st.global.u8 [at+1], tid;", held) == ()
    assert undefined(held) == [0] * 30 + [0xFFFF00FF] * 2
    assert launch(device, "and.b32 r1, lane, 31;\nsetp.gt.u32 p, r1, 29;\n@p " + store("r1"), held) == ()
    assert device.memory.mirrored() == []


def test_the_second_origin_stands_where_it_was_stored_last(device: ptxlab.Device) -> None:
    """Lanes 16 to 19 get undefined bits from a second launch."""
    held = left(device)
    assert launch(device, "setp.lt.u32 p, lane, 20;\nsetp.lt.u32 q, lane, 16;\n@q ld.global.u32 r2, [at];\n@p " + store("r2"), held) == ()
    body = "ld.global.u32 r2, [at];\nsetp.{}.u32 q, lane, 20;\n@!q mov.u32 r2, 0;\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:"
    (first,), (second,) = (launch(device, body.format(which), held) for which in ("ge", "lt"))
    assert details(first)["origin"] == ORIGIN
    assert "kernel k, launch 2: <ptx>:27:1 `@q ld.global.u32 r2, [at];`" in details(second)["origin"]


def test_host_writes_define(device: ptxlab.Device) -> None:
    held = left(device)
    held.write(np.ones(32, np.uint32))
    assert device.memory.mirrored() == []
    held.numpy()


def test_freed_memory_has_no_mirror(device: ptxlab.Device) -> None:
    left(device).free()
    device.empty(4).free()
    assert device.memory.mirrored() == []


@pytest.mark.parametrize("options", [{"check": "none"}, {"check": "memory"}, {"undefined": "zero"}], ids=str)
def test_launches_that_do_not_follow_memory(device: ptxlab.Device, options: dict[str, Any]) -> None:
    held, other = left(device), device.empty(32, np.uint32)
    assert launch(device, f"{TO_OTHER}ld.global.u32 r2, [at];\nst.global.u32 [rd9], r2;", held, other, **options) == ()
    assert device.memory.mirrored() == []


def test_stores_are_reported_at_once_where_memory_is_not_followed(device: ptxlab.Device) -> None:
    (found,) = launch(device, MASKED + store("r1"), buffer(device), check="register")
    assert (found.code, found.message) == ("R808", "st.global.u32 stores r1, which is undefined")


def test_a_launch_that_ends_early(device: ptxlab.Device) -> None:
    held = device.empty(32, np.uint32)
    result = kernel("trap;").launch(block=32, args=[held], device=device)
    assert not result.completed
    assert device.memory.mirrored() == []


# ------------------------------------------------------------------------------------------------------------- reads of the host


def test_the_host_reads(device: ptxlab.Device) -> None:
    held = left(device)
    with pytest.warns(ptxlab.UndefinedValueWarning) as caught:
        held.numpy()
    held.numpy()
    (found,) = device.diagnostics
    assert str(caught[0].message) == str(found)
    assert caught[0].filename == __file__
    assert (found.code, found.message) == ("R808", "st.global.u32 stores r1, which is undefined, and the host reads it")
    assert str(found.source) == "kernel.py:8:3"
    assert details(found) == {"kernel": "k", "CTA": "(0, 0, 0)", "warp": "0", "lanes": "16-31", "launch": "1", "origin": ORIGIN}


def test_the_host_reads_a_copy(device: ptxlab.Device) -> None:
    """The finding is at the store of the copy; its origin is the launch before. Both buffers have one origin."""
    held, other = left(device), buffer(device)
    launch(device, f"{TO_OTHER}ld.global.u32 r2, [at];\n.loc 1 31 3\nst.global.u32 [rd9], r2;", held, other)
    with pytest.warns(ptxlab.UndefinedValueWarning):
        other.numpy()
    held.numpy()
    (found,) = device.diagnostics
    assert (found.message, str(found.source)) == ("st.global.u32 stores r2, which is undefined, and the host reads it", "kernel.py:31:3")
    assert (details(found)["launch"], details(found)["origin"]) == ("2", ORIGIN)


def test_the_host_reads_the_defined_part(device: ptxlab.Device) -> None:
    held = left(device)
    launch(device, "setp.gt.u32 p, lane, 15;\n@p " + store("tid"), held)
    assert held.numpy().tolist()[16:] == list(range(16, 32))


def test_each_origin_is_one_finding(device: ptxlab.Device) -> None:
    held = buffer(device)
    body = "setp.lt.u32 p, lane, 16;\nsetp.gt.u32 q, lane, 15;\n@p ld.global.u32 r1, [at];\n@q ld.global.u32 r2, [at];\n"
    launch(device, body + "@q " + store("r1") + "@p " + store("r2"), held)
    with pytest.warns(ptxlab.UndefinedValueWarning):
        held.numpy()
    assert [details(found)["lanes"] for found in device.diagnostics] == ["16-31", "0-15"]


# ---------------------------------------------------------------------------------------------------------- memory never written


def test_memory_that_nothing_has_written(device: ptxlab.Device) -> None:
    held = device.empty((4, 8), np.uint32, name="scratch")
    (found,) = launch(device, "ld.global.u32 r2, [at];\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:", held)
    assert (found.code, found.message) == ("M412", "ld.global reads bytes 0x0-0x7f of scratch, which nothing has written")
    assert details(found)["allocation"] == f"scratch [{held.address:#x}, {held.address + 128:#x}), 128 bytes"
    assert details(found)["used by"] == "<ptx>:27:1 `@p bra L;`"
    assert found.fix == "write it before: with Device.array, Buffer.write, a copy or a fill of the host, or a kernel"
    assert launch(device, "ld.global.u32 r2, [at];", held) == ()


def test_each_load_of_it_is_tested_by_itself(device: ptxlab.Device) -> None:
    body = f"{TO_OTHER}ld.global.u32 r1, [at];\nld.global.u32 r2, [at];\nst.global.u32 [rd9], r2;"
    (found,) = launch(device, body, device.empty(32, np.uint32), np.zeros(32, np.uint32))
    assert (found.code, found.excerpt.strip()) == ("M412", "ld.global.u32 r2, [at];")


def test_an_atomic_on_memory_that_nothing_has_written(device: ptxlab.Device) -> None:
    (found,) = launch(device, "red.global.add.f32 [at], 0f3F800000;", device.empty(32))
    assert (found.code, found.message) == ("M412", "red.global reads bytes 0x0-0x7f of buffer float32[32], which nothing has written")


def test_kernels_write_it(device: ptxlab.Device) -> None:
    held = device.empty(32, np.uint32)
    assert launch(device, "st.global.u16 [at], tid;", held) == ()
    assert undefined(held) == [0xFFFF0000] * 32
    assert launch(device, "ld.global.u16 h, [at];\ncvt.u32.u16 r2, h;\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:" + store("r2"), held) == ()
    assert held.numpy().tolist() == list(range(32))


def test_the_host_reads_memory_that_nothing_has_written(device: ptxlab.Device) -> None:
    held = device.empty(3, np.float16)
    with pytest.warns(ptxlab.UndefinedValueWarning):
        held.numpy()
    (found,) = device.diagnostics
    place = f"buffer float16[3] [{held.address:#x}, {held.address + 6:#x}), 6 bytes"
    assert (found.code, found.message) == ("M412", f"the host reads {place}, which nothing has written")


def test_a_copy_of_memory_that_nothing_has_written(device: ptxlab.Device) -> None:
    held, other = device.empty(32, np.uint32), buffer(device)
    assert launch(device, f"{TO_OTHER}ld.global.u32 r2, [at];\nst.global.u32 [rd9], r2;", held, other) == ()
    (found,) = launch(device, "ld.global.u32 r2, [at];\nsetp.eq.u32 p, r2, 3;\n@p bra L;\nL:", other)
    place = f"buffer uint32[32] [{held.address:#x}, {held.address + 128:#x}), 128 bytes"
    assert (found.code, details(found)["origin"]) == ("R802", f"{place}: nothing has written it")


def test_empty_buffers(device: ptxlab.Device) -> None:
    assert device.empty(0).numpy().shape == (0,)
    with pytest.raises(ptxlab.LaunchError, match="A306"):
        device.empty(4, object)
    with pytest.raises(ptxlab.LaunchError, match="A306"):
        device.empty((2, -1))


def test_values_for_what_is_undefined(device: ptxlab.Device) -> None:
    held = left(device)
    launch(device, "", held, undefined="random", seed=1)
    first = held.numpy()
    assert (first[:16] == 0).all()
    assert len(set(first[16:].tolist())) == 16
    again = ptxlab.Device("sm_100a")
    other = left(again)
    launch(again, "", other, undefined="random", seed=1)
    assert (other.numpy() == first).all()
    zeros = device.empty(32, np.uint32)
    launch(device, "ld.global.u32 r2, [at];\nadd.u32 r2, r2, 1;\n" + store("r2"), zeros, undefined="zero")
    assert (zeros.numpy() == 1).all()


# ----------------------------------------------------------------------------------------------------------------- other origins


@pytest.mark.parametrize("use", ["", "setp.eq.u32 p, r1, 3;\n@p bra L;\nL:"])
def test_unwritten_shared_memory_is_reported_at_once(device: ptxlab.Device, use: str) -> None:
    """A store to device memory uses the value. What is reported is not kept."""
    held = buffer(device)
    (found,) = with_shared(device, f"ld.shared.u32 r1, [s];\n{use}\n{store('r1')}", held)
    assert found.code == "M411"
    assert device.memory.mirrored() == []


def test_races_are_reported_at_once(device: ptxlab.Device) -> None:
    held = device.array(np.zeros(64, np.uint32))
    body = "setp.eq.u32 p, tid, 0;\n@p st.global.u32 [out], 7;\nld.global.u32 r2, [out];\nsetp.gt.u32 q, tid, 31;\n@q " + store("r2")
    (found,) = kernel(body).launch(block=64, args=[held], device=device).diagnostics
    assert found.code == "X114"
    assert "st.global.u32 [at], r2;" in details(found)["used by"]
    assert device.memory.mirrored() == []


# ------------------------------------------------------------------------------------------------------------------------- costs


def test_no_second_run_without_a_reader(device: ptxlab.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is written whole, or not reached at all, needs no second run."""
    runs: list[object] = []
    monkeypatch.setattr("ptxlab.machine.Replay.observe", lambda *_: runs.append(1))
    held, other = device.empty(32, np.uint32), device.empty(64)
    assert launch(device, store("tid"), held) == ()
    assert undefined(held) == [0] * 32
    assert runs == []
    assert undefined(other) == [ALL] * 64


def test_a_bundle_keeps_what_the_host_reads(device: ptxlab.Device, tmp_path: Path) -> None:
    held = buffer(device)
    result = kernel(MASKED + store("r1"), top=SOURCE).launch(block=32, args=[held], device=device, keep_inputs=True)
    result.save_bundle(tmp_path / "launch.ptxlab")
    again, _ = ptxlab.read_bundle(tmp_path / "launch.ptxlab").run()
    assert result.diagnostics == again.diagnostics == ()


def test_a_bundle_keeps_undefined_bits(device: ptxlab.Device, tmp_path: Path) -> None:
    loaded = kernel(f"{TO_OTHER}ld.global.u32 r2, [at];\nld.global.u32 r3, [rd9];\nsetp.eq.u32 p, r2, r3;\n@p bra L;\nL:", params=OTHER)
    result = loaded.launch(block=32, args=[left(device), device.empty(32, np.uint32)], device=device, keep_inputs=True)
    result.save_bundle(tmp_path / "launch.ptxlab")
    again, _ = ptxlab.read_bundle(tmp_path / "launch.ptxlab").run()
    assert result.diagnostics == again.diagnostics
    assert {each.code for each in again.diagnostics} == {"R802", "M412"}
