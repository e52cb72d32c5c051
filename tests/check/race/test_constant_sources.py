"""Tensor copies whose source nobody writes are not watched; wherever something may write it, they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.check.race import _recorder
from ptxlab.descriptors import encode_tensor_map

from .small_kernels import SCHEDULES, found, text

LOAD = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
mov.u32 %r5, 0;
mov.b64 %rd2, map;
cvta.param.u64 %rd2, %rd2;
{address}
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 1024;
@%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {{%r5, %r5}}], [%r7];
{write}
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra AGAIN;
"""
STORE = "@%p1 st.global.u32 [%rd1], 7;"
ELSEWHERE = "ld.global.u64 %rd4, [%rd1];\nsetp.ne.u64 %p3, %rd4, 0;\n@%p3 st.global.u32 [%rd4], 7;"
BULK = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2+4096], 64;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
TILE = """
mov.b64 %rd5, other;
cvta.param.u64 %rd5, %rd5;
mov.u32 %r6, 2048;
add.u32 %r6, %r6, %r2;
@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd5, {%r5, %r5}], [%r6];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
SECOND = "add.u64 %rd2, %rd2, 128;"
FROM_MEMORY = "setp.eq.u32 %p4, %r1, 99;\n@%p4 ld.global.u64 %rd2, [%rd1];"


ARRAYS = ("a", "b", "c")
_F16 = 6


def launch(write: str, maps: str, address: str = "", other: str = "", **options: Any) -> Any:
    """The kernel with arrays a, b and c: a pointer to a, one parameter with tensor maps of some, and perhaps another one with one map."""
    more = f", .param .align 128 .b8 map[{128 * len(maps)}]" + ", .param .align 128 .b8 other[128]" * bool(other)
    kernel = ptxlab.loads(text(LOAD.format(address=address, write=write), more=more), file="small.ptx").kernel()
    device = ptxlab.Device("sm_100a")
    held = {name: device.array(np.zeros((64, 64), np.float16), name=name) for name in ARRAYS}

    def mapped(names: str) -> bytes:
        shape = {"rank": 2, "dims": (64, 64), "strides": (128,), "box": (64, 8), "element_strides": (1, 1)}
        return b"".join(encode_tensor_map(data_type=_F16, address=held[name].address, target="sm_100a", **shape) for name in names)

    args = [held["a"], mapped(maps), *([mapped(other)] if other else [])]
    return kernel.launch(args=args, device=device, block=64, shared_bytes=32768, max_instructions=200_000, **options)


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[int]]:
    """The copies of each launch whose source is not watched."""
    seen: list[frozenset[int]] = []
    inner = _recorder.constant_sources

    def constant_sources(launch: Any) -> frozenset[int]:
        seen.append(inner(launch))
        return seen[-1]

    monkeypatch.setattr(_recorder, "constant_sources", constant_sources)
    return seen


@pytest.mark.parametrize(
    ("launched", "constant"),
    [
        ({"write": "", "maps": "a"}, True),
        ({"write": STORE, "maps": "b"}, True),
        ({"write": STORE, "maps": "a"}, False),
        ({"write": ELSEWHERE, "maps": "b"}, False),
        ({"write": BULK, "maps": "b"}, False),
        ({"write": TILE, "maps": "b", "other": "c"}, True),
        ({"write": TILE, "maps": "b", "other": "b"}, False),
        ({"write": STORE, "maps": "bc", "address": SECOND}, True),
        ({"write": STORE, "maps": "ba", "address": SECOND}, False),
        ({"write": "", "maps": "b", "address": FROM_MEMORY}, False),
        ({"write": "griddepcontrol.launch_dependents;", "maps": "b"}, False),
    ],
    ids=[
        "no store",
        "a store to another array",
        "a store to the array",
        "a store to an address from memory",
        "a bulk copy",
        "a tile of another array",
        "a tile of the array",
        "maps of others in a structure",
        "one of the array in a structure",
        "a map in memory",
        "dependent grids",
    ],
)
def test_what_is_watched(launched: dict[str, Any], constant: bool, unwatched: list[frozenset[int]]) -> None:
    launch(**launched)
    assert [len(each) for each in unwatched] == [int(constant)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("write", "other", "line"), [(STORE, "", STORE), (TILE, "b", TILE.strip().splitlines()[4])])
def test_an_overwritten_source_is_found(write: str, other: str, line: str, schedule: dict[str, Any]) -> None:
    """Nothing has waited for the load when its source is written; of another array nothing is found."""
    maps, clean = ("a", "b") if write is STORE else ("b", "c")
    assert ("X104", line) in found(launch(write, maps, other=other, **schedule))
    assert not [code for code, _ in found(launch(write, clean, other=other, **schedule)) if code == "X104"]
