"""Undefined bits through copies, bit by bit: those of the result are what the copy itself makes of them as data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from tests.isa.bulk.bulk_helpers import DUMP, EXPECT, FILL, INIT, SIZE, WAIT, kernel, move
from tests.isa.tcgen05.tcgen05_helpers import IMAGE, launch, random_state
from tests.isa.tcgen05.test_cp import SHAPES, Operand

from .test_undefined_products import after_launch

pytestmark = pytest.mark.sweep

Bytes = NDArray[np.uint8]
CLEAR = move("mov.u32 v, 0;\nst.shared.u32 [w], v;")
"""All of the buffer is defined."""
FENCE = "fence.proxy.async;\nbar.sync 0;\n"
GROUP = "@p cp.async.bulk.commit_group;\n@p cp.async.bulk.wait_group 0;\n"
LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.{}mbarrier::complete_tx::bytes [dst], [m, {{{}}}], [bar];\n"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.{}bulk_group [m, {{{}}}], [dst];\n"
TWO, FIVE = "c0, c1", "c0, c1, c2, c3, c4"
POLICIES = ("eager", "lazy", "random")


def some(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.uint8) -> NDArray[Any]:
    """Bits of some bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = rng.integers(0, 256, size).astype(np.uint8) * (rng.random(size) < 0.3)
    return raw.astype(np.uint8).view(dtype).reshape(shape)


def copied(body: str, given: dict[str, Bytes], of_map: dict[str, Any], policy: str, **more: Any) -> tuple[dict[str, Bytes], Any]:
    """The arrays after a launch whose ``map`` is a tensor of 16-bit elements."""
    arrays = {name: array.copy() for name, array in given.items()}
    coordinates = (*more.get("coordinates", ()), 0, 0, 0, 0, 0)[:5]
    tensor_map = ptxlab.TensorMap(arrays["map"].view(np.uint16), **of_map)
    arguments = [tensor_map, arrays["p_in"], arrays["p_out"], *coordinates, more.get("size", 0)]
    result = kernel(body).launch(block=128, args=arguments, check="none", policy=policy, keep_inputs=True)
    assert result.completed
    return arrays, result


def check(body: str, of_map: dict[str, Any], seed: int, policy: str, **more: Any) -> None:
    rng = np.random.default_rng(seed)
    masks = {"map": some(rng, (50, 192)), "p_in": some(rng, (SIZE,)), "p_out": np.zeros(SIZE, np.uint8)}
    data = {name: rng.integers(0, 256, mask.shape).astype(np.uint8) for name, mask in masks.items()}
    _, result = copied(body, data, of_map, policy, **more)
    expected, _ = copied(body, masks, of_map, policy, **more)
    assert any(mask.any() for mask in expected.values())
    for name, mask in expected.items():
        found = after_launch(result, masks, name, mask)
        assert np.array_equal(found, mask), (name, np.argwhere(found != mask)[:4])


@pytest.mark.parametrize("at", [(8, 3), (-8, 45), (80, -2)], ids=str)
@pytest.mark.parametrize(("swizzle", "columns"), [("none", 24), ("32B", 16), ("64B", 32), ("128B", 64)])
def test_tensor_copies(swizzle: str, columns: int, at: tuple[int, int]) -> None:
    """Boxes inside the tensor, and beyond its ends, where a load gives defined zeros, and a store writes nothing."""
    of_map = {"box": (columns, 8), "swizzle": swizzle}
    size = 2 * columns * 8
    policy = POLICIES[columns // 8 % 3]
    check(CLEAR + INIT + EXPECT + "@p " + LOAD.format("tile.", TWO) + WAIT + DUMP, of_map, 1, policy, coordinates=at, size=size)
    check(FILL + FENCE + "@p " + STORE.format("tile.", TWO) + GROUP, of_map, 2, policy, coordinates=tuple(max(c, 0) for c in at))


@pytest.mark.parametrize(("swizzle", "columns"), [("none", 16), ("128B", 64)])
def test_four_rows(swizzle: str, columns: int) -> None:
    of_map = {"box": (columns, 1), "swizzle": swizzle}
    at = (8, 7, 49, 0, -3)
    body = CLEAR + INIT + EXPECT + "@p " + LOAD.format("tile::gather4.", FIVE) + WAIT + DUMP
    check(body, of_map, 3, "lazy", coordinates=at, size=8 * columns)
    check(FILL + FENCE + "@p " + STORE.format("tile::scatter4.", FIVE) + GROUP, of_map, 4, "random", coordinates=(8, 7, 49, 0, 60))


BULK = {
    "to shared memory": CLEAR
    + INIT
    + EXPECT
    + "@p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [dst], [in], bytes, [bar];\n"
    + WAIT
    + DUMP,
    "in the cluster": FILL
    + INIT
    + EXPECT
    + "add.u32 v, dst, 16384;\n@p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [v], [dst], bytes, [bar];\n"
    + WAIT
    + DUMP,
    "to global memory": FILL + FENCE + "@p cp.async.bulk.global.shared::cta.bulk_group [out], [dst], bytes;\n" + GROUP,
    "of some bytes": FILL
    + FENCE
    + "mov.b16 h, 0x5a0f;\n@p cp.async.bulk.global.shared::cta.bulk_group.cp_mask [out], [dst], bytes, h;\n"
    + GROUP,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", BULK)
def test_bulk_copies(way: str, policy: str) -> None:
    check(BULK[way], {"box": (16, 1)}, 5, policy, size=4096)


ASYNC = {
    "all bytes": "cp.async.cg.shared.global [w], [rd1], 16;",
    "some bytes": "cp.async.ca.shared.global [w], [rd1], 8, v;",
    "some lanes": "cp.async.ca.shared.global [w], [rd1], 4, t;",
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", ASYNC)
def test_copies_of_threads(way: str, policy: str) -> None:
    """Each thread copies 16, up to 8, or no bytes; what is not read is replaced by zeros."""
    copy = f"""shl.b32 w, tid, 4;
cvt.u64.u32 rd1, w;
add.u64 rd1, rd1, in;
add.u32 w, w, dst;
and.b32 v, tid, 15;
setp.gt.u32 t, v, 9;
{ASYNC[way]}
cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
"""
    check(FILL + "bar.sync 0;" + copy + DUMP, {"box": (16, 1)}, 7, policy)


def test_reductions_are_conservative() -> None:
    """An element has either all bits undefined or none."""
    body = FILL + FENCE + "@p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [out], [dst], bytes;\n" + GROUP
    rng = np.random.default_rng(6)
    masks = {"map": np.zeros((50, 192), np.uint8), "p_in": some(rng, (SIZE,)), "p_out": some(rng, (SIZE,))}
    _, result = copied(body, masks, {"box": (16, 1)}, "eager", size=4096)
    found = after_launch(result, masks, "p_out", masks["p_out"])
    words = [masks[name].view(np.uint32) for name in ("p_in", "p_out")]
    expected = np.where((words[0] | words[1]) != 0, np.uint32(0xFFFFFFFF), np.uint32(0))
    expected[1024:] = words[1][1024:]
    assert np.array_equal(found.view(np.uint32), expected)


@pytest.mark.parametrize("instruction", [*(f"cp.cta_group::1.{shape}" for shape in SHAPES), "packed 4", "packed 6", "shift"])
def test_copies_to_tensor_memory(instruction: str) -> None:
    rng = np.random.default_rng(len(instruction))
    formats = {"packed 4": "128x256b.b8x16.b4x16_p64", "packed 6": "128x256b.b8x16.b6x16_p32"}
    text = f"cp.cta_group::1.{formats[instruction]}" if instruction in formats else instruction
    text = "tcgen05.shift.cta_group::1.down [da]" if instruction == "shift" else f"tcgen05.{text} [da], ad"
    where = {"a": Operand("none", False, 0x430, 2048, 128).descriptor(), "d": 8}
    masks = {"p_image": some(rng, (1, IMAGE)), "p_before": some(rng, (1, 512, 128), np.uint32)}
    image, before = random_state(rng, 1)
    _, result = launch(text, image, before, **where, check="none", keep_inputs=True)
    expected, _ = launch(text, masks["p_image"], masks["p_before"], **where, check="none")
    assert not np.array_equal(expected, masks["p_before"])
    assert np.array_equal(after_launch(result, masks, "p_after", expected), expected)
